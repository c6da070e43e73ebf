"""Values on one side of zero, moved to the middle of INT8's range."""

import copy
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgepipe.models.quantise.centre import centre
from edgepipe.models.quantise.placement import layers_of
from edgepipe.models.quantise.prepare import prepare
from edgepipe.models.quantise.ranges import SEVEN_BITS_STEPS, STEPS
from edgepipe.models.quantise.write import write_int8

Build = Callable[..., Path]
ort: Any = import_module("onnxruntime")  # it ships no types
helper: Any = import_module("onnx.helper")  # and this one partial ones


def run(model: Any, image: Any) -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    # As written: fused integer kernels round once more or less.
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options)
    return session.run(None, {"images": image})[0]


def image_of(seed: int) -> Any:
    return np.random.default_rng(seed).normal(size=(1, 3, 16, 16)).astype(np.float32)


def network(build: Build, activation: str, **second: Any) -> Any:
    """A convolution, an activation, and a second convolution that reads it."""
    rng = np.random.default_rng(3)
    size: Any = second.get("kernel_shape", [1, 1])
    groups: int = second.get("group", 1)
    weights: dict[str, Any] = {
        "w1": rng.normal(size=(8, 3, 3, 3)).astype(np.float32),
        "w2": rng.normal(size=(4 * groups, 8 // groups, *size)).astype(np.float32),
        "b2": rng.normal(size=4 * groups).astype(np.float32),
    }
    nodes = [helper.make_node("Conv", ["images", "w1"], ["c1"], "first")]
    if activation == "Silu":
        nodes += [
            helper.make_node("Sigmoid", ["c1"], ["gate"]),
            helper.make_node("Mul", ["c1", "gate"], ["a1"]),
        ]
    else:
        nodes.append(helper.make_node(activation, ["c1"], ["a1"]))
    nodes.append(
        helper.make_node("Conv", ["a1", "w2", "b2"], ["out"], "second", **second)
    )
    return prepare(build(nodes, weights))


LOWEST = {"Relu": 0.0, "Silu": -0.2785, "LeakyRelu": -0.1, "Tanh": -1.0}


def centred(model: Any, activation: str, **how: Any) -> Any:
    (first, second) = layers_of(model)
    ranges = {first.reads: 4.0, second.reads: 12.0}
    lowest = {first.reads: -4.0, second.reads: LOWEST[activation]}
    return centre(model, (second,), ranges, lowest, **how), second.reads


def additions(model: Any) -> int:
    return sum(node.op_type == "Add" for node in model.graph.node)


@pytest.mark.parametrize("activation", ["Relu", "Silu", "LeakyRelu"])
def test_the_range_shrinks_to_what_there_is_and_the_bias_makes_up_for_it(
    build: Build, activation: str
) -> None:
    model = network(build, activation)
    found, name = centred(model, activation)
    assert additions(found.model) == 1
    (layer,) = found.layers
    assert layer.reads == f"{name}_centred"
    wanted = (12.0 - LOWEST[activation]) / 2
    assert found.ranges[layer.reads] == pytest.approx(wanted)
    # With weights as INT8 holds them it is the same network.
    before, after = (
        run(_with_int8_weights(each), image_of(1)) for each in (model, found.model)
    )
    assert np.abs(before - after).max() < 1e-3 * np.abs(before).max()


def _with_int8_weights(model: Any) -> Any:
    """The second kernel rounded to INT8's steps, stored in FP32."""
    numpy_helper: Any = import_module("onnx.numpy_helper")
    changed: Any = copy.deepcopy(model)
    (node,) = (each for each in changed.graph.node if each.name == "second")
    (item,) = (i for i in changed.graph.initializer if i.name == node.input[1])
    kernel = np.asarray(numpy_helper.to_array(item), np.float32)
    scale = np.abs(kernel).max(axis=(1, 2, 3), keepdims=True) / STEPS
    rounded = np.asarray(np.round(kernel / scale) * scale, np.float32)
    item.CopyFrom(numpy_helper.from_array(rounded, item.name))
    return changed


@pytest.mark.parametrize(
    "second",
    [
        {"kernel_shape": [3, 3]},
        {"kernel_shape": [1, 1], "pads": [1, 1, 1, 1]},
        {"kernel_shape": [1, 1], "group": 2},
    ],
)
def test_where_it_would_not_be_exact_nothing_is_done(
    build: Build, second: dict[str, Any]
) -> None:
    model = network(build, "Relu", **second)
    found, _ = centred(model, "Relu")
    assert additions(found.model) == 0
    assert found.model.SerializeToString() == model.SerializeToString()


def test_where_values_lie_on_both_sides_nothing_is_done(build: Build) -> None:
    model = network(build, "Tanh")
    (first, second) = layers_of(model)
    found = centre(
        model,
        (first, second),
        {first.reads: 4.0, second.reads: 1.0},
        {first.reads: -4.0, second.reads: -0.9},
    )
    assert additions(found.model) == 0
    assert found.layers == (first, second)


@pytest.mark.parametrize("activation", ["Relu", "Silu", "LeakyRelu"])
@pytest.mark.parametrize(("bits", "steps"), [(8, STEPS), (7, SEVEN_BITS_STEPS)])
@pytest.mark.parametrize("per_channel", [True, False])
def test_the_error_of_int8_becomes_smaller(
    build: Build, activation: str, bits: int, steps: int, per_channel: bool
) -> None:
    model = network(build, activation)
    (_, second) = layers_of(model)
    exact = [run(model, image_of(seed)) for seed in range(8)]
    values = [run(_up_to(model, second.reads), image_of(seed)) for seed in range(8)]
    ranges = {second.reads: float(max(np.abs(each).max() for each in values))}
    lowest = {second.reads: float(min(each.min() for each in values))}
    how: dict[str, Any] = {"per_channel": per_channel}
    plain = write_int8(model, (second,), ranges, weight_bits=bits, **how)
    moved = centre(model, (second,), ranges, lowest, steps=steps, **how)
    better = write_int8(
        moved.model, moved.layers, moved.ranges, weight_bits=bits, **how
    )
    before, after = (
        sum(float(np.sum((run(each, image_of(s)) - exact[s]) ** 2)) for s in range(8))
        for each in (plain, better)
    )
    assert after < before


def _up_to(model: Any, tensor: str) -> Any:
    changed: Any = copy.deepcopy(model)
    del changed.graph.output[:]
    changed.graph.output.append(helper.make_empty_tensor_value_info(tensor))
    return changed
