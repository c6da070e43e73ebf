"""By how much INT8 is worse than FP32 on the same frames, and whether that will do."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.evaluate.bootstrap import Weights, upper_bound
from edgepipe.models.evaluate.matching import Matches
from edgepipe.models.evaluate.precision import (
    ClassRanking,
    mean_precision,
    precision,
    rank,
)

POINTS = 100.0
"""A point of AP is a hundredth of it."""
LEAST_OBJECTS = 100
"""Fewer say nothing: a single one is a point."""
LEAST_FRAMES = 20
"""Fewer hold too few blocks to be drawn from."""
LEAST_VALUE = 10.0
"""Points. An FP32 network below has nothing to lose: labels or card are wrong."""


@dataclass(frozen=True, slots=True)
class ClassDrop:
    """One class."""

    objects: int
    fp32: float
    """Points."""
    int8: float


@dataclass(frozen=True, slots=True)
class Drop:
    """What INT8 costs on some frames; values are points, 0 to 100."""

    fp32: float
    int8: float
    drop: float
    """FP32 less INT8."""
    upper: float
    """With 95 % confidence the drop is not above this."""
    frames: int
    objects: int
    classes: dict[int, ClassDrop]
    block: int
    """Consecutive frames that were drawn together for the bound."""
    resamples: int
    seed: int


def drop_of_precision(
    fp32: Sequence[Matches], int8: Sequence[Matches], *, seed: int = 0
) -> Drop:
    """The drop of AP (IoU .50 to .95, mean over classes) with its upper bound.

    Args:
        fp32: Every frame, FP32's detections matched with the truth.
        int8: The same frames and truth with those of INT8.
        seed: Of the bootstrap.

    Raises:
        ValueError: There is no object in the truth.
    """
    before, after = rank(fp32), rank(int8)
    if not before:
        raise ValueError("there is no object to be found in these frames")
    table = by_class(fp32, int8)
    bound = upper_bound(
        lambda weights: _difference(before, after, weights), len(fp32), seed=seed
    )
    (first,), (second,) = mean_precision(before), mean_precision(after)
    return Drop(
        fp32=POINTS * float(first),
        int8=POINTS * float(second),
        drop=bound.value,
        upper=bound.upper,
        frames=len(fp32),
        objects=sum(len(frame.objects) for frame in fp32),
        classes=table,
        block=bound.block,
        resamples=bound.resamples,
        seed=seed,
    )


def drop_of_agreement(same: NDArray[np.bool_], *, seed: int = 0) -> Drop:
    """How often a classifier's INT8 network names another class than FP32.

    No labels could show a drop of accuracy above that. Where n frames show none, 95 %
    confidence still leaves 3 of n (Hanley and Lippman-Hand, 1983).

    Args:
        same: (frames,) whether both name the same class; one or more frames.
        seed: Of the bootstrap.
    """
    differs = POINTS * ~same

    def mean(weights: Weights) -> NDArray[np.float64]:
        return np.asarray(weights @ differs / weights.sum(axis=1))

    frames = len(same)
    bound = upper_bound(mean, frames, seed=seed)
    return Drop(
        fp32=POINTS,
        int8=POINTS - bound.value,
        drop=bound.value,
        upper=min(POINTS, max(bound.upper, 3 * POINTS / frames)),
        frames=frames,
        objects=frames,
        classes={},
        block=bound.block,
        resamples=bound.resamples,
        seed=seed,
    )


def why_not(drop: Drop, allowed: float) -> str:
    """Why a network does not pass; empty if it does.

    Args:
        drop: What was measured.
        allowed: Most that the upper bound of the drop may be, points.
    """
    if drop.fp32 < LEAST_VALUE:
        return (
            f"cannot say: FP32 itself reaches {drop.fp32:.1f} points (at least"
            f" {LEAST_VALUE:g}); do recording, labels and card belong to this network?"
        )
    is_enough = drop.objects >= LEAST_OBJECTS and drop.frames >= LEAST_FRAMES
    # A network that lost half of it needs no further evidence.
    if drop.drop > allowed and (is_enough or drop.int8 < drop.fp32 / 2):
        return f"INT8 loses {drop.drop:.2f} points (at most {allowed:g})"
    if not is_enough:
        return (
            f"cannot say: {drop.objects} objects in {drop.frames} frames (at least"
            f" {LEAST_OBJECTS} in {LEAST_FRAMES}); take a longer recording"
        )
    if not drop.upper <= allowed:  # written so that NaN fails, too
        return (
            f"INT8 may lose {drop.upper:.2f} points (at most {allowed:g}; measured"
            f" {drop.drop:.2f} on {drop.objects} objects: more make it surer)"
        )
    return ""


def _difference(
    before: Sequence[ClassRanking], after: Sequence[ClassRanking], weights: Weights
) -> NDArray[np.float64]:
    """(b,) points lost, by weighting."""
    lost = mean_precision(before, weights) - mean_precision(after, weights)
    return POINTS * lost


def by_class(fp32: Sequence[Matches], int8: Sequence[Matches]) -> dict[int, ClassDrop]:
    """AP of each class that has objects."""
    before, after = precision(fp32), precision(int8)
    return {
        class_id: ClassDrop(
            before.objects[class_id],
            POINTS * value,
            POINTS * after.per_class[class_id],
        )
        for class_id, value in before.per_class.items()
    }
