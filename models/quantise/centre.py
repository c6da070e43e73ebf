"""Values that lie mostly on one side of zero, moved to the middle of INT8's range.

Behind a ReLU or a SiLU half of a symmetric range is empty. A constant is taken off in
front of the scale, and what it would have added is put into the next layer's bias: the
same sums, with steps of half the size. That is what a zero point does, in a form that
symmetric INT8 (TensorRT's only kind) has room for. It is exact for layers without
padding, whose zeros would be moved as well: pointwise convolutions. In OpenVINO the
subtraction is part of the layer before and takes no time.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.quantise.onnx_library import import_onnx
from edgepipe.models.quantise.placement import Layer
from edgepipe.models.quantise.ranges import STEPS

onnx: Any = import_onnx()

LEAST_GAIN = 0.75
"""Only where the range shrinks to this share or less is it worth an operator."""


class Centred(NamedTuple):
    """A network whose one-sided values are centred."""

    model: Any
    layers: tuple[Layer, ...]
    ranges: Mapping[str, float]


def centre(
    model: Any,
    layers: Sequence[Layer],
    ranges: Mapping[str, float],
    lowest: Mapping[str, float],
    *,
    steps: int = STEPS,
    per_channel: bool = True,
) -> Centred:
    """Centre what pointwise layers read, where that makes the range much smaller.

    Args:
        model: A prepared network; is not changed.
        layers: Those that become INT8.
        ranges: Largest magnitude that each of their inputs shall hold.
        lowest: Smallest value of each that was seen.
        steps: Of the positive half of the weights' range.
        per_channel: Whether weights have a scale for each channel.

    Returns:
        The network, with the layers and ranges that belong to it.
    """
    changed = copy.deepcopy(model)
    graph = changed.graph
    nodes = {node.name: node for node in graph.node}
    kernels = {item.name: item for item in graph.initializer}
    new_layers, new_ranges = list(layers), dict(ranges)
    middles: dict[str, float] = {}
    for index, layer in enumerate(layers):
        node = nodes[layer.name]
        middle, half = _middle(ranges[layer.reads], lowest.get(layer.reads, 0.0))
        if half > LEAST_GAIN * ranges[layer.reads] or not _is_pointwise(node, kernels):
            continue
        kernel = onnx.numpy_helper.to_array(kernels[node.input[1]])
        sums = _quantised(kernel, steps, per_channel).sum(axis=(1, 2, 3))
        _add_to_bias(graph, node, kernels, middle * sums)
        name = f"{layer.reads}_centred"
        node.input[0] = name
        middles[layer.reads] = middle
        new_ranges[name] = half
        new_layers[index] = replace(layer, reads=name)
    _subtract(graph, middles)
    return Centred(changed, tuple(new_layers), new_ranges)


def _middle(largest: float, lowest: float) -> tuple[float, float]:
    """The middle of the values that the range holds, and how far they reach from it.

    Where values are below zero only, there is no gain in this: no activation function
    is like that.
    """
    low = max(-largest, min(lowest, 0.0))
    return (largest + low) / 2, (largest - low) / 2


def _is_pointwise(node: Any, kernels: Mapping[str, Any]) -> bool:
    """Whether each output is a sum over one place, without padding."""
    if node.op_type != "Conv" or list(kernels[node.input[1]].dims)[2:] != [1, 1]:
        return False
    if len(node.input) > 2 and node.input[2] not in kernels:
        return False
    for attribute in node.attribute:
        if attribute.name == "group" and attribute.i != 1:
            return False
        if attribute.name == "pads" and any(attribute.ints):
            return False
        if attribute.name == "auto_pad" and attribute.s not in (b"NOTSET", b"VALID"):
            return False
    return True


def _quantised(
    kernel: NDArray[np.float32], steps: int, per_channel: bool
) -> NDArray[np.float64]:
    """The kernel as INT8 will hold it.

    The bias must make up for what INT8's weights make of the constant, not for what
    the exact ones would: their errors would all be multiplied by it.
    """
    magnitude = np.abs(kernel.astype(np.float64))
    axes = (1, 2, 3) if per_channel else None
    scale = magnitude.max(axis=axes, keepdims=True) / steps
    scale = np.where(scale > 0, scale, 1.0)
    return np.asarray(np.round(kernel / scale) * scale)


def _add_to_bias(
    graph: Any, node: Any, kernels: Mapping[str, Any], more: NDArray[np.float64]
) -> None:
    """A bias of the node's own, larger by so much."""
    before = 0.0
    if len(node.input) > 2:
        before = onnx.numpy_helper.to_array(kernels[node.input[2]]).astype(np.float64)
    name = f"{node.output[0]}_centred_bias"
    bias = np.asarray(before + more, np.float32)
    graph.initializer.append(onnx.numpy_helper.from_array(bias, name))
    if len(node.input) > 2:
        node.input[2] = name
    else:
        node.input.append(name)


def _subtract(graph: Any, middles: Mapping[str, float]) -> None:
    """Take the middle off each tensor, in a node behind the one that makes it."""
    ordered = list(_with_subtractions(graph, middles))
    nodes = [copy.deepcopy(node) for node in ordered]
    del graph.node[:]
    graph.node.extend(nodes)
    for name, middle in middles.items():
        value = np.array(-middle, np.float32)
        constant = onnx.numpy_helper.from_array(value, f"{name}_middle")
        graph.initializer.append(constant)


def _with_subtractions(graph: Any, middles: Mapping[str, float]) -> Iterator[Any]:
    def off(name: str) -> Any:
        centred = f"{name}_centred"
        return onnx.helper.make_node(
            "Add", [name, f"{name}_middle"], [centred], centred
        )

    yield from (off(given.name) for given in graph.input if given.name in middles)
    for node in graph.node:
        yield node
        yield from (off(name) for name in node.output if name in middles)
