"""Every container with real bytes: the same frames at the same times."""

import struct
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np
import pytest
from av.audio.frame import AudioFrame
from av.stream import Disposition
from av.video.frame import VideoFrame
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgepipe.errors import InputError
from edgepipe.stages.sources.file import FileSource

from .conftest import flat_frame, play

MakeClip = Callable[..., Path]
FRAMES = 30


class Kind(NamedTuple):
    """How a clip is written."""

    name: str
    codec: str
    b_frames: int = 0
    options: dict[str, str] | None = None
    encoder: dict[str, str] | None = None
    pix_fmt: str = "yuv420p"

    def make(self, make_clip: MakeClip, **more: Any) -> Path:
        return make_clip(
            self.name,
            codec=self.codec,
            b_frames=self.b_frames,
            options=self.options,
            encoder=self.encoder,
            pix_fmt=self.pix_fmt,
            **({"frames": FRAMES} | more),
        )


_FRAGMENTS = {"movflags": "frag_keyframe+empty_moov"}
_OPEN = {"crf": "5", "x264-params": "open-gop=1:keyint=6:bframes=2"}
STAMPED = [
    Kind("plain.mp4", "libx264"),
    Kind("reordered.mp4", "libx264", 2),
    Kind("no_edit_list.mp4", "libx264", 2, {"use_editlist": "0"}),
    Kind("fragments.mp4", "libx264", 2, _FRAGMENTS),
    Kind("late_header.mp4", "libx264", 2, {"movflags": "frag_keyframe+delay_moov"}),
    Kind("open_gop.mp4", "libx264", 2, None, _OPEN),
    Kind("hevc.mp4", "libx265", 2),
    Kind("plain.mkv", "libx264"),
    Kind("reordered.mkv", "libx264", 2),
    Kind("live.mkv", "libx264", 2, {"live": "1"}),
    Kind("open_gop.mkv", "libx264", 2, None, _OPEN),
    Kind("jpegs.mkv", "mjpeg", pix_fmt="yuvj420p"),
    Kind("reordered.ts", "libx264", 2),
    Kind("open_gop.ts", "libx264", 2, None, _OPEN),
    Kind("old.ts", "mpeg2video", 2),
    Kind("old.mpg", "mpeg2video", 2),
    Kind("blu_ray.m2ts", "libx264", 2),
    Kind("reordered.asf", "libx264", 2),
    Kind("old.wmv", "wmv2"),
    Kind("plain.avi", "libx264"),
    Kind("reordered.avi", "libx264", 2),
    Kind("old.avi", "mpeg4", 2),
    Kind("jpegs.avi", "mjpeg", pix_fmt="yuvj420p"),
    Kind("vp8.webm", "libvpx"),
    Kind("vp9.webm", "libvpx-vp9"),
    Kind("reordered.flv", "libx264", 2),
    Kind("reordered.mov", "libx264", 2),
    Kind("raw.m4v", "mpeg4", 2),
]
UNSTAMPED = [
    Kind("raw.h264", "libx264"),
    Kind("reordered.h264", "libx264", 2),
    Kind("open_gop.h264", "libx264", 2, None, _OPEN),
    Kind("reordered.h265", "libx265", 2),
    Kind("raw.mjpeg", "mjpeg", pix_fmt="yuvj420p"),
    Kind("raw.m2v", "mpeg2video", 2),
]


def named(kind: Kind) -> str:
    return kind.name


def opened(path: Path, fps: float | None = None, *, loop: bool = False) -> FileSource:
    return FileSource(path, str(path), fps=fps, loop=loop)


@pytest.mark.parametrize("kind", STAMPED, ids=named)
def test_every_frame_comes_once_in_order_and_in_time(
    make_clip: MakeClip, kind: Kind
) -> None:
    found = play(opened(kind.make(make_clip)))
    assert found.numbers == list(range(FRAMES))
    assert found.times_ms == pytest.approx([40 * k for k in range(FRAMES)])
    assert found.events == []
    assert found.source.warnings == ()
    assert found.source.end_state == ("ended", "")


