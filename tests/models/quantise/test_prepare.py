"""The network before it is quantised: the same numbers in a better form."""

from collections.abc import Callable
from importlib import import_module
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper

from edgepipe.errors import ModelError
from edgepipe.models import zoo
from edgepipe.models.quantise.prepare import prepare

Build = Callable[..., Path]
ort: Any = import_module("onnxruntime")  # it ships no types
FAR = np.iinfo(np.int64).max
CORNERS = ((0, 0), (1, 0), (0, 1), (1, 1))


def run(model: bytes, image: NDArray[np.float32]) -> list[NDArray[np.float32]]:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(model, options)
    return list(session.run(None, {session.get_inputs()[0].name: image}))


def image_of(*shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(4).normal(size=shape).astype(np.float32)


def operators(model: Any) -> list[str]:
    return [node.op_type for node in model.graph.node]


def assert_same(source: Path, model: Any, image: NDArray[np.float32]) -> None:
    before, after = (
        run(source.read_bytes(), image),
        run(model.SerializeToString(), image),
    )
    for old, new in zip(before, after, strict=True):
        assert old.shape == new.shape
        assert np.abs(old - new).max() <= 2e-5 * np.abs(old).max()


def focus(
    order: tuple[tuple[int, int], ...] = CORNERS,
    *,
    one_slice: bool = False,
    size: int = 3,
) -> tuple[list[NodeProto], dict[str, Any]]:
    """Four strided slices side by side and a convolution, as YOLOX begins."""
    rng = np.random.default_rng(5)
    weights: dict[str, Any] = {
        "kernel": rng.normal(size=(7, 12, size, size)).astype(np.float32),
        "bias": rng.normal(size=7).astype(np.float32),
        "zero": np.array([0]),
        "one": np.array([1]),
        "far": np.array([FAR]),
        "two": np.array([2]),
        "rows": np.array([2]),
        "columns": np.array([3]),
        "both": np.array([2, 3]),
        "fars": np.array([FAR, FAR]),
        "twos": np.array([2, 2]),
    }
    nodes: list[NodeProto] = []
    for index, (row, column) in enumerate(order):
        if one_slice:
            weights[f"from{index}"] = np.array([row, column])
            names = ["images", f"from{index}", "fars", "both", "twos"]
            nodes.append(helper.make_node("Slice", names, [f"part{index}"]))
            continue
        begin = {0: "zero", 1: "one"}
        nodes += [
            helper.make_node(
                "Slice", ["images", begin[row], "far", "rows", "two"], [f"r{index}"]
            ),
            helper.make_node(
                "Slice",
                [f"r{index}", begin[column], "far", "columns", "two"],
                [f"part{index}"],
            ),
        ]
    parts = [f"part{index}" for index in range(4)]
    nodes += [
        helper.make_node("Concat", parts, ["wide"], axis=1),
        helper.make_node(
            "Conv", ["wide", "kernel", "bias"], ["out"], pads=[size // 2] * 4
        ),
    ]
    return nodes, weights


@pytest.mark.parametrize("order", list(permutations(CORNERS))[::5])
@pytest.mark.parametrize("one_slice", [False, True])
def test_slices_before_a_convolution_become_part_of_it(
    build: Build, order: tuple[tuple[int, int], ...], one_slice: bool
) -> None:
    source = build(*focus(order, one_slice=one_slice))
    model = prepare(source)
    assert operators(model) == ["Conv"]
    assert_same(source, model, image_of(1, 3, 16, 16))


@pytest.mark.parametrize("size", [1, 3, 5])
def test_a_kernel_of_any_odd_size_can_be_folded(build: Build, size: int) -> None:
    source = build(*focus(size=size))
    model = prepare(source)
    assert operators(model) == ["Conv"]
    assert_same(source, model, image_of(1, 3, 16, 16))


def test_slices_that_something_else_reads_stay(build: Build) -> None:
    nodes, weights = focus()
    nodes[-1].output[0] = "convolved"
    nodes.append(helper.make_node("ReduceMean", ["wide"], ["mean"], axes=[1]))
    nodes.append(helper.make_node("Add", ["convolved", "mean"], ["out"]))
    source = build(nodes, weights)
    model = prepare(source)
    assert operators(model).count("Conv") == 1
    assert len(model.graph.node) > 1
    assert_same(source, model, image_of(1, 3, 16, 16))


def test_slices_of_another_kind_stay(build: Build) -> None:
    nodes, weights = focus(((0, 0), (1, 0), (1, 0), (1, 1)))
    source = build(nodes, weights)
    assert_same(source, prepare(source), image_of(1, 3, 16, 16))
    nodes, weights = focus(one_slice=True)
    weights["fars"] = np.array([8, 8])
    source = build(nodes, weights)
    assert_same(source, prepare(source), image_of(1, 3, 16, 16))


def test_weights_stored_in_fp16_are_fp32_and_a_batch_norm_is_gone(build: Build) -> None:
    rng = np.random.default_rng(6)
    weights = {
        "half": rng.normal(size=(4, 3, 3, 3)).astype(np.float16),
        **{k: rng.uniform(0.5, 2, 4).astype(np.float32) for k in ("s", "b", "m", "v")},
    }
    nodes = [
        helper.make_node("Cast", ["half"], ["kernel"], to=TensorProto.FLOAT),
        helper.make_node("Conv", ["images", "kernel"], ["c"]),
        helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["out"]),
    ]
    source = build(nodes, weights, opset=11)
    model = prepare(source)
    assert operators(model) == ["Conv"]
    assert_same(source, model, image_of(1, 3, 16, 16))
    assert model.opset_import[0].version == 17


def test_every_node_has_a_name_of_its_own(build: Build) -> None:
    weights = {"w": np.ones((3, 3, 1, 1), np.float32)}
    nodes = [
        helper.make_node("Conv", ["images", "w"], ["a"], "same"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w"], ["out"], "same"),
    ]
    names = [node.name for node in prepare(build(nodes, weights)).graph.node]
    assert len(set(names)) == len(names)
    assert all(names)


@pytest.mark.parametrize("name", ["nanodet-g", "scene-tiny"])
def test_a_shipped_network_computes_the_same_prepared(name: str) -> None:
    source = zoo.card_path(name).parent / "fp32.onnx"
    assert_same(source, prepare(source), image_of(1, 3, 192, 320))


def test_what_is_quantised_already_is_refused() -> None:
    with pytest.raises(ModelError, match="quantised already"):
        prepare(zoo.card_path("scene-tiny").parent / "int8.onnx")


def test_a_file_that_is_no_network_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "no.onnx"
    path.write_bytes(b"no network at all")
    with pytest.raises(ModelError, match=r"no\.onnx: not an ONNX model") as caught:
        prepare(path)
    assert "\n" not in str(caught.value)


def changed(tmp_path: Path, change: Callable[[Any], None]) -> Path:
    """The shipped network with another first weight."""
    shipped = zoo.card_path("scene-tiny").parent / "fp32.onnx"
    model: Any = onnx.load_model_from_string(shipped.read_bytes())
    change(max(model.graph.initializer, key=lambda each: len(each.raw_data)))
    path = tmp_path / "changed.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_weights_that_are_no_numbers_name_their_layer(tmp_path: Path) -> None:
    def spoil(tensor: Any) -> None:
        tensor.raw_data = np.float32("nan").tobytes() + tensor.raw_data[4:]

    with pytest.raises(ModelError, match=r"layer '.+' has NaN or infinity among"):
        prepare(changed(tmp_path, spoil))


def test_a_constant_of_another_size_than_it_says_is_one_line(tmp_path: Path) -> None:
    def spoil(tensor: Any) -> None:
        tensor.dims[:] = [1 << 40, 1 << 40]

    with pytest.raises(ModelError, match="a constant is not what it says") as caught:
        prepare(changed(tmp_path, spoil))
    assert "\n" not in str(caught.value)
