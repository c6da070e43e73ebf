"""The models that ship."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from edgepipe.configs.model_card import read_card
from edgepipe.errors import ModelError
from edgepipe.models import zoo
from edgepipe.models.card import ModelCard
from edgepipe.models.load import load_engine

checker: Any = import_module("onnx.checker")  # its types are partial


@pytest.mark.parametrize("name", zoo.names())
@pytest.mark.parametrize("precision", ["int8", "fp32"])
def test_a_packaged_model_loads_by_its_own_card(name: str, precision: str) -> None:
    card, warnings = read_card(zoo.card_path(name))
    assert (card.name, warnings) == (name, ())
    assert all(file.sha256 for file in card.files)
    load_engine(card, precision, "openvino", requests=1, threads=1).close()


def test_the_default_model_is_there() -> None:
    assert "nanodet-g" in zoo.names()


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        ModelError, match=r"'yolo' \(there are: nanodet-g, scene-tiny\)"
    ):
        zoo.card_path("yolo")


def test_foreign_weights_come_with_their_terms() -> None:
    folder = zoo.card_path("nanodet-g").parent
    assert "RangiLyu" in (folder / "NOTICE.txt").read_text()
    assert "Apache License" in (folder / "LICENSE-nanodet-Apache-2.0.txt").read_text()
    assert "MIT License" in (folder / "LICENSE-human-models-MIT.txt").read_text()


@pytest.mark.parametrize("name", zoo.names())
def test_what_ships_is_valid_onnx(name: str) -> None:
    card, _ = read_card(zoo.card_path(name))
    for file in card.files:
        model = onnx.ModelProto.FromString(file.path.read_bytes())
        checker.check_model(model, full_check=True)


def test_the_default_int8_file_has_the_scheme_that_tensorrt_accepts(
    nanodet: ModelCard,
) -> None:
    graph = onnx.ModelProto.FromString(_int8(nanodet).read_bytes()).graph
    values = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
    pairs = [n for n in graph.node if n.op_type.endswith("antizeLinear")]
    zero_points = [values[node.input[2]] for node in pairs]
    convolutions = sum(node.op_type == "Conv" for node in graph.node)
    assert all(zero.dtype in (np.int8, np.int32) for zero in zero_points)
    assert not any(zero.any() for zero in zero_points)
    # Two layers of 37 stay in FP32: INT8 would cost more accuracy there than they gain.
    assert sum(zero.ndim == 1 for zero in zero_points) >= convolutions - 2


def test_the_default_int8_weights_leave_room_for_processors_without_vnni(
    nanodet: ModelCard,
) -> None:
    # These add two products of an unsigned and a signed byte in sixteen bits.
    graph = onnx.ModelProto.FromString(_int8(nanodet).read_bytes()).graph
    values = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
    weights = [v for v in values.values() if v.dtype == np.int8 and v.ndim == 4]
    kept = {entry.key: entry.value for entry in _metadata(nanodet)}
    in_fp32 = json.loads(kept["edgepipe.kept_in_fp32"])
    convolutions = sum(node.op_type == "Conv" for node in graph.node)
    assert len(weights) == convolutions - len(in_fp32)
    largest = max(int(np.abs(w.astype(np.int16)).max()) for w in weights)
    assert 2 * 255 * largest <= np.iinfo(np.int16).max


def _metadata(card: ModelCard) -> list[onnx.StringStringEntryProto]:
    return list(onnx.ModelProto.FromString(_int8(card).read_bytes()).metadata_props)


def _int8(card: ModelCard) -> Path:
    return next(file.path for file in card.files if file.precision == "int8")
