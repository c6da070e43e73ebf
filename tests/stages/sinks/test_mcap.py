"""Boxes in MCAP, and the pictures below them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mcap")

from mcap.reader import make_reader

from edgepipe.pipeline.detections import Detections
from edgepipe.pipeline.frame import Frame, Picture, PixelFormat
from edgepipe.stages.recordings.protobuf import fields, timestamp_ns
from edgepipe.stages.sinks.mcap import WRITE_NS
from edgepipe.stages.sinks.open import open_sink
from edgepipe.stages.sources.open import open_source


def frame(sequence: int, stream: str = "front", **changes: Any) -> Frame:
    image = np.full((48, 64, 3), 20 + sequence, np.uint8)
    picture = Picture(PixelFormat.BGR, (image,), 64, 48)
    found = Detections.of(
        np.array([[1, 2, 30, 40], [np.nan, 0, 1, 1]]),
        np.array([0.9, 0.8]),
        np.array([1, 0]),
    ).tracked(np.array([7, -1]))
    made = Frame(stream, sequence, 1000, 2000, pts_ns=sequence * 10, picture=picture)
    return made.with_changes(**{"detections": found, **changes})


def messages(path: Path) -> list[tuple[str, int, bytes]]:
    with path.open("rb") as file:
        reader = make_reader(file, validate_crcs=True)
        return [(c.topic, m.log_time, m.data) for _, c, m in reader.iter_messages()]


def test_boxes_and_pictures_have_the_stamps_of_the_recording(tmp_path: Path) -> None:
    path = tmp_path / "r.mcap"
    sink = open_sink(
        "mcap", path=path, class_names=["cat", "dog"], origins={"front": 5_000}
    )
    for sequence in range(3):
        sink.write(frame(sequence), 0)
    sink.close()
    sink.close()
    found = messages(path)
    assert [each[:2] for each in found] == [
        (topic, 5_000 + k * 10)
        for k in range(3)
        for topic in ("/front", "/front/objects")
    ]
    annotations = dict(fields(memoryview(found[1][2])))
    assert set(annotations) == {2, 3}  # what is not finite is left out
    label: Any = annotations[3]
    text: dict[int, Any] = dict(fields(label))
    assert bytes(text[3]) == b"dog 7 0.90"
    assert timestamp_ns(text[1]) == 5_000


def test_the_pictures_can_be_read_again(tmp_path: Path) -> None:
    path = tmp_path / "r.mcap"
    sink = open_sink("mcap", path=path, class_names=[], origins={"front": 0})
    for sequence in range(3):
        sink.write(frame(sequence), 0)
    sink.close()
    source = open_source(str(path))
    assert (source.info.width, source.info.height) == (64, 48)
    source.close()


def test_pictures_can_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "r.mcap"
    sink = open_sink("mcap", path=path, class_names=[], pictures=False)
    sink.write(frame(0), 0)
    sink.close()
    assert [topic for topic, _, _ in messages(path)] == ["/front/objects"]


def test_a_frame_without_objects_is_a_message_that_clears_the_boxes(
    tmp_path: Path,
) -> None:
    path = tmp_path / "r.mcap"
    sink = open_sink("mcap", path=path, class_names=[], pictures=False)
    sink.write(frame(0, detections=None), 0)
    sink.close()
    assert messages(path)[0][2] == b""


def test_streams_share_a_file_or_have_their_own(tmp_path: Path) -> None:
    for name, expected in (("r.mcap", 1), ("{stream}.mcap", 2)):
        folder = tmp_path / str(expected)
        sink = open_sink("mcap", path=folder / name, class_names=[], pictures=False)
        sink.write(frame(0, "a"), 0)
        sink.write(frame(0, "b"), 0)
        sink.close()
        files = sorted(folder.iterdir())
        assert len(files) == expected
        topics = {topic for each in files for topic, _, _ in messages(each)}
        assert topics == {"/a/objects", "/b/objects"}


def test_what_was_written_a_second_ago_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "r.mcap"
    sink = open_sink("mcap", path=path, class_names=[], origins={"front": 0})
    sink.write(frame(0), WRITE_NS)
    sink.write(frame(1), WRITE_NS + 1)
    before = path.stat().st_size
    sink.write(frame(2), 2 * WRITE_NS)
    assert path.stat().st_size > before
    source = open_source(f"mcap:{path}?topic=/front")
    assert source.end_state[0] == "truncated"
    source.close()
    sink.close()
