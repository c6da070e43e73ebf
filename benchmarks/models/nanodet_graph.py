"""Rewrites the NanoDet-g graph so that it quantises and executes well."""

from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

STRIDES = 3
BOX_BINS = 44
"""Four sides of eleven bins each."""


def prepare(source: Path, target: Path) -> None:
    """Write an equal model with FP32 weights and two convolutions per head.

    The published head is one 1x1 convolution whose 124 channels are split into 80
    scores and 44 distances, reshaped and transposed. OpenVINO has only a reference
    kernel for that split (0.86 of 3.7 ms at 256x320); cutting the weights instead
    gives the same numbers without any split, and transposing before reshaping is free
    in a channels-last engine.
    """
    model = onnx.load(source)
    weights = _fp32_weights(model.graph)
    nodes = [node for node in model.graph.node if node.op_type != "Cast"]
    by_output = {name: node for node in nodes for name in node.output}
    heads = [node for node in nodes if node.op_type == "Split"]
    if len(heads) != STRIDES:
        raise ValueError(
            f"{source}: expected {STRIDES} split heads, found {len(heads)}"
        )
    body = _before(nodes, {head.input[0] for head in heads})
    tail: list[onnx.NodeProto] = []
    outputs: dict[str, list[str]] = {"scores": [], "dist": []}
    for index, head in enumerate(heads):
        conv = by_output[head.input[0]]
        for name, part in (
            ("scores", slice(0, -BOX_BINS)),
            ("dist", slice(-BOX_BINS, None)),
        ):
            tail += _branch(conv, weights, name, index, part)
            outputs[name].append(tail[-1].output[0])
    for name, parts in outputs.items():
        tail.append(helper.make_node("Concat", parts, [name], f"{name}_all", axis=1))
    used = {name for node in body + tail for name in node.input}
    del model.graph.node[:], model.graph.initializer[:]
    model.graph.node.extend(body + tail)
    model.graph.initializer.extend(
        numpy_helper.from_array(value, name)
        for name, value in weights.items()
        if name in used
    )
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, target)


def _fp32_weights(graph: onnx.GraphProto) -> dict[str, NDArray[np.generic]]:
    """Every constant by the name its consumers use, FP16 storage undone."""
    values = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
    casts = {n.output[0]: n.input[0] for n in graph.node if n.op_type == "Cast"}
    for name, stored in casts.items():
        values[name] = values[stored].astype(np.float32)
    return {name: values[name] for name in values if name not in casts.values()}


def _before(nodes: list[onnx.NodeProto], head_convs: set[str]) -> list[onnx.NodeProto]:
    """The nodes that some head convolution needs, without these convolutions."""
    needed: set[str] = set()
    kept: list[onnx.NodeProto] = []
    for node in reversed(nodes):
        if node.output[0] in head_convs:
            needed.add(node.input[0])
        elif needed.intersection(node.output):
            needed.update(node.input)
            kept.append(node)
    return kept[::-1]


def _branch(
    conv: onnx.NodeProto,
    weights: dict[str, NDArray[np.generic]],
    name: str,
    index: int,
    part: slice,
) -> list[onnx.NodeProto]:
    """One head's scores or distances: convolution, channels last, (1, cells, n)."""
    prefix = f"{name}_{index}"
    kernel, bias = weights[conv.input[1]][part], weights[conv.input[2]][part]
    weights[f"{prefix}_w"] = np.ascontiguousarray(kernel)
    weights[f"{prefix}_b"] = np.ascontiguousarray(bias)
    weights[f"{prefix}_shape"] = np.array([1, -1, len(kernel)], np.int64)
    inputs = [conv.input[0], f"{prefix}_w", f"{prefix}_b"]
    last = f"{prefix}_conv"
    nodes = [
        helper.make_node("Conv", inputs, [last], last, kernel_shape=[1, 1]),
    ]
    if name == "scores":
        nodes.append(
            helper.make_node("Sigmoid", [last], [f"{prefix}_sig"], f"{prefix}_sig")
        )
        last = f"{prefix}_sig"
    nodes.append(
        helper.make_node(
            "Transpose", [last], [f"{prefix}_nhwc"], f"{prefix}_nhwc", perm=[0, 2, 3, 1]
        )
    )
    nodes.append(
        helper.make_node(
            "Reshape",
            [f"{prefix}_nhwc", f"{prefix}_shape"],
            [f"{prefix}_flat"],
            f"{prefix}_flat",
        )
    )
    return nodes
