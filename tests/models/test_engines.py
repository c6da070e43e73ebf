"""What both engines promise, on networks whose answer is known."""

import gc
import os
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgepipe.errors import EngineError, ModelError
from edgepipe.models.card import ModelCard, ModelFile
from edgepipe.models.engine import Engine
from edgepipe.models.onnxruntime_engine import OnnxRuntimeEngine
from edgepipe.models.openvino_engine import OpenVinoEngine

MakeCard = Callable[..., ModelCard]
MakeModel = Callable[..., Path]
Load = Callable[..., Engine]

ENGINES = {"openvino": OpenVinoEngine, "onnxruntime": OnnxRuntimeEngine}
COPY = ("copy",)


@pytest.fixture(params=sorted(ENGINES))
def load(request: pytest.FixtureRequest) -> Iterator[Load]:
    """Loads the first file of a card with each of the engines, and closes it."""
    loaded: list[Engine] = []

    def start(card: ModelCard, requests: int = 1, precision: str = "fp32") -> Engine:
        file = next(file for file in card.files if file.precision == precision)
        kind: Any = ENGINES[request.param]
        options = {"requests": requests, "threads_per_request": 1}
        loaded.append(kind(card, file, **options, chosen_because="a test"))
        return loaded[-1]

    yield start
    for engine in loaded:
        engine.close()


def noise(n: int = 1, height: int = 64, width: int = 96) -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, (n, height, width, 3), np.uint8)


def test_the_network_gets_channels_first_with_mean_and_std_in_its_order(
    load: Load, make_model: MakeModel, make_card: MakeCard
) -> None:
    mean, std = (10.0, 20.0, 30.0), (2.0, 4.0, 8.0)
    engine = load(make_card(make_model(), outputs=COPY, mean=mean, std=std))
    images = noise()
    expected = (images - np.array(mean)) / np.array(std)
    copy = engine.infer(images)["copy"]
    np.testing.assert_allclose(copy, np.moveaxis(expected, 3, 1), rtol=1e-6)


def test_a_batch_gives_what_its_images_give(
    load: Load, make_model: MakeModel, make_card: MakeCard
) -> None:
    engine = load(make_card(make_model(), outputs=COPY))
    images = noise(3)
    single = [np.array(engine.infer(image[np.newaxis])["copy"]) for image in images]
    np.testing.assert_array_equal(engine.infer(images)["copy"], np.concatenate(single))
    np.testing.assert_array_equal(engine.infer(images[:2])["copy"][1], single[1][0])


@pytest.mark.parametrize(
    ("precision", "batching", "batch_max"),
    [
        ("int8", "up to 3 images in one go", 3),
        ("fp32", "one image after the other: a batch is no cheaper in fp32", 1),
    ],
)
def test_openvino_runs_a_batch_in_one_go_where_that_is_cheaper(
    scene_tiny: ModelCard, precision: str, batching: str, batch_max: int
) -> None:
    file = next(file for file in scene_tiny.files if file.precision == precision)
    engine = OpenVinoEngine(
        scene_tiny,
        file,
        requests=1,
        threads_per_request=1,
        chosen_because="a test",
        batch_max=3,
    )
    images = noise(4, scene_tiny.height, scene_tiny.width)
    alone = [np.array(engine.infer(image[np.newaxis])["scores"]) for image in images]
    for n in (2, 3, 4):
        batch = engine.infer(images[:n])["scores"]
        np.testing.assert_allclose(batch, np.concatenate(alone[:n]), atol=1e-5)
    assert (engine.info.batching, engine.info.batch_max) == (batching, batch_max)
    engine.close()


