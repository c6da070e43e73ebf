"""What the scheduler decides is what happens: real threads, a clock that is moved."""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from edgepipe.pipeline.frame import Frame
from edgepipe.pipeline.pace import Pace
from edgepipe.pipeline.runtime import Runtime, StreamPlan
from edgepipe.pipeline.source import Arrival
from edgepipe.pipeline.stage import FrameError
from edgepipe.scheduler.core import Scheduler
from edgepipe.scheduler.events import (
    Action,
    Cause,
    Evidence,
    FrameArrived,
    Leave,
    RungChanged,
    Start,
)
from edgepipe.scheduler.events import Event as CoreEvent
from edgepipe.scheduler.fates import Fate, Reason
from edgepipe.scheduler.job import Criticality, Mode, Step, StreamSpec
from edgepipe.telemetry.clock import ManualClock
from edgepipe.telemetry.records import FrameRecord

from .scripted import CPU, MS, PERIOD_NS, Do, ScriptedSource, nothing

Work = Callable[[Frame, int], Frame | None]


def plan(
    source: ScriptedSource,
    work: Work = nothing,
    *,
    name: str = "front",
    cost_ns: int = 0,
    deadline_ns: int = 10_000 * MS,
    pace: Pace = Pace.FAST,
    **options: Any,
) -> StreamPlan:
    """A stream of one step; ``options`` are those of its spec."""
    step = Step("infer", "cpu", stateful=False, cost_ns=cost_ns)
    given: dict[str, Any] = {"credits": True, **options}
    spec = StreamSpec(name, (step,), **given)
    return StreamPlan(spec, source, ((Do("infer", work),),), deadline_ns, pace)


@dataclass
class Live:
    runtime: Runtime
    records: list[FrameRecord]

    def of(self, stream: str) -> list[FrameRecord]:
        found = [record for record in self.records if record.stream == stream]
        return sorted(found, key=lambda record: record.sequence)


@contextmanager
def live(
    *plans: StreamPlan,
    clock: ManualClock,
    core: type[Scheduler] = Scheduler,
    on_record: Callable[[FrameRecord], None] = lambda record: None,
) -> Generator[Live, None, None]:
    """A started runtime of one slot that is stopped, and balanced, at the end."""
    records: list[FrameRecord] = []

    def keep(record: FrameRecord) -> None:
        records.append(record)
        on_record(record)

    scheduler = core([plan.spec for plan in plans], CPU)
    runtime = Runtime(plans, scheduler, CPU, clock, keep)
    runtime.start()
    yield Live(runtime, records)
    assert runtime.stop(within_s=5) == []
    assert runtime.balanced
    assert threads() == set()


def threads() -> set[str]:
    """Names of the runtime's threads."""
    names = {thread.name for thread in threading.enumerate()}
    return {name for name in names if name.startswith("edgepipe")}


def finish(run: Live, clock: ManualClock) -> None:
    """Let time pass until nothing is left to be done."""
    for _ in range(10_000):
        if run.runtime.wait(0.005):
            return
        clock.advance(MS)
    raise AssertionError("the pipeline does not come to an end")


# --- time -----------------------------------------------------------------------------


def test_a_frame_that_was_held_back_begins_when_its_time_has_come() -> None:
    """Nothing happens any more but the timer: who is expected never comes."""
    clock, gate = ManualClock(), threading.Event()
    critical = plan(
        ScriptedSource(1),
        lambda frame, worker: clock.advance(10 * MS),
        cost_ns=10 * MS,
        deadline_ns=20 * MS,
        period_ns=100 * MS,
        criticality=Criticality.CRITICAL,
    )
    background = plan(
        ScriptedSource(1, gate=gate),
        name="rear",
        cost_ns=200 * MS,
        criticality=Criticality.BACKGROUND,
    )
    with live(
        critical, background, clock=clock, on_record=lambda record: gate.set()
    ) as run:
        finish(run, clock)
    (rear,) = run.of("rear")
    assert rear.fate == "completed"
    assert rear.spans[0].start_ns > 100 * MS  # not before the next critical was due


