import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from edgepipe.errors import InputError
from edgepipe.pipeline.frame import Picture, PixelFormat
from edgepipe.pipeline.source import Arrival, DamagedError
from edgepipe.stages.sources.decoder import MOST_WAITING
from edgepipe.stages.sources.file import FileSource
from edgepipe.stages.sources.fingerprint import fingerprint

MakeClip = Callable[..., Path]
Number = Callable[[Picture], int]
FRAME_NS = 40_000_000


def opened(path: Path, *, loop: bool = False, fps: float | None = None) -> FileSource:
    return FileSource(path, str(path), loop=loop, fps=fps)


def arrivals(source: FileSource, most: int = 10_000) -> list[Arrival]:
    found: list[Arrival] = []
    while len(found) < most and (arrival := source.next_arrival()) is not None:
        if isinstance(arrival, Arrival):
            found.append(arrival)
    return found


@pytest.mark.parametrize("b_frames", [0, 2])
def test_frames_come_in_the_order_in_which_they_are_shown(
    make_clip: MakeClip, frame_number: Number, b_frames: int
) -> None:
    source = opened(make_clip(b_frames=b_frames))
    found = arrivals(source)
    seen = [frame_number(source.decode(arrival.index)) for arrival in found]
    assert seen == list(range(12))
    assert [arrival.pts_ns for arrival in found] == [k * FRAME_NS for k in range(12)]
    assert source.end_state == ("ended", "")


def test_the_first_frame_is_at_zero_wherever_the_file_begins(
    make_clip: MakeClip,
) -> None:
    source = opened(make_clip("late.ts", codec="mpeg2video", frames=40))
    assert [a.pts_ns for a in arrivals(source)] == [k * FRAME_NS for k in range(40)]


def test_uneven_stamps_are_kept_as_they_are(make_clip: MakeClip) -> None:
    stamps = [0, 1, 5, 6, 20]
    source = opened(make_clip("vfr.mkv", frames=5, stamps=stamps))
    assert [a.pts_ns for a in arrivals(source)] == [s * FRAME_NS for s in stamps]


@pytest.mark.parametrize("b_frames", [0, 2])
@pytest.mark.parametrize("wanted", [[0, 5, 11], [7], [3, 4, 10]])
def test_frames_may_be_skipped(
    make_clip: MakeClip, frame_number: Number, b_frames: int, wanted: list[int]
) -> None:
    source = opened(make_clip(b_frames=b_frames))
    arrivals(source)
    assert [frame_number(source.decode(index)) for index in wanted] == wanted


def test_decoding_may_follow_each_arrival_or_wait_for_the_end(
    make_clip: MakeClip, frame_number: Number
) -> None:
    source = opened(make_clip(b_frames=2))
    found = arrivals(source)
    pictures = [source.decode(arrival.index) for arrival in found]
    assert [frame_number(picture) for picture in pictures] == list(range(12))


def test_a_loop_goes_on_counting_frames_and_time(
    make_clip: MakeClip, frame_number: Number
) -> None:
    source = opened(make_clip(frames=4), loop=True)
    found = arrivals(source, most=10)
    assert found == [Arrival(k, k * FRAME_NS) for k in range(10)]
    assert [frame_number(source.decode(k)) for k in (3, 4, 9)] == [3, 0, 1]
    source.close()


def test_packets_do_not_pile_up_when_nobody_decodes(
    make_clip: MakeClip, frame_number: Number
) -> None:
    source = opened(make_clip(), loop=True)
    found = arrivals(source, most=3 * MOST_WAITING)
    last = found[-1].index
    assert frame_number(source.decode(last)) == last % 12
    source.close()


def test_a_frame_given_up_long_ago_is_said_to_be_damaged(make_clip: MakeClip) -> None:
    source = opened(make_clip(), loop=True)
    arrivals(source, most=2 * MOST_WAITING)
    with pytest.raises(DamagedError):
        source.decode(0)
    source.close()


def test_one_thread_may_look_for_frames_while_another_decodes(
    make_clip: MakeClip, frame_number: Number
) -> None:
    source = opened(make_clip(b_frames=2), loop=True)
    found: list[int] = []
    ready = threading.Semaphore(0)

    def look() -> None:
        for arrival in arrivals(source, most=300):
            found.append(arrival.index)
            ready.release()

    looker = threading.Thread(target=look)
    looker.start()
    numbers: list[int] = []
    for index in range(300):
        assert ready.acquire(timeout=10)
        numbers.append(frame_number(source.decode(index)))
    looker.join()
    assert numbers == [k % 12 for k in range(300)]
    source.close()


def test_the_planes_are_views_of_the_decoders_memory(make_clip: MakeClip) -> None:
    picture = first_picture(opened(make_clip(size=(66, 50))))
    assert picture.format is PixelFormat.I420
    assert [plane.shape for plane in picture.planes] == [(50, 66), (25, 33), (25, 33)]
    assert all(not plane.flags.owndata for plane in picture.planes)
    assert all(not plane.flags.writeable for plane in picture.planes)


def test_odd_sizes_keep_their_last_row_and_column(make_clip: MakeClip) -> None:
    clip = make_clip("odd.mkv", codec="ffv1", size=(33, 27))
    picture = first_picture(opened(clip))
    assert [plane.shape for plane in picture.planes] == [(27, 33), (14, 17), (14, 17)]
    assert np.unique(picture.planes[0]).tolist() == [20]


