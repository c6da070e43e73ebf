import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.pipeline.source_events import EventKind
from edgepipe.stages.sources.stamps import Stamped, Stamps

SECOND, FRAME, BITS = 90_000, 3600, 33
TOP = 1 << BITS
EVERY_SECOND = 25


def right(
    raw: Iterable[int | tuple[int, int]], *, bits: int | None = BITS
) -> list[Stamped]:
    """What becomes of stamps (one for both, or presentation and decoding)."""
    stamps = Stamps(bits, SECOND, FRAME)
    both = [(each, each) if isinstance(each, int) else each for each in raw]
    return [
        stamps.take(pts, dts, is_key=k % EVERY_SECOND == 0)
        for k, (pts, dts) in enumerate(both)
    ]


def steps(stamped: Sequence[Stamped]) -> list[int]:
    return [b.pts - a.pts for a, b in pairwise(stamped)]


def kinds(stamped: Sequence[Stamped]) -> list[tuple[int, EventKind]]:
    return [(k, s.kind) for k, s in enumerate(stamped) if s.kind is not None]


def regular(first: int, count: int) -> list[int]:
    return [first + k * FRAME for k in range(count)]


def test_stamps_that_rise_are_taken_as_they_are() -> None:
    raw = [0, FRAME, 5 * FRAME, 5 * FRAME + 1, 600 * SECOND]
    assert [s.pts for s in right(raw)] == raw
    assert kinds(right(raw)) == []


@given(st.integers(1, 99), st.integers(0, FRAME - 1))
def test_a_counter_that_runs_over_goes_on(before: int, phase: int) -> None:
    first = TOP - before * FRAME + phase
    found = right(each % TOP for each in regular(first, 100))
    assert set(steps(found)) == {FRAME}
    assert kinds(found) == []
    turned = [s.turns for s in found]
    assert turned == [int(each >= TOP) for each in regular(first, 100)]


def test_a_counter_may_run_over_again_and_again() -> None:
    day = 24 * 3600 * SECOND
    raw = [k * 50 * SECOND % TOP for k in range(2 * day // (50 * SECOND))]
    found = right(raw)
    assert set(steps(found)) == {50 * SECOND}
    assert found[-1].turns == 1


def test_reordered_stamps_run_over_one_after_the_other() -> None:
    shown = [0, 3, 1, 2, 6, 4, 5]
    raw = [
        ((TOP + (s - 2) * FRAME) % TOP, (TOP + (k - 5) * FRAME) % TOP)
        for k, s in enumerate(shown)
    ]
    found = right(raw)
    first = found[0].pts
    assert [(s.pts - first) // FRAME for s in found] == shown
    assert [s.turns for s in found] == [int(s >= 2) for s in shown]


def test_where_no_counter_can_run_over_a_large_stamp_is_just_large() -> None:
    found = right([TOP - FRAME, TOP, TOP + FRAME], bits=None)
    assert set(steps(found)) == {FRAME}
    assert {s.turns for s in found} == {0}


def test_one_stamp_that_goes_back_takes_the_place_of_the_one_before() -> None:
    raw = regular(SECOND, 10)
    raw[5] -= 10 * FRAME
    found = right(raw)
    assert kinds(found) == [(5, EventKind.REGRESSION)]
    assert found[5].pts == found[4].pts
    assert found[5].amount == 11 * FRAME - 2 * FRAME
    assert [s.pts for s in found[6:]] == raw[6:]


def test_two_stamps_that_go_back_and_agree_begin_a_time_of_their_own() -> None:
    found = right(regular(SECOND, 10) + regular(SECOND, 10))
    assert kinds(found) == [(10, EventKind.REGRESSION), (11, EventKind.DISCONTINUITY)]
    assert steps(found)[9] == 0
    assert steps(found)[10:] == [FRAME] * 9


@given(st.integers(2 * SECOND, TOP - 400 * SECOND), st.integers(1, SECOND))
def test_a_key_frame_from_far_back_begins_at_once(late: int, early: int) -> None:
    found = right(regular(late, EVERY_SECOND) + regular(early, 5))
    assert kinds(found) == [(EVERY_SECOND, EventKind.DISCONTINUITY)]
    assert set(steps(found)) == {FRAME}


def test_a_leap_forward_of_hours_is_no_pause_where_recordings_are_joined() -> None:
    raw = regular(0, 3) + regular(5 * 3600 * SECOND, 3)
    assert kinds(right(raw)) == [(3, EventKind.DISCONTINUITY)]
    assert set(steps(right(raw))) == {FRAME}
    assert kinds(right(raw, bits=None)) == []


@given(st.lists(st.integers(1, 98), min_size=1, max_size=60, unique=True))
def test_zeros_among_later_stamps_are_no_stamps(places: list[int]) -> None:
    raw = regular(300 * SECOND, 100)
    for place in places:
        raw[place] = 0
    found = right(raw)
    assert kinds(found) == [(k, EventKind.DUPLICATE) for k in sorted(places)]
    assert set(steps(found)) == {FRAME}


def test_a_missing_stamp_counts_on() -> None:
    stamps = Stamps(None, SECOND, FRAME)
    found = [stamps.take(s, s, is_key=True) for s in (0, 100, None, None, 400)]
    assert [s.pts for s in found] == [0, 100, 200, 300, 400]


def test_packets_need_not_say_when_they_are_decoded() -> None:
    stamps = Stamps(None, SECOND, FRAME)
    raw = [(0, None), (120, None), (40, 0), (80, 40), (200, 80)]
    found = [stamps.take(pts, dts, is_key=False) for pts, dts in raw]
    assert [(s.pts, s.dts) for s in found] == raw


@given(
    st.lists(st.tuples(st.integers(0, TOP - 1), st.integers(0, TOP - 1))),
    st.sampled_from([None, BITS]),
)
def test_no_frame_is_ever_put_before_one_that_is_settled(
    raw: list[tuple[int, int]], bits: int | None
) -> None:
    settled = None
    for stamped in right(raw, bits=bits):
        assert settled is None or stamped.pts >= settled
        assert stamped.dts is not None
        settled = stamped.dts if settled is None else max(settled, stamped.dts)
        assert settled == stamped.dts


def test_recorded_bursts_of_zeros(cases: Path) -> None:
    (path,) = cases.glob("*/zero_bursts.json")
    data = json.loads(path.read_text())
    rule = json.loads((path.parent / "expected.json").read_text())[path.name]
    stamps = Stamps(None, 1_000_000, 33_333)
    found = [stamps.take(pts, pts, is_key=k == 0) for k, pts in enumerate(data["pts"])]
    assert len(found) == rule["frames"]
    assert len(kinds(found)) == rule["invalid"]
    # As far as an arrival clock would have put them, and no further.
    off = np.diff([s.pts for s in found]) - np.diff(data["arrival_us"])
    assert np.abs(off).max() <= 1000
