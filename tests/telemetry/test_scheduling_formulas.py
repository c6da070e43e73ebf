from collections.abc import Sequence
from math import isclose

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.telemetry import scheduling_formulas as formulas
from edgepipe.telemetry.scheduling_formulas import Flags, Times

SECOND_NS = 1_000_000_000

Outcome = st.lists(st.booleans(), max_size=80)


def flags(text: str) -> Flags:
    """``x`` for a frame on time, ``.`` for a miss."""
    return np.array([letter == "x" for letter in text], np.bool_)


def times(values: Sequence[int]) -> Times:
    return np.array(values, np.int64)


@pytest.mark.parametrize(
    ("frames", "longest"),
    [("", 0), ("x", 0), (".", 1), ("....", 4), ("x.x..x", 2), ("...x.", 3), ("x..", 2)],
)
def test_the_longest_miss_run_is_the_most_misses_in_a_row(
    frames: str, longest: int
) -> None:
    assert formulas.longest_miss_run(flags(frames)) == longest


@pytest.mark.parametrize(
    ("frames", "m", "k", "violations"),
    [
        ("", 1, 2, 0),
        ("xx", 2, 3, 0),  # fewer frames than a window has
        ("...", 1, 3, 1),
        ("xxxxx", 3, 3, 0),
        ("xxx.xxx", 3, 3, 3),  # one miss is in three windows
        ("xx.xx", 2, 3, 0),  # what the promise allows
        ("x..x", 2, 3, 2),
        ("x.x.", 1, 1, 2),
    ],
)
def test_every_window_with_too_few_frames_on_time_breaks_the_promise(
    frames: str, m: int, k: int, violations: int
) -> None:
    assert formulas.window_violations(flags(frames), m, k) == violations


@given(Outcome, st.integers(1, 12), st.data())
def test_violations_are_those_found_by_counting_each_window(
    outcome: list[bool], k: int, data: st.DataObject
) -> None:
    m = data.draw(st.integers(1, k))
    windows = [outcome[i : i + k] for i in range(len(outcome) - k + 1)]
    expected = sum(sum(window) < m for window in windows)
    assert formulas.window_violations(np.array(outcome, np.bool_), m, k) == expected


@given(Outcome)
def test_a_miss_run_is_the_longest_window_that_a_promise_of_one_frame_breaks(
    outcome: list[bool],
) -> None:
    on_time = np.array(outcome, np.bool_)
    run = formulas.longest_miss_run(on_time)
    assert formulas.window_violations(on_time, 1, run + 1) == 0
    assert run == 0 or formulas.window_violations(on_time, 1, run) > 0


@pytest.mark.parametrize(
    ("capture", "done", "until", "ages"),
    [
        ([], [], 100, []),
        ([10], [15], 100, [90]),  # one frame: only the value at the end
        ([10], [15], 15, []),  # ... and the run ended with it
        ([10], [15], 12, []),  # ... or before
        ([10, 20], [15, 40], 50, [30, 30]),
        # A result that is overtaken is an output, but not the newest.
        ([10, 20, 30], [50, 25, 60], 70, [30, 40, 40]),
        ([10, 20], [30, 30], 40, [20, 20]),  # two in one batch
    ],
)
def test_the_peak_age_is_that_of_the_newest_result_just_before_the_next_output(
    capture: list[int], done: list[int], until: int, ages: list[int]
) -> None:
    assert formulas.peak_ages(times(capture), times(done), until).tolist() == ages


def test_a_stream_that_falls_silent_grows_old() -> None:
    ages = formulas.peak_ages(times([0, 10]), times([5, 15]), 1000)
    assert ages.max() == 990


@pytest.mark.parametrize(
    ("done", "errors"),
    [([], []), ([7], []), ([0, 33, 66], [0, 0]), ([66, 0, 30], [3, 3])],
)
def test_an_interval_is_off_by_its_distance_from_the_period(
    done: list[int], errors: list[int]
) -> None:
    assert formulas.interval_errors(times(done), 33).tolist() == errors


@pytest.mark.parametrize(
    ("shares", "index"),
    [
        ([], None),
        ([0.0, 0.0], None),
        ([0.3], 1.0),
        ([0.5, 0.5], 1.0),
        ([1, 0, 0], 1 / 3),
    ],
)
def test_jain_is_one_for_equal_shares_and_least_when_one_stream_has_all(
    shares: list[float], index: float | None
) -> None:
    found = formulas.jain(shares)
    assert found == index or (found and index and isclose(found, index))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_jain_lies_between_the_share_of_one_stream_and_one(shares: list[float]) -> None:
    index = formulas.jain(shares)
    assert index is None or 1 / len(shares) - 1e-9 <= index <= 1