@pytest.mark.parametrize(
    ("rotation", "size", "corner"),
    [(90, (48, 64), (-1, 0)), (-90, (48, 64), (0, -1)), (180, (64, 48), (-1, -1))],
)
def test_a_recording_made_with_a_turned_camera_is_shown_upright(
    make_clip: MakeClip, rotation: int, size: tuple[int, int], corner: tuple[int, int]
) -> None:
    source = opened(make_clip("turned.mp4", rotation=rotation, marked=True))
    picture = first_picture(source)
    assert (source.info.width, source.info.height) == size
    assert (picture.width, picture.height) == size
    luma = picture.planes[0]
    rows, columns = (slice(0, 8) if end == 0 else slice(-8, None) for end in corner)
    assert luma[rows, columns].mean() > 180
    assert float(np.median(luma)) < 60


@pytest.mark.parametrize(
    ("pix_fmt", "becomes"),
    [
        ("yuv422p", PixelFormat.I422),
        ("yuv444p", PixelFormat.I444),
        ("gray", PixelFormat.GRAY),
        ("bgra", PixelFormat.BGR),
        ("gray16le", PixelFormat.GRAY),
    ],
)
def test_other_formats_become_one_that_the_pipeline_knows(
    make_clip: MakeClip, pix_fmt: str, becomes: PixelFormat
) -> None:
    clip = make_clip("other.mkv", codec="ffv1", pix_fmt=pix_fmt)
    picture = first_picture(opened(clip))
    assert picture.format is becomes
    assert abs(float(np.median(picture.planes[0])) - 20) <= 1


def test_without_time_stamps_frames_are_counted_at_the_rate_given(
    make_clip: MakeClip,
) -> None:
    source = opened(make_clip("raw.mjpeg", codec="mjpeg", pix_fmt="yuvj420p"), fps=10)
    assert [a.pts_ns for a in arrivals(source)] == [k * 100_000_000 for k in range(12)]
    assert source.warnings == ()


def test_without_time_stamps_and_rate_the_assumption_is_said(
    make_clip: MakeClip, frame_number: Number
) -> None:
    source = opened(make_clip("raw.mjpeg", codec="mjpeg", pix_fmt="yuvj420p"))
    numbers = [frame_number(source.decode(a.index)) for a in arrivals(source)]
    assert numbers == list(range(12))
    assert source.warnings == ("no time stamps in the file: assumed 25 fps",)


def test_a_rate_that_is_not_needed_is_said_to_be_unused(make_clip: MakeClip) -> None:
    source = opened(make_clip(), fps=10)
    assert source.warnings == ("fps 10 is not used: the file has time stamps",)


@pytest.mark.parametrize("name", ["lies.mkv", "lies.ts", "lies.flv"])
def test_a_rate_that_frames_do_not_have_is_not_believed(
    make_clip: MakeClip, name: str
) -> None:
    stamps = [7 * k for k in range(20)]
    source = opened(make_clip(name, codec="libx264", frames=20, stamps=stamps))
    assert source.info.fps == pytest.approx(25 / 7, rel=0.01)


def test_a_cut_off_file_ends_truncated_after_what_is_there(
    tmp_path: Path, make_clip: MakeClip
) -> None:
    whole = make_clip("whole.mp4", frames=40, options={"movflags": "faststart"})
    cut = tmp_path / "cut.mp4"
    cut.write_bytes(whole.read_bytes()[: -whole.stat().st_size // 4])
    source = opened(cut)
    found = arrivals(source)
    for arrival in found:
        source.decode(arrival.index)
    assert 0 < len(found) < 40
    announced = f"decoded {len(found)} of 40 frames that the header announces"
    assert source.end_state == ("truncated", announced)


def test_a_damaged_picture_costs_only_itself(
    tmp_path: Path, make_clip: MakeClip, frame_number: Number
) -> None:
    data = make_clip("a.mjpeg", codec="mjpeg", pix_fmt="yuvj420p").read_bytes()
    images = [b"\xff\xd8" + part for part in data.split(b"\xff\xd8")[1:]]
    images[4] = images[4][:-10]
    damaged = tmp_path / "b.mjpeg"
    damaged.write_bytes(b"".join(images))
    source = opened(damaged, fps=25)
    seen: list[int] = []
    found = arrivals(source)
    for arrival in found:
        with suppress(DamagedError):
            seen.append(frame_number(source.decode(arrival.index)))
    assert len(found) == 12
    assert seen == [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("empty.mp4", b"", "the file is empty"),
        ("text.mp4", b"this is no video\n" * 9, "this is text, not a video"),
        ("noise.mp4", bytes(range(256)) * 40, "not a video that can be read"),
        (
            "head.mp4",
            b"\0\0\0\x10ftypisom\0\0\0\0" + b"\0\0\1\0mdat" + bytes(248),
            "an MP4 without its index ('moov'): truncated, or never finished",
        ),
    ],
)
def test_what_is_no_video_is_refused_in_one_line(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    name: str,
    content: bytes,
    reason: str,
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        opened(path)
    assert str(caught.value) == f"{path}: {reason}"
    assert capfd.readouterr().err == ""


def test_info_says_what_is_in_the_file(make_clip: MakeClip) -> None:
    path = make_clip()
    info = opened(path).info
    assert (info.width, info.height, info.fps, info.codec) == (64, 48, 25, "mpeg4")
    assert info.input_hash == fingerprint(path)
    assert not info.live


def test_closing_twice_does_nothing_and_ends_the_frames(make_clip: MakeClip) -> None:
    source = opened(make_clip())
    source.close()
    source.close()
    assert source.next_arrival() is None


def first_picture(source: FileSource) -> Picture:
    arrival = source.next_arrival()
    assert isinstance(arrival, Arrival)
    return source.decode(arrival.index)
