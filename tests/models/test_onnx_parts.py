"""What is read out of an ONNX file without any library."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from onnx.external_data_helper import (
    convert_model_to_external_data,
    set_external_data,
    write_external_data_tensors,
)

from edgepipe.models import zoo
from edgepipe.models.identity import model_sha256, sha256_of
from edgepipe.models.onnx_parts import external_files, quantised_operators

TINY = zoo.card_path("scene-tiny").parent


@pytest.mark.parametrize("name", zoo.names())
def test_what_ships_is_what_its_name_says(name: str) -> None:
    folder = zoo.card_path(name).parent
    assert quantised_operators(folder / "fp32.onnx") == 0
    model = onnx.load_model_from_string((folder / "int8.onnx").read_bytes())
    wanted = sum("uantize" in node.op_type for node in model.graph.node)
    assert quantised_operators(folder / "int8.onnx") == wanted > 0


def inside_of_a_branch(node: Any) -> Any:
    """A graph that has a node in a branch only."""
    branch = helper.make_graph([node], "branch", [], [])
    condition = helper.make_node(
        "If", ["flag"], ["out"], then_branch=branch, else_branch=branch
    )
    return helper.make_graph([condition], "outer", [], [])


@pytest.mark.parametrize(
    ("operator", "found"),
    [
        ("QLinearConv", 2),
        ("ConvInteger", 2),
        ("DynamicQuantizeLinear", 2),
        ("MatMulNBits", 2),
        ("Conv", 0),
        ("Cast", 0),
    ],
)
def test_operators_are_found_inside_of_branches(
    tmp_path: Path, operator: str, found: int
) -> None:
    path = tmp_path / "model.onnx"
    node = helper.make_node(operator, ["in"], ["out"])
    path.write_bytes(helper.make_model(inside_of_a_branch(node)).SerializeToString())
    assert quantised_operators(path) == found


def test_a_model_is_known_by_the_files_with_its_weights_too(tmp_path: Path) -> None:
    path, weights = tmp_path / "model.onnx", tmp_path / "model.weights"
    model = onnx.load_model_from_string((TINY / "fp32.onnx").read_bytes())
    convert_model_to_external_data(model, location=weights.name)
    write_external_data_tensors(model, str(tmp_path))
    path.write_bytes(model.SerializeToString())
    assert external_files(path) == (weights.name,)
    own, before = sha256_of(path), model_sha256(path)
    data = bytearray(weights.read_bytes())
    data[100] ^= 1
    weights.write_bytes(data)
    assert sha256_of(path) == own
    assert model_sha256(path) != before


def test_a_model_in_one_file_is_known_by_it_alone() -> None:
    assert external_files(TINY / "fp32.onnx") == ()
    assert model_sha256(TINY / "fp32.onnx") == sha256_of(TINY / "fp32.onnx")


def test_weights_of_a_constant_node_may_lie_elsewhere(tmp_path: Path) -> None:
    tensor = numpy_helper.from_array(np.zeros(4, np.float32), "w")
    set_external_data(tensor, "elsewhere")
    tensor.ClearField("raw_data")
    node = helper.make_node("Constant", [], ["w"], value=tensor)
    path = tmp_path / "model.onnx"
    graph = helper.make_graph([node], "g", [], [])
    path.write_bytes(helper.make_model(graph).SerializeToString())
    assert external_files(path) == ("elsewhere",)


@given(data=st.binary(max_size=200))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_bytes_make_the_reading_fail(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    assert quantised_operators(path) >= 0
    assert isinstance(external_files(path), tuple)
