"""What of a quantised network TensorRT can take, before it is asked."""

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgepipe.errors import ModelError
from edgepipe.models.card import ModelCard
from edgepipe.models.tensorrt.prepare import prepare

ort: Any = import_module("onnxruntime")


def quantised(
    *,
    activation: str = "int8",
    zero: int = 0,
    named_zero: bool = True,
    bias: str = "int32",
) -> bytes:
    """A convolution between pairs, as quantisers write it."""
    rng = np.random.default_rng(3)
    kinds = {"int8": np.int8, "uint8": np.uint8}
    constants: dict[str, Any] = {
        "scale": np.float32(0.02),
        "zero": np.array(zero, kinds[activation]),
        "weights8": rng.integers(-64, 65, (4, 3, 3, 3)).astype(np.int8),
        "weights_scale": rng.uniform(0.01, 0.02, 4).astype(np.float32),
        "weights_zero": np.zeros(4, np.int8),
        "bias32": rng.integers(-9999, 9999, 4).astype(np.int32),
        "bias_scale": rng.uniform(1e-4, 2e-4, 4).astype(np.float32),
        "bias_zero": np.zeros(4, np.int32),
    }
    if bias == "float":
        constants["bias"] = constants.pop("bias32").astype(np.float32) * 1e-4
    pair = ["scale", "zero"] if named_zero else ["scale"]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", *pair], ["q"], "quantise"),
        helper.make_node("DequantizeLinear", ["q", *pair], ["x2"]),
        helper.make_node(
            "DequantizeLinear",
            ["weights8", "weights_scale", "weights_zero"],
            ["weights"],
            axis=0,
        ),
        helper.make_node("Conv", ["x2", "weights", "bias"], ["y"], pads=[1] * 4),
        helper.make_node("Conv", ["x", "weights"], ["z"], pads=[1] * 4),
    ]
    if bias == "int32":
        names = ["bias32", "bias_scale", "bias_zero"]
        nodes.insert(3, helper.make_node("DequantizeLinear", names, ["bias"], axis=0))
    graph = helper.make_graph(
        nodes,
        "quantised",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 8, 8])],
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4, 8, 8])
            for name in "yz"
        ],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    return bytes(model.SerializeToString())


def outputs(model: bytes) -> list[Any]:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    x = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(np.float32)
    return list(session.run(None, {"x": x}))


def test_biases_of_integers_become_floats_of_the_same_value() -> None:
    before = quantised()
    prepared = prepare(before, "x")
    assert prepared.folded_biases == 1
    for ours, theirs in zip(outputs(prepared.data), outputs(before), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)


def test_layers_with_two_quantised_operands_are_counted() -> None:
    prepared = prepare(quantised(bias="float"), "x")
    assert (prepared.int8_layers, prepared.heavy_layers) == (1, 2)
    assert prepared.precision == "int8 (1 of 2 layers)"
    assert prepared.folded_biases == 0
    assert prepared.inputs == {"x": ("n", 3, 8, 8)}


@pytest.mark.parametrize(
    ("network", "why"),
    [
        ({"activation": "uint8", "zero": 128}, "is uint8 with zero point 128"),
        ({"activation": "uint8"}, "is uint8 with zero point 0"),
        ({"zero": -5}, "has zero point -5"),
        ({"activation": "uint8", "named_zero": False}, "it names no zero point"),
    ],
)
def test_what_is_not_signed_and_symmetric_is_refused_by_name(
    network: dict[str, Any], why: str
) -> None:
    with pytest.raises(ModelError, match=rf"yard: TensorRT .*'quantise' .*{why}.*symm"):
        prepare(quantised(**network), "yard")


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(ModelError, match=r"yard: not an ONNX model"):
        prepare(b"\xff" * 9, "yard")


def test_weights_in_another_file_are_read_or_missed(tmp_path: Path) -> None:
    onnx: Any = import_module("onnx")
    model = onnx.load_from_string(quantised())
    path = tmp_path / "x.onnx"
    options = {"location": "weights", "size_threshold": 0}
    onnx.save_model(model, str(path), save_as_external_data=True, **options)
    data = path.read_bytes()
    prepared = prepare(data, "x", tmp_path)
    for ours, theirs in zip(outputs(prepared.data), outputs(quantised()), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)
    (tmp_path / "weights").unlink()
    with pytest.raises(ModelError, match=r"yard: cannot read its weights: .*weights"):
        prepare(data, "yard", tmp_path)


def test_all_of_the_default_models_convolutions_are_int8(nanodet: ModelCard) -> None:
    by_precision = {file.precision: file.path for file in nanodet.files}
    int8 = prepare(by_precision["int8"].read_bytes(), "int8")
    assert 0 < int8.int8_layers <= int8.heavy_layers
    assert prepare(by_precision["fp32"].read_bytes(), "fp32").precision == "fp32"
