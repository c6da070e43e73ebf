"""Each head against its original decoder's formulas, one cell and one class at a time.

The formulas are written down again here from the networks' papers, in plain loops and
in Python's own arithmetic.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from edgepipe.models.card import ModelCard, ModelFile
from edgepipe.models.head_options import HeadOptions
from edgepipe.models.heads import build_head, check_outputs
from edgepipe.models.load import load_engine

from .conftest import PLAIN

LOADED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""For machines that do other work as well."""
Row = tuple[float, float, float, float, float, int]
"""x1, y1, x2, y2, score, class."""
SIDE = 32
CLASSES = 3
Numbers = NDArray[np.float32]
Edges = tuple[float, float, float, float]


def sigmoid(x: float) -> float:
    return 1 / (1 + exp(-x))


def softmax(values: list[float]) -> list[float]:
    powers = [exp(value - max(values)) for value in values]
    return [power / sum(powers) for power in powers]


def activated(values: list[float], kind: str | None) -> list[float]:
    if kind == "softmax":
        return softmax(values)
    return [sigmoid(v) for v in values] if kind == "sigmoid" else values


def cells(strides: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """Column, row and stride of each cell of a square input, in the usual order."""
    return [
        (column, row, stride)
        for stride in strides
        for row in range(SIDE // stride)
        for column in range(SIDE // stride)
    ]


def centred(cx: float, cy: float, w: float, h: float) -> Edges:
    return (cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2)


def scaled(edges: Edges, factor: float) -> Edges:
    x1, y1, x2, y2 = edges
    return (x1 * factor, y1 * factor, x2 * factor, y2 * factor)


def best(scores: list[float]) -> tuple[float, int]:
    """The highest and the first place at which it stands."""
    return max(scores), scores.index(max(scores))


def a_card(head: str, *outputs: str, **options: Any) -> ModelCard:
    return replace(
        PLAIN,
        head=head,
        outputs=outputs,
        height=SIDE,
        width=SIDE,
        class_names=("a", "b", "c"),
        head_options=HeadOptions(**options),
    )


def same(card: ModelCard, outputs: dict[str, Numbers], expected: Iterator[Row]) -> None:
    """Decode with several thresholds and compare with all rows of the original."""
    head = build_head(card)
    check_outputs(card, head, outputs)
    rows = list(expected)
    for threshold in (0.0, 0.3, 0.75):
        # In float32 a score at the threshold may fall on either side of it.
        sure = [row for row in rows if row[4] > threshold + 1e-5]
        perhaps = [row for row in rows if abs(row[4] - threshold) <= 1e-5]
        found = head.decode(outputs, 0, threshold)
        assert len(sure) <= len(found.score) <= len(sure) + len(perhaps)
        kept = found.score > np.float32(threshold + 1e-5)
        assert found.class_id[kept].tolist() == [row[5] for row in sure]
        assert found.score[kept] == pytest.approx([r[4] for r in sure], abs=1e-5)
        wanted = np.array([row[:4] for row in sure]).reshape(-1, 4)
        np.testing.assert_allclose(found.xyxy[kept], wanted, rtol=1e-4, atol=1e-2)


def eighths(*shape: int, low: int = -8, high: int = 8) -> st.SearchStrategy[Numbers]:
    """Values that meet each other often, so that scores tie."""
    numbers = st.integers(8 * low, 8 * high).map(lambda value: value / 8)
    return arrays(np.float32, (1, *shape), elements=numbers)


YOLO_CELLS = len(cells((8, 16, 32)))
shares = st.sampled_from(["probabilities", "sigmoid"])


def scored(kind: str, *shape: int) -> st.SearchStrategy[Numbers]:
    """What a network may put out for scores of this kind."""
    return (
        eighths(*shape, low=0, high=1) if kind == "probabilities" else eighths(*shape)
    )


@given(
    shares.flatmap(lambda k: st.tuples(st.just(k), scored(k, CLASSES, YOLO_CELLS))),
    eighths(4, YOLO_CELLS, low=0, high=64),
)
@settings(LOADED)
def test_yolov8(scores: tuple[str, Numbers], boxes: Numbers) -> None:
    kind, raw = scores
    output = np.concatenate([boxes, raw], axis=1)

    def original() -> Iterator[Row]:
        for column in output[0].T.tolist():
            yield (*centred(*column[:4]), *best(activated(column[4:], kind)))

    same(a_card("yolov8", "out", scores=kind), {"out": output}, original())


@pytest.mark.parametrize("strides", [(8, 16, 32), (8, 16), (4, 8, 16, 32)])
@given(data=st.data(), kind=shares)
@settings(LOADED, max_examples=25)
def test_yolov5_with_three_anchors_a_cell(
    strides: tuple[int, ...], data: st.DataObject, kind: str
) -> None:
    n = 3 * len(cells(strides))
    boxes = data.draw(eighths(n, 4, low=0, high=64))
    raw = data.draw(scored(kind, n, 1 + CLASSES))
    output = np.concatenate([boxes, raw], axis=2)

    def original() -> Iterator[Row]:
        for row in output[0].tolist():
            objectness, *classes = activated(row[4:], kind)
            score, class_id = best(classes)
            yield (*centred(*row[:4]), objectness * score, class_id)

    card = a_card("yolov5", "out", scores=kind, strides=strides)
    same(card, {"out": output}, original())


@given(data=st.data(), kind=shares, decoded=st.booleans())
@settings(LOADED)
def test_yolox(data: st.DataObject, kind: str, decoded: bool) -> None:
    boxes = data.draw(eighths(YOLO_CELLS, 4, low=-2, high=3))
    raw = data.draw(scored(kind, YOLO_CELLS, 1 + CLASSES))
    output = np.concatenate([boxes, raw], axis=2)

    def original() -> Iterator[Row]:
        for row, cell in zip(output[0].tolist(), cells((8, 16, 32)), strict=True):
            x, y, w, h = row[:4]
            column, line, stride = cell
            if not decoded:
                x, y = (x + column) * stride, (y + line) * stride
                w, h = exp(w) * stride, exp(h) * stride
            objectness, *classes = activated(row[4:], kind)
            score, class_id = best(classes)
            yield (*centred(x, y, w, h), objectness * score, class_id)

    card = a_card("yolox", "out", scores=kind, decoded=decoded)
    same(card, {"out": output}, original())


@given(data=st.data(), kind=shares)
@settings(LOADED, max_examples=25)
def test_nanodet(data: st.DataObject, kind: str) -> None:
    raw = data.draw(scored(kind, YOLO_CELLS, CLASSES))
    bins = data.draw(eighths(YOLO_CELLS, 44, low=-3, high=3))

    def original() -> Iterator[Row]:
        for row, logits, (column, line, stride) in zip(
            raw[0].tolist(), bins[0].tolist(), cells((8, 16, 32)), strict=True
        ):
            left, top, right, bottom = (
                stride * sum(k * p for k, p in enumerate(softmax(logits[i : i + 11])))
                for i in range(0, 44, 11)
            )
            x, y = (column + 0.5) * stride, (line + 0.5) * stride
            box = (x - left, y - top, x + right, y + bottom)
            yield (*box, *best(activated(row, kind)))

    card = a_card("nanodet", "scores", "bins", scores=kind)
    same(card, {"scores": raw, "bins": bins}, original())


@given(data=st.data(), kind=shares)
@settings(LOADED, max_examples=25)
def test_nanodet_plus(data: st.DataObject, kind: str) -> None:
    strides = (8, 16)
    n = len(cells(strides))
    raw = data.draw(scored(kind, n, CLASSES))
    bins = data.draw(eighths(n, 32, low=-3, high=3))
    output = np.concatenate([raw, bins], axis=2)

    def original() -> Iterator[Row]:
        for row, (column, line, stride) in zip(
            output[0].tolist(), cells(strides), strict=True
        ):
            logits = row[CLASSES:]
            left, top, right, bottom = (
                stride * sum(k * p for k, p in enumerate(softmax(logits[i : i + 8])))
                for i in range(0, 32, 8)
            )
            x, y = column * stride, line * stride
            box = (x - left, y - top, x + right, y + bottom)
            yield (*box, *best(activated(row[:CLASSES], kind)))

    card = a_card("nanodet-plus", "out", scores=kind, strides=strides)
    same(card, {"out": output}, original())


def without(values: list[float], background: str) -> list[float]:
    """The classes among the columns of a score output."""
    if background == "first":
        return values[1:]
    return values[:-1] if background == "last" else values


def classes_of(
    data: st.DataObject, n: int, kind: str, background: str
) -> tuple[Numbers, list[tuple[float, int]]]:
    """Scores of n rows as a network puts them out, and each row's best class."""
    raw = data.draw(scored(kind, n, CLASSES + (background != "none")))
    rows = [without(activated(row, kind), background) for row in raw[0].tolist()]
    return raw, [best(row) for row in rows]


kinds = st.sampled_from(["probabilities", "sigmoid", "softmax"])
backgrounds = st.sampled_from(["none", "first", "last"])
anchor = st.tuples(*[st.integers(1, 8).map(lambda value: value / 8)] * 4)


@given(
    data=st.data(),
    kind=kinds,
    background=backgrounds,
    shares_=st.booleans(),
    y_first=st.booleans(),
    anchors=st.lists(anchor, min_size=1, max_size=9),
)
@settings(LOADED)
def test_ssd(
    data: st.DataObject,
    kind: str,
    background: str,
    shares_: bool,
    y_first: bool,
    anchors: list[tuple[float, float, float, float]],
) -> None:
    variances = (0.125, 0.25, 0.5, 0.0625)
    raw, classes = classes_of(data, len(anchors), kind, background)
    offsets = data.draw(eighths(len(anchors), 4, low=-4, high=4))

    def original() -> Iterator[Row]:
        scale = SIDE if shares_ else 1
        for anchor_, offset, class_ in zip(
            anchors, offsets[0].tolist(), classes, strict=True
        ):
            cx, cy, w, h = (value * scale for value in anchor_)
            tx, ty, tw, th = offset
            if y_first:
                ty, tx, th, tw = offset
            x, y = cx + tx * variances[0] * w, cy + ty * variances[1] * h
            wide, high = w * exp(tw * variances[2]), h * exp(th * variances[3])
            yield (*centred(x, y, wide, high), *class_)

    card = a_card(
        "ssd",
        "scores",
        "offsets",
        anchors=tuple(anchors),
        variances=variances,
        scores=kind,
        background=background,
        normalized=shares_,
        box_format="cycxhw" if y_first else None,
    )
    same(card, {"scores": raw, "offsets": offsets}, original())


LAYOUTS: dict[str, Callable[[float, float, float, float], Edges]] = {
    "xyxy": lambda a, b, c, d: (a, b, c, d),
    "yxyx": lambda a, b, c, d: (b, a, d, c),
    "cxcywh": centred,
    "cycxhw": lambda a, b, c, d: centred(b, a, d, c),
}


@pytest.mark.parametrize("head", ["boxes", "detr"])
@given(
    data=st.data(),
    kind=kinds,
    background=backgrounds,
    layout=st.sampled_from(sorted(LAYOUTS)),
    shares_=st.booleans(),
)
@settings(LOADED, max_examples=50)
def test_boxes_and_detr(
    head: str,
    data: st.DataObject,
    kind: str,
    background: str,
    layout: str,
    shares_: bool,
) -> None:
    raw, classes = classes_of(data, 8, kind, background)
    boxes = data.draw(eighths(8, 4, low=0, high=1 if shares_ else 32))

    def original() -> Iterator[Row]:
        for box, class_ in zip(boxes[0].tolist(), classes, strict=True):
            edges = LAYOUTS[layout](*box)
            yield (*scaled(edges, SIDE if shares_ else 1), *class_)

    card = a_card(
        head,
        "scores",
        "boxes",
        scores=kind,
        background=background,
        box_format=layout,
        normalized=shares_,
    )
    same(card, {"scores": raw, "boxes": boxes}, original())


@given(data=st.data(), layout=st.sampled_from(sorted(LAYOUTS)), shares_=st.booleans())
@settings(LOADED, max_examples=50)
def test_end_to_end(data: st.DataObject, layout: str, shares_: bool) -> None:
    boxes = data.draw(eighths(8, 4, low=0, high=1 if shares_ else 32))
    scores = data.draw(eighths(8, 1, low=0, high=1))
    numbers = data.draw(arrays(np.float32, (1, 8, 1), elements=st.integers(0, 2)))
    output = np.concatenate([boxes, scores, numbers], axis=2)

    def original() -> Iterator[Row]:
        for *box, score, class_id in output[0].tolist():
            edges = scaled(LAYOUTS[layout](*box), SIDE if shares_ else 1)
            yield (*edges, score, int(class_id))

    card = a_card("end-to-end", "out", box_format=layout, normalized=shares_)
    same(card, {"out": output}, original())


@given(data=st.data(), first=st.booleans(), there=st.none() | st.integers(0, 8))
@settings(LOADED, max_examples=50)
def test_postprocessed(data: st.DataObject, first: bool, there: int | None) -> None:
    boxes = data.draw(eighths(8, 4, low=0, high=32))
    scores = data.draw(eighths(8, low=0, high=1))
    numbers = data.draw(arrays(np.float32, (1, 8), elements=st.integers(0, 2)))
    outputs = {"scores": scores, "boxes": boxes, "classes": numbers + first}
    if there is not None:
        outputs["count"] = np.array([[there]], np.float32)

    def original() -> Iterator[Row]:
        for k in range(8 if there is None else there):
            x1, y1, x2, y2 = boxes[0, k].tolist()
            yield (x1, y1, x2, y2, float(scores[0, k]), int(numbers[0, k]))

    background = "first" if first else None
    card = a_card("postprocessed", *outputs, background=background)
    same(card, outputs, original())


def test_a_real_yolox_sees_what_the_original_sees(
    foreign_models: Path, street: NDArray[np.uint8]
) -> None:
    names = (foreign_models / "coco80.txt").read_text().split("\n")[:80]
    model = foreign_models / "yolox_nano.onnx"
    card = replace(
        PLAIN,
        files=(ModelFile("fp32", model, None),),
        head="yolox",
        outputs=("output",),
        height=416,
        width=416,
        class_names=tuple(names),
    )
    engine = load_engine(card, "fp32", "onnxruntime", requests=1, threads=1)
    images = np.full((len(street), 416, 416, 3), 114, np.uint8)
    images[:, :320] = street
    raw = {name: array.copy() for name, array in engine.infer(images).items()}
    engine.close()
    grid = [
        (column, row, stride)
        for stride in (8, 16, 32)
        for row in range(416 // stride)
        for column in range(416 // stride)
    ]
    seen: set[str] = set()
    for index, output in enumerate(raw["output"].tolist()):
        expected: list[Row] = []
        for row, (column, line, stride) in zip(output, grid, strict=True):
            score, class_id = best([row[4] * value for value in row[5:]])
            if score >= 0.3:
                x, y = (row[0] + column) * stride, (row[1] + line) * stride
                box = centred(x, y, exp(row[2]) * stride, exp(row[3]) * stride)
                expected.append((*box, score, class_id))
        found = build_head(card).decode(raw, index, 0.3)
        assert found.class_id.tolist() == [row[5] for row in expected]
        assert found.score == pytest.approx([row[4] for row in expected])
        wanted = np.array([row[:4] for row in expected]).reshape(-1, 4)
        np.testing.assert_allclose(found.xyxy, wanted, rtol=1e-5, atol=1e-3)
        seen |= {names[class_id] for class_id in found.class_id.tolist()}
    assert {"bicycle", "car"} <= seen
