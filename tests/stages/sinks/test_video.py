"""Annotated video: right times, any size, and watchable after every accident."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from edgepipe.pipeline.frame import Frame
from edgepipe.stages.sinks.video import VideoSink
from edgepipe.stages.sinks.video_file import VideoFile

MakeFrame = Callable[..., Frame]
Limit = Callable[[int], AbstractContextManager[None]]
MS = 1_000_000
CODECS = ["vp9", "mpeg4"]


def grey(width: int = 64, height: int = 48, value: int = 100) -> Any:
    return np.full((height, width, 3), value, np.uint8)


def noise(seed: int) -> Any:
    return np.random.default_rng(seed).integers(0, 255, (48, 64, 3)).astype(np.uint8)


def watched(path: Path) -> tuple[list[int], list[Any]]:
    """Times in milliseconds and BGR images of a video."""
    times_ms: list[int] = []
    images: list[Any] = []
    opened: Any = av.open(str(path))
    with opened as container:
        for picture in container.decode(video=0):
            times_ms.append(round(1000 * (picture.time or 0.0)))
            images.append(picture.to_ndarray(format="bgr24"))
    return times_ms, images


@pytest.mark.parametrize("codec", CODECS)
def test_frames_are_shown_at_their_own_times_whatever_was_dropped(
    tmp_path: Path, make_frame: MakeFrame, codec: str
) -> None:
    sink = VideoSink(tmp_path / "out.mp4", ["person"], codec)
    for k in (3, 4, 5, 9, 10, 30):
        sink.write(make_frame(k, pts_ns=33 * MS * k, size=(64, 48)), 40 * MS * k)
    sink.close()
    sink.close()
    times_ms, _ = watched(tmp_path / "out.mp4")
    assert times_ms == [0, 33, 66, 198, 231, 891]


def test_without_stamps_the_capture_time_counts(
    tmp_path: Path, make_frame: MakeFrame
) -> None:
    sink = VideoSink(tmp_path / "out.mp4", [])
    for at_ns in (10**15, 10**15 + 50 * MS, 10**15 + 70 * MS):
        sink.write(make_frame(capture_ns=at_ns, size=(64, 48)), at_ns)
    sink.close()
    assert watched(tmp_path / "out.mp4")[0] == [0, 50, 70]


@pytest.mark.parametrize("codec", CODECS)
def test_time_that_stands_still_or_goes_back_advances_by_a_millisecond(
    tmp_path: Path, codec: str
) -> None:
    file = VideoFile(tmp_path / "out.mp4", codec)
    for at_ns in (100 * MS, 100 * MS, 20 * MS, 60 * MS):
        file.add(grey(), at_ns)
    file.close()
    assert watched(tmp_path / "out.mp4")[0] == [0, 1, 2, 42]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    ("size", "even"), [((64, 48), (64, 48)), ((63, 47), (64, 48)), ((2, 3), (2, 4))]
)
def test_odd_sizes_gain_a_row_or_a_column(
    tmp_path: Path, codec: str, size: tuple[int, int], even: tuple[int, int]
) -> None:
    file = VideoFile(tmp_path / "out.mp4", codec)
    file.add(grey(*size), 0)
    file.close()
    (image,) = watched(tmp_path / "out.mp4")[1]
    assert image.shape[1::-1] == even
    assert abs(int(image[-1, -1].mean()) - 100) <= 4


def test_a_new_size_is_scaled_to_the_first(tmp_path: Path) -> None:
    file = VideoFile(tmp_path / "out.mp4", "vp9")
    for k, size in enumerate([(64, 48), (128, 96), (63, 20), (64, 48)]):
        file.add(grey(*size), 40 * MS * k)
    file.close()
    assert {image.shape for image in watched(tmp_path / "out.mp4")[1]} == {(48, 64, 3)}


@pytest.mark.parametrize("codec", CODECS)
def test_colours_come_back(tmp_path: Path, codec: str) -> None:
    image = grey(64, 64)
    image[:] = (200, 40, 90)
    file = VideoFile(tmp_path / "out.mp4", codec)
    for k in range(5):
        file.add(image, 40 * MS * k)
    file.close()
    last = watched(tmp_path / "out.mp4")[1][-1]
    np.testing.assert_allclose(last.mean(axis=(0, 1)), (200, 40, 90), atol=6)


def test_what_was_found_is_drawn_and_the_picture_itself_is_not_touched(
    tmp_path: Path, make_frame: MakeFrame
) -> None:
    frame = make_frame(0, ((100, 60, 200, 160), 0.9, 0, 1), size=(320, 240))
    sink = VideoSink(tmp_path / "out.mp4", ["person"], "mpeg4")
    sink.write(frame, 0)
    sink.close()
    (image,) = watched(tmp_path / "out.mp4")[1]
    edge, inside = image[60:160, 100].astype(int), image[90:130, 130:170].astype(int)
    assert np.ptp(edge.mean(axis=0)) > 60
    assert np.abs(inside - 100).max() < 12
    assert frame.picture is not None
    assert (frame.picture.planes[0] == 100).all()


def test_a_frame_without_a_picture_is_an_error_and_the_next_goes_on(
    tmp_path: Path, make_frame: MakeFrame
) -> None:
    sink = VideoSink(tmp_path / "out.mp4", [])
    with pytest.raises(ValueError, match="frame 3 of front has no picture"):
        sink.write(make_frame(3), 0)
    sink.write(make_frame(4, size=(64, 48)), 0)
    sink.close()
    assert len(watched(tmp_path / "out.mp4")[0]) == 1


def test_a_video_without_a_frame_leaves_no_file(tmp_path: Path) -> None:
    VideoSink(tmp_path / "out.mp4", []).close()
    assert list(tmp_path.iterdir()) == []


def test_each_stream_has_its_own_video(tmp_path: Path, make_frame: MakeFrame) -> None:
    sink = VideoSink(tmp_path / "{stream}.mp4", [])
    sink.write(make_frame(stream="front", size=(64, 48)), 0)
    sink.write(make_frame(stream="rear", size=(32, 32)), 0)
    sink.close()
    assert watched(tmp_path / "front.mp4")[1][0].shape == (48, 64, 3)
    assert watched(tmp_path / "rear.mp4")[1][0].shape == (32, 32, 3)


@pytest.mark.parametrize("codec", CODECS)
def test_after_a_full_disk_the_video_goes_on_in_a_new_file(
    tmp_path: Path, disk_of: Limit, codec: str
) -> None:
    file = VideoFile(tmp_path / "out.mp4", codec)
    at_ns, failures = 0, 0
    with disk_of(60_000):
        while not failures and at_ns < 10**12:
            at_ns += 40 * MS
            try:
                file.add(noise(at_ns), at_ns)
            except OSError:
                failures += 1
    assert failures == 1
    for k in range(5):
        file.add(noise(k), at_ns + 40 * MS * (k + 1))
    file.close()
    assert len(watched(tmp_path / "out.mp4")[0]) > 10
    assert watched(tmp_path / "out-2.mp4")[0] == [0, 40, 80, 120, 160]


def test_while_the_disk_stays_full_no_new_files_pile_up(
    tmp_path: Path, disk_of: Limit
) -> None:
    file = VideoFile(tmp_path / "out.mp4", "mpeg4")
    with disk_of(0):
        for k in range(5):
            with pytest.raises(OSError, match=r"out\.mp4|too large"):
                file.add(noise(k), 40 * MS * k)
    assert [path.name for path in tmp_path.iterdir()] == ["out.mp4"]
    file.add(noise(9), 400 * MS)
    file.close()
    assert watched(tmp_path / "out.mp4")[0] == [0]


def test_a_killed_writer_leaves_a_video_that_ends_a_second_or_two_early(
    tmp_path: Path,
) -> None:
    script = (
        "import os, sys; from pathlib import Path; import numpy as np;"
        "from edgepipe.stages.sinks.video_file import VideoFile;"
        "file = VideoFile(Path(sys.argv[1]), 'mpeg4');"
        "[file.add(np.full((48, 64, 3), k % 250, np.uint8), 40_000_000 * k)"
        " for k in range(250)];"
        "os.kill(os.getpid(), 9)"
    )
    path = tmp_path / "out.mp4"
    done = subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    times_ms, _ = watched(path)
    assert 8000 <= times_ms[-1] < 10_000
    assert os.path.getsize(path) > 0
