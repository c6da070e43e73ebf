"""An INT8 engine against the truth."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from edgepipe.errors import EngineError
from edgepipe.models.card import ModelCard
from edgepipe.models.engine import Engine, EngineInfo, Outputs
from edgepipe.models.load import load_engine
from edgepipe.models.self_check import (
    LEAST_ANSWER,
    grey_image,
    probe_image,
    require_same_answer,
)

MakeCard = Callable[..., ModelCard]
NAMES = ("int8.onnx", "fp32.onnx")
CELLS = 96


class Computed:
    """An engine whose outputs are a function of the image."""

    info = EngineInfo("computed", "1", "none", "int8", "int8", 1, 1, "a test")

    def __init__(self, scores: Callable[[NDArray[np.float32]], object]) -> None:
        self._scores = scores

    def infer(self, images: NDArray[np.uint8], request: int = 0) -> Outputs:
        """Scores of each cell of 8 pixels from its mean in 0..1, distances constant."""
        assert request == 0
        n, height, width, _ = images.shape
        cells = images.reshape(n, height // 8, 8, width // 8, 8, 3).mean((2, 4))
        values = (cells / 255).reshape(n, CELLS, 3).astype(np.float32)
        scores = np.asarray(self._scores(values), np.float32)
        return {"scores": scores, "dist": np.ones((n, CELLS, 4), np.float32)}

    def renew(self, request: int) -> None:
        """There is nothing to make anew."""

    def close(self) -> None:
        """Nothing to release."""


TRUTH = Computed(lambda values: values)


def noise(scale: float) -> NDArray[np.float32]:
    random = np.random.default_rng(0)
    return (scale * random.standard_normal((1, CELLS, 3))).astype(np.float32)


@pytest.mark.parametrize(
    "engine",
    [
        Computed(lambda values: values),
        Computed(lambda values: np.round(values * 8) / 8),
        Computed(lambda values: values + 0.3),
    ],
    ids=["equal", "rounded", "with another bias"],
)
def test_small_differences_pass(engine: Engine, make_card: MakeCard) -> None:
    require_same_answer(engine, TRUTH, make_card(), NAMES)


@pytest.mark.parametrize(
    "engine",
    [
        Computed(lambda values: values[:, ::-1]),
        Computed(lambda values: np.round(values)),
        Computed(lambda values: values * 2),
        Computed(lambda values: 1 - values),
        Computed(np.zeros_like),
        Computed(lambda values: values * np.nan),
        Computed(lambda values: values + values.std() * noise(1.0)),
    ],
    ids=["upside down", "coarse", "doubled", "inverted", "blind", "NaN", "noisy"],
)
def test_rubbish_is_refused_with_what_to_do(
    engine: Engine, make_card: MakeCard
) -> None:
    with pytest.raises(
        EngineError,
        match=r"computed computes rubbish from int8\.onnx .*'scores' .*(\d|nan)% off "
        r"from that of fp32\.onnx .*; use precision fp32 or another engine",
    ):
        require_same_answer(engine, TRUTH, make_card(), NAMES)


def test_an_output_that_the_truth_does_not_move_proves_nothing(
    make_card: MakeCard,
) -> None:
    still = Computed(lambda values: values * 0.9 * LEAST_ANSWER)
    require_same_answer(Computed(np.zeros_like), still, make_card(), NAMES)


def test_every_output_is_looked_at(make_card: MakeCard) -> None:
    class Swapped(Computed):
        def infer(self, images: NDArray[np.uint8], request: int = 0) -> Outputs:
            outputs = super().infer(images, request)
            return {"scores": outputs["dist"], "dist": outputs["scores"]}

    blind = Swapped(np.zeros_like)
    with pytest.raises(EngineError, match="output 'dist'"):
        require_same_answer(blind, Swapped(lambda values: values), make_card(), NAMES)


class Ranked(Computed):
    """One that ranks its boxes itself: a box and its score for each cell."""

    def infer(self, images: NDArray[np.uint8], request: int = 0) -> Outputs:
        scores = super().infer(images)["scores"].max(axis=2)
        order = np.argsort(-scores, axis=1)
        cells = np.stack(np.divmod(order, 12), axis=2) * 8
        ranked = np.take_along_axis(scores, order, axis=1)[..., np.newaxis]
        out = np.concatenate([cells, cells + 8, ranked, ranked * 0], axis=2)
        return {"out": out.astype(np.float32)}


def test_boxes_that_a_hair_has_ranked_otherwise_are_the_same(
    make_card: MakeCard,
) -> None:
    card = make_card(head="end-to-end", outputs=("out",))
    truth = Ranked(lambda values: np.round(values * 8) / 8 + noise(1e-4))
    close = Ranked(lambda values: np.round(values * 8) / 8 + noise(1e-4)[:, ::-1])
    require_same_answer(close, truth, card, NAMES)
    raw = [engine.infer(probe_image(64, 96))["out"] for engine in (truth, close)]
    assert np.abs(raw[0] - raw[1]).max() > 8
    with pytest.raises(EngineError, match="computes rubbish"):
        require_same_answer(Ranked(lambda values: values * 0), truth, card, NAMES)


def test_a_batch_that_is_computed_wrong_is_noticed(make_card: MakeCard) -> None:
    class Batching(Computed):
        info = replace(Computed.info, batch_max=3)

        def infer(self, images: NDArray[np.uint8], request: int = 0) -> Outputs:
            outputs = super().infer(images, request)
            kept = {1: 1.0, 2: 1.0, 3: self.third}[len(images)]
            return {**outputs, "scores": outputs["scores"] * np.float32(kept)}

        def __init__(self, third: float) -> None:
            super().__init__(lambda values: values)
            self.third = third

    require_same_answer(Batching(1.0), TRUTH, make_card(), NAMES)
    with pytest.raises(EngineError, match="computes rubbish"):
        require_same_answer(Batching(0.0), TRUTH, make_card(), NAMES)


def test_an_engine_that_reuses_its_memory_is_read_in_time(make_card: MakeCard) -> None:
    class Reusing(Computed):
        memory = np.zeros((1, CELLS, 3), np.float32)

        def infer(self, images: NDArray[np.uint8], request: int = 0) -> Outputs:
            outputs = super().infer(images, request)
            self.memory[:] = outputs["scores"]
            return {**outputs, "scores": self.memory}

    require_same_answer(Reusing(lambda values: values), TRUTH, make_card(), NAMES)
    with pytest.raises(EngineError):
        require_same_answer(Reusing(np.zeros_like), TRUTH, make_card(), NAMES)


def test_the_drawn_image_is_always_the_same_and_has_edges_of_all_sizes() -> None:
    image = probe_image(64, 96)
    assert image.shape == (1, 64, 96, 3)
    np.testing.assert_array_equal(image, probe_image(64, 96))
    across = np.diff(image[0].astype(int), axis=1).any(axis=2)
    runs = np.diff(np.flatnonzero(np.append(across, True)))
    assert runs.min() == 1
    assert runs.max() >= 16


@pytest.fixture(params=["nanodet", "scene_tiny"])
def shipped(request: pytest.FixtureRequest) -> ModelCard:
    """Each of the models that ship."""
    card: ModelCard = request.getfixturevalue(request.param)
    return card


@pytest.fixture
def truth(shipped: ModelCard) -> Iterator[Engine]:
    """A shipped model in FP32."""
    engine = load_engine(shipped, "fp32", "openvino", requests=1, threads=1)
    yield engine
    engine.close()


def test_both_shipped_networks_see_much_in_the_drawn_image(
    shipped: ModelCard, truth: Engine
) -> None:
    grey, drawn = grey_image(shipped), probe_image(shipped.height, shipped.width)
    before = {name: array.copy() for name, array in truth.infer(grey).items()}
    after = truth.infer(drawn)
    for name in shipped.outputs:
        assert np.abs(after[name] - before[name]).max() > 5 * LEAST_ANSWER


@pytest.mark.parametrize("name", ["openvino", "onnxruntime"])
def test_both_engines_pass_with_both_shipped_networks(
    name: str, shipped: ModelCard, truth: Engine
) -> None:
    alone = replace(shipped, files=shipped.files[:1])
    engine = load_engine(alone, "int8", name, requests=1, threads=1)
    require_same_answer(engine, truth, shipped, NAMES)
    engine.close()
