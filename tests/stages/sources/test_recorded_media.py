"""Media that broke other programs. Frames carry their number as a bar code."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgepipe.errors import InputError
from edgepipe.pipeline.source import Arrival, DamagedError, EventKind, SourceEvent
from edgepipe.stages.convert import to_bgr
from edgepipe.stages.sources.open import open_source

CELL, FIRST = 12, 4


def find(cases: Path, name: str) -> Path:
    """The file of that name in whichever folder."""
    (path,) = cases.glob(f"*/{name}")
    return path


def expected(path: Path) -> Any:
    """What is right for a file."""
    return json.loads((path.parent / "expected.json").read_text(encoding="utf-8"))


def code_of(image: np.ndarray[Any, np.dtype[np.uint8]]) -> int | None:
    """Twelve bits, most significant first, after a white and a black cell."""
    row = image[FIRST + 3 : FIRST + CELL - 3].mean(axis=(0, 2))
    cells = [
        row[FIRST + k * CELL + 3 : FIRST + (k + 1) * CELL - 3].mean() for k in range(14)
    ]
    if cells[0] <= 150 or cells[1] >= 100:
        return None
    return int("".join("1" if cell > 125 else "0" for cell in cells[2:]), 2)


def watch(path: Path, **options: Any) -> tuple[list[int | None], list[float], Any]:
    """Bar codes (None: damaged), media times in seconds, and the source itself."""
    source = open_source(str(path), **options)
    codes: list[int | None] = []
    times: list[float] = []
    while len(codes) < 1000 and (arrival := source.next_arrival()) is not None:
        if isinstance(arrival, SourceEvent):
            continue
        assert arrival.pts_ns is not None
        times.append(arrival.pts_ns / 1e9)
        try:
            codes.append(code_of(to_bgr(source.decode(arrival.index))))
        except DamagedError:
            codes.append(None)
    return codes, times, source


@pytest.mark.parametrize(
    ("name", "codes", "last_s"),
    [
        ("bframes.mp4", range(100), 3.96),
        ("late_start.ts", range(50), 1.96),
        ("edit_list.mp4", range(12, 50), 1.48),
        ("wrap.ts", range(200), 7.96),
        ("phone_rot90.mp4", range(50), 1.96),
        ("odd_321x241.webm", range(25), 0.96),
        ("gray_video.mkv", range(12), 0.44),
        ("dup_pts.ts", range(100), 3.96),
    ],
)
def test_every_frame_once_and_in_order(
    cases: Path, name: str, codes: range, last_s: float
) -> None:
    seen, times, _ = watch(find(cases, name))
    assert seen == list(codes)
    assert times[0] == 0
    assert times[-1] == pytest.approx(last_s)
    assert (np.diff(times) > 0).all()


def test_variable_frame_rate_is_kept(cases: Path) -> None:
    path = find(cases, "vfr.mp4")
    _, times, _ = watch(path)
    assert [round(t * 1000) for t in times] == expected(path)["pts_ms"]


def test_an_absurd_rate_in_the_header_is_not_believed(cases: Path) -> None:
    seen, times, source = watch(find(cases, "rate_lies.mkv"))
    assert len(seen) == 60
    assert source.info.fps == 15
    assert times[-1] == pytest.approx(59 / 15, abs=0.01)
    assert source.warnings == ("the header's rate of 30000 fps is not believed",)


@pytest.mark.parametrize("name", ["raw.mjpeg", "raw.h264"])
def test_frames_without_stamps_are_counted(cases: Path, name: str) -> None:
    seen, times, source = watch(find(cases, name), fps=10)
    assert seen == list(range(60))
    assert times == [pytest.approx(k / 10) for k in range(60)]
    assert source.warnings == ()
    _, _, assumed = watch(find(cases, name))
    assert "assumed" in assumed.warnings[0]


def test_a_file_cut_off_gives_what_it_has_and_says_so(cases: Path) -> None:
    seen, _, source = watch(find(cases, "cut_tail.mp4"))
    assert seen == list(range(100))
    state, detail = source.end_state
    assert state == "truncated"
    assert "100 of 200" in detail


@pytest.mark.parametrize("name", ["no_moov.mp4", "empty.mp4", "text.mp4"])
def test_a_bogus_file_is_refused_by_name(cases: Path, name: str) -> None:
    with pytest.raises(InputError, match=name):
        open_source(str(find(cases, name)))


def test_damaged_images_are_never_passed_on(cases: Path) -> None:
    seen, _, source = watch(find(cases, "damaged.mjpeg"))
    delivered = [code for code in seen if code is not None]
    assert 36 <= len(delivered) <= 38
    assert not {10, 25, 30} & set(delivered)
    assert source.end_state == ("ended", "")


@pytest.mark.parametrize("name", ["h264_10bit.mp4", "hevc_10bit.mp4"])
def test_colours_of_ten_bit_video_are_right(cases: Path, name: str) -> None:
    path = find(cases, name)
    source = open_source(str(path))
    assert source.next_arrival() is not None
    image = to_bgr(source.decode(0))[..., ::-1]
    bars = np.array_split(image, 6, axis=1)
    right = expected(path)
    seen = [bar[:, 8:-8].mean(axis=(0, 1)) for bar in bars]
    assert np.abs(np.array(seen) - right["patches_rgb"]).max() <= right["tolerance"]


def test_stills_of_every_kind_become_bgr(cases: Path) -> None:
    seen, _, _ = watch(find(cases, "gray8.png").parent)
    assert seen == [5] * 6


def test_a_loop_has_no_seam_in_its_time(cases: Path) -> None:
    source = open_source(str(find(cases, "clip.mp4")), loop=True)
    found = [a for _ in range(152) if (a := source.next_arrival()) is not None]
    frames = [a for a in found if isinstance(a, Arrival)]
    assert [a.index for a in frames] == list(range(150))
    times = [a.pts_ns or 0 for a in frames]
    assert set(np.diff(times).tolist()) == {40_000_000}
    laps = [a for a in found if isinstance(a, SourceEvent)]
    assert [(a.kind, a.pts_ns) for a in laps] == [
        (EventKind.LOOP, times[50]),
        (EventKind.LOOP, times[100]),
    ]
    source.close()
