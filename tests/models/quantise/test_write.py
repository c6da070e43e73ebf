"""The INT8 file: what is in it, and how far it is from FP32."""

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper

from edgepipe.errors import ModelError
from edgepipe.models.card import ModelCard
from edgepipe.models.quantise.observe import Observer, network_input
from edgepipe.models.quantise.placement import Layer, layers_of, quantised
from edgepipe.models.quantise.prepare import prepare
from edgepipe.models.quantise.ranges import METHODS
from edgepipe.models.quantise.write import write_int8

ort: Any = import_module("onnxruntime")  # it ships no types
checker: Any = import_module("onnx.checker")  # its types are partial


@pytest.fixture
def prepared(two_layers: Path) -> Any:
    return prepare(two_layers)


@pytest.fixture
def ranges(prepared: Any, card: ModelCard, pictures: list[Any]) -> dict[str, float]:
    observer = Observer(prepared, {each.reads for each in layers_of(prepared)}, card)
    for picture in pictures:
        observer.look(picture)
    return {k: METHODS["minmax"](h) for k, h in observer.histograms.items()}


def outputs(model: Any, card: ModelCard, picture: Any) -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(model.SerializeToString(), options)
    return session.run(None, {card.input_name: network_input(card, picture)})[0]


def error(a: Any, b: Any) -> float:
    return float(np.linalg.norm(a - b) / np.linalg.norm(a))


def constants(model: Any) -> dict[str, Any]:
    return {i.name: i for i in model.graph.initializer}


def test_layers_are_those_that_do_the_work_in_the_order_of_the_graph(
    prepared: Any,
) -> None:
    assert [(each.name, each.kind, each.weights) for each in layers_of(prepared)] == [
        ("first", "Conv", 8 * 27),
        ("pool", "MaxPool", 0),
        ("second", "Conv", 8 * 9),
    ]


def test_an_observer_has_seen_what_the_network_computes(
    prepared: Any, card: ModelCard, pictures: list[Any], ranges: dict[str, float]
) -> None:
    given = max(float(np.abs(network_input(card, p)).max()) for p in pictures)
    assert ranges["images"] == given
    assert set(ranges) == {each.reads for each in layers_of(prepared)}


def test_activations_are_symmetric_int8_and_weights_have_a_scale_for_each_channel(
    prepared: Any, ranges: dict[str, float]
) -> None:
    model = write_int8(prepared, layers_of(prepared), ranges)
    values = constants(model)
    for node in model.graph.node:
        if node.op_type not in ("QuantizeLinear", "DequantizeLinear"):
            continue
        zero = numpy_helper.to_array(values[node.input[2]])
        assert not np.any(zero)
        if node.op_type == "QuantizeLinear":
            assert zero.dtype == np.int8
        stored = values.get(node.input[0])
        if stored is not None and stored.data_type == TensorProto.INT8:
            scales = numpy_helper.to_array(values[node.input[1]])
            assert len(scales) == stored.dims[0]


def test_int8_is_close_to_fp32_and_closer_with_a_scale_for_each_channel(
    prepared: Any, card: ModelCard, pictures: list[Any], ranges: dict[str, float]
) -> None:
    truth = outputs(prepared, card, pictures[0])
    layers = layers_of(prepared)
    ways: list[dict[str, Any]] = [{}, {"per_channel": False}, {"weight_bits": 7}]
    written = [write_int8(prepared, layers, ranges, **how) for how in ways]
    each, one, seven = (
        error(truth, outputs(model, card, pictures[0])) for model in written
    )
    assert each < 0.02
    assert each < seven < 0.04
    # The second layer's kernels differ by a factor of a hundred: norms hide small ones.
    quiet = truth[:, 0]
    per_channel = outputs(write_int8(prepared, layers, ranges), card, pictures[0])[:, 0]
    tensor = write_int8(prepared, layers, ranges, per_channel=False)
    assert error(quiet, per_channel) < 0.03
    assert error(quiet, outputs(tensor, card, pictures[0])[:, 0]) > 0.05
    assert one > each


def test_seven_bits_use_half_of_the_steps(
    prepared: Any, ranges: dict[str, float]
) -> None:
    model = write_int8(prepared, layers_of(prepared), ranges, weight_bits=7)
    kernels = [
        numpy_helper.to_array(item)
        for item in model.graph.initializer
        if item.data_type == TensorProto.INT8 and len(item.dims) == 4
    ]
    assert len(kernels) == 2
    assert max(int(np.abs(kernel).max()) for kernel in kernels) <= 64


def test_a_layer_that_is_kept_has_no_scales_round_it(
    prepared: Any, ranges: dict[str, float]
) -> None:
    layers = quantised(layers_of(prepared), {"second"})
    model = write_int8(prepared, layers, ranges)
    (second,) = (node for node in model.graph.node if node.name == "second")
    makers = {name: node.op_type for node in model.graph.node for name in node.output}
    kernel = constants(model)[second.input[1]]
    assert kernel.data_type == TensorProto.FLOAT
    assert makers[second.input[0]] in ("MaxPool", "DequantizeLinear")
    with pytest.raises(ValueError, match="no such layer: third"):
        quantised(layers_of(prepared), {"third"})


def test_the_network_given_is_not_changed(
    prepared: Any, ranges: dict[str, float]
) -> None:
    before = prepared.SerializeToString()
    write_int8(prepared, layers_of(prepared), ranges)
    assert prepared.SerializeToString() == before


def test_what_is_written_is_valid_and_each_node_stands_behind_what_it_reads(
    prepared: Any, ranges: dict[str, float]
) -> None:
    model = write_int8(prepared, layers_of(prepared), ranges)
    checker.check_model(model, full_check=True)
    assert {node.name for node in prepared.graph.node} <= {
        node.name for node in model.graph.node
    }


def test_a_missing_range_is_named(prepared: Any, ranges: dict[str, float]) -> None:
    del ranges["images"]
    with pytest.raises(ModelError, match="no range for tensor 'images'"):
        write_int8(prepared, layers_of(prepared), ranges)
    with pytest.raises(ValueError, match="7 or 8 bits"):
        write_int8(prepared, (), {}, weight_bits=4)


def test_values_that_are_no_numbers_end_calibration_with_the_tensors_name(
    two_layers: Path, card: ModelCard, pictures: list[Any]
) -> None:
    from dataclasses import replace

    broken = replace(card, mean=(float("nan"),) * 3)
    observer = Observer(prepare(two_layers), {"images"}, broken)
    with pytest.raises(ModelError, match="tensor 'images' has values that are NaN"):
        observer.look(pictures[0])


def test_a_product_of_two_activations_is_no_layer() -> None:
    layer = Layer("conv", "Conv", "a", "w", 4)
    assert quantised((layer,)) == (layer,)
