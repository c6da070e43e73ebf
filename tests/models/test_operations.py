"""Operations are counted in the file, at the card's size."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgepipe.errors import ModelError
from edgepipe.models.card import ModelCard
from edgepipe.models.operations import operations_of

MakeCard = Callable[..., ModelCard]


def path_of(card: ModelCard, precision: str) -> Path:
    return next(file.path for file in card.files if file.precision == precision)


@pytest.fixture
def convolution(tmp_path: Path) -> Path:
    """8 filters of 3x3x3, step 2, over images of any size; and a product by 8 x 5."""
    stored = {
        "w": np.zeros((8, 3, 3, 3), np.float32),
        "m": np.zeros((8, 5), np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["images", "w"], ["x"], pads=[1] * 4, strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["x"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "m"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, "h", "w2"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])],
        [numpy_helper.from_array(array, name) for name, array in stored.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    path = tmp_path / "g.onnx"
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def test_each_multiplication_and_addition_of_a_layer_counts(
    convolution: Path, make_card: MakeCard
) -> None:
    found = operations_of(convolution, make_card(convolution))
    assert not isinstance(found, str)
    assert found.total == found.rest == 2 * (8 * 32 * 48 * 27 + 8 * 5)
    assert (found.int8, found.uncounted) == (0, 0)


def test_a_larger_image_is_more_work(nanodet: ModelCard) -> None:
    path = path_of(nanodet, "fp32")
    small, large = (
        operations_of(path, replace(nanodet, height=h, width=w))
        for h, w in ((160, 160), (320, 320))
    )
    assert not isinstance(small, str)
    assert not isinstance(large, str)
    assert large.total == 4 * small.total


@pytest.mark.parametrize("name", ["nanodet", "scene_tiny"])
def test_int8_does_the_same_work_as_fp32(
    name: str, request: pytest.FixtureRequest
) -> None:
    card: ModelCard = request.getfixturevalue(name)
    int8, fp32 = (operations_of(path_of(card, each), card) for each in ("int8", "fp32"))
    assert not isinstance(int8, str)
    assert not isinstance(fp32, str)
    # NanoDet's tail is split differently in the two files.
    assert int8.total == pytest.approx(fp32.total, rel=0.05)
    assert int8.int8 > 0.9 * int8.total
    assert fp32.int8 == 0


def test_a_file_that_is_none_is_refused(tmp_path: Path, make_card: MakeCard) -> None:
    path = tmp_path / "x.onnx"
    path.write_bytes(b"no")
    with pytest.raises(ModelError, match=r"x\.onnx"):
        operations_of(path, make_card(path))