@pytest.mark.parametrize("kind", UNSTAMPED, ids=named)
def test_without_stamps_the_rate_that_is_given_tells_the_time(
    make_clip: MakeClip, kind: Kind
) -> None:
    path = kind.make(make_clip)
    found = play(opened(path, fps=10))
    assert found.numbers == list(range(FRAMES))
    assert found.times_ms == [100 * k for k in range(FRAMES)]
    assert found.source.warnings == ()
    assert "assumed 25 fps" in opened(path).warnings[0]


@pytest.mark.parametrize("kind", STAMPED + UNSTAMPED, ids=named)
def test_any_frame_can_be_left_out(make_clip: MakeClip, kind: Kind) -> None:
    path = kind.make(make_clip)
    for wanted in ([0, 7, 8, 29], [5, 14, 20], [29]):
        source = opened(path, 25 if kind in UNSTAMPED else None)
        while source.next_arrival() is not None:
            pass
        seen = [round(_luma(source, k)) for k in wanted]
        assert seen == [20 + 5 * k for k in wanted]


def _luma(source: FileSource, index: int) -> float:
    return float(np.mean(source.decode(index).planes[0]))


@pytest.mark.parametrize("kind", STAMPED + UNSTAMPED, ids=named)
def test_every_lap_gives_the_same_frames_without_a_seam(
    make_clip: MakeClip, kind: Kind
) -> None:
    fps = 25 if kind in UNSTAMPED else None
    found = play(opened(kind.make(make_clip), fps, loop=True), most=3 * FRAMES)
    assert found.numbers == 3 * list(range(FRAMES))
    assert found.times_ms == pytest.approx([40 * k for k in range(3 * FRAMES)], abs=1)
    assert [kind for kind, _ in found.kinds] == ["loop", "loop"]


@pytest.mark.parametrize("name", ["vfr.mp4", "vfr.mkv", "vfr.ts", "vfr.flv", "vfr.mov"])
def test_uneven_and_late_stamps_are_kept(make_clip: MakeClip, name: str) -> None:
    stamps = [50, 51, 52, 55, 60, 61, 62, 75, 76]
    clip = make_clip(name, codec="libx264", b_frames=2, frames=9, stamps=stamps)
    found = play(opened(clip))
    assert found.numbers == list(range(9))
    assert found.times_ms == pytest.approx([40 * (s - 50) for s in stamps], abs=1)


@pytest.mark.parametrize("codec", ["libx264", "mpeg4"])
def test_empty_chunks_stand_for_frames_that_the_recorder_left_out(
    make_clip: MakeClip, codec: str
) -> None:
    stamps = [0, 1, 2, 6, 7, 8, 20, 21]
    clip = make_clip("gaps.avi", codec=codec, frames=8, stamps=stamps)
    found = play(opened(clip))
    assert found.numbers == list(range(8))
    assert found.times_ms == [40 * s for s in stamps]
    assert found.source.end_state == ("ended", "")
    assert [kind for kind, _ in found.kinds] == ["gap"]


def test_an_absurd_rate_in_avi_tells_no_time(make_clip: MakeClip) -> None:
    path = make_clip("clip.avi", codec="mpeg4", frames=FRAMES)
    data = bytearray(path.read_bytes())
    at = data.index(b"strh") + 28  # scale and rate
    data[at : at + 8] = struct.pack("<II", 1, 30_000)
    path.write_bytes(data)
    source = FileSource(path, "clip", fps=15)
    played = play(source)
    assert played.numbers == list(range(FRAMES))
    assert played.times_ms == [
        pytest.approx(k / 15e-3, abs=0.001) for k in range(FRAMES)
    ]
    assert source.warnings == ("the header's rate of 30000 fps is not believed",)
    assert "assumed" in FileSource(path, "clip").warnings[1]


def test_asf_says_how_long_it_is(make_clip: MakeClip) -> None:
    path = make_clip("clip.wmv", codec="wmv2", frames=FRAMES)
    assert play(FileSource(path, "clip")).source.end_state == ("ended", "")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert play(FileSource(path, "clip")).source.end_state[0] == "truncated"


