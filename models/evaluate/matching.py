"""Which of a frame's detections hit an object: COCO's rules, once for each frame."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

IOU_THRESHOLDS = tuple(np.linspace(0.5, 0.95, 10).tolist())
"""What an overlap must reach to be a hit: COCO's ten, .50 to .95."""
ALL_AREAS = (0.0, 1e10)
SMALL, MEDIUM, LARGE = (0.0, 32.0**2), (32.0**2, 96.0**2), (96.0**2, 1e10)
"""COCO's ranges of an object's area in square pixels, bounds included."""
MOST_DETECTIONS = 100
"""Of each class in a frame, the best by score."""

Boxes = NDArray[np.float64]
Flags = NDArray[np.bool_]


class Detected(Protocol):
    """What a network found in a frame; ``Found`` and ``Detections`` are such."""

    @property
    def xyxy(self) -> NDArray[np.float32]:
        """(n, 4): x1, y1, x2, y2 in the pixels in which the truth is given."""
        ...

    @property
    def score(self) -> NDArray[np.float32]:
        """(n,), the higher the surer."""
        ...

    @property
    def class_id(self) -> NDArray[np.int32]:
        """(n,) index into class names."""
        ...


@dataclass(frozen=True, slots=True)
class Truth:
    """What is to be found in a frame. All arrays have the same length n."""

    xyxy: Boxes
    """(n, 4): x1, y1, x2, y2 in pixels."""
    class_id: NDArray[np.int64]
    """(n,) index into class names."""
    ignore: Flags
    """(n,) objects that may be found or not: neither a hit nor a miss nor a mistake."""
    crowd: Flags
    """(n,) regions any number of detections may lie in; these are ignored as well."""
    area: NDArray[np.float64]
    """(n,) in square pixels; decides in which range of areas an object is."""

    @classmethod
    def of(
        cls,
        xyxy: ArrayLike,
        class_id: ArrayLike,
        *,
        ignore: ArrayLike | None = None,
        crowd: ArrayLike | None = None,
        area: ArrayLike | None = None,
    ) -> "Truth":
        """A truth from anything like arrays; areas are those of the boxes."""
        boxes = np.asarray(xyxy, np.float64).reshape(-1, 4)
        none = np.zeros(len(boxes), np.bool_)
        crowds = none if crowd is None else np.asarray(crowd, np.bool_)
        ignored = none if ignore is None else np.asarray(ignore, np.bool_)
        return cls(
            boxes,
            np.asarray(class_id, np.int64).reshape(-1),
            ignored | crowds,
            crowds,
            areas(boxes) if area is None else np.asarray(area, np.float64),
        )


@dataclass(frozen=True, slots=True)
class Matches:
    """One frame, judged; d detections, best first, at t IoU thresholds."""

    score: NDArray[np.float64]
    """(d,) falling."""
    class_id: NDArray[np.int64]
    """(d,)."""
    hit: Flags
    """(t, d) whether it is an object's, ignored ones included."""
    ignored: Flags
    """(t, d) whether it counts neither as right nor as wrong."""
    objects: NDArray[np.int64]
    """Class of each object that ought to be found."""


def match(
    found: Detected,
    truth: Truth,
    *,
    thresholds: Sequence[float] = IOU_THRESHOLDS,
    area: tuple[float, float] = ALL_AREAS,
    most: int = MOST_DETECTIONS,
) -> Matches:
    """Judge a frame as pycocotools does.

    Best score first, a detection takes the object of its class that it overlaps most
    and that no better one has taken; objects that are ignored only where no other is
    left. What takes an ignored object, or takes none and has an area outside of the
    range, is itself ignored.

    Args:
        found: The detections, in any order.
        truth: The objects, in the same pixels.
        thresholds: Least IoU of a hit; each is judged on its own.
        area: Objects whose area is outside this range are ignored.
        most: Detections of one class that are looked at.
    """
    xyxy, score, class_id = _best(found, most)
    outside = (truth.area < area[0]) | (truth.area > area[1])
    ignore = truth.ignore | outside
    # The order of pycocotools decides between equal overlaps: the last one wins.
    order = np.argsort(ignore, kind="stable")
    overlap = _overlap(xyxy, truth.xyxy[order], truth.crowd[order])
    overlap[class_id[:, np.newaxis] != truth.class_id[order]] = -1.0
    hit, ignored = _assign(overlap, ignore[order], truth.crowd[order], thresholds)
    own_area = areas(xyxy)
    ignored |= ~hit & ((own_area < area[0]) | (own_area > area[1]))
    return Matches(score, class_id, hit, ignored, truth.class_id[~ignore])


def areas(xyxy: Boxes) -> NDArray[np.float64]:
    """Area of each of (n, 4) boxes."""
    return np.asarray((xyxy[:, 2] - xyxy[:, 0]) * (xyxy[:, 3] - xyxy[:, 1]))


def _best(
    found: Detected, most: int
) -> tuple[Boxes, NDArray[np.float64], NDArray[np.int64]]:
    """Boxes, scores and classes, best first, at most so many of each class."""
    score = np.asarray(found.score, np.float64)
    class_id = np.asarray(found.class_id, np.int64)
    order = np.argsort(-score, kind="stable")
    if len(order) > most:
        by_class = class_id[order]
        same = by_class[:, np.newaxis] == by_class
        rank = np.count_nonzero(np.tril(same, k=-1), axis=1)
        order = order[rank < most]
    xyxy = np.asarray(found.xyxy, np.float64).reshape(-1, 4)
    return xyxy[order], score[order], class_id[order]


def _overlap(boxes: Boxes, objects: Boxes, crowd: Flags) -> Boxes:
    """(boxes, objects) IoU; for a crowd, the share of the box that lies in it."""
    a, b = boxes[:, np.newaxis], objects[np.newaxis]
    sides = np.minimum(a[..., 2:], b[..., 2:]) - np.maximum(a[..., :2], b[..., :2])
    common = np.prod(np.maximum(sides, 0.0), axis=2)
    own = areas(boxes)[:, np.newaxis]
    whole = np.where(crowd, own, own + areas(objects) - common)
    return np.asarray(common / np.where(whole > 0, whole, 1.0), np.float64)


def _assign(
    overlap: Boxes, ignore: Flags, crowd: Flags, thresholds: Sequence[float]
) -> tuple[Flags, Flags]:
    """(t, d) each: which detections take an object, and which take an ignored one.

    Objects come with those that are ignored last.
    """
    least = np.minimum(np.asarray(thresholds, np.float64), 1 - 1e-10)
    hit = np.zeros((len(least), len(overlap)), np.bool_)
    ignored = np.zeros_like(hit)
    if not overlap.size:
        return hit, ignored
    free = np.ones((len(least), overlap.shape[1]), np.bool_)
    rows = np.arange(len(least))
    for d in np.flatnonzero(overlap.max(axis=1) >= least.min()):
        fits: Flags = free & (overlap[d] >= least[:, np.newaxis])
        # An object that counts comes before any that is ignored, whatever its overlap.
        counts: Flags = fits & ~ignore
        fits &= counts | ~counts.any(axis=1, keepdims=True)
        value = np.where(fits, overlap[d], -1.0)
        # The last of equals: argmax gives the first, so it looks from the end.
        taken = overlap.shape[1] - 1 - np.argmax(value[:, ::-1], axis=1)
        takes = value[rows, taken] >= 0
        hit[:, d] = takes
        ignored[:, d] = takes & ignore[taken]
        free[rows[takes], taken[takes]] = crowd[taken[takes]]
    return hit, ignored
