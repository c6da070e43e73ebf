"""PyTorch computes what onnxruntime computes from the same file."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from edgepipe.errors import EngineError, ModelError
from edgepipe.models.card import ModelCard
from edgepipe.models.engine import AsyncEngine
from edgepipe.models.load import LOADERS, load_engine

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")

ort: Any = import_module("onnxruntime")
MakeCard = Callable[..., ModelCard]
MakeModel = Callable[..., Path]

SIZE = (4, 6)
RNG = np.random.default_rng(5)


def array(*shape: int) -> NDArray[np.float32]:
    return RNG.standard_normal(shape).astype(np.float32)


def ints(*values: int) -> NDArray[np.int64]:
    return np.array(values, np.int64)


Inputs = Sequence[Any]
CASES: list[tuple[str, Inputs, dict[str, Any]]] = [
    ("Conv", [array(4, 3, 3, 3), array(4)], {"pads": [1, 1, 1, 1]}),
    ("Conv", [array(4, 3, 3, 3)], {"pads": [0, 1, 2, 1], "strides": [2, 1]}),
    ("Conv", [array(4, 3, 3, 3)], {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ("Conv", [array(4, 3, 2, 2)], {"auto_pad": "SAME_LOWER"}),
    ("Conv", [array(3, 1, 3, 3)], {"group": 3, "dilations": [1, 2]}),
    ("ConvTranspose", [array(3, 2, 3, 3)], {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("MaxPool", [], {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    ("MaxPool", [], {"kernel_shape": [2, 2], "pads": [0, 0, 1, 1]}),
    ("AveragePool", [], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    ("AveragePool", [], {"kernel_shape": [2, 2], "count_include_pad": 1}),
    ("GlobalAveragePool", [], {}),
    ("GlobalMaxPool", [], {}),
    ("BatchNormalization", [array(3), array(3), array(3), array(3) ** 2], {}),
    ("InstanceNormalization", [array(3), array(3)], {}),
    ("LayerNormalization", [array(6), array(6)], {}),
    *[
        (kind, [], {})
        for kind in (
            *("Relu", "Sigmoid", "Tanh", "Exp", "Erf", "Softplus", "HardSwish"),
            *("Abs", "Neg", "Floor", "Ceil", "Sin", "Cos", "HardSigmoid", "Elu"),
            *("Mish", "Flatten", "Transpose", "Identity", "LeakyRelu", "Softmax"),
        )
    ],
    ("Softmax", [], {"axis": 1}),
    ("LeakyRelu", [], {"alpha": 0.3}),
    ("PRelu", [array(3, 1, 1)], {}),
    ("Clip", [np.float32(-0.5), np.float32(0.5)], {}),
    ("Clip", [None, np.float32(0.1)], {}),
    ("Add", [array(1, 3, 1, 1)], {}),
    ("Sub", [array(6)], {}),
    ("Mul", [array(4, 1)], {}),
    ("Div", [np.float32(3)], {}),
    ("Pow", [np.float32(2)], {}),
    ("Max", [array(4, 6), np.float32(0)], {}),
    ("Min", [array(4, 6)], {}),
    ("MatMul", [array(6, 5)], {}),
    ("Reshape", [ints(0, -1, 8)], {}),
    ("Flatten", [], {"axis": -1}),
    ("Transpose", [], {"perm": [0, 2, 3, 1]}),
    ("Slice", [ints(1, 0), ints(4, 9), ints(2, 3), ints(1, 2)], {}),
    ("Slice", [ints(-1), ints(-(2**40)), ints(3), ints(-2)], {}),
    ("Slice", [ints(4), ints(1), ints(3), ints(-1)], {}),
    ("Unsqueeze", [ints(0, -1)], {}),
    ("ReduceSum", [ints(2, 3)], {"keepdims": 0}),
    ("ReduceMean", [], {"axes": [1]}),
    ("ReduceMax", [], {"axes": [-1], "keepdims": 0}),
    ("ReduceMin", [], {}),
    ("Gather", [ints(2, -1)], {"axis": 3}),
    ("Gather", [np.array([[0, 1], [2, 3]])], {"axis": 2}),
    ("GatherElements", [np.zeros((1, 1, 4, 6), np.int64)], {"axis": 1}),
    ("Pad", [ints(0, 0, 1, 2, 0, 0, 2, 1), np.float32(7)], {}),
    ("Pad", [ints(0, 0, 1, 2, 0, 0, 2, 1)], {"mode": "reflect"}),
    ("Pad", [ints(0, 0, 1, 2, 0, 0, 2, 1)], {"mode": "edge"}),
    ("Expand", [ints(2, 1, 1, 1)], {}),
    ("Tile", [ints(1, 2, 1, 1)], {}),
    ("SpaceToDepth", [], {"blocksize": 2}),
    ("ArgMax", [], {"axis": 1}),
    ("Cast", [], {"to": TensorProto.INT32}),
    *[
        (
            "Resize",
            [None, np.array([1, 1, fy, fx], np.float32)],
            {
                "mode": "nearest",
                "coordinate_transformation_mode": where,
                "nearest_mode": rounding,
            },
        )
        for fy, fx in ((2, 2), (1.5, 0.5))
        for where in ("asymmetric", "half_pixel", "pytorch_half_pixel")
        for rounding in ("floor", "round_prefer_floor", "round_prefer_ceil", "ceil")
    ],
    ("Resize", [None, None, ints(1, 3, 7, 9)], {"mode": "linear"}),
    (
        "Resize",
        [None, np.array([1, 1, 2, 2], np.float32)],
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    ),
    ("QuantizeLinear", [np.float32(0.02), np.int8(0)], {}),
    ("QuantizeLinear", [np.float32(0.02), np.uint8(128)], {}),
    (
        "QuantizeLinear",
        [np.array([0.1, 0.02, 0.3], np.float32), np.zeros(3, np.int8)],
        {},
    ),
]


def one_operator(
    kind: str, inputs: Inputs, attributes: dict[str, Any], opset: int = 17
) -> bytes:
    """A network of one operator, whose output is named ``y``."""
    opset = 18 if kind == "Mish" else opset
    names = ["" if each is None else f"c{i}" for i, each in enumerate(inputs)]
    stored = [
        numpy_helper.from_array(np.asarray(each), name)
        for each, name in zip(inputs, names, strict=True)
        if each is not None
    ]
    nodes = [helper.make_node(kind, ["x", *names], ["raw"], **attributes)]
    nodes.append(helper.make_node("Cast", ["raw"], ["y"], to=TensorProto.FLOAT))
    graph = helper.make_graph(
        nodes,
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, *SIZE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        stored,
    )
    ids = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=ids, ir_version=8)
    return bytes(model.SerializeToString())


def in_torch(model: bytes, x: NDArray[np.float32]) -> Any:
    import onnx

    from edgepipe.models.inspect import reading
    from edgepipe.models.pytorch.library import torch
    from edgepipe.models.pytorch.network import TorchNetwork

    loaded = onnx.load_from_string(model)
    stored = {
        each.name: numpy_helper.to_array(each) for each in loaded.graph.initializer
    }
    network = TorchNetwork(
        reading.graph_of(loaded),
        loaded.opset_import[0].version,
        stored,
        x.shape,
        ["y"],
        "cpu",
    )
    with torch.inference_mode():
        return network.run(torch.from_numpy(x), lambda: False)["y"].numpy()


def in_onnxruntime(model: bytes, x: NDArray[np.float32]) -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


@pytest.mark.parametrize(("kind", "inputs", "attributes"), CASES)
def test_an_operator_means_what_it_means_in_onnxruntime(
    kind: str, inputs: Inputs, attributes: dict[str, Any]
) -> None:
    model, x = one_operator(kind, inputs, attributes), array(1, 3, *SIZE)
    wanted = in_onnxruntime(model, x)
    got = in_torch(model, x)
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "inputs", "attributes", "opset"),
    [
        ("Softmax", [], {}, 11),
        ("Unsqueeze", [], {"axes": [0]}, 11),
        ("Slice", [], {"starts": [1], "ends": [3], "axes": [2]}, 9),
        ("Clip", [], {"min": -0.2, "max": 0.3}, 9),
        ("Pad", [], {"pads": [0, 0, 1, 1, 0, 0, 1, 1]}, 9),
        ("Upsample", [np.array([1, 1, 2, 3], np.float32)], {}, 9),
        ("Resize", [np.array([1, 1, 2, 3], np.float32)], {}, 10),
    ],
)
def test_files_of_old_versions_mean_what_they_meant(
    kind: str, inputs: Inputs, attributes: dict[str, Any], opset: int
) -> None:
    model, x = one_operator(kind, inputs, attributes, opset), array(1, 3, *SIZE)
    wanted = in_onnxruntime(model, x)
    np.testing.assert_allclose(in_torch(model, x), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "inputs", "attributes", "said"),
    [
        ("NonZero", [], {}, r"does not know node 'raw' \(NonZero\): use another"),
        ("Resize", [None, None, ints(1, 3, 8, 8)], {"mode": "cubic"}, "mode cubic"),
        (
            "Conv",
            [array(4, 2, 3, 3)],
            {},
            r"cannot run node 'raw' \(Conv\)",
        ),
    ],
)
def test_what_cannot_be_run_is_named(
    kind: str, inputs: Inputs, attributes: dict[str, Any], said: str
) -> None:
    with pytest.raises(EngineError, match=said):
        in_torch(one_operator(kind, inputs, attributes), array(1, 3, *SIZE))


def test_nodes_in_any_order_are_run_and_missing_ones_named() -> None:
    import onnx

    model = onnx.load_from_string(one_operator("Relu", [], {}))
    nodes = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(nodes[::-1])
    x = array(1, 3, *SIZE)
    got = in_torch(model.SerializeToString(), x)
    np.testing.assert_array_equal(got, np.maximum(x, 0))
    del model.graph.node[1:]
    with pytest.raises(EngineError, match=r"\(Cast\) reads 'raw', which nothing makes"):
        in_torch(model.SerializeToString(), x)


def engines(card: ModelCard, precision: str) -> list[AsyncEngine]:
    return [
        load_engine(card, precision, name, requests=1, threads=1)
        for name in ("onnxruntime", "torch")
    ]


@pytest.mark.parametrize("name", ["nanodet", "scene_tiny"])
def test_fp32_is_that_of_onnxruntime(
    name: str, request: pytest.FixtureRequest, street: NDArray[np.uint8]
) -> None:
    card: ModelCard = request.getfixturevalue(name)
    images = street[:, : card.height, : card.width]
    card = replace(card, height=images.shape[1], width=images.shape[2])
    both = engines(card, "fp32")
    for output in card.outputs:
        wanted, got = (engine.infer(images)[output] for engine in both)
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=2e-5)
    for engine in both:
        engine.close()


def test_int8_is_that_of_onnxruntime_but_for_values_on_the_edge(
    nanodet: ModelCard, street: NDArray[np.uint8]
) -> None:
    """The tolerance of OpenVINO against onnxruntime."""
    both = engines(nanodet, "int8")
    one, other = (engine.infer(street)["scores"].copy() for engine in both)
    assert np.abs(one - other).max() <= 0.1
    assert np.abs(one - other).mean() <= 5e-4
    info = both[1].info
    assert (info.engine, info.device) == ("torch", "CPU")
    assert info.executed_precision == "int8 simulated in f32"
    for engine in both:
        engine.close()


@pytest.mark.parametrize(
    ("model", "card", "said"),
    [
        ({"name": "x"}, {}, "the card's input is 'images', the model's 'x'"),
        ({"shape": (1, 3, 32, 32)}, {}, r"asks for input 1x3x64x96, .* 1x3x32x32"),
        ({}, {"outputs": ("boxes",)}, "no output 'boxes'"),
    ],
)
def test_a_model_that_does_not_fit_its_card_is_refused(
    model: dict[str, Any],
    card: dict[str, Any],
    said: str,
    make_model: MakeModel,
    make_card: MakeCard,
) -> None:
    described = make_card(make_model(**model), **card)
    with pytest.raises(ModelError, match=said):
        LOADERS["torch"](described, described.files[0], 1, 1, "a test", 1)


def test_without_a_gpu_the_engine_for_gpus_says_so(nanodet: ModelCard) -> None:
    torch: Any = import_module("torch")
    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(EngineError, match="torch finds no CUDA device"):
        load_engine(nanodet, "fp32", "torch-cuda", requests=1, threads=1)
