"""Sinks by the name of their kind, and one line for what cannot be opened."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from edgepipe.pipeline.frame import Frame
from edgepipe.stages.sinks.null import NullSink
from edgepipe.stages.sinks.open import open_sink

MakeFrame = Callable[..., Frame]
KINDS_WITH_FILES = ("jsonl", "mot", "coco", "video")


@pytest.mark.parametrize("kind", KINDS_WITH_FILES)
def test_every_kind_makes_its_folders_and_writes_its_file(
    kind: str, tmp_path: Path, make_frame: MakeFrame
) -> None:
    path = tmp_path / "new" / "folder" / f"out.{kind}"
    sink = open_sink(kind, path=path, class_names=["person"])
    sink.write(make_frame(0, ((0, 0, 5, 5), 0.5, 0, 1), size=(64, 48)), 0)
    sink.close()
    assert sink.name == kind
    assert path.stat().st_size > 0


def test_null_takes_frames_and_counts_them(make_frame: MakeFrame) -> None:
    sink = open_sink("null", path=None, class_names=[], name="nowhere")
    assert isinstance(sink, NullSink)
    for k in range(3):
        sink.write(make_frame(k), 0)
    sink.close()
    assert (sink.frames, sink.name) == (3, "nowhere")


@pytest.mark.parametrize("kind", KINDS_WITH_FILES)
@pytest.mark.parametrize("name", ["taken/out", "taken/{stream}"])
def test_a_folder_that_is_a_file_is_refused(
    kind: str, name: str, tmp_path: Path
) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(OSError, match=r"taken"):
        open_sink(kind, path=tmp_path / name, class_names=[])


@pytest.mark.parametrize("kind", KINDS_WITH_FILES)
def test_a_file_that_is_a_folder_is_refused(kind: str, tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        open_sink(kind, path=tmp_path, class_names=[])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
@pytest.mark.parametrize("kind", KINDS_WITH_FILES)
def test_a_folder_that_cannot_be_written_is_refused(kind: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError):
        open_sink(kind, path=tmp_path / "out", class_names=[])


@pytest.mark.parametrize(
    ("kind", "path", "codec", "message"),
    [
        ("mqtt", Path("x"), "vp9", "unknown kind of sink 'mqtt'"),
        ("mot", None, "vp9", "a sink of kind 'mot' needs a path"),
        ("video", Path("x"), "h264", "unknown codec 'h264'"),
    ],
)
def test_what_is_unknown_or_missing_is_named(
    kind: str, path: Path | None, codec: str, message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        open_sink(kind, path=path, class_names=[], codec=codec)


def test_text_sinks_load_no_image_or_video_library(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path;"
        "from edgepipe.stages.sinks.open import open_sink;"
        "[open_sink(kind, path=Path(sys.argv[1], kind), class_names=[]).close()"
        " for kind in ('jsonl', 'mot', 'coco', 'null')];"
        "print(sorted({'av', 'cv2', 'scipy'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
