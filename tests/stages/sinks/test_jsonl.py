"""JSON lines: every delivered frame, strict, and readable while it grows."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgepipe.pipeline.frame import Frame
from edgepipe.stages.sinks.jsonl import JsonlSink

MakeFrame = Callable[..., Frame]
Limit = Callable[[int], AbstractContextManager[None]]
NAMES = ("person", 'the "other" banana')


def refuse(constant: str) -> float:
    raise AssertionError(f"{constant} is not JSON")


def lines(path: Path) -> list[dict[str, Any]]:
    text = path.read_text()
    assert text.endswith("\n")
    return [json.loads(line, parse_constant=refuse) for line in text.splitlines()]


def written(tmp_path: Path, frame: Frame, now_ns: int) -> dict[str, Any]:
    sink = JsonlSink(tmp_path / "out.jsonl", NAMES)
    sink.write(frame, now_ns)
    sink.close()
    sink.close()
    (line,) = lines(tmp_path / "out.jsonl")
    return line


def test_a_line_tells_all_about_a_frame(tmp_path: Path, make_frame: MakeFrame) -> None:
    frame = make_frame(
        3,
        ((1.234, 2, 30.006, 40), 0.87654321, 1, 7),
        ((0, 0, 5, 5), 0.5, 0, -1),
        pts_ns=120_000_000,
        truncated=2,
    )
    assert written(tmp_path, frame, 161_234_567) == {
        "stream": "front",
        "seq": 3,
        "pts_ns": 120_000_000,
        "capture_ns": 120_000_000,
        "deadline_ns": 220_000_000,
        "done_ns": 161_234_567,
        "age_ms": 41.235,
        "fate": "completed",
        "warm_up": False,
        "variant": "nanodet-g",
        "inferred": True,
        "detection_age_ms": 0,
        "truncated": 2,
        "objects": [
            {
                "track_id": 7,
                "class_id": 1,
                "label": 'the "other" banana',
                "score": 0.8765,
                "xyxy": [1.23, 2.0, 30.01, 40.0],
            },
            {
                "track_id": None,
                "class_id": 0,
                "label": "person",
                "score": 0.5,
                "xyxy": [0.0, 0.0, 5.0, 5.0],
            },
        ],
    }


def test_a_frame_that_the_network_did_not_see_says_how_old_its_objects_are(
    tmp_path: Path, make_frame: MakeFrame
) -> None:
    frame = make_frame(3, pts_ns=120_000_000).with_changes(
        track_only=True, looked_ns=39_500_000
    )
    line = written(tmp_path, frame, 161_234_567)
    assert (line["inferred"], line["detection_age_ms"]) == (False, 80.5)


@pytest.mark.parametrize(
    ("now_ns", "fate"), [(100_000_000, "completed"), (100_000_001, "late")]
)
def test_a_frame_is_late_one_nanosecond_after_its_deadline(
    tmp_path: Path, make_frame: MakeFrame, now_ns: int, fate: str
) -> None:
    assert written(tmp_path, make_frame(), now_ns)["fate"] == fate


def test_what_is_not_known_is_null_and_not_absent(
    tmp_path: Path, make_frame: MakeFrame
) -> None:
    frame = make_frame(0, ((0, 0, 1, 1), 0.5, 99, 1))
    line = written(tmp_path, frame, 0)
    assert line["pts_ns"] is None
    assert line["objects"][0]["label"] is None


def test_a_frame_without_detections_has_an_empty_list(
    tmp_path: Path, make_frame: MakeFrame
) -> None:
    frame = make_frame().with_changes(detections=None, stream="ä\n\"'")
    line = written(tmp_path, frame, 0)
    assert (line["objects"], line["truncated"]) == ([], 0)
    assert line["stream"] == "ä\n\"'"


def test_objects_with_numbers_that_are_not_finite_are_left_out(
    tmp_path: Path, make_frame: MakeFrame
) -> None:
    frame = make_frame(
        0,
        ((0, 0, np.nan, 1), 0.5, 0, 1),
        ((0, 0, 1, 1), np.inf, 0, 2),
        ((0, 0, 1, 1), 0.5, 0, 3),
    )
    assert [o["track_id"] for o in written(tmp_path, frame, 0)["objects"]] == [3]


def test_after_a_full_disk_the_next_line_is_whole(
    tmp_path: Path, make_frame: MakeFrame, disk_of: Limit
) -> None:
    sink = JsonlSink(tmp_path / "out.jsonl", NAMES)
    sink.write(make_frame(0), 0)
    size = (tmp_path / "out.jsonl").stat().st_size
    with disk_of(size + 20), pytest.raises(OSError, match="too large"):
        sink.write(make_frame(1), 0)
    sink.write(make_frame(2), 0)
    assert [line["seq"] for line in lines(tmp_path / "out.jsonl")] == [0, 2]
    sink.close()


def test_streams_share_a_file_or_get_one_each(
    tmp_path: Path, make_frame: MakeFrame
) -> None:
    for name in ("all.jsonl", "{stream}.jsonl"):
        sink = JsonlSink(tmp_path / name, NAMES)
        for stream in ("front", "rear"):
            sink.write(make_frame(stream=stream), 0)
        sink.close()
    streams = [line["stream"] for line in lines(tmp_path / "all.jsonl")]
    assert streams == ["front", "rear"]
    assert lines(tmp_path / "rear.jsonl")[0]["stream"] == "rear"
