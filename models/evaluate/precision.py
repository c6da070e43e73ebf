"""Average precision (COCO's) of frames that have been matched, as often as wanted.

Frames can be weighted: a frame of weight 3 counts as if it were there three times, one
of weight 0 as if it were not. So a bootstrap needs no second matching.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.evaluate.matching import Flags, Matches

RECALLS = np.linspace(0.0, 1.0, 101)
"""Where precision is read off and averaged."""
_AT_ONCE = 1 << 16
"""Most numbers in an array while many weightings are worked on."""

Weights = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ClassRanking:
    """All detections of one class in all frames, best score first (n of them)."""

    class_id: int
    frame: NDArray[np.intp]
    """(n,) index of the frame each is from."""
    hit: Flags
    """(t, n) right, at each IoU threshold; ignored ones are neither right nor wrong."""
    counted: Flags
    """(t, n) right or wrong."""
    objects: NDArray[np.float64]
    """(frames,) how many objects ought to be found in each frame."""


@dataclass(frozen=True, slots=True)
class Precision:
    """Average precision, each 0..1; None where there is no object."""

    ap: float | None
    """Mean over classes and IoU .50 to .95."""
    ap50: float | None
    ap75: float | None
    per_class: dict[int, float]
    """AP of each class that has objects."""
    objects: dict[int, int]
    """How many objects each of these has."""


def rank(frames: Sequence[Matches]) -> tuple[ClassRanking, ...]:
    """Sort what was matched, class by class; classes without an object are left out.

    Frames keep their order: a weight per frame is given in it.
    """
    if not frames:
        return ()
    frame = np.repeat(np.arange(len(frames)), [len(each.score) for each in frames])
    score = np.concatenate([each.score for each in frames])
    class_id = np.concatenate([each.class_id for each in frames])
    counted = ~np.concatenate([each.ignored for each in frames], axis=1)
    hit = np.concatenate([each.hit for each in frames], axis=1) & counted
    rankings: list[ClassRanking] = []
    for wanted in np.unique(np.concatenate([each.objects for each in frames])).tolist():
        own = np.flatnonzero(class_id == wanted)
        own = own[np.argsort(-score[own], kind="stable")]
        objects = [np.count_nonzero(each.objects == wanted) for each in frames]
        rankings.append(
            ClassRanking(
                wanted,
                frame[own],
                hit[:, own],
                counted[:, own],
                np.array(objects, np.float64),
            )
        )
    return tuple(rankings)


def average_precisions(
    ranking: ClassRanking, weights: Weights | None = None
) -> NDArray[np.float64]:
    """(b, t) average precision of a class, by weighting and IoU threshold.

    Args:
        ranking: Of the class.
        weights: (b, frames), 0 or more; None: every frame once.

    Returns:
        NaN where a weighting leaves no object.
    """
    if weights is None:
        weights = np.ones((1, len(ranking.objects)))
    step = max(1, _AT_ONCE // max(1, len(ranking.frame)))
    places = [_places(*each) for each in zip(ranking.hit, ranking.counted, strict=True)]
    return np.concatenate(
        [
            _weighted(ranking, places, weights[start : start + step])
            for start in range(0, len(weights), step)
        ]
    )


def mean_precision(
    rankings: Sequence[ClassRanking], weights: Weights | None = None
) -> NDArray[np.float64]:
    """(b,) mean of AP over IoU thresholds and classes, by weighting; as above.

    Args:
        rankings: Of the classes that take part, one or more.
        weights: (b, frames), 0 or more; None: every frame once.

    Returns:
        The mean over the classes of which a weighting leaves objects; NaN without any.
    """
    each = np.stack([average_precisions(r, weights).mean(axis=1) for r in rankings])
    there = ~np.isnan(each)
    total = np.where(there, each, 0.0).sum(axis=0)
    with np.errstate(invalid="ignore"):
        return np.asarray(total / there.sum(axis=0), np.float64)


def precision(frames: Sequence[Matches]) -> Precision:
    """COCO's figures of all frames, each counted once.

    AP50 and AP75 are None if these IoU thresholds are not the first and sixth.
    """
    rankings = rank(frames)
    if not rankings:
        return Precision(None, None, None, {}, {})
    table = np.concatenate([average_precisions(each) for each in rankings])
    ids = [each.class_id for each in rankings]
    return Precision(
        float(table.mean()),
        float(table[:, 0].mean()),
        float(table[:, 5].mean()) if table.shape[1] > 5 else None,
        dict(zip(ids, table.mean(axis=1).tolist(), strict=True)),
        {each.class_id: int(each.objects.sum()) for each in rankings},
    )


@dataclass(frozen=True, slots=True)
class _Places:
    """Where the hits of one IoU threshold are in a ranking."""

    hits: NDArray[np.intp]
    ignored: NDArray[np.intp]
    """Detections that are neither right nor wrong."""
    before: NDArray[np.intp]
    """For each hit, how many of these come before it."""


def _places(hit: Flags, counted: Flags) -> _Places:
    hits, ignored = np.flatnonzero(hit), np.flatnonzero(~counted)
    return _Places(hits, ignored, np.searchsorted(ignored, hits))


def _weighted(
    ranking: ClassRanking, places: Sequence[_Places], weights: Weights
) -> NDArray[np.float64]:
    """As :func:`average_precisions`, of few enough weightings."""
    objects = weights @ ranking.objects
    own = weights[:, ranking.frame]
    # Summed once for all thresholds; what each ignores is little, and is taken off.
    whole = np.cumsum(own, axis=1)
    out = np.zeros((len(weights), len(places)))
    for t, at in enumerate(places):
        if len(at.hits):
            ignored = np.zeros((len(weights), len(at.ignored) + 1))
            np.cumsum(own[:, at.ignored], axis=1, out=ignored[:, 1:])
            seen = whole[:, at.hits] - ignored[:, at.before]
            right = np.cumsum(own[:, at.hits], axis=1)
            out[:, t] = _area(right, seen, objects)
    return np.where(objects[:, np.newaxis] > 0, out, np.nan)


def _area(
    right: Weights, seen: Weights, objects: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Mean precision at the 101 recalls, given counts at each hit, (b, hits).

    Only at a hit does recall rise and can precision have a peak. The precision at a
    recall is the best at that recall or above.
    """
    share = right / (seen + np.spacing(1))
    best = np.maximum.accumulate(share[:, ::-1], axis=1)[:, ::-1]
    recall = right / np.maximum(objects, np.finfo(np.float64).tiny)[:, np.newaxis]
    passed = np.searchsorted(RECALLS, recall, side="right")
    passed[:, 1:] -= passed[:, :-1].copy()
    return np.asarray((best * passed).sum(axis=1) / len(RECALLS), np.float64)
