"""Where the columns of an output come from: the operators behind each, back to a layer.

An output such as (1, 8400, 85) holds boxes, objectness and scores side by side. Which
columns are which, and what was done to them, stands in the graph.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.inspect.graph import Graph, Node

LAYERS = {"Conv", "ConvTranspose", "Gemm", "MatMul", "QLinearConv", "ConvInteger"}
"""Where a trace ends: what is in front of it is learned."""
_BINARY = {"Add", "Sub", "Mul", "Div", "Pow"}
_MOST_STEPS = 20_000
"""Of one trace; a graph built to have endless paths ends here."""
_MOST_DEPTH = 300


@dataclass(frozen=True, slots=True)
class Step:
    """One operator on the way from an output back to the layer that it comes from."""

    op: str
    value: NDArray[Any] | None = None
    """The other operand of an addition, multiplication and so on, where it is known."""
    fixed: bool = True
    """Whether the other operand, if any, depends on the size of the image only."""


WHOLE = Step("Whole")
"""The values are whole numbers here: numbers of classes, for example."""


@dataclass(frozen=True, slots=True)
class Path:
    """Steps from an output backwards."""

    steps: tuple[Step, ...]
    source: str
    """The operator at which it ends: ``Conv``, ``MatMul``, ``TopK`` and so on."""

    def has(self, *ops: str) -> bool:
        """Whether any of these operators is on it."""
        return any(step.op in ops for step in self.steps)

    def values(self, *ops: str) -> list[NDArray[Any]]:
        """The known operands of these operators on it."""
        return [s.value for s in self.steps if s.op in ops and s.value is not None]


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns ``start`` to ``stop`` (not included), which all come the same way."""

    start: int
    stop: int
    paths: tuple[Path, ...]
    """One for each level of a pyramid and each operand."""

    @property
    def count(self) -> int:
        """How many columns."""
        return self.stop - self.start

    def has(self, *ops: str) -> bool:
        """Whether any of these operators is on any of the paths."""
        return any(path.has(*ops) for path in self.paths)


@dataclass(frozen=True, slots=True)
class _Place:
    """Columns ``low`` to ``high`` of an axis; None: which it is is no longer known."""

    name: str
    axis: int | None
    low: int
    high: int


class _Budget:
    def __init__(self) -> None:
        self.left = _MOST_STEPS

    def spend(self) -> bool:
        self.left -= 1
        return self.left >= 0


def columns_of(graph: Graph, name: str, axis: int) -> tuple[Columns, ...]:
    """The columns of an axis of a tensor, by where they come from; none if unknown."""
    shape = graph.shape(name)
    size = shape[axis] if shape is not None and axis < len(shape) else None
    if size is None:
        return ()
    place = _Place(name, axis, 0, size)
    found = list(_trace(graph, place, 0, (), _Budget()))
    edges = sorted({edge for low, high, _ in found for edge in (low, high)})
    pieces = [
        Columns(
            low, high, tuple(path for a, b, path in found if a <= low and high <= b)
        )
        for low, high in itertools.pairwise(edges)
    ]
    return tuple(pieces)


_Found = tuple[int, int, Path]
"""First column of the output, the one behind the last, and how they came about."""


def _trace(
    graph: Graph, place: _Place, shift: int, steps: tuple[Step, ...], budget: _Budget
) -> Iterator[_Found]:
    """Follow a place backwards; ``shift`` is added to get the output's columns."""
    is_whole = graph.dtypes.get(place.name, "").startswith(("int", "uint"))
    if is_whole and steps[-1:] != (WHOLE,):
        steps = (*steps, WHOLE)
    node = graph.producer.get(place.name)
    if node is None or (node.op in LAYERS and not _is_expectation(graph, node)):
        yield _end(place, shift, steps, node.op if node else "input or constant")
        return
    if not budget.spend() or len(steps) > _MOST_DEPTH:
        yield _end(place, shift, steps, "unknown")
        return
    if node.op == "Concat":
        yield from _through_concat(graph, node, place, shift, steps, budget)
    elif node.op in _BINARY:
        yield from _through_binary(graph, node, place, shift, steps, budget)
    else:
        before = _before(graph, node, place)
        if before is None:
            yield _end(place, shift, steps, node.op)
            return
        moved = shift + place.low - before.low if before.axis is not None else shift
        if before.axis is None and place.axis is not None:
            # From here on the columns stay as they are in the output.
            before = _Place(before.name, None, place.low + shift, place.high + shift)
            moved = 0
        more = steps if node.op in _MOVES else (*steps, _step(graph, node))
        yield from _trace(graph, before, moved, more, budget)


def _end(place: _Place, shift: int, steps: tuple[Step, ...], source: str) -> _Found:
    return place.low + shift, place.high + shift, Path(steps, source)


def _is_expectation(graph: Graph, node: Node) -> bool:
    """Whether a convolution is the mean of a distribution over 0, 1, 2 and so on."""
    weight = graph.constant(node.inputs[1]) if len(node.inputs) > 1 else None
    if weight is None or weight.size < 2:
        return False
    counts = np.arange(weight.size, dtype=np.float64)
    return bool(np.allclose(weight.ravel().astype(np.float64), counts))


