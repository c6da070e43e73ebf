"""``edgepipe record``, and what it recorded as a source again."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from edgepipe.cli import main
from edgepipe.pipeline.source import Arrival, DamagedError, SourceEvent
from edgepipe.stages.recordings.mcap_file import McapFile
from edgepipe.stages.sources.open import open_source

MakeClip = Callable[..., Path]


def everything(uri: str) -> list[tuple[int, int | None, Any]]:
    """Identity, media time and all the pixels of each frame."""
    source = open_source(uri)
    found: list[tuple[int, int | None, Any]] = []
    while (arrival := source.next_arrival()) is not None:
        if isinstance(arrival, SourceEvent):
            continue
        assert isinstance(arrival, Arrival)
        picture: Any = None
        try:
            shown = source.decode(arrival.index)
            picture = (
                shown.format,
                (shown.width, shown.height, shown.matrix, shown.full_range),
                [np.ascontiguousarray(plane).tobytes() for plane in shown.planes],
            )
        except DamagedError:
            pass
        found.append((arrival.index, arrival.pts_ns, picture))
    source.close()
    return found


def record(*words: str | Path) -> int:
    return main(["record", *map(str, words)])


CLIPS: dict[str, dict[str, Any]] = {
    "clip.mp4": {},
    "bframes.mp4": {"b_frames": 2},
    "bframes.avi": {"b_frames": 2},
    "clip.ts": {"codec": "mpeg2video"},
    "clip.mkv": {"codec": "ffv1", "pix_fmt": "yuv444p"},
    "clip.webm": {"codec": "libvpx-vp9"},
    "motion.avi": {"codec": "mjpeg", "pix_fmt": "yuvj420p"},
    "turned.mp4": {"rotation": 90, "marked": True},
    "uneven.mp4": {"stamps": [0, 1, 2, 5, 6, 7, 30, 31, 40, 41, 42, 43]},
}


@pytest.mark.parametrize("name", CLIPS)
def test_a_clip_comes_back_with_the_same_frames_stamps_and_pixels(
    make_clip: MakeClip, tmp_path: Path, name: str
) -> None:
    clip = make_clip(name, **CLIPS[name])
    assert record(clip, "-o", tmp_path / "a.mcap") == 0
    assert everything(str(tmp_path / "a.mcap")) == everything(str(clip))


def test_recorded_media_come_back_as_they_were(cases: Path, tmp_path: Path) -> None:
    media = [
        path
        for suffix in ("mp4", "mkv", "ts", "webm", "h264", "mjpeg")
        for path in sorted(cases.glob(f"A*/*.{suffix}"))
        if path.name not in ("empty.mp4", "no_moov.mp4", "text.mp4")
    ]
    assert media
    for number, path in enumerate(media):
        file = tmp_path / f"{number}.mcap"
        assert record(path, "-o", file) == 0, path.name
        assert everything(str(file)) == everything(str(path)), path.name


def test_images_of_a_folder_are_kept_as_their_files(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    for k, suffix in enumerate(("jpg", "png", "webp", "bmp")):
        image = np.random.default_rng(k).integers(0, 255, (48, 64, 3), np.uint8)
        cv2.imwrite(str(folder / f"{k}.{suffix}"), image)
    assert record(folder, "-o", tmp_path / "a.mcap") == 0
    assert everything(str(tmp_path / "a.mcap")) == everything(str(folder))


def test_pictures_can_be_kept_without_loss(tmp_path: Path) -> None:
    uri = "synthetic:?frames=4&width=64&height=48"
    assert record(uri, "-o", tmp_path / "a.mcap", "--raw", "raw") == 0
    assert everything(str(tmp_path / "a.mcap")) == everything(uri)


def test_pictures_become_jpeg_and_it_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert record("synthetic:?frames=4", "-o", tmp_path / "a.mcap") == 0
    assert (
        "320 x 192, pictures compressed as JPEG of quality 95"
        in capsys.readouterr().out
    )
    (*_, last) = everything(str(tmp_path / "a.mcap"))
    assert last[:2] == (3, 100_000_000)


def test_several_streams_go_into_one_file_with_topics_of_their_own(
    make_clip: MakeClip, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clip = make_clip("clip.mp4")
    path = tmp_path / "a.mcap"
    assert record(clip, clip, "synthetic:?frames=3", "-o", path, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert {k: v["messages"] for k, v in told["streams"].items()} == {
        "clip": 12,
        "clip-2": 12,
        "synthetic": 3,
    }
    assert everything(f"mcap:{path}?topic=/clip-2") == everything(str(clip))


def test_the_streams_of_a_configuration_are_recorded_by_their_ids(
    make_clip: MakeClip, tmp_path: Path
) -> None:
    config = tmp_path / "robot.yaml"
    config.write_text(
        f"version: 1\nstreams:\n  - id: front\n    source: {{uri: {make_clip()}}}\n"
    )
    assert record(config, "-o", tmp_path / "ring") == 0
    (folder,) = (tmp_path / "ring").iterdir()
    assert len(everything(f"mcap:{folder}?topic=/front")) == 12


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nowhere.mp4", "-o", "a.mcap"], "nowhere.mp4: no such file"),
        (["synthetic:", "-o", "/dev/null/a"], "cannot be written"),
        (["synthetic:", "-o", "x", "--max-size", "7"], "--max-size: a bare number"),
        (["a.yaml", "synthetic:", "-o", "x"], "one configuration, or sources"),
    ],
)
def test_a_mistake_is_one_line(
    words: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert record(*words) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    path.write_text("mine")
    assert record("synthetic:", "-o", path) == 2
    assert path.read_text() == "mine"


def test_a_file_ends_at_the_size_that_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    assert record("synthetic:?frames=300", "-o", path, "--max-size", "500kB") == 0
    assert 200_000 < path.stat().st_size <= 500_000


_LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (6_000_000, 6_000_000))
from edgepipe.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_disk_that_takes_no_more_ends_the_recording_in_good_order(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.mcap"
    words = ["record", "synthetic:?frames=60", "-o", str(path), "--raw", "raw"]
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "recording stopped: cannot write" in done.stdout
    assert "Traceback" not in done.stderr
    frames = everything(str(path))
    assert len(frames) > 20
    assert frames == everything("synthetic:?frames=60")[: len(frames)]


@pytest.mark.parametrize("name", ["clip.mp4", "run.BAG"])
def test_another_kind_of_file_is_not_made_a_folder_of_that_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert record("synthetic:?frames=1", "-o", tmp_path / name) == 2
    assert "name a file that ends in .mcap, or a folder" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_recording_that_was_cut_before_its_first_image_says_that_it_has_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.mcap"
    assert record("synthetic:?frames=30", "-o", path) == 0
    path.write_bytes(path.read_bytes()[:20_000])
    assert main(["doctor", str(path)]) == 2
    assert "no whole image in it; empty: /synthetic (trunc" in capsys.readouterr().err


def test_a_signal_ends_the_recording_with_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    words = ["record", "synthetic:?frames=100000", "-o", str(path)]
    process = subprocess.Popen(
        [sys.executable, "-m", "edgepipe", *words], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process:
        for line in process.stdout:
            if line.startswith("recording to"):
                os.kill(process.pid, signal.SIGINT)
    assert process.returncode == 130
    file = McapFile(path)
    assert file.end_state == ("ended", "")
    assert [topic.name for topic in file.topics] == ["/synthetic"]
    file.close()
