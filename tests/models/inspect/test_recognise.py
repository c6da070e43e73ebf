"""Which head is seen in a network, and which is only possible."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

from edgepipe.models.inspect.answers import Answers
from edgepipe.models.inspect.examine import examine
from edgepipe.models.inspect.verdict import Verdict
from tests.models.inspect.networks import (
    Net,
    cells_apart,
    peaks,
    queries,
    ssd,
    yolov5,
    yolov8,
    yolox,
)

pytestmark = pytest.mark.usefixtures("same_process")

CELLS = 256 + 64 + 16
Build = Callable[[Net], str]


def verdict(path: Path, **answers: object) -> Verdict:
    return examine(path, Answers(**answers)).verdict  # type: ignore[arg-type]


@pytest.fixture
def seen(tmp_path: Path) -> Callable[[Build], Verdict]:
    """What is made of a network with one output."""

    def look(build: Build) -> Verdict:
        net = Net()
        return verdict(net.save(tmp_path / "m.onnx", [build(net)]))

    return look


Look = Callable[[Build], Verdict]


@pytest.mark.parametrize(
    ("build", "head", "classes", "options"),
    [
        (partial(yolov8, classes=7), "yolov8", 7, {}),
        (partial(yolov8, classes=1), "yolov8", 1, {}),
        (partial(yolov8, classes=7, sigmoid=False), "yolov8", 7, {"scores": "sigmoid"}),
        (partial(yolov8, classes=7, shares=True), "yolov8", 7, {"normalized": True}),
        (partial(yolox, classes=7, decoded=False), "yolox", 7, {}),
        (partial(yolox, classes=7, decoded=True), "yolox", 7, {"decoded": True}),
        (
            partial(yolox, classes=7, decoded=False, sigmoid=False),
            "yolox",
            7,
            {"scores": "sigmoid"},
        ),
        (partial(yolov5, classes=7), "yolov5", 7, {}),
        (partial(yolov5, classes=7, hidden=True), "yolov5", 7, {}),
    ],
)
def test_a_head_is_known_by_what_made_its_columns(
    build: Build, head: str, classes: int, options: dict[str, object], seen: Look
) -> None:
    found = seen(build).certain
    assert found is not None
    assert (found.head, found.classes, dict(found.options)) == (head, classes, options)
    assert not found.asked


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (partial(yolov8, classes=7, rows_first=True), "rows first: no head reads that"),
        (partial(yolov8, classes=7, extra=32), "masks, keypoints or angles"),
        (partial(yolov5, classes=7, decoded=False), "not decoded"),
        (partial(Net.levels, x="images", out=71), "as they come from the layers"),
        (partial(Net.conv, x="images", channels=3, out=9, stride=4), "is a map"),
    ],
)
def test_what_no_head_reads_is_said(build: Build, words: str, seen: Look) -> None:
    found = seen(build)
    assert found.certain is None
    assert any(words in remark for remark in found.remarks)


@pytest.mark.parametrize(
    ("shape", "possible"),
    [
        ((1, 84, CELLS), {"yolov8": 80}),
        ((1, CELLS, 85), {"yolox": 80}),
        ((1, 3 * CELLS, 85), {"yolov5": 80}),
        ((1, 300, 6), {"end-to-end": None}),
        ((1, 1000), {"classifier": 1000, "keypoints": 500}),
        ((1, 21, 16, 16), {"heatmaps": 21}),
        ((1, 63), {"classifier": 63, "keypoints": 21}),
    ],
)
def test_a_shape_alone_is_asked_about_and_never_decided(
    shape: tuple[int, ...], possible: dict[str, int | None], tmp_path: Path
) -> None:
    net = Net()
    y = net.op("ReduceMean", "images", keepdims=1)
    many = net.shaped(y, *[1] * len(shape))
    wide = net.op("Mul", many, net.f32(np.zeros(shape)))
    found = verdict(net.save(tmp_path / "m.onnx", [wide]))
    assert found.certain is None
    assert {each.head: each.classes for each in found.readings} == possible


def test_scores_and_bins_of_distances_are_a_nanodet(tmp_path: Path) -> None:
    net = Net()
    scores, bins = cells_apart(net, [7, 44], [["Sigmoid"], []])
    found = verdict(net.save(tmp_path / "m.onnx", [bins, scores])).certain
    assert found is not None
    assert (found.head, found.outputs, found.classes) == ("nanodet", (scores, bins), 7)


def test_boxes_scores_and_labels_are_told_apart_by_type_not_by_place(
    tmp_path: Path,
) -> None:
    net = Net()
    boxes, scores = cells_apart(net, [4, 7], [["Relu"], ["Sigmoid"]])
    best = net.op("ReduceMax", scores, axes=[2], keepdims=0)
    label = net.op("ArgMax", scores, axis=2, keepdims=0)
    kinds = [TensorProto.INT64, TensorProto.FLOAT, TensorProto.FLOAT]
    path = net.save(tmp_path / "m.onnx", [label, boxes, best], types=kinds)
    found = verdict(path).certain
    assert found is not None
    assert (found.head, found.outputs) == ("postprocessed", (best, boxes, label))


def test_of_a_head_and_masks_the_user_says_which_counts(tmp_path: Path) -> None:
    net = Net()
    boxes, masks = yolov8(net, 7), net.conv("images", 3, 32, 4)
    path = net.save(tmp_path / "m.onnx", [boxes, masks])
    asked = verdict(path)
    assert asked.certain is None
    assert [each.outputs for each in asked.readings] == [(boxes,)]
    told = verdict(path, outputs=(boxes,)).certain
    assert told is not None
    assert told.head == "yolov8"


@pytest.mark.parametrize("classes", [1, 7])
def test_scores_in_front_of_bins_are_a_nanodet_plus(
    classes: int, tmp_path: Path
) -> None:
    net = Net()
    parts = cells_apart(net, [classes, 32], [["Sigmoid"], []], (8, 16, 32, 64))
    joined = net.op("Concat", *parts, axis=2)
    found = verdict(net.save(tmp_path / "m.onnx", [joined])).certain
    assert found is not None
    assert (found.head, found.classes, found.options) == ("nanodet-plus", classes, {})


def test_scores_in_front_of_other_columns_are_no_yolo(tmp_path: Path) -> None:
    net = Net()
    parts = cells_apart(net, [7, 9], [["Sigmoid"], []])
    joined = net.op("Concat", *parts, axis=2)
    found = verdict(net.save(tmp_path / "m.onnx", [joined]))
    assert found.readings == ()
    assert "the first 7 columns are scores" in found.remarks[0]


def test_offsets_to_anchors_need_the_anchors(tmp_path: Path) -> None:
    net = Net()
    scores, offsets = ssd(net, 7)
    found = verdict(net.save(tmp_path / "m.onnx", [offsets, scores])).certain
    assert found is not None
    assert (found.head, found.outputs) == ("ssd", (scores, offsets))
    assert found.options == {"scores": "probabilities", "background": "first"}
    assert list(found.asked) == ["anchors"]


def test_what_raw_scores_of_anchors_need_is_asked(tmp_path: Path) -> None:
    net = Net()
    found = verdict(net.save(tmp_path / "m.onnx", ssd(net, 7, softmax=False))).certain
    assert found is not None
    assert sorted(found.asked) == ["anchors", "scores"]


@pytest.mark.parametrize(("sigmoid", "asked"), [(True, []), (False, ["scores"])])
def test_queries_with_boxes_through_a_sigmoid_are_a_detr(
    sigmoid: bool, asked: list[str], tmp_path: Path
) -> None:
    net = Net()
    outputs = queries(net, 7, sigmoid=sigmoid)
    found = verdict(net.save(tmp_path / "m.onnx", outputs)).certain
    assert found is not None
    assert (found.head, found.outputs, found.classes) == ("detr", tuple(outputs), 7)
    assert list(found.asked) == asked


def test_a_class_is_told_from_a_score_by_what_made_it(seen: Look) -> None:
    found = seen(peaks)
    assert [each.head for each in found.readings] == ["end-to-end"]
    assert found.readings[0].certain
    turned = seen(partial(peaks, swapped=True))
    assert turned.readings == ()
    assert "the class stands before the score" in turned.remarks[0]


def test_scores_and_offsets_of_levels_may_be_anchored_keypoints(
    tmp_path: Path,
) -> None:
    net = Net()
    fine = cells_apart(net, [16, 1], [[], []], (8,))
    coarse = cells_apart(net, [1, 16], [[], []], (16,))
    found = verdict(net.save(tmp_path / "m.onnx", [*coarse, *fine]))
    assert found.certain is None
    (one,) = (each for each in found.readings if each.head == "anchored-keypoints")
    assert one.classes == 6
    assert one.outputs == (fine[1], coarse[0], fine[0], coarse[1])
    assert sorted(one.asked) == ["anchors_per_cell", "strides"]


def test_without_onnxruntime_the_graph_alone_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    net = Net()
    found = examine(net.save(tmp_path / "m.onnx", [yolov8(net, 7)]), Answers())
    assert found.not_run is not None
    assert "onnxruntime cannot be imported" in found.not_run
    assert found.verdict.certain is not None
    assert found.verdict.certain.head == "yolov8"


def test_suppression_in_the_graph_is_named_and_its_indices_are_no_boxes(
    tmp_path: Path,
) -> None:
    net = Net()
    boxes, scores = cells_apart(net, [4, 1], [["Relu"], ["Sigmoid"]])
    few = net.const(np.array([10], np.int64))
    turned = net.op("Transpose", scores, perm=[0, 2, 1])
    kept = net.op("NonMaxSuppression", boxes, turned, few)
    path = net.save(tmp_path / "m.onnx", [kept], types=[TensorProto.INT64])
    found = verdict(path)
    assert found.readings == ()
    assert "whole numbers alone" in found.remarks[0]
    assert found.remarks[1] == "NMS is in the graph: NonMaxSuppression"


@pytest.mark.parametrize(
    ("name", "head", "outputs", "classes"),
    [
        ("yolox_nano.onnx", "yolox", ("output",), 80),
        ("nanodet_g_fp16w.onnx", "nanodet", ("scores", "dist"), 80),
        ("nanodet_g_256x320_int8_minmax.onnx", "nanodet", ("scores", "dist"), 80),
        ("tiny_192x320.onnx", "distances", ("scores", "dist"), 3),
        ("tiny_int8_pc_minmax.onnx", "distances", ("scores", "dist"), 3),
    ],
)
def test_trained_networks_of_others_are_known(
    name: str, head: str, outputs: tuple[str, ...], classes: int, foreign_models: Path
) -> None:
    found = verdict(foreign_models / name).certain
    assert found is not None
    assert (found.head, found.outputs, found.classes) == (head, outputs, classes)
    assert not found.options


def test_a_trained_keypoint_model_is_possible_and_asked_about(
    foreign_models: Path,
) -> None:
    found = verdict(foreign_models / "blazeface_front_128.onnx")
    assert found.certain is None
    (only,) = found.readings
    assert (only.head, only.classes) == ("anchored-keypoints", 6)


def test_scores_turned_against_their_boxes_are_said(tmp_path: Path) -> None:
    net = Net()
    (boxes,) = cells_apart(net, [4], [["Relu"]])
    scores = net.op("Sigmoid", net.levels("images", 7))
    found = verdict(net.save(tmp_path / "m.onnx", [boxes, scores]))
    assert found.readings == ()
    assert "export the scores as (1, 336, 7)" in found.remarks[0]
