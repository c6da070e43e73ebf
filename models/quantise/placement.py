"""Which layers of a network are INT8, and which tensors need a range for that."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul")
"""Layers that do the arithmetic; the second input is their kernel."""
POOLS = ("MaxPool",)
"""They only choose among values: what goes in as INT8 comes out as INT8. In OpenVINO
pooling INT8 is worth 8 % of NanoDet-g and of YOLOX-Nano. Concat, Resize and Add were
tried, too (benchmarks/models/quantisers.py): each made one of the two slower."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer that can be INT8."""

    name: str
    kind: str
    """Its operator."""
    reads: str
    """The activation that goes in."""
    kernel: str
    """The weights; empty for pooling."""
    weights: int
    """How many there are."""


def layers_of(model: Any) -> tuple[Layer, ...]:
    """The layers that can be INT8, in the order of the graph.

    A matrix product of two activations is none: attention loses most of its accuracy
    and it is a small part of a detector's work.
    """
    return tuple(_layers(model.graph))


def _layers(graph: Any) -> Iterator[Layer]:
    sizes = {item.name: _size(item.dims) for item in graph.initializer}
    for node in graph.node:
        if node.op_type in POOLS:
            yield Layer(node.name, node.op_type, node.input[0], "", 0)
        elif node.op_type in WEIGHTED and sizes.get(node.input[1], 0):
            kernel = node.input[1]
            yield Layer(node.name, node.op_type, node.input[0], kernel, sizes[kernel])


def _size(dims: Any) -> int:
    size = 1
    for dim in dims:
        size *= dim
    return size


def quantised(
    layers: tuple[Layer, ...], kept: Collection[str] = ()
) -> tuple[Layer, ...]:
    """The layers without those that are kept in FP32.

    Raises:
        ValueError: One that is to be kept does not exist.
    """
    unknown = set(kept) - {layer.name for layer in layers}
    if unknown:
        raise ValueError(f"no such layer: {', '.join(sorted(unknown))}")
    return tuple(layer for layer in layers if layer.name not in set(kept))
