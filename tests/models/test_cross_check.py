"""Two independent libraries compute the same network."""

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from edgepipe.models.card import ModelCard
from edgepipe.models.detector import Detector
from edgepipe.models.engine import AsyncEngine
from edgepipe.models.load import load_engine

ENGINES = ("openvino", "onnxruntime")
SCORE_TOLERANCE = {"fp32": 1e-5, "int8": 0.1}
"""Largest difference of any score. In FP32 only the order of sums differs; in INT8 one
value that is rounded the other way moves everything that is computed from it."""
BOX_TOLERANCE_PX = 5.0
"""Largest difference of any edge of an object's box, of 416 x 320 pixels."""
MEAN_TOLERANCE = {"fp32": 1e-6, "int8": 5e-4}


@pytest.fixture(params=["fp32", "int8"])
def precision(request: pytest.FixtureRequest) -> str:
    """Each precision in turn."""
    return str(request.param)


@pytest.fixture
def engines(nanodet: ModelCard, precision: str) -> Iterator[list[AsyncEngine]]:
    """The default model in both engines."""
    loaded = [
        load_engine(nanodet, precision, name, requests=1, threads=1) for name in ENGINES
    ]
    yield loaded
    for engine in loaded:
        engine.close()


def test_both_engines_score_real_frames_alike(
    engines: list[AsyncEngine], precision: str, street: NDArray[np.uint8]
) -> None:
    one, other = (engine.infer(street)["scores"] for engine in engines)
    difference = np.abs(one - other)
    assert difference.max() <= SCORE_TOLERANCE[precision]
    assert difference.mean() <= MEAN_TOLERANCE[precision]


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_the_small_model_is_scored_alike_too(
    precision: str, scene_tiny: ModelCard, street: NDArray[np.uint8]
) -> None:
    images = street[:, : scene_tiny.height, : scene_tiny.width]
    both = [
        load_engine(scene_tiny, precision, name, requests=1, threads=1)
        for name in ENGINES
    ]
    one, other = (engine.infer(images)["scores"].copy() for engine in both)
    assert np.abs(one - other).max() <= SCORE_TOLERANCE[precision]
    assert np.abs(one - other).mean() <= 4 * MEAN_TOLERANCE[precision]
    for engine in both:
        engine.close()


def test_both_engines_find_the_same_objects(
    engines: list[AsyncEngine], nanodet: ModelCard, street: NDArray[np.uint8]
) -> None:
    found = [
        Detector(
            nanodet,
            engine,
            score=score,
            iou=0.6,
            max_detections=100,
            class_agnostic=False,
        ).detect(street)
        for engine, score in zip(engines, (0.45, 0.35), strict=True)
    ]
    seen = 0
    for ours, theirs in zip(*found, strict=True):
        for box, class_id in zip(ours.xyxy, ours.class_id, strict=True):
            alike = theirs.xyxy[theirs.class_id == class_id]
            assert (
                np.abs(alike - box).max(axis=1).min(initial=np.inf) < BOX_TOLERANCE_PX
            )
            seen += 1
    assert seen >= 3
