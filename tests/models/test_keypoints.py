"""Keypoints of one object: against formulas in loops, and on a real network."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import exp
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from edgepipe.configs.model_card import read_card
from edgepipe.errors import ConfigError, ModelError
from edgepipe.models.candidates import BadOutputError
from edgepipe.models.card import ModelCard
from edgepipe.models.head_options import HeadOptions
from edgepipe.models.heads import (
    KEYPOINTS,
    build_classifier,
    build_head,
    build_keypoints,
    check_outputs,
)
from edgepipe.models.keypoints import KeypointFinder
from edgepipe.models.load import load_engine

from .conftest import PLAIN
from .scripted import Scripted

LOADED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""For machines that do other work as well."""
MakeCard = Callable[..., ModelCard]
FACE = """\
name: face
files: [{precision: fp32, path: FILE}]
input:
  {name: "input:0", height: 128, width: 128, layout: nhwc, color: rgb,
   mean: [127.5, 127.5, 127.5], std: [127.5, 127.5, 127.5]}
head:
  kind: anchored-keypoints
  outputs: ["Identity:0", "Identity_1:0", "Identity_2:0", "Identity_3:0"]
  strides: [8, 16]
  anchors_per_cell: [2, 6]
classes: {names: [right eye, left eye, nose, mouth, right ear, left ear]}
score_threshold: 0.5
"""
EYES = (51, 58), (77, 58)
MOUTH = (64, 86)
"""Where the drawn face has them."""


def a_card(head: str, *outputs: str, names: str = "abc", **options: Any) -> ModelCard:
    return replace(
        PLAIN,
        head=head,
        outputs=outputs,
        class_names=tuple(names),
        height=64,
        width=96,
        head_options=HeadOptions(**options),
    )


def drawn_face() -> NDArray[np.uint8]:
    """(128, 128, 3) RGB: two eyes, a nose and a mouth."""
    image = np.full((128, 128, 3), 200, np.uint8)
    cv2.ellipse(image, (64, 64), (34, 44), 0, 0, 360, (225, 180, 150), -1)
    cv2.ellipse(image, (64, 40), (36, 26), 0, 180, 360, (60, 40, 30), -1)
    for x in (51, 77):
        cv2.ellipse(image, (x, 58), (7, 4), 0, 0, 360, (255, 255, 255), -1)
        cv2.circle(image, (x, 58), 3, (50, 30, 20), -1)
        cv2.line(image, (x - 8, 50), (x + 8, 49), (60, 40, 30), 2)
    cv2.line(image, (64, 58), (61, 74), (180, 130, 100), 2)
    cv2.line(image, (61, 74), (67, 75), (170, 120, 90), 2)
    cv2.ellipse(image, (64, 86), (12, 5), 0, 0, 360, (180, 70, 70), -1)
    return np.asarray(cv2.GaussianBlur(image, (5, 5), 1.2), np.uint8)


@pytest.fixture(params=["openvino", "onnxruntime"])
def face(
    request: pytest.FixtureRequest, foreign_models: Path, tmp_path: Path
) -> Iterator[KeypointFinder]:
    """BlazeFace, by its card, in each engine."""
    model = tmp_path / "face.onnx"
    model.symlink_to(foreign_models / "blazeface_front_128.onnx")
    card_path = tmp_path / "face.yaml"
    card_path.write_text(FACE.replace("FILE", model.name))
    card, _ = read_card(card_path)
    engine = load_engine(card, "fp32", request.param, requests=1, threads=1)
    yield KeypointFinder(card, engine)
    engine.close()


def test_a_real_network_finds_the_parts_of_a_drawn_face(face: KeypointFinder) -> None:
    points = face.find(drawn_face()[None])
    assert points.score is not None
    assert (points.score > 0.8).all()
    right, left, nose, mouth, *_ = points.xy[0]
    for found, wanted in ((right, EYES[0]), (left, EYES[1]), (mouth, MOUTH)):
        assert np.abs(found - wanted).max() < 5
    assert right[0] < nose[0] < left[0]
    assert right[1] < nose[1] < mouth[1]


def test_where_there_is_no_face_there_are_no_keypoints(face: KeypointFinder) -> None:
    points = face.find(np.full((1, 128, 128, 3), 114, np.uint8))
    assert np.isnan(points.xy).all()


def test_a_mirrored_face_has_mirrored_keypoints(face: KeypointFinder) -> None:
    points = face.find(np.ascontiguousarray(drawn_face()[None, :, ::-1]))
    eyes = 128 - points.xy[0, [1, 0], 0]
    assert np.abs(eyes - [51, 77]).max() < 5


