from itertools import accumulate

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from edgepipe.scheduler.arrivals import LEARN_FROM, SILENCE, Arrivals

PERIOD = 10_000_000
DELAY = PERIOD // 20
REPEATABLE = settings(derandomize=True, deadline=None, print_blob=True)


def regular(count: int, arrivals: Arrivals | None = None) -> Arrivals:
    """What was learned from frames that came as they should, with true stamps."""
    arrivals = arrivals or Arrivals(PERIOD)
    for n in range(count):
        assert not arrivals.note(n * PERIOD + DELAY, n * PERIOD)
    return arrivals


# --- the period -------------------------------------------------------------------


def test_a_declared_period_is_believed_whatever_comes() -> None:
    arrivals = Arrivals(PERIOD)
    for n in range(20):
        arrivals.note(n * PERIOD // 3, n * PERIOD // 3)
    assert arrivals.period_ns == PERIOD


def test_nothing_is_expected_of_a_stream_that_nobody_knows() -> None:
    assert Arrivals(PERIOD).next_ns(0) is None
    unknown = Arrivals()
    unknown.note(0, 0)
    assert unknown.next_ns(5) is None


@REPEATABLE
@given(st.lists(st.integers(1, 5000), min_size=LEARN_FROM, max_size=40))
def test_the_learned_period_is_the_median_of_the_last_intervals(
    intervals: list[int],
) -> None:
    arrivals = Arrivals()
    for at in accumulate(intervals, initial=0):
        arrivals.note(at, at)
    newest = sorted(intervals[-LEARN_FROM:])
    assert arrivals.period_ns == newest[LEARN_FROM // 2]


def test_a_lost_frame_does_not_change_what_was_learned() -> None:
    arrivals = regular(LEARN_FROM + 1, Arrivals())
    last = LEARN_FROM * PERIOD
    arrivals.note(last + 2 * PERIOD + DELAY, last + 2 * PERIOD)
    assert arrivals.period_ns == PERIOD


# --- the next frame ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("waited", "expected"),
    [
        (0, 100),
        (99, 100),
        (100, 100),
        (149, 149),
        (150, 200),
        (249, 249),
        (250, 300),
        (299, 300),
        (300, None),
    ],
)
def test_a_late_frame_is_expected_at_once_for_half_a_period_then_the_one_after_it(
    waited: int, expected: int | None
) -> None:
    arrivals = Arrivals(100)
    arrivals.note(0, 0)
    assert arrivals.next_ns(waited) == expected


@REPEATABLE
@given(st.integers(1, 10**12), st.integers(0, 10**13), st.integers(-(10**18), 10**18))
def test_the_next_frame_lies_at_most_a_period_ahead_and_never_behind(
    period: int, waited: int, start: int
) -> None:
    arrivals = Arrivals(period)
    arrivals.note(start, start)
    expected = arrivals.next_ns(start + waited)
    if waited >= SILENCE * period:
        assert expected is None
    else:
        assert expected is not None
        assert 0 <= expected - (start + waited) <= period


# --- stamps -----------------------------------------------------------------------


@st.composite
def true_stamps(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Arrival and capture of frames that are delayed, lost, held up or come in bursts.

    The first is fresh, and no stamp is wrong.
    """
    frames = [(0, 0)]
    capture = arrival = 0
    for lost, delay, stalled in draw(
        st.lists(
            st.tuples(
                st.sampled_from([0, 0, 0, 1, 5]),
                st.integers(0, PERIOD - 1),
                st.sampled_from([0, 0, 0, PERIOD * 2 // 3, 3 * PERIOD, 20 * PERIOD]),
            ),
            max_size=40,
        )
    ):
        capture += PERIOD * (1 + lost)
        arrival = max(arrival, capture + delay + stalled)
        frames.append((arrival, capture))
    return frames


@REPEATABLE
@given(true_stamps(), st.sampled_from([0, PERIOD]))
def test_true_stamps_are_never_doubted(
    frames: list[tuple[int, int]], declared: int
) -> None:
    arrivals = Arrivals(declared)
    if not declared:
        for n in range(-LEARN_FROM - 1, 0):
            arrivals.note(n * PERIOD, n * PERIOD)
    assert [arrivals.note(*frame) for frame in frames] == [False] * len(frames)
    assert arrivals.offset_ns == 0


STEPS = st.one_of(st.integers(2 * PERIOD, 10**12), st.integers(-(10**12), -2 * PERIOD))


@REPEATABLE
@given(
    st.integers(1, 12),
    STEPS,
    st.integers(1, 12),
    st.lists(st.integers(0, PERIOD // 4), min_size=30, max_size=30),
)
def test_a_clock_step_is_seen_at_its_first_frame_and_put_right_until_it_is_undone(
    before: int, step: int, during: int, delays: list[int]
) -> None:
    arrivals = Arrivals(PERIOD)
    for n, delay in enumerate(delays):
        offset = step if before <= n < before + during else 0
        jumped = arrivals.note(n * PERIOD + delay, n * PERIOD + offset)
        assert jumped == (n in {before, before + during})
        truth = n * PERIOD + offset - arrivals.offset_ns
        assert abs(truth - n * PERIOD) <= PERIOD // 2


def test_the_frames_of_a_camera_that_stood_still_are_as_old_as_they_say() -> None:
    arrivals = regular(10)
    resumed = 9 * PERIOD + 30 * PERIOD
    jumps = [arrivals.note(resumed, n * PERIOD) for n in range(10, 39)]
    jumps += [arrivals.note(n * PERIOD + DELAY, n * PERIOD) for n in range(39, 60)]
    assert not any(jumps)


def test_frames_that_catch_up_are_no_clock_step() -> None:
    arrivals = regular(10)
    late = 9 * PERIOD + 8 * PERIOD  # then at its usual pace, all of them old
    assert not arrivals.note(late, 10 * PERIOD)
    assert not arrivals.note(late + PERIOD, 11 * PERIOD)
    assert not arrivals.note(
        late + 2 * PERIOD, 19 * PERIOD - DELAY
    )  # a buffer was emptied


def test_a_step_by_less_than_a_period_is_jitter() -> None:
    arrivals = regular(10)
    assert not arrivals.note(10 * PERIOD + DELAY, 10 * PERIOD - PERIOD)
    assert arrivals.offset_ns == 0


@REPEATABLE
@given(st.integers(1, 12), st.integers(2, 2 * SILENCE), st.integers(2 * PERIOD, 10**12))
def test_a_frame_from_the_future_is_never_believed_for_long(
    before: int, gap: int, step: int
) -> None:
    """Nothing was captured after it arrived, also if the clock was set in a gap."""
    arrivals = regular(before)
    for n in range(before + gap, before + gap + 4):
        arrivals.note(n * PERIOD + DELAY, n * PERIOD + step)
    assert abs(arrivals.offset_ns - step) <= PERIOD


def test_a_clock_that_is_ahead_from_the_beginning_is_put_right() -> None:
    arrivals = Arrivals(PERIOD)
    for n in range(3):
        arrivals.note(n * PERIOD, n * PERIOD + 50 * PERIOD)
    assert abs(arrivals.offset_ns - 50 * PERIOD) <= PERIOD


# --- what must not matter ---------------------------------------------------------


@REPEATABLE
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(-90, 90)), max_size=30),
    st.sampled_from([0, PERIOD]),
    st.integers(-(10**18), 10**18),
    st.sampled_from([1, 2, 1000]),
)
def test_neither_the_origin_nor_the_unit_of_time_matters(
    frames: list[tuple[int, int]], declared: int, origin: int, unit: int
) -> None:
    assume(declared or unit == 1)  # without a period "ahead" is a length of its own
    plain, other = Arrivals(declared), Arrivals(declared * unit)
    now = 0
    for interval, tenths in frames:
        now += interval * PERIOD // 10
        age = tenths * PERIOD // 10
        jumped = plain.note(now, now - age)
        moved = origin + now * unit
        assert other.note(moved, moved - age * unit) == jumped
        assert other.offset_ns == plain.offset_ns * unit
        expected = plain.next_ns(now + PERIOD // 3)
        later = None if expected is None else origin + expected * unit
        assert other.next_ns(moved + PERIOD // 3 * unit) == later


def test_a_stream_that_began_with_old_stamps_is_believed_when_they_are_right() -> None:
    arrivals = Arrivals(33)
    for n in range(10):
        arrivals.note(1000 + 33 * n, 33 * n)  # a second behind
    for n in range(10, 20):
        arrivals.note(1000 + 33 * n, 1000 + 33 * n)
        assert arrivals.offset_ns == 0


def test_a_clock_that_was_set_back_and_is_right_again_is_believed() -> None:
    arrivals = Arrivals(33)
    for n in range(30):
        behind = 5000 if 10 <= n < 20 else 0
        arrivals.note(10_000 + 33 * n, 10_000 + 33 * n - behind)
        assert arrivals.offset_ns == -behind
