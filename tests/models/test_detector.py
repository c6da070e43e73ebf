"""From images to boxes in network pixels."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from edgepipe.models.candidates import BadOutputError
from edgepipe.models.card import ModelCard
from edgepipe.models.detector import Detector, Found
from edgepipe.models.engine import Outputs
from edgepipe.models.load import load_engine

from .scripted import Scripted

MakeCard = Callable[..., ModelCard]
IMAGES = np.zeros((2, 64, 96, 3), np.uint8)


@pytest.fixture
def outputs() -> dict[str, NDArray[np.float32]]:
    """Two images; in the second, three boxes of which two overlap."""
    scores, dist = np.zeros((2, 96, 3), np.float32), np.ones((2, 96, 4), np.float32)
    scores[1, 10, 0], scores[1, 11, 1], scores[1, 50, 2] = 0.75, 0.875, 0.5
    dist[1, [10, 11]] = 20
    return {"scores": scores, "dist": dist}


def detect(
    card: ModelCard, outputs: Outputs, *, limit: int = 9, agnostic: bool = False
) -> list[Found]:
    options = {"score": 0.5, "iou": 0.5}
    return Detector(
        card,
        Scripted(outputs),
        **options,
        max_detections=limit,
        class_agnostic=agnostic,
    ).detect(IMAGES)


def test_each_image_gets_its_boxes_best_first(
    make_card: MakeCard, outputs: Outputs
) -> None:
    empty, full = detect(make_card(), outputs)
    assert len(empty.score) == 0
    assert full.score.tolist() == [0.875, 0.75, 0.5]
    assert full.class_id.tolist() == [1, 0, 2]
    assert full.xyxy[2].tolist() == [19, 35, 21, 37]


def test_classes_suppress_each_other_only_when_asked(
    make_card: MakeCard, outputs: Outputs
) -> None:
    assert detect(make_card(), outputs, agnostic=True)[1].class_id.tolist() == [1, 2]


def test_what_the_limit_cuts_is_counted(make_card: MakeCard, outputs: Outputs) -> None:
    _, full = detect(make_card(), outputs, limit=2)
    assert (full.score.tolist(), full.truncated) == ([0.875, 0.75], 1)


def test_a_bad_output_fails_the_call(make_card: MakeCard, outputs: Outputs) -> None:
    outputs["dist"][1, 95, 3] = np.nan
    with pytest.raises(BadOutputError, match="'dist': 1 of 384"):
        detect(make_card(), outputs)


def test_the_default_model_sees_the_people_and_the_cars(
    nanodet: ModelCard, street: NDArray[np.uint8]
) -> None:
    engine = load_engine(nanodet, "int8", requests=1, threads=1)
    detector = Detector(
        nanodet, engine, score=0.35, iou=0.6, max_detections=100, class_agnostic=False
    )
    seen = np.concatenate([found.class_id for found in detector.detect(street)])
    names = {nanodet.class_names[int(index)] for index in seen}
    engine.close()
    assert {"person", "car"} <= names
