"""Timelines stay small and never lose count."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.telemetry.throttle_timeline import Counts, Spans

STRETCHES = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50)), max_size=60)


def spans_of(stretches: list[tuple[int, int]], most: int) -> tuple[Spans, int]:
    """Stretches by (pause, length), and where the last one ends."""
    spans, at = Spans(most), 0
    for pause, length in stretches:
        spans.add(at + pause, at + pause + length)
        at += pause + length
    return spans, at


@given(stretches=STRETCHES)
def test_a_window_of_everything_is_the_total(stretches: list[tuple[int, int]]) -> None:
    for most in (2, 5, 1000):
        spans, end = spans_of(stretches, most)
        assert spans.total_ns == sum(length for _, length in stretches)
        assert spans.held_ns(0, end + 1) == spans.total_ns


@given(stretches=STRETCHES, cuts=st.tuples(*[st.integers(0, 2000)] * 3))
def test_adjacent_windows_add_up(
    stretches: list[tuple[int, int]], cuts: tuple[int, int, int]
) -> None:
    spans, _ = spans_of(stretches, 4)
    low, middle, high = sorted(cuts)
    halves = spans.held_ns(low, middle) + spans.held_ns(middle, high)
    assert spans.held_ns(low, high) == halves


def test_windows_cut_stretches_exactly_while_there_is_room() -> None:
    spans, _ = spans_of([(10, 10), (10, 10)], 100)
    assert spans.held_ns(15, 35) == 10
    assert spans.held_ns(20, 30) == 0


def test_what_was_added_is_not_counted_again() -> None:
    spans = Spans()
    spans.add(0, 10)
    spans.add(5, 15)
    spans.add(3, 9)
    assert spans.total_ns == 15


@given(numbers=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), max_size=60))
def test_counts_are_never_lost(numbers: list[tuple[int, int]]) -> None:
    counts, at = Counts(3), 0
    for later, number in numbers:
        at += later
        counts.add(at, number)
    total = sum(number for _, number in numbers)
    assert counts.total == total
    assert counts.within(0, at + 1) == total
    assert counts.within(0, at // 2) + counts.within(at // 2, at + 1) == total


def test_counts_lie_in_the_window_that_begins_with_them() -> None:
    counts = Counts()
    counts.add(10, 4)
    assert counts.within(0, 10) == 0
    assert counts.within(10, 11) == pytest.approx(4)
