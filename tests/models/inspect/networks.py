"""Small networks with the heads of known detectors, as exporters write them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

STRIDES = (8, 16, 32)
SIZE = 128


class Net:
    """Collects operators; every method returns the name of its result."""

    def __init__(self, size: int = SIZE, seed: int = 0) -> None:
        self.size = size
        self._random = np.random.default_rng(seed)
        self._nodes: list[onnx.NodeProto] = []
        self._stored: list[onnx.TensorProto] = []

    def op(self, kind: str, *inputs: str, out: str | None = None, **more: Any) -> str:
        """Any operator with one output."""
        name = out or f"{kind.lower()}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, list(inputs), [name], **more))
        return name

    def split(self, x: str, sizes: Sequence[int], axis: int) -> list[str]:
        """Parts of a tensor."""
        names = [f"part_{len(self._nodes)}_{index}" for index in range(len(sizes))]
        wanted = self.const(np.array(sizes, np.int64))
        self._nodes.append(helper.make_node("Split", [x, wanted], names, axis=axis))
        return names

    def top(self, x: str, count: int) -> tuple[str, str]:
        """The largest values and where they stand."""
        names = f"best_{len(self._nodes)}", f"place_{len(self._nodes)}"
        wanted = self.const(np.array([count], np.int64))
        self._nodes.append(helper.make_node("TopK", [x, wanted], list(names)))
        return names

    def const(self, value: Any) -> str:
        """A stored tensor."""
        name = f"c_{len(self._stored)}"
        self._stored.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def f32(self, value: Any) -> str:
        """A stored tensor of floats."""
        return self.const(np.asarray(value, np.float32))

    def shaped(self, x: str, *sizes: int, out: str | None = None) -> str:
        """A tensor in another shape."""
        shape = self.const(np.array(sizes, np.int64))
        return self.op("Reshape", x, shape, out=out)

    def conv(self, x: str, channels: int, out: int, stride: int = 1) -> str:
        """A layer with a kernel as large as its stride."""
        shape = (out, channels, stride, stride)
        weight = self._random.normal(0, channels**-0.5 / stride, shape)
        bias = self._random.normal(0, 0.5, out)
        return self.op(
            "Conv", x, self.f32(weight), self.f32(bias), strides=[stride, stride]
        )

    def level(self, x: str, stride: int, out: int) -> str:
        """Features (1, out, cells) of one level."""
        y = self.op("Relu", self.conv(x, 3, 8, stride))
        return self.shaped(self.conv(y, 8, out), 1, out, -1)

    def levels(self, x: str, out: int, strides: Sequence[int] = STRIDES) -> str:
        """Features (1, out, cells) of all levels."""
        parts = [self.level(x, stride, out) for stride in strides]
        return self.op("Concat", *parts, axis=2)

    def grid(
        self, strides: Sequence[int] = STRIDES
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Cell indices (1, 2, cells) as x, y, and strides (1, 1, cells)."""
        where: list[NDArray[Any]] = []
        each: list[NDArray[Any]] = []
        for stride in strides:
            side = -(-self.size // stride)
            y, x = np.mgrid[:side, :side]
            where.append(np.stack([x.ravel(), y.ravel()]).astype(np.float32))
            each.append(np.full((1, side * side), stride, np.float32))
        return np.concatenate(where, 1)[np.newaxis], np.concatenate(each, 1)[np.newaxis]

    def save(
        self,
        path: Path,
        outputs: Sequence[str],
        *,
        shape: Sequence[int | str] | None = None,
        dtype: int = TensorProto.FLOAT,
        types: Sequence[int] | None = None,
        metadata: dict[str, str] | None = None,
        opset: Sequence[tuple[str, int]] = (("", 17),),
    ) -> Path:
        """Write the model with these outputs, whose shapes are left open."""
        given = shape or (1, 3, self.size, self.size)
        kinds = types or [TensorProto.FLOAT] * len(outputs)
        graph = helper.make_graph(
            self._nodes,
            "g",
            [helper.make_tensor_value_info("images", dtype, given)],
            [
                helper.make_tensor_value_info(name, kind, None)
                for name, kind in zip(outputs, kinds, strict=True)
            ],
            self._stored,
        )
        opsets = [helper.make_opsetid(domain, version) for domain, version in opset]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        helper.set_model_props(model, metadata or {})
        path.write_bytes(model.SerializeToString())
        return path


def yolov8(
    net: Net,
    classes: int,
    *,
    x: str = "images",
    sigmoid: bool = True,
    rows_first: bool = False,
    extra: int = 0,
    shares: bool = False,
    bins: int = 16,
) -> str:
    """Distances as distributions, boxes as centre and size in pixels."""
    features = net.levels(x, 4 * bins + classes + extra)
    box, scores, *more = net.split(
        features, [4 * bins, classes, *([extra] if extra else [])], 1
    )
    y = net.op("Transpose", net.shaped(box, 1, 4, bins, -1), perm=[0, 2, 1, 3])
    y = net.op("Softmax", y, axis=1)
    counts = np.arange(bins, dtype=np.float32).reshape(1, bins, 1, 1)
    y = net.shaped(net.op("Conv", y, net.f32(counts)), 1, 4, -1)
    near, far = net.split(y, [2, 2], 1)
    cells, strides = net.grid()
    centres = net.f32(cells + 0.5)
    low, high = net.op("Sub", centres, near), net.op("Add", centres, far)
    middle = net.op("Div", net.op("Add", low, high), net.f32(2.0))
    boxes = net.op("Concat", middle, net.op("Sub", high, low), axis=1)
    scale = strides / (net.size if shares else 1)
    boxes = net.op("Mul", boxes, net.f32(scale))
    done = net.op("Sigmoid", scores) if sigmoid else scores
    joined = net.op("Concat", boxes, done, *more, axis=1)
    return net.op("Transpose", joined, perm=[0, 2, 1]) if rows_first else joined


def yolox(
    net: Net, classes: int, *, decoded: bool, sigmoid: bool = True, x: str = "images"
) -> str:
    """Offsets, objectness and scores; with ``decoded``, boxes in pixels."""
    parts: list[str] = []
    for stride in STRIDES:
        box, thing, scores = net.split(
            net.level(x, stride, 5 + classes), [4, 1, classes], 1
        )
        if sigmoid:
            thing, scores = net.op("Sigmoid", thing), net.op("Sigmoid", scores)
        parts.append(net.op("Concat", box, thing, scores, axis=1))
    y = net.op("Transpose", net.op("Concat", *parts, axis=2), perm=[0, 2, 1])
    if not decoded:
        return y
    cells, strides = (np.moveaxis(each, 1, 2) for each in net.grid())
    place, size, rest = net.split(y, [2, 2, 1 + classes], 2)
    place = net.op("Mul", net.op("Add", place, net.f32(cells)), net.f32(strides))
    size = net.op("Mul", net.op("Exp", size), net.f32(strides))
    return net.op("Concat", place, size, rest, axis=2)


def yolov5(
    net: Net, classes: int, *, decoded: bool = True, hidden: bool = False
) -> str:
    """Three boxes for each cell, made of sigmoids, strides and anchors."""
    columns = 5 + classes
    parts: list[str] = []
    for stride in STRIDES:
        side = net.size // stride
        y = net.op("Relu", net.conv("images", 3, 8, stride))
        y = net.shaped(net.conv(y, 8, 3 * columns), 1, 3, columns, side, side)
        y = net.op("Transpose", y, perm=[0, 1, 3, 4, 2])
        if decoded:
            y = _yolov5_boxes(net, net.op("Sigmoid", y), stride, classes)
        if hidden:
            # Something that no trace of columns goes through, as writes in place are.
            y = net.op("CumSum", y, net.const(np.array(0)))
        parts.append(net.shaped(y, 1, 3 * side * side, columns))
    return net.op("Concat", *parts, axis=1)


def _yolov5_boxes(net: Net, y: str, stride: int, classes: int) -> str:
    place, size, rest = net.split(y, [2, 2, 1 + classes], 4)
    side = net.size // stride
    rows, columns = np.mgrid[:side, :side]
    grid = np.stack([columns, rows], 2)[np.newaxis, np.newaxis] - 0.5
    place = net.op("Add", net.op("Mul", place, net.f32(2.0)), net.f32(grid))
    place = net.op("Mul", place, net.f32(float(stride)))
    size = net.op("Pow", net.op("Mul", size, net.f32(2.0)), net.f32(2.0))
    anchors = np.array([[10, 13], [16, 30], [33, 23]]).reshape(1, 3, 1, 1, 2)
    return net.op("Concat", place, net.op("Mul", size, net.f32(anchors)), rest, axis=4)


def cells_apart(
    net: Net,
    columns: Sequence[int],
    after: Sequence[Sequence[str]],
    strides: Any = STRIDES,
) -> list[str]:
    """Outputs (1, cells, columns) of layers, with operators behind them."""
    found: list[str] = []
    for count, kinds in zip(columns, after, strict=True):
        y = net.op("Transpose", net.levels("images", count, strides), perm=[0, 2, 1])
        for kind in kinds:
            y = net.op(kind, y)
        found.append(y)
    return found


def ssd(net: Net, classes: int, *, softmax: bool = True) -> list[str]:
    """Scores with the background first, mostly won by it, and raw offsets."""
    scores, offsets = cells_apart(net, [1 + classes, 4], [[], []], (4, 8, 16))
    bias = np.zeros(1 + classes)
    bias[0] = 9
    scores = net.op("Add", scores, net.f32(bias))
    return [net.op("Softmax", scores, axis=2) if softmax else scores, offsets]


def queries(net: Net, classes: int, *, sigmoid: bool) -> list[str]:
    """Scores and boxes of queries, from matrix products."""
    y = net.op("Transpose", net.level("images", 32, 8), perm=[0, 2, 1])
    rng = np.random.default_rng(3)
    scores = net.op("MatMul", y, net.f32(rng.normal(0, 1, (8, classes))))
    boxes = net.op("MatMul", y, net.f32(rng.normal(0, 1, (8, 4))))
    boxes = net.op("Sigmoid", net.op("Add", boxes, net.f32([0.1, 0.2, 0.3, 0.4])))
    return [net.op("Sigmoid", scores) if sigmoid else scores, boxes]


def peaks(net: Net, *, swapped: bool = False) -> str:
    """Rows of a box, its score and its class, the likeliest first."""
    boxes, heat = cells_apart(net, [4, 1], [["Relu"], ["Sigmoid"]])
    flat = net.shaped(heat, 1, -1)
    best, index = net.top(flat, 30)
    kind = net.op("Cast", net.op("Mod", index, net.const(np.array(3))), to=1)
    ends = [
        net.op("Unsqueeze", each, net.const(np.array([2]))) for each in (best, kind)
    ]
    few = net.op("Slice", boxes, *(net.const(np.array([n])) for n in (0, 30, 1)))
    return net.op("Concat", few, *(ends[::-1] if swapped else ends), axis=2)