def test_a_graph_with_a_batch_of_one_written_into_it_is_run_image_by_image(
    make_model: MakeModel, make_card: MakeCard
) -> None:
    card = make_card(make_model(), outputs=("copy", "scores"))
    file = replace(card.files[0], precision="int8")
    engine = OpenVinoEngine(
        card,
        file,
        requests=1,
        threads_per_request=1,
        chosen_because="a test",
        batch_max=2,
    )
    assert engine.info.batching == (
        "one image after the other; not more: output 'scores' is (1, 96, 3) for 2"
        " images, not (2, 96, 3)"
    )
    assert engine.infer(noise(2))["copy"].shape == (2, 3, 64, 96)
    engine.close()


def test_a_request_that_was_made_anew_works_like_the_old_one(
    load: Load, make_model: MakeModel, make_card: MakeCard
) -> None:
    engine = load(make_card(make_model(), outputs=COPY), requests=2)
    old = engine.infer(noise(), 1)["copy"]
    engine.renew(1)
    new = engine.infer(noise(), 1)["copy"]
    assert new is not old
    np.testing.assert_array_equal(new, old)


def test_an_image_that_is_not_contiguous_is_read_right(
    load: Load, make_model: MakeModel, make_card: MakeCard
) -> None:
    engine = load(make_card(make_model(), outputs=COPY))
    wide = noise(width=192)[:, :, ::2]
    copy = engine.infer(wide)["copy"]
    np.testing.assert_array_equal(copy, np.moveaxis(wide.astype(np.float32), 3, 1))


def test_a_free_input_size_becomes_the_cards(
    load: Load, make_model: MakeModel, make_card: MakeCard
) -> None:
    path = make_model(shape=(1, 3, "height", "width"))
    engine = load(make_card(path, outputs=COPY, height=32, width=160))
    assert engine.infer(noise(1, 32, 160))["copy"].shape == (1, 3, 32, 160)


def test_requests_do_not_share_outputs(
    load: Load, make_model: MakeModel, make_card: MakeCard
) -> None:
    engine = load(make_card(make_model(), outputs=COPY), requests=2)
    first = engine.infer(noise(), 0)["copy"]
    before = np.array(first)
    engine.infer(255 - noise(), 1)
    np.testing.assert_array_equal(first, before)


def test_requests_may_run_at_once(load: Load, scene_tiny: ModelCard) -> None:
    engine = load(scene_tiny, requests=2)
    images = noise(8, scene_tiny.height, scene_tiny.width)
    alone = [np.array(engine.infer(image[np.newaxis])["scores"]) for image in images]
    together: dict[int, list[NDArray[np.float32]]] = {0: [], 1: []}

    def work(request: int) -> None:
        for image in images:
            scores = engine.infer(image[np.newaxis], request)["scores"]
            together[request].append(np.array(scores))

    threads = [threading.Thread(target=work, args=(request,)) for request in together]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for scores in together.values():
        np.testing.assert_array_equal(np.stack(scores), np.stack(alone))


def test_an_inference_allocates_nothing_large(load: Load, nanodet: ModelCard) -> None:
    engine = load(nanodet, precision="int8")
    images = noise(1, nanodet.height, nanodet.width)
    engine.infer(images)
    tracemalloc.start()
    try:
        engine.infer(images)
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        engine.infer(images)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The outputs are 830 kB. onnxruntime takes up to 67 kB of its own (seen with 1.23).
    assert peak - before < 96 * 1024


def test_a_closed_engine_says_so_and_can_be_closed_again(
    load: Load, make_model: MakeModel, make_card: MakeCard
) -> None:
    engine = load(make_card(make_model(), outputs=COPY))
    engine.close()
    engine.close()
    with pytest.raises(EngineError, match="closed"):
        engine.infer(noise())


def test_closing_ends_the_threads(load: Load, scene_tiny: ModelCard) -> None:
    def threads() -> int:
        return len(os.listdir("/proc/self/task"))

    load(scene_tiny).close()  # what stays for the life of the process is there now
    gc.collect()
    before = threads()
    engine = load(scene_tiny, requests=4)
    engine.infer(noise(1, scene_tiny.height, scene_tiny.width), 3)
    engine.close()
    gc.collect()
    assert threads() <= before


