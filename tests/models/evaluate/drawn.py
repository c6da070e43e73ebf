"""Frames of boxes drawn by chance: objects, and what a poor detector makes of them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.evaluate.matching import Truth


class Boxed(NamedTuple):
    """The least that is a detection."""

    xyxy: NDArray[np.float32]
    score: NDArray[np.float32]
    class_id: NDArray[np.int32]


def boxed(
    xyxy: Sequence[Sequence[float]],
    score: Sequence[float],
    class_id: Sequence[int] | None = None,
) -> Boxed:
    """Detections from lists; of class 0 unless said otherwise."""
    return Boxed(
        np.array(xyxy, np.float32).reshape(-1, 4),
        np.array(score, np.float32),
        np.array([0] * len(score) if class_id is None else class_id, np.int32),
    )


def drawn_frame(
    rng: np.random.Generator, classes: int, *, digits: int = 1
) -> tuple[Boxed, Truth]:
    """A frame with up to twelve objects in whole pixels, so that ties are common.

    So are equal scores, within a frame and between frames, with few digits.
    """
    objects = int(rng.integers(0, 12))
    corner = rng.integers(0, 150, (objects, 2))
    boxes = np.concatenate([corner, corner + rng.integers(4, 120, (objects, 2))], 1)
    class_id = rng.integers(0, classes, objects)
    truth = Truth.of(
        boxes,
        class_id,
        crowd=rng.random(objects) < 0.15,
        area=np.round(rng.uniform(0.4, 1.0, objects) * _areas(boxes)),
    )
    again = np.flatnonzero(np.repeat(rng.random(objects) < 0.8, 2))
    again = again // 2
    moved = boxes[again] + np.round(rng.normal(0, 3.0, (len(again), 4)))
    wild = rng.integers(0, 100, (int(rng.integers(0, 8)), 4)).astype(float)
    wild[:, 2:] += wild[:, :2] + 1
    xyxy = np.concatenate([moved, wild])
    xyxy[:, 2:] = np.maximum(xyxy[:, 2:], xyxy[:, :2] + 1)
    ids = np.concatenate([class_id[again], rng.integers(0, classes, len(wild))])
    score = np.round(rng.random(len(xyxy)), digits)
    return (
        Boxed(xyxy.astype(np.float32), score.astype(np.float32), ids.astype(np.int32)),
        truth,
    )


def _areas(boxes: NDArray[np.generic]) -> NDArray[np.float64]:
    xyxy = np.asarray(boxes, np.float64)
    return np.asarray((xyxy[:, 2] - xyxy[:, 0]) * (xyxy[:, 3] - xyxy[:, 1]))
