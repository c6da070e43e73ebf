"""COCO results: an array that is complete, or plainly not there yet."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pytest

from edgepipe.pipeline.frame import Frame
from edgepipe.stages.sinks.coco import CocoSink, category_ids

MakeFrame = Callable[..., Frame]
Limit = Callable[[int], AbstractContextManager[None]]


def test_boxes_are_corner_and_size_and_images_count_from_one(
    tmp_path: Path, make_frame: MakeFrame
) -> None:
    path = tmp_path / "results.json"
    sink = CocoSink(path, ["cart", "drone"])
    sink.write(make_frame(4, ((1.5, 2, 4, 8), 0.87654, 1, -1)), 0)
    sink.write(make_frame(5).with_changes(detections=None), 0)
    sink.write(make_frame(6, ((0, 0, 1, 1), 0.5, 0, 3), ((2, 2, 3, 3), 0.4, 0, 4)), 0)
    sink.close()
    sink.close()
    one = {"category_id": 1, "bbox": [0.0, 0.0, 1.0, 1.0], "score": 0.5}
    two = {"category_id": 1, "bbox": [2.0, 2.0, 1.0, 1.0], "score": 0.4}
    assert json.loads(path.read_text()) == [
        {"image_id": 5, "category_id": 2, "bbox": [1.5, 2, 2.5, 6], "score": 0.8765},
        {"image_id": 7, **one},
        {"image_id": 7, **two},
    ]


def test_nothing_found_is_an_empty_array(tmp_path: Path, make_frame: MakeFrame) -> None:
    sink = CocoSink(tmp_path / "results.json", ["cart"])
    sink.write(make_frame(0, ((0, 0, np.nan, 1), 0.5, 0, -1)), 0)
    sink.close()
    assert json.loads((tmp_path / "results.json").read_text()) == []


@pytest.mark.parametrize(
    ("class_names", "ids"),
    [
        (["person", "bicycle", "stop sign", "toothbrush"], [1, 2, 13, 90]),
        (["person", "drone"], [1, 2]),
        ([], []),
    ],
)
def test_categories_are_cocos_own_if_it_knows_all_the_names(
    class_names: list[str], ids: list[int]
) -> None:
    assert category_ids(class_names) == ids


def test_until_it_is_closed_the_rows_lie_beside_the_name(
    tmp_path: Path, make_frame: MakeFrame
) -> None:
    path = tmp_path / "results.json"
    path.write_text("results of an earlier run")
    sink = CocoSink(path, ["cart"])
    sink.write(make_frame(0, ((0, 0, 1, 1), 0.5, 0, -1)), 0)
    assert not path.exists()
    partial = tmp_path / "results.json.partial"
    assert len(json.loads(partial.read_text() + "]")) == 1
    sink.close()
    assert path.exists()
    assert not partial.exists()


def test_a_frame_that_does_not_fit_leaves_the_array_whole(
    tmp_path: Path, make_frame: MakeFrame, disk_of: Limit
) -> None:
    thing = ((0, 0, 1, 1), 0.5, 0, -1)
    sink = CocoSink(tmp_path / "results.json", ["cart"])
    with disk_of(50), pytest.raises(OSError, match="too large"):
        sink.write(make_frame(0, thing), 0)
    sink.write(make_frame(1, thing), 0)
    with disk_of(100), pytest.raises(OSError, match="too large"):
        sink.write(make_frame(2, thing), 0)
    sink.write(make_frame(3, thing), 0)
    sink.close()
    results = json.loads((tmp_path / "results.json").read_text())
    assert [result["image_id"] for result in results] == [2, 4]


def test_an_array_that_cannot_be_completed_keeps_its_rows(
    tmp_path: Path, make_frame: MakeFrame, disk_of: Limit
) -> None:
    sink = CocoSink(tmp_path / "results.json", ["cart"])
    sink.write(make_frame(0, ((0, 0, 1, 1), 0.5, 0, -1)), 0)
    partial = tmp_path / "results.json.partial"
    with disk_of(partial.stat().st_size), pytest.raises(OSError, match="too large"):
        sink.close()
    assert len(json.loads(partial.read_text() + "]")) == 1
    assert not (tmp_path / "results.json").exists()


def test_each_stream_has_its_own_images(tmp_path: Path, make_frame: MakeFrame) -> None:
    sink = CocoSink(tmp_path / "{stream}.json", ["cart"])
    for stream in ("front", "rear"):
        sink.write(make_frame(0, ((0, 0, 1, 1), 0.5, 0, -1), stream=stream), 0)
    sink.close()
    for stream in ("front", "rear"):
        assert len(json.loads((tmp_path / f"{stream}.json").read_text())) == 1
