"""What a run does to the Python that it runs in, and that it puts it back."""

import gc
import sys
from collections.abc import Generator

import pytest

from edgepipe.pipeline import process
from edgepipe.pipeline.process import MOST_NS, Collections, Housekeeping
from edgepipe.telemetry.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(autouse=True)
def as_before() -> Generator[None, None, None]:
    """Whatever a test does, the next one finds Python as it was."""
    interval_s, enabled = sys.getswitchinterval(), gc.isenabled()
    yield
    assert gc.isenabled() == enabled
    assert sys.getswitchinterval() == pytest.approx(interval_s)
    assert gc.get_freeze_count() == 0


def pile_up(n: int) -> list[list[int]]:
    """So many new containers."""
    return [[number] for number in range(n)]


def test_threads_take_turns_faster_during_a_run_only(clock: ManualClock) -> None:
    before_s = sys.getswitchinterval()
    with Housekeeping(clock) as house:
        assert sys.getswitchinterval() == pytest.approx(0.0002)
        assert house.switch_interval_ns == 200_000
    assert sys.getswitchinterval() == pytest.approx(before_s)


def test_the_switch_interval_can_be_left_as_it_is(clock: ManualClock) -> None:
    before_s = sys.getswitchinterval()
    with Housekeeping(clock, switch_interval_ns=None):
        assert sys.getswitchinterval() == before_s


def test_python_is_put_back_when_the_run_breaks(clock: ManualClock) -> None:
    with pytest.raises(ZeroDivisionError), Housekeeping(clock):
        raise ZeroDivisionError


def test_nothing_is_collected_but_when_it_is_time(clock: ManualClock) -> None:
    with Housekeeping(clock) as house:
        assert not gc.isenabled()
        assert gc.get_freeze_count() > 1000
        kept = pile_up(2000)
        house.tick(idle=False)
        assert house.collections == Collections()
        house.tick(idle=True)
        house.tick(idle=True)
    assert house.collections.count == 1
    assert len(kept) == 2000


def test_a_cycle_that_nobody_holds_is_gone_after_an_idle_moment(
    clock: ManualClock,
) -> None:
    class Knot:
        alive = 0

        def __init__(self) -> None:
            self.me = self
            Knot.alive += 1

        def __del__(self) -> None:
            Knot.alive -= 1

    with Housekeeping(clock) as house:
        for _ in range(1000):
            Knot()
        assert Knot.alive == 1000
        house.tick(idle=True)
        assert Knot.alive == 0


def test_a_run_that_is_never_idle_collects_all_the_same_in_the_end(
    clock: ManualClock,
) -> None:
    with Housekeeping(clock) as house:
        kept = pile_up(2000)
        clock.advance(MOST_NS - 1)
        house.tick(idle=False)
        assert house.collections.count == 0
        clock.advance(1)
        house.tick(idle=False)
        assert (house.collections.count, house.collections.while_busy) == (1, 1)
        kept += pile_up(process.MOST_OBJECTS)
        house.tick(idle=False)
    assert house.collections.while_busy == 2
    assert len(kept) > process.MOST_OBJECTS


def test_pauses_are_added_up_and_the_longest_is_kept(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Housekeeping(clock) as house:
        pauses_ns = iter([30, 10])
        with monkeypatch.context() as patch:
            patch.setattr(gc, "get_count", lambda: (1000, 0, 0))
            patch.setattr(gc, "collect", lambda: clock.advance(next(pauses_ns)))
            house.tick(idle=True)
            house.tick(idle=True)
    assert house.collections == Collections(2, 0, 40, 30)


def test_a_program_that_collects_nothing_by_itself_still_does_not_after_a_run(
    clock: ManualClock,
) -> None:
    gc.disable()
    try:
        with Housekeeping(clock):
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
