"""A classifier: from images to one class and its probability each."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from edgepipe.configs.model_card import read_card
from edgepipe.errors import ConfigError, ModelError
from edgepipe.models.candidates import BadOutputError
from edgepipe.models.card import ModelCard
from edgepipe.models.classifier import Classifier
from edgepipe.models.engine import Engine
from edgepipe.models.heads import (
    CLASSIFIERS,
    build_classifier,
    build_head,
    check_outputs,
)
from edgepipe.models.load import load_engine

if TYPE_CHECKING:
    from tests.colour_model import ColourModel

from .conftest import PLAIN

MakeCard = Callable[..., ModelCard]


def images(*colours: tuple[int, int, int]) -> NDArray[np.uint8]:
    batch = np.empty((len(colours), 16, 24, 3), np.uint8)
    for image, colour in zip(batch, colours, strict=True):
        image[...] = colour
    return batch


def load(path: Path, engine: str = "openvino", batch_max: int = 1) -> Engine:
    card, _ = read_card(path.with_suffix(".yaml"))
    return load_engine(card, "fp32", engine, requests=1, threads=1, batch_max=batch_max)


@pytest.mark.parametrize("kind", sorted(CLASSIFIERS))
@pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
@pytest.mark.parametrize("batch_max", [1, 4])
def test_each_image_of_a_batch_gets_its_class_and_probability(
    kind: str, engine: str, batch_max: int, tmp_path: Path, colour_model: "ColourModel"
) -> None:
    path = colour_model.write(tmp_path, kind)
    card, _ = read_card(path.with_suffix(".yaml"))
    loaded = load(path, engine, batch_max)
    try:
        found = Classifier(card, loaded).classify(
            images((255, 0, 0), (0, 0, 255), (0, 255, 0), (0, 200, 0))
        )
    finally:
        loaded.close()
    assert [colour_model.labels[k] for k in found.class_id] == [
        "blue",
        "red",
        "green",
        "green",
    ]
    sure = np.exp(10) / (np.exp(10) + 2)
    less = np.exp(10 * 200 / 255) / (np.exp(10 * 200 / 255) + 2)
    assert found.score == pytest.approx([sure, sure, sure, less], abs=1e-4)


scores = arrays(
    np.float32,
    st.tuples(st.integers(1, 5), st.just(3)),
    elements=st.floats(-(2.0**100), 2.0**100, width=32),
)


@given(scores)
def test_probabilities_of_any_scores_are_shares_and_keep_their_order(
    output: NDArray[np.float32],
) -> None:
    head = build_classifier(_card("classifier"))
    shares = head.probabilities({"scores": output})
    assert np.isfinite(shares).all()
    assert shares.sum(axis=1) == pytest.approx(1.0, abs=1e-5)
    best = output.argmax(axis=1)
    assert (shares[np.arange(len(best)), best] == shares.max(axis=1)).all()


@pytest.mark.parametrize("kind", sorted(CLASSIFIERS))
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_output_that_is_not_finite_is_never_a_class(kind: str, bad: float) -> None:
    output = np.array([[0.2, 0.3, 0.5], [0.1, bad, 0.9]], np.float32)
    with pytest.raises(BadOutputError, match="NaN or inf"):
        build_classifier(_card(kind)).probabilities({"scores": output})


@pytest.mark.parametrize("row", [[-0.2, 0.7, 0.5], [2.0, 3.0, 4.0], [0.0, 0.0, 0.1]])
def test_raw_scores_are_not_taken_for_probabilities(row: list[float]) -> None:
    output = np.array([row], np.float32)
    with pytest.raises(BadOutputError, match="raw scores want head 'classifier'"):
        build_classifier(_card("probabilities")).probabilities({"scores": output})


def test_a_wrong_number_of_classes_is_named(make_card: MakeCard) -> None:
    card = make_card(head="classifier", outputs=("scores",))
    output = {"scores": np.zeros((1, 5), np.float32)}
    with pytest.raises(ModelError, match="has 5 classes, the card has 3"):
        check_outputs(card, build_classifier(card), output)


def test_a_detector_is_no_classifier_and_the_reverse(make_card: MakeCard) -> None:
    with pytest.raises(ModelError, match=r"is a detector .* no classifier"):
        build_classifier(make_card())
    with pytest.raises(ModelError, match=r"is a classifier .* beside a detector"):
        build_head(make_card(head="classifier", outputs=("scores",)))


def test_a_classifiers_card_has_no_thresholds(
    tmp_path: Path, colour_model: "ColourModel"
) -> None:
    card = colour_model.write(tmp_path).with_suffix(".yaml")
    card.write_text(card.read_text() + "score_threshold: 0.4\niou_threshold: 0.5\n")
    with pytest.raises(ConfigError) as caught:
        read_card(card)
    text = str(caught.value)
    assert "score_threshold: a classifier" in text
    assert "iou_threshold: a classifier" in text


def test_a_detectors_card_must_have_them(
    tmp_path: Path, colour_model: "ColourModel"
) -> None:
    card = colour_model.write(tmp_path).with_suffix(".yaml")
    card.write_text(card.read_text().replace("kind: classifier", "kind: yolov8"))
    with pytest.raises(ConfigError) as caught:
        read_card(card)
    assert str(caught.value).count("this key is required") == 2


def _card(kind: str) -> ModelCard:
    return replace(PLAIN, head=kind, outputs=("scores",))
