"""A graph with the shape of YOLOv8n: the layers and sizes, no trained weights."""

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

BINS = 16
CLASSES = 80
STRIDES = (8, 16, 32)
MEAN_LOGIT = -4.0


class Builder:
    """Collects nodes; every method returns the name of its result."""

    def __init__(self, activation: str, seed: int) -> None:
        self._activation = activation
        self._random = np.random.default_rng(seed)
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, NDArray[np.generic]] = {}
        self._cells: dict[str, tuple[int, int]] = {}
        self.macs = 0
        """Multiply-accumulates of all convolutions so far."""
        self.parameters = 0
        self._features = 0

    @property
    def decoding(self) -> list[str]:
        """Names of the nodes that turn feature maps into boxes."""
        return [node.name for node in self._nodes[self._features :]]

    def end_features(self) -> None:
        """Everything from here on is decoding."""
        self._features = len(self._nodes)

    def start(self, name: str, channels: int, side: int) -> None:
        """The input: its channels and its side in pixels."""
        self._cells[name] = (channels, side)

    def node(self, operator: str, inputs: list[str], **attributes: object) -> str:
        """Any operator with one output, named after its number."""
        name = f"{operator.lower()}_{len(self._nodes)}"
        self._nodes.append(
            helper.make_node(operator, inputs, [name], name, **attributes)
        )
        return name

    def constant(self, value: NDArray[np.generic]) -> str:
        """A stored tensor."""
        name = f"c_{len(self._constants)}"
        self._constants[name] = value
        return name

    def conv(self, x: str, out: int, kernel: int, stride: int = 1) -> str:
        """A convolution with padding that keeps the size at stride 1."""
        channels, side = self._cells[x]
        side = -(-side // stride)
        spread = 1 / np.sqrt(channels * kernel * kernel)
        shape = (out, channels, kernel, kernel)
        weight = self._random.normal(0, spread, shape).astype(np.float32)
        inputs = [self.constant(weight), self.constant(np.zeros(out, np.float32))]
        pads = [kernel // 2] * 4
        name = self.node(
            "Conv",
            [x, *inputs],
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=pads,
        )
        self._cells[name] = (out, side)
        self.macs += weight.size * side * side
        self.parameters += weight.size + out
        return name

    def block(self, x: str, out: int, kernel: int, stride: int = 1) -> str:
        """A convolution and its activation."""
        y = self.conv(x, out, kernel, stride)
        if self._activation == "relu":
            name = self.node("Relu", [y])
        else:
            name = self.node("Mul", [y, self.node("Sigmoid", [y])])
        self._cells[name] = self._cells[y]
        return name

    def concat(self, parts: list[str]) -> str:
        """Feature maps of one size, side by side in channels."""
        name = self.node("Concat", parts, axis=1)
        channels = sum(self._cells[part][0] for part in parts)
        self._cells[name] = (channels, self._cells[parts[0]][1])
        return name

    def c2f(self, x: str, out: int, depth: int, *, shortcut: bool) -> str:
        """Cross-stage block: two halves, one of them through bottlenecks."""
        half = out // 2
        y = self.block(x, out, 1)
        parts = [self.channels(y, 0, half), self.channels(y, half, out)]
        for _ in range(depth):
            z = self.block(self.block(parts[-1], half, 3), half, 3)
            if shortcut:
                added = self.node("Add", [parts[-1], z])
                self._cells[added] = self._cells[z]
                z = added
            parts.append(z)
        return self.block(self.concat(parts), out, 1)

    def channels(self, x: str, start: int, end: int) -> str:
        """A range of channels."""
        ends = [np.array([v], np.int64) for v in (start, end, 1)]
        name = self.node("Slice", [x, *map(self.constant, ends)])
        self._cells[name] = (end - start, self._cells[x][1])
        return name

    def sppf(self, x: str, out: int) -> str:
        """Three poolings in a row, all kept."""
        half = out // 2
        parts = [self.block(x, half, 1)]
        for _ in range(3):
            parts.append(
                self.node("MaxPool", [parts[-1]], kernel_shape=[5, 5], pads=[2] * 4)
            )
            self._cells[parts[-1]] = self._cells[parts[0]]
        return self.block(self.concat(parts), out, 1)

    def double(self, x: str) -> str:
        """Twice the side, nearest neighbour."""
        scales = self.constant(np.array([1, 1, 2, 2], np.float32))
        name = self.node("Resize", [x, "", scales], mode="nearest")
        channels, side = self._cells[x]
        self._cells[name] = (channels, side * 2)
        return name

    def model(self, output: str, size: int) -> onnx.ModelProto:
        """The finished model; ``output`` is renamed to ``output0``."""
        self._nodes[-1].output[0] = "output0"
        assert output == self._nodes[-1].name
        cells = sum((size // stride) ** 2 for stride in STRIDES)
        graph = helper.make_graph(
            self._nodes,
            "yolov8n_shaped",
            [_tensor("images", [1, 3, size, size])],
            [_tensor("output0", [1, 4 + CLASSES, cells])],
            [numpy_helper.from_array(v, k) for k, v in self._constants.items()],
        )
        opset = [helper.make_opsetid("", 17)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        return model


def build(size: int, activation: str, seed: int) -> tuple[onnx.ModelProto, Builder]:
    """YOLOv8n (width 0.25, depth 0.33) for square images of ``size`` pixels."""
    b = Builder(activation, seed)
    b.start("images", 3, size)
    x = b.block("images", 16, 3, 2)
    x = b.c2f(b.block(x, 32, 3, 2), 32, 1, shortcut=True)
    p3 = b.c2f(b.block(x, 64, 3, 2), 64, 2, shortcut=True)
    p4 = b.c2f(b.block(p3, 128, 3, 2), 128, 2, shortcut=True)
    x = b.c2f(b.block(p4, 256, 3, 2), 256, 1, shortcut=True)
    p5 = b.sppf(x, 256)
    n4 = b.c2f(b.concat([b.double(p5), p4]), 128, 1, shortcut=False)
    n3 = b.c2f(b.concat([b.double(n4), p3]), 64, 1, shortcut=False)
    n4 = b.c2f(b.concat([b.block(n3, 64, 3, 2), n4]), 128, 1, shortcut=False)
    n5 = b.c2f(b.concat([b.block(n4, 128, 3, 2), p5]), 256, 1, shortcut=False)
    return b.model(_head(b, (n3, n4, n5), size), size), b


def _head(b: Builder, levels: tuple[str, ...], size: int) -> str:
    """Distances as distributions and class scores of all levels, then boxes."""
    shape = b.constant(np.array([1, 4 * BINS + CLASSES, -1], np.int64))
    flat: list[str] = []
    for level in levels:
        sides = b.conv(b.block(b.block(level, 64, 3), 64, 3), 4 * BINS, 1)
        scores = b.block(b.block(level, CLASSES, 3), CLASSES, 3)
        scores = b.conv(scores, CLASSES, 1)
        both = b.concat([sides, scores])
        flat.append(b.node("Reshape", [both, shape]))
    b.end_features()
    everything = b.node("Concat", flat, axis=2)
    b.start(everything, 4 * BINS + CLASSES, 0)
    sides = b.channels(everything, 0, 4 * BINS)
    scores = b.channels(everything, 4 * BINS, 4 * BINS + CLASSES)
    boxes = _boxes(b, sides, size)
    # Not in YOLOv8: random features shift from frame to frame as trained ones do not,
    # and without this one frame has no box above a threshold and the next a thousand.
    scores = b.node("MeanVarianceNormalization", [scores], axes=[2])
    scores = b.node("Add", [scores, b.constant(np.array(MEAN_LOGIT, np.float32))])
    return b.node("Concat", [boxes, b.node("Sigmoid", [scores])], axis=1)


def _boxes(b: Builder, sides: str, size: int) -> str:
    """Centre, width and height in pixels from the distributions (1, 64, cells)."""
    x = b.node("Reshape", [sides, b.constant(np.array([1, 4, BINS, -1], np.int64))])
    x = b.node("Transpose", [x], perm=[0, 2, 1, 3])
    x = b.node("Softmax", [x], axis=1)
    weights = np.arange(BINS, dtype=np.float32).reshape(1, BINS, 1, 1)
    x = b.node("Conv", [x, b.constant(weights)])
    x = b.node("Reshape", [x, b.constant(np.array([1, 4, -1], np.int64))])
    b.start(x, 4, 0)
    low, high = b.channels(x, 0, 2), b.channels(x, 2, 4)
    centres, strides = _grid(size)
    start = b.node("Sub", [b.constant(centres), low])
    end = b.node("Add", [b.constant(centres), high])
    total = b.node("Add", [start, end])
    middle = b.node("Div", [total, b.constant(np.array(2, np.float32))])
    extent = b.node("Sub", [end, start])
    both = b.node("Concat", [middle, extent], axis=1)
    return b.node("Mul", [both, b.constant(strides)])


def _grid(size: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Cell centres (1, 2, cells) in cells, and strides (1, 1, cells)."""
    centres: list[NDArray[np.float32]] = []
    strides: list[NDArray[np.float32]] = []
    for stride in STRIDES:
        at = np.arange(size // stride, dtype=np.float32) + 0.5
        y, x = np.meshgrid(at, at, indexing="ij")
        centres.append(np.stack([x.ravel(), y.ravel()]))
        strides.append(np.full((1, x.size), stride, np.float32))
    return np.concatenate(centres, axis=1)[None], np.concatenate(strides, axis=1)[None]


def _tensor(name: str, shape: list[int]) -> onnx.ValueInfoProto:
    """A float input or output."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
