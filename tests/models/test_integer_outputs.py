"""Outputs that are whole numbers in the file, such as class numbers."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from edgepipe.models.card import ModelCard
from edgepipe.models.load import LOADERS

MakeCard = Callable[..., ModelCard]


@pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
def test_whole_numbers_come_out_as_numbers_of_every_image(
    engine: str, make_card: MakeCard, tmp_path: Path
) -> None:
    shape = (1, 3, 64, 96)
    graph = helper.make_graph(
        [
            helper.make_node("ArgMax", ["images"], ["scores"], axis=3, keepdims=0),
            helper.make_node("Identity", ["images"], ["dist"]),
        ],
        "g",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, shape)],
        [
            helper.make_tensor_value_info("scores", TensorProto.INT64, shape[:3]),
            helper.make_tensor_value_info("dist", TensorProto.FLOAT, shape),
        ],
    )
    path = tmp_path / "whole.onnx"
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    path.write_bytes(model.SerializeToString())
    card = make_card(path)
    images = np.zeros((2, 64, 96, 3), np.uint8)
    images[0, :, 7], images[1, :, 90] = 200, 100
    loaded = LOADERS[engine](card, card.files[0], 1, 1, "a test", 1)
    try:
        outputs = loaded.infer(images)
        assert outputs["scores"].dtype == np.float32
        assert np.unique(outputs["scores"][0]).tolist() == [7]
        assert np.unique(outputs["scores"][1]).tolist() == [90]
        assert outputs["dist"][1, 0, 0, 90] == 100
    finally:
        loaded.close()
