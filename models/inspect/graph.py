"""A network as plain data: nodes, stored tensors and shapes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Shape = tuple[int | None, ...]
"""Sizes of a tensor, None where not known."""

_SHAPE_ONLY = {"Shape", "Size"}
"""Operators that look at how large a tensor is and not at what is in it."""
_PASSED = {
    "Identity",
    "Cast",
    "Reshape",
    "Unsqueeze",
    "Squeeze",
    "Flatten",
    "DequantizeLinear",
    "QuantizeLinear",
}
"""Operators through which a stored value is still that value, for our purposes."""


@dataclass(frozen=True, slots=True)
class Header:
    """What stands around the graph."""

    producer: str
    ir_version: int
    opsets: Mapping[str, int]
    """By domain; ``ai.onnx`` is the standard one."""
    functions: frozenset[str]
    """Operators that the file itself defines, as ``domain:name``."""
    external: tuple[str, ...]
    """Other files with weights."""
    metadata: Mapping[str, str]
    newest_opset: int
    """Of the standard domain that the onnx package knows."""


@dataclass(frozen=True, slots=True)
class Node:
    """One operator of the network."""

    op: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    """Numbers, texts, lists of them and arrays; a subgraph is left out."""


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """An input or output as the file declares it."""

    name: str
    dtype: str
    """As NumPy calls it, ``float16`` for example; else ``not a tensor``."""
    shape: tuple[int | str | None, ...] | None
    """A text is a size with a name of its own, None one that is not said; None in place
    of the whole: the file does not even say how many dimensions there are."""


@dataclass(frozen=True)
class Graph:
    """The network's data flow."""

    nodes: tuple[Node, ...]
    inputs: tuple[TensorInfo, ...]
    """What has to be given: those without a stored value."""
    outputs: tuple[TensorInfo, ...]
    constants: Mapping[str, NDArray[Any]]
    """Stored tensors whose values are at hand."""
    stored: Mapping[str, tuple[int, ...]]
    """Shapes of all stored tensors."""
    shapes: Mapping[str, Shape]
    """Of every tensor of which one is known."""
    dtypes: Mapping[str, str] = field(default_factory=dict[str, str])
    """The same for the types of their elements."""
    inner: tuple[Node, ...] = field(default=())
    """Nodes of subgraphs and local functions, which only count."""

    @cached_property
    def producer(self) -> dict[str, Node]:
        """The node that makes a tensor."""
        return {name: node for node in self.nodes for name in node.outputs if name}

    @cached_property
    def readers(self) -> dict[str, list[Node]]:
        """The nodes that read a tensor."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                found.setdefault(name, []).append(node)
        return found

    @cached_property
    def from_image(self) -> frozenset[str]:
        """Tensors that depend on what is in the inputs, not only on their size."""
        found = {tensor.name for tensor in self.inputs}
        for node in self.nodes:
            if node.op not in _SHAPE_ONLY and not found.isdisjoint(node.inputs):
                found.update(node.outputs)
        return frozenset(found)

    def constant(self, name: str) -> NDArray[Any] | None:
        """The value of a stored tensor, also behind a cast or reshape; None if none."""
        for _ in range(16):
            if name in self.constants:
                return self.constants[name]
            node = self.producer.get(name)
            if node is None:
                return None
            if node.op == "Constant":
                value = node.attributes.get("value", node.attributes.get("value_float"))
                return None if value is None else np.asarray(value)
            if node.op not in _PASSED or not node.inputs:
                return None
            name = node.inputs[0]
        return None

    def shape(self, name: str) -> Shape | None:
        """The shape of a tensor, None if not known."""
        return self.shapes.get(name, self.stored.get(name))
