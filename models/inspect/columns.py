"""Where the columns of an output come from: the operators behind each, back to a layer.

An output such as (1, 8400, 85) holds boxes, objectness and scores side by side. Which
columns are which, and what was done to them, stands in the graph.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from edgepipe.models.inspect.backwards import (
    LAYERS,
    MOVES,
    Place,
    before,
    is_expectation,
    of_columns,
    same_size,
)
from edgepipe.models.inspect.graph import Graph, Node

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
class _Trail:
    """How far a trace has come on one way."""

    place: Place
    shift: int
    """Added to the place's columns to get those of the output."""
    steps: tuple[Step, ...]

    def to(self, place: Place, *steps: Step) -> "_Trail":
        """Further back, to where the same columns of the output are."""
        moved = self.shift + self.place.low - place.low
        return _Trail(place, moved, (*self.steps, *steps))


def columns_of(graph: Graph, name: str, axis: int) -> tuple[Columns, ...]:
    """The columns of an axis of a tensor, by where they come from; none if unknown."""
    shape = graph.shape(name)
    size = shape[axis] if shape is not None and axis < len(shape) else None
    if size is None:
        return ()
    found = list(_trace(graph, Place(name, axis, 0, size)))
    edges = sorted({edge for low, high, _ in found for edge in (low, high)})
    pieces = [
        Columns(
            low, high, tuple(path for a, b, path in found if a <= low and high <= b)
        )
        for low, high in itertools.pairwise(edges)
    ]
    return tuple(pieces)


def _trace(graph: Graph, start: Place) -> Iterator[tuple[int, int, Path]]:
    """First column of the output, the one behind the last, and how they came about."""
    waiting, left = [_Trail(start, 0, ())], _MOST_STEPS
    while waiting:
        trail = _noting_whole_numbers(graph, waiting.pop())
        left -= 1
        is_long = left < 0 or len(trail.steps) > _MOST_DEPTH
        back = "unknown" if is_long else _back(graph, trail)
        if isinstance(back, str):
            low, high = (trail.place.low, trail.place.high)
            yield low + trail.shift, high + trail.shift, Path(trail.steps, back)
        else:
            waiting += back[::-1]


def _noting_whole_numbers(graph: Graph, trail: _Trail) -> _Trail:
    is_whole = graph.dtypes.get(trail.place.name, "").startswith(("int", "uint"))
    if is_whole and trail.steps[-1:] != (WHOLE,):
        return trail.to(trail.place, WHOLE)
    return trail


def _back(graph: Graph, trail: _Trail) -> list[_Trail] | str:
    """One operator back on every way; at the end of all, what stands there."""
    node = graph.producer.get(trail.place.name)
    if node is None:
        return "input or constant"
    if node.op in LAYERS and not is_expectation(graph, node):
        return node.op
    if node.op == "Concat":
        return _into_parts(graph, node, trail)
    if node.op in _BINARY:
        return _into_operands(graph, node, trail)
    place = before(graph, node, trail.place)
    if place is None:
        return node.op
    if node.op in MOVES:
        return [trail.to(place)]
    return [trail.to(place, Step("Expectation" if node.op in LAYERS else node.op))]


def _into_parts(graph: Graph, node: Node, trail: _Trail) -> list[_Trail] | str:
    """To the inputs of a Concat that hold some of the columns."""
    place = trail.place
    shapes = [graph.shape(name) for name in node.inputs]
    rank = next((len(shape) for shape in shapes if shape is not None), 0)
    axis = int(node.attributes.get("axis", 0)) % max(rank, 1)
    if place.axis != axis:
        parts = dict.fromkeys(node.inputs)
        return [trail.to(replace(place, name=name)) for name in parts]
    start, found = 0, list[_Trail]()
    for name, shape in zip(node.inputs, shapes, strict=True):
        size = shape[axis] if shape is not None and axis < len(shape) else None
        if size is None:
            return "unknown"
        low, high = max(place.low, start), min(place.high, start + size)
        if low < high:
            there = Place(name, axis, low - start, high - start)
            found.append(_Trail(there, trail.shift + start, trail.steps))
        start += size
    return found or "unknown"


def _into_operands(graph: Graph, node: Node, trail: _Trail) -> list[_Trail] | str:
    """To the operands that depend on the image; the other is noted."""
    moving = [name for name in node.inputs if name in graph.from_image]
    fixed = [name for name in node.inputs if name not in graph.from_image]
    value = graph.constant(fixed[0]) if fixed else None
    if value is not None:
        value = of_columns(value, trail.place, graph.shape(trail.place.name))
    step = Step(node.op, value, bool(fixed))
    names = dict.fromkeys(moving)
    places = [same_size(graph, name, trail.place) for name in names]
    return [trail.to(place, step) for place in places] or "input or constant"