def test_a_background_stream_gets_through_beside_a_critical_one() -> None:
    clock = ManualClock()
    critical = plan(
        ScriptedSource(30),
        lambda frame, worker: clock.advance(MS),
        cost_ns=MS,
        criticality=Criticality.CRITICAL,
    )
    background = plan(
        ScriptedSource(30),
        lambda frame, worker: clock.advance(3 * MS),
        name="rear",
        cost_ns=3 * MS,
        criticality=Criticality.BACKGROUND,
    )
    with live(critical, background, clock=clock) as run:
        finish(run, clock)
        accounts = [run.runtime.account(stream) for stream in ("front", "rear")]
    assert [account.completed for account in accounts] == [30, 30]


def test_a_deadline_passes_when_it_is_due_also_while_every_worker_is_busy() -> None:
    clock, gate = ManualClock(), threading.Event()
    inside, gone = threading.Event(), threading.Event()

    def slow(frame: Frame, worker: int) -> None:
        inside.set()
        assert gate.wait(10)

    def leaves(record: FrameRecord) -> None:
        gone.set()

    stream = plan(ScriptedSource(2), slow, deadline_ns=100 * MS)
    with live(stream, clock=clock, on_record=leaves) as run:
        assert inside.wait(10)
        while run.runtime.depths("front").in_flight < 2:
            run.runtime.wait(0.001)
        clock.advance(100 * MS + 1)
        assert gone.wait(10)  # the only worker is still in the first frame
        gate.set()
        assert run.runtime.wait(10)
    _, second = run.of("front")
    assert (second.fate, second.reason) == ("dropped", "doomed")
    assert second.done_ns == 100 * MS + 1


@dataclass
class Camera(ScriptedSource):
    """Delivers regularly; from frame ten on its own clock is a second behind."""

    clock: ManualClock = field(default_factory=ManualClock)

    def next_arrival(self) -> Arrival | None:
        arrival = super().next_arrival()
        if arrival is None or arrival.pts_ns is None:
            return None
        self.clock.advance(PERIOD_NS)
        behind_ns = 1_000 * MS if arrival.index >= 10 else 0
        return Arrival(arrival.index, arrival.pts_ns - behind_ns)


def test_a_frame_whose_stamp_cannot_be_true_travels_with_its_true_times() -> None:
    clock = ManualClock()
    seen: list[tuple[int, int]] = []
    stream = plan(
        Camera(20, clock=clock),
        lambda frame, worker: seen.append((frame.capture_ns, frame.deadline_ns)),
        pace=Pace.REALTIME,
        credits=False,
        queue_capacity=20,
        max_in_flight=20,
        period_ns=PERIOD_NS,
    )
    checked = replace(stream.spec, deadline_ns=stream.deadline_ns)
    with live(replace(stream, spec=checked), clock=clock) as run:
        assert run.runtime.wait(10)
        alarms = run.runtime.alarms
    true_ns = [PERIOD_NS * (n + 1) for n in range(20)]
    assert seen == [(at_ns, at_ns + 10_000 * MS) for at_ns in true_ns]
    assert [record.capture_ns for record in run.of("front")] == true_ns
    assert alarms == {("timestamp_step", "front"): 1}


# --- why a frame was given up ---------------------------------------------------------


def test_a_superseded_frame_tells_which_newer_one_took_its_place() -> None:
    go_on = threading.Event()

    def slow(frame: Frame, worker: int) -> None:
        go_on.wait(10)

    def second_is_gone(record: FrameRecord) -> None:
        if record.sequence == 1:
            go_on.set()

    stream = plan(ScriptedSource(3), slow, credits=False, mode=Mode.LATEST_ONLY)
    with live(stream, clock=ManualClock(), on_record=second_is_gone) as run:
        assert run.runtime.wait(10)
    first, second, third = run.of("front")
    assert (second.reason, second.superseded_by) == ("superseded", 2)
    assert (first.fate, third.fate) == ("completed", "completed")
    assert (first.superseded_by, third.superseded_by) == (None, None)


