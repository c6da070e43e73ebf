"""Files that are no model, damaged, hostile, or say things in other ways."""

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, external_data_helper, helper

from edgepipe.cli import main
from edgepipe.errors import ModelError
from edgepipe.models.inspect import apart, reading
from edgepipe.models.inspect.answers import Answers
from edgepipe.models.inspect.entrance import entrance_of
from edgepipe.models.inspect.examine import examine
from edgepipe.models.inspect.facts import facts_of
from tests.models.inspect.networks import Net, yolov8


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A whole file."""
    net = Net(64)
    return net.save(
        tmp_path_factory.mktemp("small") / "m.onnx", [yolov8(net, 2)]
    ).read_bytes()


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_a_damaged_file_is_one_line_or_is_read(
    data: st.DataObject, small: bytes, tmp_path: Path
) -> None:
    damaged = bytearray(small[: data.draw(st.integers(0, len(small)))])
    for _ in range(data.draw(st.integers(0, 4))):
        if damaged:
            place = data.draw(st.integers(0, len(damaged) - 1))
            damaged[place] = data.draw(st.integers(0, 255))
    path = tmp_path / "m.onnx"
    path.write_bytes(damaged)
    said: list[str] = []
    try:
        model = reading.read(path)
    except ModelError as error:
        said.append(str(error))
    else:
        graph = reading.graph_of(model)
        facts_of(path, graph, reading.header_of(model))
        entrance_of(graph)
    assert not any("\n" in line for line in said)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"no model at all", "not an ONNX model"),
        (b"\x89PNG\r\n\x1a\n", "not an ONNX model"),
    ],
)
def test_what_is_no_model_is_one_line_and_exit_2(
    content: bytes, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    assert main(["model", "inspect", str(path)]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("weights.bin", "which is not there"),
        ("../weights.bin", "outside its own folder"),
        ("/etc/passwd", "outside its own folder"),
    ],
)
def test_weights_elsewhere_must_lie_beside_the_file(
    place: str, words: str, small: bytes, tmp_path: Path
) -> None:
    model = onnx.load_from_string(small)
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=place)
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=words):
        reading.read(path)


def test_weights_in_a_second_file_are_read_where_they_lie(
    small: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "m.onnx"
    model = onnx.load_from_string(small)
    external_data_helper.convert_model_to_external_data(model, location="w.bin")
    external_data_helper.write_external_data_tensors(model, str(tmp_path))
    path.write_bytes(model.SerializeToString())
    found = examine(path, Answers())
    assert found.facts.header.external == ("w.bin",)
    assert found.not_run is None
    assert found.verdict.certain is not None


def test_a_newer_operator_set_is_one_line_and_exit_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net = Net(64)
    path = net.save(tmp_path / "m.onnx", [net.op("Relu", "images")], opset=[("", 99)])
    assert main(["model", "inspect", str(path)]) == 2
    told = capsys.readouterr()
    assert "operator set 99, the newest one known here is" in told.err
    assert told.err.count("\n") == 1
    assert "opsets       ai.onnx 99" in told.out


def test_operators_that_only_tensorrt_brings_are_named(tmp_path: Path) -> None:
    net = Net(64)
    joined = yolov8(net, 2)
    final = net.op("EfficientNMS_TRT", joined, domain="trt.plugins")
    path = net.save(tmp_path / "m.onnx", [final], opset=[("", 17), ("trt.plugins", 1)])
    found = examine(path, Answers())
    assert found.facts.foreign == ("trt.plugins:EfficientNMS_TRT",)
    assert found.verdict.readings == ()
    assert found.not_run is not None
    assert "trt.plugins:EfficientNMS_TRT" in found.not_run
    assert main(["model", "inspect", str(path)]) == 2


@pytest.mark.parametrize(
    ("shape", "kind", "words"),
    [
        ((4, 3, 64, 64), TensorProto.FLOAT, "a batch of 4"),
        ((1, 1, 64, 64), TensorProto.FLOAT, "1 channels"),
        ((1, 3, 64, 64), TensorProto.FLOAT16, "float16"),
        ((1, 3, 100_000, 64), TensorProto.FLOAT, "at most 8192 pixels"),
        ((1, 10), TensorProto.FLOAT, "four dimensions"),
    ],
)
def test_what_the_engines_cannot_feed_is_said(
    shape: tuple[int, ...], kind: int, words: str, tmp_path: Path
) -> None:
    net = Net(64)
    path = net.save(
        tmp_path / "m.onnx", [net.op("Relu", "images")], shape=shape, dtype=kind
    )
    assert any(words in text for text in examine(path, Answers()).obstacles)


def test_more_inputs_than_the_image_are_an_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("images", (1, 3, 64, 64)), ("sizes", (1, 2)))
    ]
    nodes = [helper.make_node("ReduceMean", ["images"], ["m"], keepdims=0)]
    nodes.append(helper.make_node("Mul", ["m", "sizes"], ["out"]))
    outputs = [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    path.write_bytes(model.SerializeToString())
    found = examine(path, Answers())
    assert found.entrance is not None
    assert found.entrance.tensor.name == "images"
    assert any("2 inputs" in text for text in found.obstacles)


def test_a_network_that_never_ends_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apart, "LONGEST_S", 3)
    net = Net(64)
    shape = net.shaped(net.op("ReduceMean", "images", keepdims=0), 1)
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["on"], ["still"]),
            helper.make_node("Sin", ["x"], ["y"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [1]),
        ],
        [
            helper.make_tensor_value_info("still", TensorProto.BOOL, []),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [1]),
        ],
    )
    many = net.const(np.array(2**62, np.int64))
    out = net.op("Loop", many, net.const(np.array(True)), shape, body=body)
    found = examine(net.save(tmp_path / "m.onnx", [out]), Answers())
    assert found.not_run == "it did not end within 3 s"
    assert found.facts.operators["Sin"] == 1


def test_sizes_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    net = Net(64)
    net.save(path, [net.conv("images", 3, 10, 4)])
    work = examine(path, Answers()).facts.work
    assert work.parameters == 10 * 3 * 4 * 4 + 10
    assert (work.macs, work.uncounted) == (10 * 3 * 16 * 16 * 16, 0)


def test_a_file_larger_than_the_format_allows_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.touch()
    os.truncate(path, reading.LARGEST_BYTES + 1)
    with pytest.raises(ModelError, match="export it with its weights as external data"):
        reading.read(path)
