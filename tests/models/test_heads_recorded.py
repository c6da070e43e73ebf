"""Recorded outputs that others' decoders got wrong, and variants of each."""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from edgepipe.configs.model_card import read_card
from edgepipe.errors import ConfigError, ModelError
from edgepipe.models.card import ModelCard
from edgepipe.models.detector import Detector
from edgepipe.models.head_options import HeadOptions
from edgepipe.models.heads import build_head, check_outputs

from .conftest import PLAIN
from .scripted import Scripted

LOADED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""For machines that do other work as well."""
MakeCard = Callable[..., ModelCard]
Outputs = dict[str, NDArray[np.float32]]
EIGHTY = tuple(f"class {number}" for number in range(80))


def found_in(
    card: ModelCard, outputs: Outputs, score: float
) -> list[tuple[float, ...]]:
    """Rows of x1, y1, x2, y2, score, class."""
    head = build_head(card)
    check_outputs(card, head, outputs)
    found = head.decode(outputs, 0, score)
    rows = np.column_stack([found.xyxy, found.score, found.class_id])
    return [tuple(row) for row in rows.tolist()]


# --- the layouts of YOLOv5 and YOLOv8 ---


@pytest.mark.parametrize(
    ("head", "name"),
    [("yolov8", "yolov8_1x84x336.npy"), ("yolov5", "yolov5_1x1008x85.npy")],
)
def test_both_recorded_layouts_give_the_same_detections(
    head: str, name: str, cases: Path, make_card: MakeCard
) -> None:
    expected = json.loads((cases / "C11/expected.json").read_text())
    sizes = {"height": 128, "width": 128, "class_names": EIGHTY}
    card = make_card(head=head, outputs=("out",), **sizes)
    found = found_in(card, {"out": np.load(cases / "C11" / name)}, expected["conf"])
    wanted = [(*d["xyxy"], d["score"], d["cls"]) for d in expected["detections"]]
    assert sorted(found) == [
        pytest.approx(w, abs=expected["tolerance"]) for w in wanted
    ]


@pytest.mark.parametrize(
    ("head", "name"),
    [("yolov5", "yolov8_1x84x336.npy"), ("yolov8", "yolov5_1x1008x85.npy")],
)
def test_the_wrong_layout_is_refused_by_its_shape(
    head: str, name: str, cases: Path, make_card: MakeCard
) -> None:
    sizes = {"height": 128, "width": 128, "class_names": EIGHTY}
    card = make_card(head=head, outputs=("out",), **sizes)
    with pytest.raises(ModelError, match=r"output 'out' has shape \(.*\), head"):
        found_in(card, {"out": np.load(cases / "C11" / name)}, 0.25)


@given(
    height=st.integers(1, 4),
    width=st.integers(1, 4),
    classes=st.integers(1, 90),
    strides=st.sampled_from([(8, 16, 32), (8, 16, 32, 64), (16, 32), (4, 8, 16, 32)]),
    data=st.data(),
)
@settings(LOADED, max_examples=50)
def test_one_object_in_any_layout_and_size_is_one_detection(
    height: int, width: int, classes: int, strides: tuple[int, ...], data: Any
) -> None:
    def card(head: str) -> ModelCard:
        return replace(
            PLAIN,
            head=head,
            outputs=("out",),
            height=64 * height,
            width=64 * width,
            class_names=EIGHTY[:1] * classes,
            head_options=HeadOptions(strides=strides),
        )

    sizes = [(64 * height // s) * (64 * width // s) for s in strides]
    cells, class_id = sum(sizes), data.draw(st.integers(0, classes - 1))
    v8 = np.zeros((1, 4 + classes, cells), np.float32)
    v8[0, :4, data.draw(st.integers(0, cells - 1))] = 40, 30, 16, 8
    v8[0, 4 + class_id, v8[0, 0].argmax()] = 0.75
    v5 = np.zeros((1, 3 * cells, 5 + classes), np.float32)
    row = data.draw(st.integers(0, 3 * cells - 1))
    v5[0, row, :5], v5[0, row, 5 + class_id] = (40, 30, 16, 8, 1), 0.75
    wanted = [(32, 26, 48, 34, 0.75, class_id)]
    assert found_in(card("yolov8"), {"out": v8}, 0.25) == wanted
    assert found_in(card("yolov5"), {"out": v5}, 0.25) == wanted


@pytest.mark.parametrize(
    ("head", "side", "strides", "shape"),
    [
        ("yolov5", 640, None, (25200, 85)),
        ("yolov5", 1280, (8, 16, 32, 64), (102000, 85)),
        ("yolov5", 416, (16, 32), (2535, 85)),
        ("yolov8", 640, None, (84, 8400)),
        ("yolov8", 1280, (8, 16, 32, 64), (84, 34000)),
        ("yolox", 416, None, (3549, 85)),
    ],
)
def test_the_sizes_of_published_networks_fit(
    head: str,
    side: int,
    strides: tuple[int, ...] | None,
    shape: tuple[int, ...],
    make_card: MakeCard,
) -> None:
    card = make_card(
        head=head,
        outputs=("out",),
        height=side,
        width=side,
        class_names=EIGHTY,
        head_options=HeadOptions(strides=strides),
    )
    assert build_head(card).shapes == (shape,)


# --- the order of outputs ---


def ordered(cases: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    said = json.loads((cases / "C18/outputs.json").read_text())
    return said, json.loads((cases / "C18/expected.json").read_text())


@pytest.mark.parametrize("case", ["case1", "case2"])
def test_the_recorded_orders_of_outputs_give_one_detection(
    case: str, cases: Path, make_card: MakeCard
) -> None:
    said, expected = ordered(cases)
    outputs = {n: np.array(said["values"][n], np.float32) for n in said[case]["order"]}
    names = ("scores", "boxes", "labels")
    card = make_card(head="postprocessed", outputs=names, class_names=EIGHTY)
    (found,) = found_in(card, outputs, 0.25)
    (wanted,) = expected[case]
    assert found == pytest.approx((*wanted["xyxy"], wanted["score"], wanted["cls"]))


@pytest.mark.parametrize("order", list(permutations(["s", "b", "c", "n"])))
def test_outputs_are_found_by_name_wherever_they_stand(
    order: tuple[str, ...], make_card: MakeCard
) -> None:
    values: Outputs = {
        "s": np.array([[0.9, 0.8]], np.float32),
        "b": np.array([[[10, 20, 30, 40], [1, 2, 3, 4]]], np.float32),
        "c": np.array([[2, 1]], np.float32),
        "n": np.array([1], np.float32),
    }
    card = make_card(head="postprocessed", outputs=("s", "b", "c", "n"))
    found = found_in(card, {name: values[name] for name in order}, 0.5)
    assert len(found) == 1
    assert found[0] == pytest.approx((10, 20, 30, 40, 0.9, 2))


def test_y_comes_first_only_where_the_card_says_so(make_card: MakeCard) -> None:
    outputs = {"out": np.array([[[20, 10, 40, 30, 0.5, 0]]], np.float32)}
    card = make_card(head="end-to-end", outputs=("out",))
    assert found_in(card, outputs, 0.5)[0][:4] == (20, 10, 40, 30)
    said = make_card(
        head="end-to-end", outputs=("out",), head_options=HeadOptions(box_format="yxyx")
    )
    assert found_in(said, outputs, 0.5)[0][:4] == (10, 20, 30, 40)


def test_a_second_output_that_the_head_does_not_read_is_refused(
    cases: Path, make_card: MakeCard
) -> None:
    said, _ = ordered(cases)
    card = make_card(head="yolov8", outputs=tuple(said["case3"]["order"]))
    with pytest.raises(ModelError, match=r"reads 1 output.*the card names 2"):
        build_head(card)


# --- names of classes against the network ---


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("names_plain.txt", None),
        ("names_trailing_blank.txt", None),
        ("names_crlf_bom.txt", None),
        ("names_dup.txt", None),
        ("names_79.txt", "has 80 classes, the card has 79 class names"),
        ("names_inner_blank.txt", "blank line between class names"),
    ],
)
def test_recorded_class_names_are_counted_before_the_first_frame(
    file: str, said: str | None, cases: Path, tmp_path: Path
) -> None:
    path = tmp_path / "card.yaml"
    path.write_text(
        "name: n\nfiles: [{precision: fp32, path: n.onnx}]\n"
        "input: {name: i, height: 128, width: 128, color: rgb,"
        " mean: [0, 0, 0], std: [255, 255, 255]}\n"
        "head: {kind: yolov8, outputs: [out]}\n"
        f"classes: {{file: {file}}}\nscore_threshold: 0.25\niou_threshold: 0.5\n"
    )
    (tmp_path / file).write_bytes((cases / "C17" / file).read_bytes())
    outputs = {"out": np.zeros((1, 84, 336), np.float32)}

    def load() -> None:
        card, _ = read_card(path)
        check_outputs(card, build_head(card), outputs)

    if said is None:
        load()
    else:
        with pytest.raises((ModelError, ConfigError), match=said):
            load()


# --- one scale for boxes and scores ---


def rounded(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """To 8 bits with the one scale that the largest value asks for, and back."""
    scale = np.abs(values).max() / 127
    return np.asarray(np.rint(values / scale) * scale, np.float32)


def test_recorded_scores_vanish_with_one_scale_and_stay_with_their_own(
    cases: Path, make_card: MakeCard
) -> None:
    expected = json.loads((cases / "C05/expected.json").read_text())
    output = np.load(cases / "C05/head_84x200.npy")[None].astype(np.float32)
    card = make_card(
        head="yolov8",
        outputs=("out",),
        height=80,
        width=160,
        class_names=EIGHTY,
        head_options=HeadOptions(strides=(8,)),
    )
    split = np.concatenate([rounded(output[:, :4]), rounded(output[:, 4:])], axis=1)
    counts = [
        len(found_in(card, {"out": o}, 0.25)) for o in (output, rounded(output), split)
    ]
    assert counts == [
        expected["fp32_over_025"],
        expected["int8_one_scale"]["over_025"],
        expected["int8_split_scale"]["over_025"],
    ]


# --- the cut, without NMS ---


@pytest.mark.parametrize("limit", [1, 300, 400, 1000])
def test_a_recorded_crowd_is_cut_and_counted_without_nms(
    limit: int, cases: Path, make_card: MakeCard
) -> None:
    rows = json.loads((cases / "C15/boxes400.json").read_text())
    output = np.array(rows, np.float32)[None]
    names = EIGHTY[: int(output[..., 5].max()) + 1]
    card = make_card(head="end-to-end", outputs=("out",), class_names=names)
    detector = Detector(
        card,
        Scripted({"out": output}),
        score=0.0,
        iou=0.0,
        max_detections=limit,
        class_agnostic=False,
    )
    (found,) = detector.detect(np.zeros((1, 64, 96, 3), np.uint8))
    assert (len(found.score), found.truncated) == (min(limit, 400), max(0, 400 - limit))
    assert (
        found.score.tolist() == sorted(output[0, :, 4].tolist(), reverse=True)[:limit]
    )
