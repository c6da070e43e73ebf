"""What a network does with its input before the first layer."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

from edgepipe.models.inspect import reading
from edgepipe.models.inspect.answers import Answers
from edgepipe.models.inspect.entrance import Entrance, entrance_of
from edgepipe.models.inspect.examine import examine
from edgepipe.models.inspect.propose import Item, propose
from tests.models.inspect.networks import Net

pytestmark = pytest.mark.usefixtures("same_process")

MEAN = np.array([0.485, 0.456, 0.406]).reshape(3, 1, 1)
STD = np.array([0.229, 0.224, 0.225]).reshape(3, 1, 1)
Steps = Callable[[Net, str], str]


def plain(net: Net, x: str) -> str:
    del net
    return x


def shares(net: Net, x: str) -> str:
    return net.op("Div", x, net.f32(255.0))


def imagenet(net: Net, x: str) -> str:
    return net.op("Div", net.op("Sub", x, net.f32(MEAN)), net.f32(STD))


def both(net: Net, x: str) -> str:
    return imagenet(net, shares(net, x))


def signed(net: Net, x: str) -> str:
    return net.op("Sub", net.op("Mul", x, net.f32(1 / 127.5)), net.f32(1.0))


def entrance(path: Path) -> Entrance:
    found = entrance_of(reading.graph_of(reading.read(path)))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("steps", "white"),
    [(plain, None), (shares, 255), (imagenet, 1), (both, 255), (signed, 255)],
)
def test_arithmetic_in_front_of_the_first_layer_tells_the_scale(
    steps: Steps, white: float | None, tmp_path: Path
) -> None:
    net = Net(64)
    path = net.save(tmp_path / "m.onnx", [net.conv(steps(net, "images"), 3, 8, 4)])
    found = entrance(path)
    assert found.white == white
    assert not found.channels_last


def items(path: Path) -> dict[str, Item]:
    answers = Answers()
    return {item.key: item for item in propose(examine(path, answers), answers)}


@pytest.mark.parametrize(("steps", "std"), [(both, 1.0), (imagenet, 255.0)])
def test_normalisation_that_the_graph_does_is_not_done_twice(
    steps: Steps, std: float, tmp_path: Path
) -> None:
    net = Net(64)
    found = items(net.save(tmp_path / "m.onnx", [net.conv(steps(net, "images"), 3, 8)]))
    assert found["input.mean"].value == [0.0, 0.0, 0.0]
    assert found["input.std"].value == [std] * 3
    assert found["input.mean"].origin.value == "from the file"


def test_pixels_with_the_channels_last_are_seen(tmp_path: Path) -> None:
    net = Net(64)
    x = net.op("Cast", "images", to=TensorProto.FLOAT)
    x = shares(net, net.op("Transpose", x, perm=[0, 3, 1, 2]))
    path = net.save(
        tmp_path / "m.onnx",
        [net.conv(x, 3, 8)],
        shape=(1, 64, 64, 3),
        dtype=TensorProto.UINT8,
    )
    found = items(path)
    assert found["input.layout"].value == "nhwc"
    assert found["input.type"].value == "uint8"
    assert found["input.std"].value == [1.0, 1.0, 1.0]
    assert found["input.color"].origin.value == "NOT KNOWN: asked for"


@pytest.mark.parametrize("shape", [("b", "h", "w", "c"), ("b", 3, "h", "w")])
def test_a_free_size_is_asked_for(shape: tuple[int | str, ...], tmp_path: Path) -> None:
    net = Net(64)
    x = "images"
    if shape[3] == "c":
        x = net.op("Transpose", x, perm=[0, 3, 1, 2])
    found = items(net.save(tmp_path / "m.onnx", [net.conv(x, 3, 8)], shape=shape))
    assert found["input.height"].origin.value == "NOT KNOWN: asked for"
    assert ("input.layout" in found) == (shape[3] == "c")
