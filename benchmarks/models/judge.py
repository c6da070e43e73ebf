"""How well a model finds what it should: against a reference and against boxes."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from footage import Image, letterbox
from numpy.typing import NDArray

from edgepipe.models.detector import Detector, Found

PERSON = 0
SHOWN = 0.35
"""Score from which a detection counts as shown: what suits NanoDet-g at 320x256."""


class Agreement(NamedTuple):
    """How a model compares with its reference."""

    matched: float
    """Share of the reference's detections found with the same class and IoU >= .5."""
    confident: float
    """Share found like that with a score of at least ``SHOWN``."""
    score_error: float
    """Mean absolute difference of the matched scores."""
    surplus: float
    """Detections above the same score that match nothing, per reference detection."""


def detect(
    detector: Detector, images: Iterable[Image], height: int, width: int, pad: int
) -> list[Found]:
    """Detections of every image, in pixels of the image."""
    results: list[Found] = []
    for image in images:
        placed = letterbox(image, height, width, pad)
        (found,) = detector.detect(placed.tensor[np.newaxis])
        scale = np.array([placed.scale_x, placed.scale_y] * 2, np.float32)
        results.append(
            Found(found.xyxy / scale, found.score, found.class_id, found.truncated)
        )
    return results


def iou(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float32]:
    """(n, m) intersection over union."""
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, 2:], b[None, :, 2:])
    common = np.prod(np.clip(high - low, 0, None), axis=2)
    area_a, area_b = (np.prod(x[:, 2:] - x[:, :2], axis=1) for x in (a, b))
    return common / np.maximum(area_a[:, None] + area_b - common, 1e-9)


def agreement(
    reference: Sequence[Found], tested: Sequence[Found], score: float
) -> Agreement:
    """Compare detections image by image; a tested box is used once.

    The tested model may score a match lower than ``score``: what it lacks in score is
    counted in ``score_error``.
    """
    wanted, surplus, errors, scores = 0, 0, list[float](), list[float]()
    for want, have in zip(reference, tested, strict=True):
        rows = np.flatnonzero(want.score >= score)
        wanted += len(rows)
        overlap = iou(want.xyxy[rows], have.xyxy)
        overlap[want.class_id[rows][:, None] != have.class_id] = 0
        used: set[int] = set()
        for row, line in zip(rows, overlap, strict=True):
            order = (int(i) for i in np.argsort(-line) if line[i] >= 0.5)
            best = next((i for i in order if i not in used), None)
            if best is not None:
                used.add(best)
                scores.append(float(have.score[best]))
                errors.append(abs(float(want.score[row]) - scores[-1]))
        strong = set(np.flatnonzero(have.score >= score).tolist())
        surplus += len(strong - used)
    return Agreement(
        matched=len(errors) / wanted,
        confident=sum(score >= SHOWN for score in scores) / wanted,
        score_error=float(np.mean(errors)),
        surplus=surplus / wanted,
    )


def average_precision(
    truth: Sequence[NDArray[np.float32]], found: Sequence[Found]
) -> float:
    """AP of class person at IoU .5, 101 points, over images."""
    hits: list[tuple[float, bool]] = []
    for boxes, have in zip(truth, found, strict=True):
        rows = np.flatnonzero(have.class_id == PERSON)
        overlap = iou(have.xyxy[rows], boxes)
        free = set(range(len(boxes)))
        for row, line in sorted(
            zip(rows, overlap, strict=True), key=lambda pair: -have.score[pair[0]]
        ):
            best = max(free, key=lambda k: line[k], default=-1)
            hit = best >= 0 and bool(line[best] >= 0.5)
            free -= {best} if hit else set()
            hits.append((float(have.score[row]), hit))
    hits.sort(reverse=True)
    right = np.cumsum([hit for _, hit in hits])
    precision = right / np.arange(1, len(hits) + 1)
    recall = right / sum(map(len, truth))
    best_after = np.maximum.accumulate(precision[::-1])[::-1]
    points = [
        float(best_after[recall >= at].max(initial=0.0))
        for at in np.linspace(0, 1, 101)
    ]
    return float(np.mean(points))


def mot_boxes(path: Path) -> dict[int, NDArray[np.float32]]:
    """Boxes of a MOTChallenge file by frame number from 1, as x1, y1, x2, y2."""
    rows = np.loadtxt(path, delimiter=",", usecols=(0, 2, 3, 4, 5), ndmin=2)
    rows[:, 3:] += rows[:, 1:3]
    return {
        int(frame): rows[rows[:, 0] == frame, 1:].astype(np.float32)
        for frame in np.unique(rows[:, 0])
    }
