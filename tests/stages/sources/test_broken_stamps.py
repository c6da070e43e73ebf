"""Transport streams whose stamps are what no muxer would write."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgepipe.stages.sources.file import FileSource

from .conftest import Played, play
from .transport import Restamp, restamp

MakeClip = Callable[..., Path]
FRAME, SECOND = 3600, 90_000
TOP = 1 << 33


def played(
    make_clip: MakeClip, change: Restamp, frames: int = 40, b_frames: int = 0
) -> Played:
    clip = make_clip("stamps.ts", codec="libx264", frames=frames, b_frames=b_frames)
    return play(FileSource(restamp(clip, change), str(clip)))


def both(stamp: int) -> tuple[int, int]:
    """One stamp for showing and decoding."""
    return stamp, stamp


def regular(count: int = 40) -> list[float]:
    return [40.0 * k for k in range(count)]


@pytest.mark.parametrize("b_frames", [0, 2])
@pytest.mark.parametrize("before", [1, 13, 20, 39])
def test_a_counter_that_runs_over_is_told_and_changes_no_time(
    make_clip: MakeClip, before: int, b_frames: int
) -> None:
    first: list[int] = []

    def wrapped(number: int, pts: int, dts: int) -> tuple[int, int]:
        first.append(pts)
        shift = TOP - first[0] - before * FRAME
        return pts + shift, dts + shift

    found = played(make_clip, wrapped, b_frames=b_frames)
    assert found.numbers == list(range(40))
    assert found.times_ms == pytest.approx(regular())
    ((kind, at_ms),) = found.kinds
    assert kind == "wrap"
    assert at_ms == pytest.approx(40 * before)


def test_a_counter_may_run_over_long_after_the_beginning(
    make_clip: MakeClip,
) -> None:
    step = 50 * SECOND
    found = played(make_clip, lambda k, pts, dts: both(TOP - 19 * step + k * step))
    assert set(np.diff(found.times_ms)) == {50_000}
    assert [kind for kind, _ in found.kinds] == ["wrap"]


def test_stamps_that_come_twice_are_told_and_moved_up(make_clip: MakeClip) -> None:
    twice = (5, 17, 18)
    found = played(
        make_clip,
        lambda k, pts, dts: both(pts - FRAME * (k in twice) - FRAME * (k == 18)),
    )
    assert found.numbers == list(range(40))
    assert [kind for kind, _ in found.kinds] == ["duplicate"] * 3
    assert min(np.diff(found.times_ms)) >= 10 - 1e-3
    assert found.times_ms[19:] == regular()[19:]
    (said,) = found.source.warnings
    assert said == "3 time stamps did not rise and were moved up"


def test_zeros_among_stamps_are_counted_on(make_clip: MakeClip) -> None:
    zeros = {*range(8, 20), 30}
    found = played(
        make_clip, lambda k, pts, dts: both(0 if k in zeros else pts + 300 * SECOND)
    )
    assert found.numbers == list(range(40))
    assert found.times_ms == regular()
    assert found.kinds == [("duplicate", 40 * k) for k in sorted(zeros)]


def test_zeros_are_found_where_decoding_stamps_are_made_up(
    make_clip: MakeClip,
) -> None:
    zeros = {*range(8, 20), 30}
    clip = make_clip("old.ts", codec="mpeg2video", frames=40)
    restamp(clip, lambda k, p, d: both(0 if k in zeros else p + 300 * SECOND))
    found = play(FileSource(clip, "old"))
    assert found.numbers == list(range(40))
    assert np.abs(np.array(found.times_ms) - regular()).max() <= 40
    assert min(np.diff(found.times_ms)) > 1
    assert {kind for kind, _ in found.kinds} == {"duplicate"}
    assert len(found.events) == len(zeros)


def test_a_stamp_that_goes_back_alone_is_moved_up(make_clip: MakeClip) -> None:
    found = played(make_clip, lambda k, pts, dts: both(pts - 9 * FRAME * (k == 11)))
    assert found.numbers == list(range(40))
    assert [kind for kind, _ in found.kinds] == ["regression"]
    assert found.times_ms[:11] + found.times_ms[12:] == regular(11) + regular()[12:]
    assert 400 < found.times_ms[11] < 480


def test_a_pause_is_a_gap_of_its_length(make_clip: MakeClip) -> None:
    found = played(make_clip, lambda k, pts, dts: both(pts + 25 * FRAME * (k >= 10)))
    assert found.times_ms == regular(10) + [t + 1000 for t in regular()[10:]]
    (gap,) = found.events
    assert (gap.kind.value, gap.amount_ns) == ("gap", 1_000_000_000)


@pytest.mark.parametrize("b_frames", [0, 2])
@pytest.mark.parametrize("later_s", [-580, 40_000])
def test_joined_recordings_follow_each_other_without_a_gap(
    tmp_path: Path, make_clip: MakeClip, later_s: int, b_frames: int
) -> None:
    parts: list[bytes] = []
    for k, at in enumerate((600, 600 + later_s)):
        clip = make_clip(f"{k}.ts", codec="libx264", b_frames=b_frames)
        move = at * SECOND
        parts.append(
            restamp(clip, lambda k, p, d, by=move: (p + by, d + by)).read_bytes()  # type: ignore[misc]
        )
    joined = tmp_path / "joined.ts"
    joined.write_bytes(b"".join(parts))
    found = play(FileSource(joined, "joined"))
    assert found.numbers == [*range(12), *range(12)]
    assert np.abs(np.array(found.times_ms) - regular(24)).max() <= 40
    assert [kind for kind, _ in found.kinds] == ["discontinuity"]
    assert min(np.diff(found.times_ms)) > 0
