"""The order and type of a network's input, as its card says them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from edgepipe.errors import ModelError
from edgepipe.models.card import Align, ColorOrder, InputType, Layout, ModelCard
from edgepipe.models.engine import AsyncEngine
from edgepipe.models.load import LOADERS
from edgepipe.samples import network_inputs

MakeCard = Callable[..., ModelCard]
Write = Callable[[Layout, InputType], Path]

ENGINES = ["openvino", "onnxruntime"]
KINDS = {
    InputType.FLOAT32: TensorProto.FLOAT,
    InputType.UINT8: TensorProto.UINT8,
}
COMBINATIONS = [
    (layout, number)
    for layout in Layout
    for number in (InputType.FLOAT32, InputType.UINT8)
]
each_combination = pytest.mark.parametrize(("layout", "number"), COMBINATIONS)
each_engine = pytest.mark.parametrize("name", ENGINES)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a network that puts out its input as float, channels last."""

    def make(layout: Layout, number: InputType) -> Path:
        shape = [1, 3, 64, 96] if layout is Layout.NCHW else [1, 64, 96, 3]
        order = [0, 2, 3, 1] if layout is Layout.NCHW else [0, 1, 2, 3]
        nodes = [
            helper.make_node("Cast", ["images"], ["float"], to=TensorProto.FLOAT),
            helper.make_node("Transpose", ["float"], ["copy"], perm=order),
        ]
        pixels = helper.make_tensor_value_info("images", KINDS[number], shape)
        copy = helper.make_tensor_value_info("copy", TensorProto.FLOAT, [1, 64, 96, 3])
        graph = helper.make_graph(nodes, "pixels", [pixels], [copy])
        opset = [helper.make_opsetid("", 17)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=8)
        path = tmp_path / f"{layout.value}-{number.value}.onnx"
        path.write_bytes(model.SerializeToString())
        return path

    return make


def load(name: str, card: ModelCard) -> AsyncEngine:
    return LOADERS[name](card, card.files[0], 1, 1, "a test", 2)


@each_engine
@each_combination
def test_every_layout_and_type_gives_the_network_the_same_pixels(
    name: str, layout: Layout, number: InputType, write: Write, make_card: MakeCard
) -> None:
    folded = number is InputType.UINT8
    card = replace(
        make_card(write(layout, number), outputs=("copy",)),
        layout=layout,
        input_type=number,
        mean=(0.0, 0.0, 0.0) if folded else (10.0, 20.0, 30.0),
        std=(1.0, 1.0, 1.0) if folded else (2.0, 4.0, 8.0),
    )
    images = np.random.default_rng(1).integers(0, 256, (2, 64, 96, 3), np.uint8)
    engine = load(name, card)
    wanted = (images - np.array(card.mean)) / np.array(card.std)
    np.testing.assert_allclose(engine.infer(images)["copy"], wanted, rtol=1e-6)
    engine.submit(images)
    np.testing.assert_allclose(engine.wait()["copy"], wanted, rtol=1e-6)
    engine.close()


@each_engine
def test_a_card_with_the_wrong_layout_is_told_the_right_one(
    name: str, write: Write, make_card: MakeCard
) -> None:
    path = write(Layout.NHWC, InputType.FLOAT32)
    with pytest.raises(ModelError, match=r"has 1x64x96x3 \(input\.layout .*try nhwc"):
        load(name, make_card(path, outputs=("copy",)))


@each_engine
@pytest.mark.parametrize("number", [InputType.FLOAT32, InputType.UINT8])
def test_a_card_with_the_wrong_type_is_told_the_right_one(
    name: str, number: InputType, write: Write, make_card: MakeCard
) -> None:
    path = write(Layout.NCHW, number)
    other = (set(KINDS) - {number}).pop()
    card = replace(make_card(path, outputs=("copy",)), input_type=other)
    said = rf"input is {other.value} \(input\.type\), the model's is {number.value}"
    with pytest.raises(ModelError, match=said):
        load(name, card)


def means(name: str, card: ModelCard, picture: Path) -> list[float]:
    """Mean of each channel of the tensor that a picture becomes."""
    (sample,) = network_inputs(card, str(picture))
    engine = load(name, card)
    tensor = engine.infer(sample.image[np.newaxis])["copy"][0]
    engine.close()
    return [float(mean) for mean in tensor.mean(axis=(0, 1))]


def scaled(make_card: MakeCard, path: Path, color: str, layout: Layout) -> ModelCard:
    return replace(
        make_card(path, outputs=("copy",)),
        color=ColorOrder(color),
        layout=layout,
        std=(255.0, 255.0, 255.0),
        align=Align.STRETCH,
    )


@each_engine
@pytest.mark.parametrize("layout", list(Layout))
@pytest.mark.parametrize("bgr", [(0, 64, 255), (200, 10, 30)])
def test_rgb_and_bgr_networks_get_their_own_order_of_channels(
    name: str,
    layout: Layout,
    bgr: tuple[int, int, int],
    write: Write,
    make_card: MakeCard,
    tmp_path: Path,
) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    picture: NDArray[np.uint8] = np.full((64, 64, 3), bgr, np.uint8)
    cv2.imwrite(str(folder / "0.png"), picture)
    path = write(layout, InputType.FLOAT32)
    wanted = np.array(bgr) / 255
    for color, order in (("bgr", slice(None)), ("rgb", slice(None, None, -1))):
        card = scaled(make_card, path, color, layout)
        # Two levels of 255: the pipeline's way through YUV.
        assert means(name, card, folder) == pytest.approx(wanted[order], abs=0.01)


@each_engine
def test_a_recorded_red_picture_is_red_to_both_kinds_of_network(
    name: str, write: Write, make_card: MakeCard, cases: Path, tmp_path: Path
) -> None:
    import json

    case = cases / "C08"
    folder = tmp_path / "pictures"
    folder.mkdir()
    (folder / "red.png").write_bytes((case / "red64.png").read_bytes())
    expected = json.loads((case / "expected.json").read_text())
    path = write(Layout.NCHW, InputType.FLOAT32)
    for color in ("rgb", "bgr"):
        card = scaled(make_card, path, color, Layout.NCHW)
        wanted = expected[f"{color}_model"]
        assert means(name, card, folder) == pytest.approx(wanted, abs=0.01)