def test_chunks_left_empty_behind_the_last_frame_are_not_missing(
    make_clip: MakeClip, tmp_path: Path
) -> None:
    """A recorder that counts in fine ticks fills the last frame's length with them."""
    fine = tmp_path / "fine.avi"
    output: Any
    with (
        av.open(str(make_clip("clip.mkv", frames=5))) as clip,
        av.open(str(fine), "w") as output,
    ):
        copy = output.add_stream_from_template(clip.streams.video[0])
        copy.time_base = Fraction(1, 1000)
        for packet in clip.demux(video=0):
            if packet.size:
                packet.stream = copy
                output.mux(packet)
    with av.open(str(fine)) as container:
        stream = container.streams.video[0]
        assert stream.time_base == Fraction(1, 1000)
        assert stream.frames == 200
    found = play(opened(fine))
    assert found.times_ms == [0, 40, 80, 120, 160]
    assert found.source.end_state == ("ended", "")


def test_a_recording_that_begins_before_zero_is_cut_as_its_edit_list_says(
    make_clip: MakeClip,
) -> None:
    clip = make_clip("early.mp4", codec="libx264", stamps=range(-5, 7), b_frames=2)
    found = play(opened(clip))
    assert found.numbers == list(range(5, 12))
    assert found.times_ms == [40 * k for k in range(7)]


@pytest.mark.parametrize("name", ["early.mkv", "early.ts"])
def test_where_there_is_no_edit_list_nothing_is_cut(
    make_clip: MakeClip, name: str
) -> None:
    clip = make_clip(name, codec="libx264", stamps=range(-5, 7), b_frames=2)
    assert play(opened(clip)).numbers == list(range(12))


# --- other streams ------------------------------------------------------------------


def write(path: Path, *, video: int, audio: bool = False, cover: bool = False) -> Path:
    """A file with so many videos of one frame, each with a luma and size of its own."""
    output: Any
    with av.open(str(path), "w") as output:
        sound = output.add_stream("mp2", rate=44_100) if audio else None
        pictures: list[tuple[Any, VideoFrame]] = []
        for k in range(video + cover):
            is_cover = cover and k == 0
            size = (64 + 16 * k, 48)
            stream = output.add_stream("mjpeg" if is_cover else "mpeg4", rate=25)
            stream.width, stream.height = size
            stream.pix_fmt = "yuvj420p" if is_cover else "yuv420p"
            if is_cover:
                stream.disposition = Disposition.attached_pic
            frame = flat_frame(50 + 20 * k, *size, stream.pix_fmt)
            frame.pts, frame.time_base = 0, Fraction(1, 25)
            pictures.append((stream, frame))
        for stream, frame in pictures:
            output.mux(stream.encode(frame))
            output.mux(stream.encode(None))
        if sound is not None:
            silence = np.zeros((1, 2 * 1152), np.int16)
            for k in range(10):
                part = AudioFrame.from_ndarray(silence, format="s16", layout="stereo")
                part.sample_rate, part.pts = 44_100, 1152 * k
                output.mux(sound.encode(part))
            output.mux(sound.encode(None))
    return path


def test_sound_alone_is_no_video(tmp_path: Path) -> None:
    path = write(tmp_path / "sound.mkv", video=0, audio=True)
    with pytest.raises(InputError, match=r"sound\.mkv: there is no video in it"):
        opened(path)


def test_the_cover_of_a_song_is_no_video(tmp_path: Path) -> None:
    path = write(tmp_path / "song.mp4", video=0, audio=True, cover=True)
    with pytest.raises(InputError, match=r"song\.mp4: there is no video in it"):
        opened(path)


def test_a_cover_beside_a_video_is_passed_over(tmp_path: Path) -> None:
    source = opened(write(tmp_path / "film.mp4", video=1, audio=True, cover=True))
    assert (source.info.width, len(play(source).numbers)) == (80, 1)
    assert source.warnings == ()


def test_of_two_videos_the_first_is_used_and_that_is_said(tmp_path: Path) -> None:
    source = opened(write(tmp_path / "two.mkv", video=2))
    assert source.info.width == 64
    assert source.warnings == ("the first of 2 videos is used",)


# --- files that change ----------------------------------------------------------------


