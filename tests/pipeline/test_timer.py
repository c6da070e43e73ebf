from collections.abc import Callable, Generator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from threading import Thread

import pytest

from edgepipe.pipeline.timer import Timer
from edgepipe.telemetry.clock import Clock, ManualClock, MonotonicClock


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
        clock.advance(499)
        with pytest.raises(Empty):
            fired.get(timeout=0.02)
        clock.advance(1)
        assert fired.get(timeout=10) == 500
    assert fired.empty()


def test_a_moment_that_has_passed_is_fired_for_at_once() -> None:
    clock, fired = ManualClock(900), SimpleQueue[int]()
    with running(clock, lambda: fired.put(clock.now_ns())) as timer:
        timer.set(500)
        assert fired.get(timeout=10) == 900


@pytest.mark.parametrize(("first_ns", "second_ns"), [(100, 50), (100, 150)])
def test_a_later_wish_takes_the_place_of_an_earlier_one(
    first_ns: int, second_ns: int
) -> None:
    clock, fired = ManualClock(), SimpleQueue[int]()
    with running(clock, lambda: fired.put(clock.now_ns())) as timer:
        timer.set(first_ns)
        timer.set(second_ns)
        clock.advance(second_ns)
        assert fired.get(timeout=10) == second_ns
    assert fired.empty()


def test_what_is_asked_for_while_it_fires_is_not_forgotten() -> None:
    clock, fired = ManualClock(), SimpleQueue[int]()

    def fire() -> None:
        if clock.now_ns() < 900:
            timer.set(900)
        fired.put(clock.now_ns())

    with running(clock, fire) as timer:
        timer.set(500)
        clock.advance(500)
        assert fired.get(timeout=10) == 500
        clock.advance(400)
        assert fired.get(timeout=10) == 900


def test_a_timer_that_waits_can_be_stopped_and_fires_no_more() -> None:
    clock, fired = ManualClock(), SimpleQueue[None]()
    with running(clock, lambda: fired.put(None)) as timer:
        timer.set(100)
    assert fired.empty()


def test_a_timer_on_the_real_clock_fires_too() -> None:
    clock, fired = MonotonicClock(), SimpleQueue[int]()
    with running(clock, lambda: fired.put(clock.now_ns())) as timer:
        at_ns = clock.now_ns() + 1_000_000
        timer.set(at_ns)
        assert fired.get(timeout=10) >= at_ns
