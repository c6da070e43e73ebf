"""Numbers of stamps and packets."""

import pytest

from edgepipe.stages.sources.vitals import rhythm, spread_ms, structure

MS = 10**6


def test_a_regular_source_has_no_spread() -> None:
    found = rhythm([k * 40 * MS for k in range(50)], gap_frames=4)
    assert found[:7] == (50, 2.0, 25.0, 40.0, 0.0, 40.0, 40.0)
    assert found.is_regular


def test_gaps_are_not_part_of_the_rate() -> None:
    times = [(k * 40 + (k > 19) * 4200) * MS for k in range(40)]
    found = rhythm(times, gap_frames=4)
    assert found.fps == 25
    assert found.longest_ms == 4240
    assert found.is_regular


def test_frames_that_come_as_they_like_are_not_regular() -> None:
    steps = [20, 60] * 10
    times = [sum(steps[:k]) * MS for k in range(len(steps) + 1)]
    assert not rhythm(times, gap_frames=4).is_regular


@pytest.mark.parametrize("times", [[], [5]])
def test_fewer_than_two_frames_have_no_rate(times: list[int]) -> None:
    found = rhythm(times, gap_frames=4)
    assert (found.frames, found.fps, found.usual_ms) == (len(times), None, None)


def test_key_frames_and_reordering_are_counted() -> None:
    stamps = [0, 3, 1, 2, 6, 4, 5, 7, 10, 8, 9]
    packets = [(stamp, n in (0, 7)) for n, stamp in enumerate(stamps)]
    found = structure(packets)
    assert (found.packets, found.key_frames, found.reorder_depth) == (11, 2, 1)
    assert found.key_distance == (7, 7, 7)


def test_a_pyramid_is_as_deep_as_it_is() -> None:
    assert structure([(s, s == 0) for s in (0, 4, 2, 1, 3)]).reorder_depth == 2


def test_packets_without_stamps_have_no_order() -> None:
    found = structure([(None, True), (None, False)])
    assert (found.reorder_depth, found.key_distance) == (0, None)


def test_measured_times() -> None:
    assert spread_ms([]) is None
    assert spread_ms([k * MS for k in range(1, 11)]) == (10, 5.5, 10.0, 10.0)