@pytest.mark.parametrize("name", ["sizes.mjpeg", "sizes.ts", "sizes.h264"])
def test_each_picture_keeps_its_own_size(
    tmp_path: Path, make_clip: MakeClip, name: str
) -> None:
    codec = {"mjpeg": "mjpeg", "ts": "mpeg2video"}.get(name.split(".")[1], "libx264")
    pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
    sizes = [(64, 48), (96, 80), (64, 48)]
    joined = tmp_path / name
    with joined.open("wb") as file:
        for size in sizes:
            clip = make_clip(f"a.{name}", codec=codec, size=size, pix_fmt=pix_fmt)
            file.write(clip.read_bytes())
    source = opened(joined)
    found: list[tuple[int, int]] = []
    index = 0
    while (arrival := source.next_arrival()) is not None:
        if arrival.__class__.__name__ == "Arrival":
            picture = source.decode(index)
            assert picture.planes[0].shape == (picture.height, picture.width)
            found.append((picture.width, picture.height))
            index += 1
    assert found == [size for size in sizes for _ in range(12)]


def test_a_file_that_grows_is_read_up_to_where_it_is_then(
    tmp_path: Path, make_clip: MakeClip
) -> None:
    data = make_clip("whole.ts", codec="mpeg2video", frames=FRAMES).read_bytes()
    path = tmp_path / "grows.ts"
    half = len(data) // 188 // 2 * 188
    path.write_bytes(data[:half])
    source = opened(path)
    with path.open("ab") as file:
        file.write(data[half:])
    assert play(source).numbers == list(range(FRAMES))


def test_a_file_that_vanishes_is_played_to_its_end_and_not_again(
    make_clip: MakeClip,
) -> None:
    path = make_clip()
    source = opened(path, loop=True)
    path.unlink()
    assert play(source, most=12).numbers == list(range(12))
    for _ in range(2):
        with pytest.raises(InputError, match=r"clip\.mp4"):
            source.next_arrival()


def test_a_file_that_is_replaced_is_played_as_it_is_then(make_clip: MakeClip) -> None:
    path = make_clip("first.mkv", codec="libx264", b_frames=2)
    source = opened(path, loop=True)
    make_clip("second.mp4", frames=5).rename(path)
    found = play(source, most=16)
    assert found.numbers == [*range(12), *range(4)]
    assert found.times_ms == pytest.approx([40 * k for k in range(16)])
    assert [kind for kind, _ in found.kinds] == ["loop"]


# --- files cut off --------------------------------------------------------------------

CUT = [
    Kind("fast.mp4", "libx264", 2, {"movflags": "faststart"}),
    *(k for k in STAMPED if k.name in ("fragments.mp4", "old.ts", "plain.avi")),
    *(k for k in STAMPED if k.name in ("live.mkv", "reordered.mkv", "reordered.flv")),
    *(k for k in UNSTAMPED if k.name in ("raw.h264", "raw.mjpeg")),
]
DEEPEST = 3
"""Frames that may be shown before one that is decoded later, with two B frames."""


@pytest.mark.parametrize("kind", CUT, ids=named)
@given(data=st.data())
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_wherever_a_file_is_cut_it_gives_what_it_has(
    tmp_path: Path, make_clip: MakeClip, kind: Kind, data: st.DataObject
) -> None:
    """Frames are right and in their place; some after the last may lack."""
    whole = tmp_path / kind.name
    if not whole.exists():
        kind.make(make_clip)
    content = whole.read_bytes()
    # Of a transport stream that is very short FFmpeg does not see what it is.
    least = 2000 if kind.name.endswith(".ts") else 0
    at = data.draw(st.integers(least, len(content) - 1))
    path = tmp_path / f"cut_{kind.name}"
    path.write_bytes(content[:at])
    try:
        found = play(opened(path, 25 if kind in UNSTAMPED else None))
    except InputError:
        return
    times = [t / 40 for t in found.times_ms]
    sound = [(t, n) for t, n in zip(times, found.numbers, strict=True) if n is not None]
    assert [round(t) for t, _ in sound] == [number for _, number in sound]
    assert len(times) - len(sound) <= DEEPEST
    assert max(times, default=0) < len(times) + DEEPEST
    state, detail = found.source.end_state
    if kind in STAMPED + CUT[:1] and kind.name != "fragments.mp4":
        # Elsewhere a file that ends between two pictures looks complete.
        whole_packets = kind.name.endswith(".ts") and at % 188 == 0
        complete = len(sound) == FRAMES
        assert state == "truncated" or whole_packets or complete
        assert (state == "truncated") == bool(detail)
