"""How large a network is: its parameters, and the multiplications of one image."""

import math
from dataclasses import dataclass

from edgepipe.models.inspect.graph import Graph, Node

_CONVOLUTIONS = {"Conv", "QLinearConv", "ConvInteger"}
_PRODUCTS = {"MatMul", "Gemm", "QLinearMatMul", "MatMulInteger"}
_WEIGHT = {"QLinearConv": 3, "QLinearMatMul": 3}
"""Which input holds the weights; else the second."""


@dataclass(frozen=True, slots=True)
class Work:
    """Of one image."""

    parameters: int
    """Numbers in stored tensors of more than one dimension or that a layer reads."""
    macs: int
    """Multiply-accumulates of convolutions and matrix products."""
    uncounted: int
    """Such layers whose shape is not known: with any, ``macs`` is a lower bound."""


def work_of(graph: Graph) -> Work:
    """Count what the layers store and multiply."""
    counted = [macs_of(graph, node) for node in graph.nodes if is_layer(node)]
    return Work(
        parameters=sum(math.prod(graph.stored[name]) for name in _weights(graph)),
        macs=sum(macs for macs in counted if macs is not None),
        uncounted=counted.count(None),
    )


def is_layer(node: Node) -> bool:
    """Whether it is a convolution or a matrix product."""
    return node.op in _CONVOLUTIONS | _PRODUCTS | {"ConvTranspose"}


def _weights(graph: Graph) -> set[str]:
    """Stored tensors that a layer reads, also through operators that only convert."""
    found: set[str] = set()
    reads = {"BatchNormalization", "PRelu", "InstanceNormalization"}
    for node in graph.nodes:
        if not (is_layer(node) or node.op in reads):
            continue
        for name in node.inputs[1:]:
            source = name
            while source not in graph.stored and source in graph.producer:
                maker = graph.producer[source]
                if maker.op not in ("Cast", "DequantizeLinear", "Identity"):
                    break
                source = maker.inputs[0]
            if source in graph.stored and math.prod(graph.stored[source]) > 1:
                found.add(source)
    return found


def macs_of(graph: Graph, node: Node) -> int | None:
    """Multiply-accumulates of a layer for one image, None if a shape is not known."""
    out = graph.shape(node.outputs[0])
    if node.op == "ConvTranspose":
        out = graph.shape(node.inputs[0])
    weight = graph.shape(
        node.inputs[min(_WEIGHT.get(node.op, 1), len(node.inputs) - 1)]
    )
    if out is None or weight is None or len(weight) < 2:
        return None
    if node.op in _PRODUCTS:
        sizes = (*out[1:], _depth(graph, node))
    else:
        # Each output value is a sum over one filter; a transposed convolution adds
        # each input value into one.
        sizes = (*out[1:], *weight[1:])
    if any(size is None for size in sizes):
        return None
    return math.prod(size for size in sizes if size is not None)


def _depth(graph: Graph, node: Node) -> int | None:
    """How many products one value of a matrix product is the sum of."""
    left = graph.shape(node.inputs[0])
    if left is None or not left:
        return None
    return left[0] if node.attributes.get("transA") else left[-1]