@dataclass
class Ending(ScriptedSource):
    """Tells when its last frame has been taken."""

    ended: threading.Event = field(default_factory=threading.Event)

    def next_arrival(self) -> Arrival | None:
        arrival = super().next_arrival()
        if arrival is None:
            self.ended.set()
        return arrival


def test_a_slower_hardware_clock_dooms_what_waits_and_says_by_how_much() -> None:
    source, go_on = Ending(2), threading.Event()

    def slow(frame: Frame, worker: int) -> None:
        go_on.wait(10)

    stream = plan(source, slow, cost_ns=150 * MS, deadline_ns=100 * MS)
    with live(stream, clock=ManualClock()) as run:
        assert source.ended.wait(10)
        run.runtime.clock_changed("cpu", 500)
        go_on.set()
        assert run.runtime.wait(10)
    first, second = run.of("front")
    assert first.fate == "completed"
    assert (second.fate, second.reason) == ("dropped", "doomed")
    # Half of what was expected at full clock, at half the clock: 150 of 100 ms.
    assert second.short_ns == 50 * MS


def test_a_clock_of_a_resource_that_does_not_exist_cannot_change() -> None:
    with (
        live(plan(ScriptedSource(1)), clock=ManualClock()) as run,
        pytest.raises(KeyError, match="gpu"),
    ):
        run.runtime.clock_changed("gpu", 500)


class Hasty(Scheduler):
    """Wants every job to have begun 7 ms ago."""

    def handle(self, now_ns: int, event: CoreEvent) -> list[Action]:
        return [
            action._replace(latest_start_ns=now_ns - 7 * MS)
            if isinstance(action, Start)
            else action
            for action in super().handle(now_ns, event)
        ]


def test_a_worker_that_comes_too_late_says_by_how_much() -> None:
    with live(plan(ScriptedSource(1)), clock=ManualClock(), core=Hasty) as run:
        assert run.runtime.wait(10)
    (record,) = run.records
    assert (record.reason, record.short_ns) == ("doomed", 7 * MS)
    assert record.spans == ()


def test_a_result_that_was_late_at_the_end_says_by_how_much() -> None:
    clock = ManualClock()

    def late(frame: Frame, worker: int) -> None:
        clock.advance(12 * MS)
        raise FrameError(Reason.EXPIRED, "too late")

    stream = plan(ScriptedSource(1), late, deadline_ns=10 * MS)
    with live(stream, clock=clock) as run:
        assert run.runtime.wait(10)
    (record,) = run.records
    assert (record.reason, record.short_ns) == ("expired", 2 * MS)


class Choosy(Scheduler):
    """Gives every frame up, moves the stream down, and tells why."""

    def handle(self, now_ns: int, event: CoreEvent) -> list[Action]:
        if not isinstance(event, FrameArrived):
            return super().handle(now_ns, event)
        found = Evidence(needed_ns=30, left_ns=10, passed_over=2)
        return [
            RungChanged(event.stream, 1, Cause.DEMAND, 1200),
            Leave(event.stream, event.sequence, Fate.DROPPED, Reason.DOOMED, found),
        ]


def test_the_evidence_against_a_frame_is_in_its_record() -> None:
    stream = plan(ScriptedSource(2), credits=False)
    with live(stream, clock=ManualClock(), core=Choosy) as run:
        assert run.runtime.wait(10)
        assert run.runtime.rung_changes == {("front", "demand"): 2}
    assert [
        (record.reason, record.short_ns, record.passed_over) for record in run.records
    ] == [("doomed", 20, 2)] * 2