def _step(graph: Graph, node: Node) -> Step:
    return Step("Expectation" if node.op in LAYERS else node.op)


_MOVES = {
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


def _through_concat(
    graph: Graph,
    node: Node,
    place: _Place,
    shift: int,
    steps: tuple[Step, ...],
    budget: _Budget,
) -> Iterator[_Found]:
    shapes = [graph.shape(name) for name in node.inputs]
    rank = next((len(shape) for shape in shapes if shape is not None), 0)
    axis = int(node.attributes.get("axis", 0)) % max(rank, 1)
    if place.axis != axis:
        for name in dict.fromkeys(node.inputs):
            there = _Place(name, place.axis, place.low, place.high)
            yield from _trace(graph, there, shift, steps, budget)
        return
    start = 0
    for name, shape in zip(node.inputs, shapes, strict=True):
        size = shape[axis] if shape is not None else None
        if size is None:
            yield _end(place, shift, steps, "unknown")
            return
        low, high = max(place.low, start), min(place.high, start + size)
        if low < high:
            there = _Place(name, axis, low - start, high - start)
            yield from _trace(graph, there, shift + start, steps, budget)
        start += size


def _through_binary(
    graph: Graph,
    node: Node,
    place: _Place,
    shift: int,
    steps: tuple[Step, ...],
    budget: _Budget,
) -> Iterator[_Found]:
    """Into the operands that depend on the image; the other is noted."""
    moving = [name for name in node.inputs if name in graph.from_image]
    fixed = [name for name in node.inputs if name not in graph.from_image]
    value = graph.constant(fixed[0]) if fixed else None
    if value is not None:
        value = _of_columns(value, place, graph.shape(place.name))
    step = Step(node.op, value, bool(fixed))
    for name in dict.fromkeys(moving):
        there = _same_size(graph, name, place)
        yield from _trace(graph, there, shift, (*steps, step), budget)


def _same_size(graph: Graph, name: str, place: _Place) -> _Place:
    """The same columns of an operand, which may have fewer dimensions or repeat one."""
    mine, other = graph.shape(place.name), graph.shape(name)
    if place.axis is None or mine is None or other is None:
        return _Place(name, place.axis, place.low, place.high)
    axis = place.axis - (len(mine) - len(other))
    if axis < 0 or other[axis] != mine[place.axis]:
        return _Place(name, None, place.low, place.high)
    return _Place(name, axis, place.low, place.high)


def _of_columns(
    value: NDArray[Any], place: _Place, shape: Sequence[int | None] | None
) -> NDArray[Any]:
    """The part of a constant operand that meets the columns."""
    if place.axis is None or shape is None:
        return value
    axis = place.axis - (len(shape) - value.ndim)
    if axis < 0 or value.shape[axis] != shape[place.axis]:
        return value
    return np.take(value, range(place.low, place.high), axis=axis)


def _before(graph: Graph, node: Node, place: _Place) -> _Place | None:
    """The same columns in a node's first input; None where they end here."""
    if not node.inputs:
        return None
    name, axis = node.inputs[0], place.axis
    lost = _Place(name, None, place.low, place.high)
    kept = _Place(name, axis, place.low, place.high)
    if node.op in LAYERS:
        return lost
    if axis is None:
        return lost if node.op in _MOVES | _ONE_BY_ONE else None
    if node.op in ("Reshape", "Squeeze", "Unsqueeze", "Flatten"):
        return _before_reshape(graph, node, place) or lost
    if node.op == "Transpose":
        order = node.attributes.get("perm")
        return _Place(name, order[axis], place.low, place.high) if order else lost
    if node.op == "Split":
        return _before_split(graph, node, place)
    if node.op == "Slice":
        return _before_slice(graph, node, place) or lost
    if node.op in ("Gather", "Expand", "Tile"):
        return lost
    return kept if node.op in _MOVES | _ONE_BY_ONE else None


def _before_reshape(graph: Graph, node: Node, place: _Place) -> _Place | None:
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
            return _Place(node.inputs[0], axis, place.low, place.high)
    return None


def _before_split(graph: Graph, node: Node, place: _Place) -> _Place:
    name = node.inputs[0]
    rank = len(graph.shape(name) or ()) or 1
    axis = int(node.attributes.get("axis", 0)) % rank
    if place.axis != axis:
        return _Place(name, place.axis, place.low, place.high)
    start = 0
    for output in node.outputs:
        if output == place.name:
            return _Place(name, axis, place.low + start, place.high + start)
        shape = graph.shape(output)
        size = shape[axis] if shape is not None else None
        if size is None:
            break
        start += size
    return _Place(name, None, place.low, place.high)


def _before_slice(graph: Graph, node: Node, place: _Place) -> _Place | None:
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
        return _Place(name, place.axis, place.low + start, place.high + start)
    return _Place(name, place.axis, place.low, place.high)
