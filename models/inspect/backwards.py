"""The same columns one operator earlier."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.inspect.graph import Graph, Node

LAYERS = {"Conv", "ConvTranspose", "Gemm", "MatMul", "QLinearConv", "ConvInteger"}
"""Where a trace ends: what is in front of it is learned."""
MOVES = {
    "Identity",
    "Cast",
    "Reshape",
    "Transpose",
    "Squeeze",
    "Unsqueeze",
    "Flatten",
    "Slice",
    "Split",
    "QuantizeLinear",
    "DequantizeLinear",
    "Gather",
    "Expand",
    "Tile",
    "Resize",
}
"""Operators that move values and do not change them."""
_ONE_BY_ONE = {
    "Sigmoid",
    "HardSigmoid",
    "Exp",
    "Relu",
    "Softplus",
    "Softmax",
    "Clip",
    "Neg",
    "Tanh",
    "LeakyRelu",
    "Log",
    "Sqrt",
    "BatchNormalization",
    "InstanceNormalization",
    "LayerNormalization",
    "Max",
    "Min",
    "Abs",
}
"""Operators that keep the shape of their first input."""


@dataclass(frozen=True, slots=True)
class Place:
    """Columns ``low`` to ``high`` of an axis; None: which it is is no longer known."""

    name: str
    axis: int | None
    low: int
    high: int


def is_expectation(graph: Graph, node: Node) -> bool:
    """Whether a convolution is the mean of a distribution over 0, 1, 2 and so on."""
    weight = graph.constant(node.inputs[1]) if len(node.inputs) > 1 else None
    if weight is None or weight.size < 2:
        return False
    counts = np.arange(weight.size, dtype=np.float64)
    return bool(np.allclose(weight.ravel().astype(np.float64), counts))


def same_size(graph: Graph, name: str, place: Place) -> Place:
    """The same columns of an operand, which may have fewer dimensions or repeat one."""
    mine, other = graph.shape(place.name), graph.shape(name)
    if place.axis is None or mine is None or other is None:
        return Place(name, place.axis, place.low, place.high)
    axis = place.axis - (len(mine) - len(other))
    if axis < 0 or other[axis] != mine[place.axis]:
        return Place(name, None, place.low, place.high)
    return Place(name, axis, place.low, place.high)


def of_columns(
    value: NDArray[Any], place: Place, shape: Sequence[int | None] | None
) -> NDArray[Any]:
    """The part of a constant operand that meets the columns."""
    if place.axis is None or shape is None:
        return value
    axis = place.axis - (len(shape) - value.ndim)
    if axis < 0 or value.shape[axis] != shape[place.axis]:
        return value
    return np.take(value, range(place.low, place.high), axis=axis)


def before(graph: Graph, node: Node, place: Place) -> Place | None:
    """The same columns in a node's first input; None where they end here."""
    if not node.inputs:
        return None
    name, axis = node.inputs[0], place.axis
    lost = Place(name, None, place.low, place.high)
    kept = Place(name, axis, place.low, place.high)
    if node.op in LAYERS:
        return lost
    if axis is None:
        return lost if node.op in MOVES | _ONE_BY_ONE else None
    if node.op in ("Reshape", "Squeeze", "Unsqueeze", "Flatten"):
        return _before_reshape(graph, node, place) or lost
    if node.op == "Transpose":
        order = node.attributes.get("perm")
        return Place(name, order[axis], place.low, place.high) if order else lost
    if node.op == "Split":
        return _before_split(graph, node, place)
    if node.op == "Slice":
        return _before_slice(graph, node, place) or lost
    if node.op in ("Gather", "Expand", "Tile"):
        return lost
    return kept if node.op in MOVES | _ONE_BY_ONE else None


def _before_reshape(graph: Graph, node: Node, place: Place) -> Place | None:
    """The axis of the input that has the same size and as much in front of it."""
    before, after = graph.shape(node.inputs[0]), graph.shape(place.name)
    if before is None or after is None or place.axis is None:
        return None
    if None in before or None in after:
        return None
    old = np.array(before, np.int64)
    front = int(np.prod(np.array(after[: place.axis], np.int64)))
    for axis, size in enumerate(before):
        if size == after[place.axis] and int(np.prod(old[:axis])) == front:
            return Place(node.inputs[0], axis, place.low, place.high)
    return None


def _before_split(graph: Graph, node: Node, place: Place) -> Place:
    name = node.inputs[0]
    rank = len(graph.shape(name) or ()) or 1
    axis = int(node.attributes.get("axis", 0)) % rank
    if place.axis != axis:
        return Place(name, place.axis, place.low, place.high)
    start = 0
    for output in node.outputs:
        if output == place.name:
            return Place(name, axis, place.low + start, place.high + start)
        shape = graph.shape(output)
        size = shape[axis] if shape is not None else None
        if size is None:
            break
        start += size
    return Place(name, None, place.low, place.high)


def _before_slice(graph: Graph, node: Node, place: Place) -> Place | None:
    """Columns of the input of a slice with steps of one."""
    name = node.inputs[0]
    values = [graph.constant(each) for each in node.inputs[1:]]
    starts: Any = values[0] if values else node.attributes.get("starts")
    axes: Any = values[2] if len(values) > 2 else node.attributes.get("axes")
    if starts is None:
        return None
    first = [int(each) for each in np.ravel(starts)]
    along = (
        range(len(first)) if axes is None else [int(each) for each in np.ravel(axes)]
    )
    shape = graph.shape(name)
    for start, axis in zip(first, along, strict=False):
        rank = len(shape) if shape is not None else axis + 1
        if axis % rank != place.axis:
            continue
        size = shape[axis] if shape is not None else None
        if start < 0 and size is None:
            return None
        start = start + size if start < 0 and size is not None else start
        return Place(name, place.axis, place.low + start, place.high + start)
    return Place(name, place.axis, place.low, place.high)