def second(number: int, on_time: int, missed: int = 0) -> list[tuple[int, bool]]:
    """So many frames captured within one second, counted from 0."""
    frames = [True] * on_time + [False] * missed
    return [(number * SECOND_NS + i, each) for i, each in enumerate(frames)]


def recovered(
    *seconds: list[tuple[int, bool]], until_s: float = 9, permille: int = 990
) -> int | None:
    frames = [frame for each in seconds for frame in each]
    return formulas.recovery_s(
        times([at for at, _ in frames]),
        np.array([kept for _, kept in frames], np.bool_),
        event_ns=0,
        until_ns=int(until_s * SECOND_NS),
        permille=permille,
    )


GOOD = [second(n, 100) for n in range(9)]


def test_without_a_bad_second_recovery_takes_no_time() -> None:
    assert recovered(*GOOD) == 0


def test_recovery_is_the_first_of_three_good_seconds_in_a_row() -> None:
    assert recovered(second(0, 9, 1), *GOOD[1:3], second(3, 0, 5), *GOOD[4:]) == 4


@pytest.mark.parametrize(("missed", "found"), [(1, 0), (2, 1)])
def test_a_second_is_good_with_99_percent_on_time_and_not_with_less(
    missed: int, found: int
) -> None:
    assert recovered(second(0, 100 - missed, missed), *GOOD[1:]) == found


def test_where_99_percent_cannot_be_had_another_share_is_asked_for() -> None:
    seconds = [second(n, 75, 25) for n in range(9)]
    assert recovered(*seconds) is None
    assert recovered(*seconds, permille=743) == 0


def test_a_second_without_frames_proves_nothing() -> None:
    assert recovered(GOOD[0], GOOD[1], *GOOD[3:]) == 3


def test_seconds_that_the_run_did_not_finish_do_not_count() -> None:
    assert recovered(*GOOD[:3], until_s=3) == 0
    assert recovered(*GOOD[:3], until_s=2.999) is None
    assert recovered(until_s=9) is None


def test_frames_before_the_event_are_no_part_of_the_recovery() -> None:
    assert recovered(second(-1, 0, 50), *GOOD) == 0


def test_an_event_after_the_end_is_never_recovered_from() -> None:
    assert recovered(*GOOD, until_s=-5) is None


@pytest.mark.parametrize(
    ("frames", "event", "response"),
    [
        ("xxxx", 0, 0),
        ("...xxx", 0, 20),  # two of three are enough
        (".x.xxx", 0, 10),
        ("xx...", 10, None),
        ("xxxxx", 35, None),  # fewer than a window remain
        ("xxxxx", 15, 5),  # until the first frame after it
        ("", 0, None),
    ],
)
def test_the_response_to_a_change_ends_with_the_first_window_that_keeps_the_promise(
    frames: str, event: int, response: int | None
) -> None:
    capture_ns = times([10 * i for i in range(len(frames))])
    found = formulas.conforming_after(capture_ns, flags(frames), 2, 3, event)
    assert found == response


def test_flapping_shows_in_the_worst_minute_and_not_on_average() -> None:
    moves_ns = [SECOND_NS * second for second in (0, 100, 110, 159, 160, 600)]
    assert formulas.most_moves_in_a_minute(moves_ns) == 3  # 160 is a minute after 100
    assert formulas.moves_per_minute(len(moves_ns), 600 * SECOND_NS) == 0.6


def test_without_moves_or_without_time_there_is_no_flapping() -> None:
    assert formulas.most_moves_in_a_minute([]) == 0
    assert formulas.moves_per_minute(0, 60 * SECOND_NS) == 0
    assert formulas.moves_per_minute(3, 0) is None
    assert formulas.per_second(3, 0) is None


@given(st.lists(st.integers(0, 300 * SECOND_NS), max_size=30))
def test_the_worst_minute_has_no_more_moves_than_there_are(moves: list[int]) -> None:
    worst = formulas.most_moves_in_a_minute(moves)
    assert bool(moves) <= worst <= len(moves)
    assert worst == formulas.most_moves_in_a_minute(moves[::-1])