def test_the_info_says_what_runs(load: Load, scene_tiny: ModelCard) -> None:
    info = load(scene_tiny, requests=2, precision="int8").info
    assert info.engine in ENGINES
    assert (info.precision, info.requests, info.threads_per_request) == ("int8", 2, 1)
    assert info.executed_precision.startswith("int8")
    assert info.version[0].isdigit()
    assert info.chosen_because == "a test"


def test_openvino_never_executes_fp32_in_less(scene_tiny: ModelCard) -> None:
    file = next(file for file in scene_tiny.files if file.precision == "fp32")
    options: Any = {"requests": 1, "threads_per_request": 1, "chosen_because": ""}
    engine = OpenVinoEngine(scene_tiny, file, **options)
    assert engine.info.executed_precision == "f32"
    engine.close()


@pytest.mark.parametrize(
    ("shape", "problem"),
    [
        ((64, 96, 3), "asked for 64x96x3, allowed is 1x64x96x3 .4 dimensions, not 3"),
        ((1, 96, 64, 3), "dimension 1 is 96 and must be 64; dimension 2 is 64"),
        ((0, 64, 96, 3), "dimension 0 is 0 and must be 1"),
    ],
)
def test_images_of_another_shape_are_refused(
    shape: tuple[int, ...],
    problem: str,
    load: Load,
    make_model: MakeModel,
    make_card: MakeCard,
) -> None:
    engine = load(make_card(make_model(), outputs=COPY))
    with pytest.raises(EngineError, match=f"input 'images': .*{problem}"):
        engine.infer(np.zeros(shape, np.uint8))


@pytest.mark.parametrize(
    ("model", "card", "message"),
    [
        ({"name": "x"}, {}, "the card's input is 'images', the model's 'x'"),
        ({"shape": (1, 1, 64, 96)}, {}, "asks for input 1x3x64x96, .* 1x1x64x96"),
        ({"shape": (1, 3, 32, 32)}, {}, "asks for input 1x3x64x96, .* 1x3x32x32"),
        ({"shape": (4, 3, 64, 96)}, {}, "asks for input 1x3x64x96, .* 4x3x64x96"),
        ({}, {"outputs": ("boxes",)}, "no output 'boxes' .*'copy', 'scores', 'dist'"),
    ],
)
def test_a_model_that_does_not_fit_its_card_is_refused(
    model: dict[str, Any],
    card: dict[str, Any],
    message: str,
    load: Load,
    make_model: MakeModel,
    make_card: MakeCard,
) -> None:
    with pytest.raises(ModelError, match=message):
        load(make_card(make_model(**model), **card))


def test_an_operator_that_nobody_has_is_an_engine_error_on_one_line(
    load: Load, make_model: MakeModel, make_card: MakeCard
) -> None:
    with pytest.raises(EngineError, match="NoSuchThing") as caught:
        load(make_card(make_model(operator="NoSuchThing"), outputs=COPY))
    assert "\n" not in str(caught.value)


def test_damage_inside_the_file_is_an_engine_error_on_one_line(
    load: Load, nanodet: ModelCard, make_card: MakeCard, tmp_path: Path
) -> None:
    data = bytearray(nanodet.files[0].path.read_bytes())
    data[1000:4000] = b"\xff" * 3000
    path = tmp_path / "damaged.onnx"
    path.write_bytes(data)
    with pytest.raises(EngineError, match=r"damaged\.onnx") as caught:
        load(make_card(path))
    assert "\n" not in str(caught.value)


def test_the_file_is_checked_before_the_library_sees_it(
    load: Load, make_card: MakeCard, tmp_path: Path
) -> None:
    card = make_card(tmp_path / "missing.onnx")
    assert card.files == (ModelFile("fp32", tmp_path / "missing.onnx", None),)
    with pytest.raises(ModelError, match=r"missing\.onnx: cannot read"):
        load(card)
