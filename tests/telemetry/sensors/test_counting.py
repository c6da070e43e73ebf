"""Energy counters that run over or start anew."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.telemetry.sensors.counting import GrowingCounter

S = 1_000_000_000


def test_the_first_reading_is_the_count_itself() -> None:
    assert GrowingCounter(1000, None, 100.0).take(1234, 0) == (1234, "")


def test_a_wrap_is_undone() -> None:
    counter = GrowingCounter(1, wraps_at=99, most_w=50.0)
    counter.take(90, 0)
    assert counter.take(5, S) == (105, "")


@given(
    st.integers(10, 10**12),
    st.lists(st.integers(0, 10**9), min_size=1, max_size=50),
    st.data(),
)
def test_the_total_is_what_was_added_whatever_the_counter_shows(
    wraps_at: int, steps: list[int], data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, wraps_at))
    counter = GrowingCounter(1, wraps_at, most_w=1e15)
    counter.take(start, 0)
    truth = start
    for at_ns, step in enumerate(steps, 1):
        truth += min(step, wraps_at)  # less than once round between two readings
        assert counter.take(truth % (wraps_at + 1), at_ns).total == truth


@given(
    st.one_of(st.none(), st.integers(1, 10**6)),
    st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 100 * S)), min_size=1),
)
def test_the_total_never_falls_whatever_is_read(
    wraps_at: int | None, reads: list[tuple[int, int]]
) -> None:
    counter = GrowingCounter(1000, wraps_at, 50.0)
    at_ns, totals = 0, [0]
    for count, elapsed_ns in reads:
        at_ns += elapsed_ns
        totals.append(counter.take(count, at_ns).total)
    assert totals == sorted(totals)


def test_a_restart_adds_nothing_and_is_doubtful_once() -> None:
    counter = GrowingCounter(1000, None, 100.0)
    counter.take(500_000, 0)
    assert counter.take(20, S) == (
        500_000,
        "the counter started anew: a part is missing",
    )
    assert counter.take(1020, 2 * S) == (501_000, "")


def test_more_than_anything_can_take_is_a_restart_and_not_a_wrap() -> None:
    counter = GrowingCounter(1, wraps_at=999_999, most_w=100.0)
    counter.take(500_000, 0)
    total, doubt = counter.take(100, S)
    assert total == 500_000
    assert "started anew" in doubt


def test_an_interval_that_once_round_fits_into_is_a_gap() -> None:
    counter = GrowingCounter(1, wraps_at=999, most_w=100.0)
    assert counter.turn_s == 10
    counter.take(0, 0)
    assert counter.take(500, 9 * S) == (500, "")
    total, doubt = counter.take(700, 19 * S)
    assert total == 700
    assert doubt == "not read for 10 s: the counter may have gone round"


@pytest.mark.parametrize("late_s", [0.1, 1.0])
def test_what_a_slow_counter_adds_all_at_once_is_no_restart(late_s: float) -> None:
    counter = GrowingCounter(1000, None, 700.0)
    counter.take(0, 0)
    assert counter.take(int(700_000 * late_s), 1_000_000).doubt == ""