def values(*shape: int, low: int = -8, high: int = 8) -> Any:
    numbers = st.integers(8 * low, 8 * high).map(lambda value: value / 8)
    return arrays(np.float32, shape, elements=numbers)


@given(st.data(), st.booleans())
@settings(LOADED, max_examples=30)
def test_the_likeliest_anchors_points_lie_round_its_cell(
    data: st.DataObject, at_once: bool
) -> None:
    """The formulas of MediaPipe's SSD decoder, one anchor at a time."""
    levels = [(32, 2), (16, 3)]
    anchors: list[tuple[float, float]] = [
        ((column + 0.5) * stride, (row + 0.5) * stride)
        for stride, each in levels
        for row in range(64 // stride)
        for column in range(96 // stride)
        for _ in range(each)
    ]
    n, split = len(anchors), 2 * 3 * 2
    scores = data.draw(values(2, n, 1))
    offsets = data.draw(values(2, n, 10, low=-99, high=99))
    names: tuple[str, ...] = ("s", "o") if at_once else ("s0", "s1", "o0", "o1")
    parts = (scores, offsets) if at_once else (
        scores[:, :split], scores[:, split:], offsets[:, :split], offsets[:, split:]
    )  # fmt: skip
    card = a_card(
        "anchored-keypoints", *names, strides=(32, 16), anchors_per_cell=(2, 3)
    )
    outputs: dict[str, NDArray[np.float32]] = dict(zip(names, parts, strict=True))
    head = build_keypoints(card)
    check_outputs(card, head, outputs)
    found = head.points(outputs)
    assert found.score is not None
    for image in range(2):
        raw: list[float] = scores[image, :, 0].tolist()
        best = raw.index(max(raw))
        cx, cy = anchors[best]
        for point in range(3):
            x, y = offsets[image, best, 4 + 2 * point : 6 + 2 * point].tolist()
            assert found.xy[image, point].tolist() == [cx + x, cy + y]
            wanted = 1 / (1 + exp(-raw[best]))
            assert found.score[image, point] == pytest.approx(wanted, rel=1e-5)


@given(
    st.data(),
    st.sampled_from(["xy", "yx", "xys", "yxs", "xyz"]),
    st.booleans(),
    st.sampled_from(["flat", "rows", "deep"]),
)
@settings(LOADED)
def test_regressed_points_are_read_as_the_card_says(
    data: st.DataObject, format_: str, shares: bool, shape: str
) -> None:
    size = len(format_)
    raw = data.draw(values(2, 3, size))
    output = raw.reshape(
        2, *{"flat": (-1,), "rows": (3, -1), "deep": (1, 3, -1)}[shape]
    )
    card = a_card(
        "keypoints", "out", keypoints=format_, normalized=shares, scores="sigmoid"
    )
    head = build_keypoints(card)
    check_outputs(card, head, {"out": output})
    found = head.points({"out": output})
    assert head.scores == (found.score is not None) == format_.endswith("s")
    for image in range(2):
        for point in range(3):
            x, y, *rest = raw[image, point].tolist()
            if format_.startswith("y"):
                x, y = y, x
            wide, high = (96, 64) if shares else (1, 1)
            assert found.xy[image, point].tolist() == [x * wide, y * high]
            if found.score is not None:
                wanted = 1 / (1 + exp(-rest[0]))
                assert found.score[image, point] == pytest.approx(wanted, rel=1e-5)


@given(st.data(), st.integers(1, 6), st.integers(1, 6))
@settings(LOADED)
def test_the_highest_cell_of_a_heatmap_moves_to_its_higher_neighbour(
    data: st.DataObject, rows: int, columns: int
) -> None:
    maps = data.draw(values(2, 3, rows, columns, low=0, high=1))
    card = a_card("heatmaps", "out")
    head = build_keypoints(card)
    check_outputs(card, head, {"out": maps})
    found = head.points({"out": maps})
    assert found.score is not None
    for image in range(2):
        for point in range(3):
            one = maps[image, point].tolist()
            cells = [(one[y][x], -y, -x) for y in range(rows) for x in range(columns)]
            peak, y, x = max(cells)
            y, x = -y, -x
            moved_x, moved_y = float(x), float(y)
            if 0 < x < columns - 1:
                step = one[y][x + 1] - one[y][x - 1]
                moved_x += 0.25 * ((step > 0) - (step < 0))
            if 0 < y < rows - 1:
                step = one[y + 1][x] - one[y - 1][x]
                moved_y += 0.25 * ((step > 0) - (step < 0))
            wanted = [moved_x * 96 / columns, moved_y * 64 / rows]
            assert found.xy[image, point] == pytest.approx(wanted, rel=1e-6)
            assert found.score[image, point] == pytest.approx(peak)


def test_points_below_the_threshold_were_not_found() -> None:
    output = np.array([[[1, 2, 0.9], [3, 4, 0.4], [5, 6, 0.5]]], np.float32)
    card = replace(a_card("keypoints", "out", keypoints="xys"), score_threshold=0.5)
    engine = Scripted({"out": output})
    points = KeypointFinder(card, engine).find(np.zeros((1, 64, 96, 3), np.uint8))
    assert np.isnan(points.xy[0, :, 0]).tolist() == [False, True, False]
    # What the engine put out is its own.
    assert np.isfinite(output).all()


CARDS = {
    "keypoints": a_card("keypoints", "out"),
    "heatmaps": a_card("heatmaps", "out"),
    "anchored-keypoints": a_card(
        "anchored-keypoints", "out", "off", strides=(32,), anchors_per_cell=(1,)
    ),
}
SHAPES: dict[str, list[tuple[int, ...]]] = {
    "keypoints": [(1, 3, 2)],
    "heatmaps": [(1, 3, 4, 6)],
    "anchored-keypoints": [(1, 6, 1), (1, 6, 10)],
}


@pytest.mark.parametrize("head", sorted(KEYPOINTS))
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_none_is_never_a_point(head: str, bad: float) -> None:
    for broken, name in enumerate(CARDS[head].outputs):
        parts = [np.zeros(shape, np.float32) for shape in SHAPES[head]]
        parts[broken].flat[-1] = bad
        outputs = dict(zip(CARDS[head].outputs, parts, strict=True))
        with pytest.raises(BadOutputError, match=f"{name!r}: 1 of"):
            build_keypoints(CARDS[head]).points(outputs)


def test_a_point_that_overflows_is_a_bad_output() -> None:
    card = a_card("keypoints", "out", normalized=True)
    output = np.full((1, 6), 3e38, np.float32)
    with pytest.raises(BadOutputError, match="too far for a number"):
        build_keypoints(card).points({"out": output})


@pytest.mark.parametrize(
    ("head", "shapes", "said"),
    [
        ("keypoints", [(1, 50)], r"50 values, not 2 \(xy\) for each of 3 keypoints"),
        ("heatmaps", [(1, 17, 4, 6)], "has 17 keypoints, the card has 3 class names"),
        ("heatmaps", [(1, 4, 6)], r"has shape \(4, 6\), head .* needs \(3, n, n\)"),
        ("anchored-keypoints", [(1, 7, 1), (1, 7, 10)], r"needs \(6, 1\)"),
        ("anchored-keypoints", [(1, 6, 1), (1, 6, 16)], r"needs \(6, 10\)"),
    ],
)
def test_a_wrong_number_of_keypoints_is_named(
    head: str, shapes: list[tuple[int, ...]], said: str
) -> None:
    card = CARDS[head]
    arrays_ = [np.zeros(shape, np.float32) for shape in shapes]
    outputs = dict(zip(card.outputs, arrays_, strict=True))
    with pytest.raises(ModelError, match=said):
        check_outputs(card, build_keypoints(card), outputs)


@pytest.mark.parametrize(
    ("card", "said"),
    [
        (a_card("anchored-keypoints", "a", "b"), "needs head.strides and"),
        (
            a_card("anchored-keypoints", "a", strides=(8,), anchors_per_cell=(1,)),
            "reads 2 or 2 outputs",
        ),
        (a_card("keypoints", "a", "b"), "reads 1 output"),
        (a_card("keypoints", "a", names="aba"), "needs a name of its own"),
        (a_card("heatmaps", "a", keypoints="xy"), "head.keypoints: head 'heatmaps'"),
    ],
)
def test_a_card_that_does_not_fit_its_head_is_refused(
    card: ModelCard, said: str
) -> None:
    with pytest.raises(ModelError, match=said):
        build_keypoints(card)


def test_a_keypoint_model_is_no_detector_and_no_classifier() -> None:
    with pytest.raises(ModelError, match=r"is a keypoint model .* beside a detector"):
        build_head(CARDS["keypoints"])
    with pytest.raises(ModelError, match=r"is a keypoint model .* no classifier"):
        build_classifier(CARDS["keypoints"])


def test_its_card_has_no_nms(tmp_path: Path) -> None:
    path = tmp_path / "face.yaml"
    path.write_text(FACE + "iou_threshold: 0.3\n")
    with pytest.raises(ConfigError, match=r"iou_threshold: a keypoint model .* none"):
        read_card(path)
