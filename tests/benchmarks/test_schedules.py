"""The live runtime under many schedules of its threads, and whether that finds bugs."""

import logging
from collections.abc import Iterator

import pytest
import schedules

from edgepipe.pipeline.runtime import Runtime
from edgepipe.pipeline.streams import StreamRun
from edgepipe.pipeline.worker import Worker
from edgepipe.scheduler.events import JobDone, JobFailed, Start


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Stages that raise and hang are what these runs are about."""
    log = logging.getLogger("edgepipe")
    before = log.level
    log.setLevel(logging.CRITICAL + 1)
    yield
    log.setLevel(before)


def test_five_hundred_schedules_come_to_their_ends_with_balanced_books() -> None:
    failures = {seed: schedules.explore(seed)[0] for seed in range(500)}
    assert {seed: failure for seed, failure in failures.items() if failure} == {}


def test_the_same_seed_is_the_same_schedule() -> None:
    first = [schedules.explore(seed) for seed in range(20)]
    assert [schedules.explore(seed) for seed in range(20)] == first
    assert len({length for _, length in first}) > 10


# --- bugs that must be found ------------------------------------------------------


def found(kind: type[Runtime], ending: str | None = None) -> str:
    """The first failure of this runtime in 300 schedules."""
    for seed in range(300):
        failure, _ = schedules.explore(seed, kind, ending)
        if failure:
            return failure
    return ""


class ForgetsTheEnd(Runtime):
    """Books the end of a source, and does not look whether that was the last thing."""

    def _feed(self, stream: StreamRun) -> None:
        stream.ended = stream.pump.run(None)


def test_an_end_that_nobody_is_told_of_is_found() -> None:
    assert "it does not come to an end" in found(ForgetsTheEnd, "wait")


class KeepsSourcesWaiting(Runtime):
    """Stops the sources without waking those that wait for a credit."""

    def drain(self) -> None:
        self._sources_stop.set()


def test_a_thread_that_is_not_woken_for_the_stop_is_found() -> None:
    assert "edgepipe-source-" in found(KeepsSourcesWaiting, "stop")


class DecidesWithoutTheLock(Runtime):
    """Takes the lock for carrying a decision out, but not for making it."""

    def _finish(self, worker: Worker, event: JobDone | JobFailed) -> Start | None:
        worker.start = None
        now_ns = self._clock.now_ns()
        actions = self._scheduler.handle(now_ns, event)
        with self._lock:
            return self._carry_out(now_ns, actions, worker.resource)


def test_a_decision_that_is_made_without_the_lock_is_found() -> None:
    assert "are planned" in found(DecidesWithoutTheLock)


class WaitsForTheOtherStop(Runtime):
    """Whoever stops it second waits for the first, whoever that is."""

    def stop(self, within_s: float = 5.0) -> list[str]:
        with self._lock:
            is_first, self._stopping = not self._stopping, True
        if not is_first:
            self._stopped.wait(within_s)
            return self._stuck
        self._stopping = False
        return super().stop(within_s)


def test_two_stages_that_wait_for_each_others_stop_are_found() -> None:
    assert "stuck" in found(WaitsForTheOtherStop, "two stages stop")
