"""What a network does with its input before the first layer."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from edgepipe.models.inspect.graph import Graph, Node, TensorInfo

_MOST_STEPS = 12
_ARITHMETIC = {"Add": 1, "Sub": -1, "Mul": 1, "Div": -1}
_CARRIED = {"Cast", "Transpose", "Identity", "QuantizeLinear", "DequantizeLinear"}
_LEAST_SPAN, _MOST_SPAN = 0.5, 20.0
"""How far black lies from white in front of the first layer of a trained network."""


@dataclass(frozen=True, slots=True)
class Entrance:
    """The image input."""

    tensor: TensorInfo
    channels_last: bool | None
    """None where neither the shape nor the first operators tell."""
    steps: tuple[str, ...]
    """Operators in front of the first layer that change values."""
    white: float | None
    """The value of a white pixel that the network wants, if its own arithmetic tells:
    255 or 1."""

    @property
    def spatial(self) -> tuple[int | None, int | None]:
        """Height and width, None where free."""
        shape = self.tensor.shape
        if shape is None or len(shape) != 4:
            return None, None
        sizes = shape[1:3] if self.channels_last else shape[2:]
        height, width = (s if isinstance(s, int) and s > 0 else None for s in sizes)
        return height, width

    @property
    def channels(self) -> int | None:
        """How many, None where not said."""
        shape = self.tensor.shape
        if shape is None or len(shape) != 4:
            return None
        size = shape[3 if self.channels_last else 1]
        return size if isinstance(size, int) else None

    def shape(self, height: int, width: int) -> tuple[int, int, int, int]:
        """Of one image of this size."""
        channels = self.channels or 3
        if self.channels_last:
            return 1, height, width, channels
        return 1, channels, height, width


def entrance_of(graph: Graph) -> Entrance | None:
    """The input for the image, the only one of four dimensions; else None."""
    alone = len(graph.inputs) == 1
    candidates = [
        tensor
        for tensor in graph.inputs
        if (alone if tensor.shape is None else len(tensor.shape) == 4)
    ]
    if len(candidates) != 1:
        return None
    (tensor,) = candidates
    chain = _chain(graph, tensor.name)
    steps = tuple(node.op for node in chain if node.op in _ARITHMETIC)
    return Entrance(tensor, _channels_last(graph, tensor), steps, _white(graph, chain))


def _chain(graph: Graph, name: str) -> list[Node]:
    """The operators behind the input, up to the first layer or branch."""
    found: list[Node] = []
    while len(found) < _MOST_STEPS:
        readers = graph.readers.get(name, [])
        if len(readers) != 1 or readers[0].op not in {*_ARITHMETIC, *_CARRIED}:
            break
        node = readers[0]
        if node.op in _ARITHMETIC and _operand(graph, node, name) is None:
            break
        found.append(node)
        name = node.outputs[0]
    return found


def _operand(graph: Graph, node: Node, name: str) -> Any:
    others = [each for each in node.inputs if each != name]
    return graph.constant(others[0]) if len(others) == 1 else None


def _white(graph: Graph, chain: list[Node]) -> float | None:
    """255 or 1, whichever the arithmetic brings to where trained networks want it."""
    span = 1.0
    arithmetic = False
    before = chain[0].inputs[0] if chain else ""
    for node in chain:
        name = before if before in node.inputs else node.inputs[0]
        if node.op in ("Mul", "Div"):
            value = np.abs(np.asarray(_operand(graph, node, name), np.float64))
            if not value.size or value.min() <= 0 or node.inputs[0] != name:
                return None
            span *= float(value.mean()) ** _ARITHMETIC[node.op]
        arithmetic |= node.op in _ARITHMETIC
        before = node.outputs[0]
    if not arithmetic:
        return None
    fits = [top for top in (255.0, 1.0) if _LEAST_SPAN <= span * top <= _MOST_SPAN]
    return fits[0] if len(fits) == 1 else None


def _channels_last(graph: Graph, tensor: TensorInfo) -> bool | None:
    shape = tensor.shape
    if shape is not None and len(shape) == 4:
        first, last = shape[1] in (1, 3, 4), shape[3] in (1, 3, 4)
        if first != last:
            return last
    for node in _chain(graph, tensor.name):
        if node.op == "Transpose":
            return node.attributes.get("perm") == [0, 3, 1, 2]
    name = tensor.name
    chain = _chain(graph, tensor.name)
    name = chain[-1].outputs[0] if chain else name
    if any(node.op == "Conv" for node in graph.readers.get(name, [])):
        return False
    return None
