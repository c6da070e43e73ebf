from collections.abc import Callable, Generator
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Event, Thread

import pytest

from edgepipe.pipeline.timer import Timer
from edgepipe.telemetry.clock import Clock, ManualClock


class StandingClock(ManualClock):
    """Stands still while somebody waits, and tells what is waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: SimpleQueue[int] = SimpleQueue()

    def wait_until(self, at_ns: int, interrupt: Event) -> bool:
        self.waits.put(at_ns)
        if at_ns <= self.now_ns():
            return interrupt.is_set()
        return interrupt.wait(10)


@contextmanager
def running(clock: Clock, fire: Callable[[], None]) -> Generator[Timer, None, None]:
    timer = Timer(clock, fire)
    thread = Thread(target=timer.run, daemon=True)
    thread.start()
    yield timer
    timer.stop()
    thread.join(10)
    assert not thread.is_alive()


def test_a_timer_fires_once_at_the_moment_that_was_asked_for() -> None:
    clock, fired = ManualClock(), SimpleQueue[int]()
    with running(clock, lambda: fired.put(clock.now_ns())) as timer:
        timer.set(500)
        assert fired.get(timeout=10) == 500
    assert fired.empty()


@pytest.mark.parametrize("second_ns", [50, 150])
def test_a_later_wish_takes_the_place_of_an_earlier_one(second_ns: int) -> None:
    clock, fired = StandingClock(), SimpleQueue[None]()
    with running(clock, lambda: fired.put(None)) as timer:
        timer.set(100)
        assert clock.waits.get(timeout=10) == 100
        clock.advance(second_ns)
        timer.set(second_ns)
        assert clock.waits.get(timeout=10) == second_ns
        fired.get(timeout=10)
    assert fired.empty()
    assert clock.waits.empty()


def test_what_is_asked_for_while_it_fires_is_not_forgotten() -> None:
    clock, fired = ManualClock(), SimpleQueue[int]()

    def fire() -> None:
        if clock.now_ns() < 900:
            timer.set(900)
        fired.put(clock.now_ns())

    with running(clock, fire) as timer:
        timer.set(500)
        assert [fired.get(timeout=10) for _ in range(2)] == [500, 900]


def test_a_timer_that_waits_can_be_stopped_and_fires_no_more() -> None:
    clock, fired = StandingClock(), SimpleQueue[None]()
    with running(clock, lambda: fired.put(None)) as timer:
        timer.set(100)
        assert clock.waits.get(timeout=10) == 100
    assert fired.empty()
