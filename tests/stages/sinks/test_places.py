import os
from pathlib import Path

import pytest

from edgepipe.stages.sinks.places import OWN_NAMES, why_not


@pytest.mark.parametrize("name", sorted(OWN_NAMES))
def test_the_run_s_own_files_are_not_a_place_for_results(
    name: str, tmp_path: Path
) -> None:
    assert why_not("jsonl", tmp_path / name, tmp_path, []) == (
        f"{name} is a file that every run writes itself"
    )
    assert why_not("jsonl", tmp_path / "other" / name, tmp_path, []) is None


@pytest.mark.parametrize(
    ("kind", "refused"),
    [("jsonl", False), ("mot", False), ("coco", True), ("video", True)],
)
def test_a_device_or_pipe_will_do_only_for_what_is_merely_written(
    kind: str, refused: bool, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert (why_not(kind, pipe, tmp_path, []) is not None) is refused


def test_the_input_of_a_stream_is_never_written_over(tmp_path: Path) -> None:
    clip = tmp_path / "clip.mp4"
    clip.write_bytes(b"footage")
    link = tmp_path / "link.mp4"
    link.symlink_to(clip)
    inputs = [Path("synthetic:?seed=1"), tmp_path / "missing.mp4", clip]
    assert (
        why_not("video", link, tmp_path, inputs) == f"{link} is the input of a stream"
    )
    assert why_not("video", tmp_path / "out.mp4", tmp_path, inputs) is None
