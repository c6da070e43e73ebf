"""Small real networks, as exporters write them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from edgepipe.configs.model_card import read_card
from edgepipe.models import zoo
from edgepipe.models.card import ModelCard, ModelFile

Build = Callable[..., Path]


def network(
    nodes: list[NodeProto],
    weights: dict[str, Any],
    *,
    opset: int = 17,
    size: tuple[int | str, int | str] = (16, 16),
    output: str = "out",
) -> ModelProto:
    """A network from ``images`` (1, 3, H, W) to one output."""
    given = helper.make_tensor_value_info(
        "images", TensorProto.FLOAT, [1, 3, size[0], size[1]]
    )
    made = helper.make_tensor_value_info(output, TensorProto.FLOAT, [None] * 4)
    initializers = [numpy_helper.from_array(v, k) for k, v in weights.items()]
    graph = helper.make_graph(nodes, "g", [given], [made], initializers)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8
    )


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """Write a network to a file."""

    def write(*args: Any, **kwargs: Any) -> Path:
        path = tmp_path / "net.onnx"
        path.write_bytes(network(*args, **kwargs).SerializeToString())
        return path

    return write


@pytest.fixture
def two_layers(build: Build) -> Path:
    """Convolution, LeakyReLU, pooling, a depthwise convolution."""
    rng = np.random.default_rng(1)
    weights = {
        "w1": rng.normal(size=(8, 3, 3, 3)).astype(np.float32),
        "b1": rng.normal(size=8).astype(np.float32),
        "w2": (
            rng.normal(size=(8, 1, 3, 3)) * np.logspace(0, 2, 8)[:, None, None, None]
        ).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["images", "w1", "b1"], ["c1"], "first", pads=[1] * 4),
        helper.make_node("LeakyRelu", ["c1"], ["a1"], alpha=0.1),
        helper.make_node(
            "MaxPool", ["a1"], ["p1"], "pool", kernel_shape=[2, 2], strides=[2, 2]
        ),
        helper.make_node(
            "Conv", ["p1", "w2"], ["out"], "second", group=8, pads=[1] * 4
        ),
    ]
    return build(nodes, weights)


@pytest.fixture
def card(two_layers: Path) -> ModelCard:
    """A card of that network; its head is never asked."""
    shipped, _ = read_card(zoo.card_path("scene-tiny"))
    files = (ModelFile("fp32", two_layers, None),)
    return replace(shipped, files=files, height=16, width=16, outputs=("out",))


@pytest.fixture
def pictures() -> list[Any]:
    """Six (16, 16, 3) images."""
    rng = np.random.default_rng(2)
    return [rng.integers(0, 256, (16, 16, 3), np.uint8) for _ in range(6)]
