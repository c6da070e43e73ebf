"""Non-maximum suppression: exact, for any number of boxes."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

PAIRS = 50_000
"""Most pairs of boxes that are written down at once. This and what follows here only
decide on speed."""
BLOCK = 64
"""Boxes that are compared with all others where there are more pairs than that."""
TILE = 32_768
"""Most overlaps that are computed at once then: more do not fit into the cache."""
STRIPS = 1024
"""Most strips that the boxes are sorted into."""

Ints = NDArray[np.intp]
Reals = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Kept:
    """What survived."""

    indices: NDArray[np.intp]
    """Indices of the kept boxes, score descending, equal scores in input order."""
    truncated: int
    """How many more survived suppression but were cut by ``max_detections``."""


def suppress(
    xyxy: NDArray[np.float32],
    score: NDArray[np.float32],
    class_id: NDArray[np.int32],
    *,
    iou_threshold: float,
    max_detections: int,
    class_agnostic: bool = False,
) -> Kept:
    """Greedy NMS: the best box stays and removes every box it overlaps too much.

    A box is removed when its IoU with a kept box of a better (or equal and earlier)
    score is above ``iou_threshold``; unless ``class_agnostic``, only boxes of one
    class remove each other. Boxes without area overlap nothing. The cut to
    ``max_detections`` comes last and takes the best scores.
    """
    order = np.argsort(-score, kind="stable")
    groups = np.zeros_like(class_id) if class_agnostic else class_id[order]
    edges = np.ascontiguousarray(np.transpose(xyxy[order]), np.float64)
    survivors = order[_Boxes(edges, groups, iou_threshold).greedy()]
    cut = max(0, len(survivors) - max_detections)
    return Kept(survivors[:max_detections], cut)


def best_first(score: NDArray[np.float32], max_detections: int) -> Kept:
    """No suppression, only the order and the cut: for networks that do it themselves.

    The order and the count are those of :func:`suppress`.
    """
    order = np.argsort(-score, kind="stable")
    return Kept(order[:max_detections], max(0, len(order) - max_detections))


class _Sweep(NamedTuple):
    """Which boxes may overlap: the boxes by group and strip, then from left to right.

    A box stands in each strip that it touches.
    """

    boxes: Ints
    meets: Ints
    """How many of the following entries begin before this one ends."""
    strip: Ints
    first_strip: Ints
    """The uppermost strip of the same box."""


class _Boxes:
    """Boxes by rank, the best first.

    Nearly all pairs of boxes are far apart, so the few that may overlap are found by
    sorting. Where a crowd leaves too many of them, the best boxes are compared with all
    others first, of which they remove most.
    """

    def __init__(
        self, edges: Reals, groups: NDArray[np.int32], iou_threshold: float
    ) -> None:
        self._edges = edges
        self._groups = groups
        self._threshold = iou_threshold
        wide, high = edges[2] - edges[0], edges[3] - edges[1]
        self._areas = np.maximum(wide, 0.0) * np.maximum(high, 0.0)

    def greedy(self) -> Ints:
        """The survivors, by rank."""
        rest = np.arange(len(self._areas))
        kept: list[Ints] = []
        while len(rest) > BLOCK:
            sweep = self._sweep(rest)
            pairs = int(sweep.meets.sum())
            if pairs <= max(PAIRS, 8 * len(rest)):
                return np.concatenate([*kept, _resolve(rest, *self._pairs(sweep))])
            # Pairs grow with the square of the boxes.
            enough = max(BLOCK, int(len(rest) * (PAIRS / pairs) ** 0.5))
            while len(rest) > enough:
                block = self._survivors(rest[:BLOCK])
                rest = self._spared(block, rest[BLOCK:])
                kept.append(block)
        return np.concatenate([*kept, self._survivors(rest)])

    def _sweep(self, rest: Ints) -> _Sweep:
        left, top, right, bottom = self._edges[:, rest]
        strips, first, touched = _strips(top, bottom)
        entries = np.repeat(np.arange(len(rest)), touched)
        ahead = np.cumsum(touched) - touched - first
        strip = np.arange(len(entries)) - ahead[entries]
        # Each strip of each group has a span of numbers of its own.
        begin = left.min()
        span = max(float(right.max() - begin), 0.0) + 1.0
        bucket = (self._groups[rest][entries] * float(strips) + strip) * span
        start, end = left[entries] - begin + bucket, right[entries] - begin + bucket
        # No pair may be lost to rounding; that some are found for nothing does no harm.
        end += 16 * np.finfo(np.float64).eps * (np.abs(bucket).max() + span)
        by = np.argsort(start)
        ends = np.asarray(np.searchsorted(start[by], end[by]), np.intp)
        meets = np.maximum(ends - np.arange(1, len(by) + 1), 0)
        entries = entries[by]
        return _Sweep(rest[entries], meets, strip[by], first[entries])

    def _pairs(self, sweep: _Sweep) -> tuple[Ints, Ints]:
        """The better and the worse box of each pair that overlaps too much."""
        meets = sweep.meets
        one = np.repeat(np.arange(len(meets)), meets)
        skipped = np.arange(1, len(meets) + 1) + meets - np.cumsum(meets)
        other = np.arange(len(one)) + skipped[one]
        # A pair that shares several strips counts in the first of them.
        shared = np.maximum(sweep.first_strip[one], sweep.first_strip[other])
        once = np.flatnonzero(shared == sweep.strip[one])
        a, b = sweep.boxes[one[once]], sweep.boxes[other[once]]
        _, top, _, bottom = self._edges
        near = np.flatnonzero((top[a] < bottom[b]) & (top[b] < bottom[a]))
        a, b = a[near], b[near]
        over = np.flatnonzero(self._over(a, b))
        a, b = a[over], b[over]
        return np.minimum(a, b), np.maximum(a, b)

    def _survivors(self, block: Ints) -> Ints:
        """Those of a few boxes that survive among themselves."""
        if len(block) < 2:
            return block
        over = np.triu(self._over(block[:, np.newaxis], block), 1)
        better, worse = np.nonzero(over)
        return _resolve(block, block[better], block[worse])

    def _spared(self, survivors: Ints, rest: Ints) -> Ints:
        """Those of the rest that none of the survivors removes."""
        step = max(1, TILE // len(survivors))
        removed = [
            self._over(survivors[:, np.newaxis], rest[start : start + step]).any(axis=0)
            for start in range(0, len(rest), step)
        ]
        gone = np.concatenate([*removed, np.empty(0, np.bool_)])
        return np.asarray(rest[~gone])

    def _over(self, a: Ints, b: Ints) -> NDArray[np.bool_]:
        """Whether boxes of one group overlap by more than the threshold."""
        left, top, right, bottom = self._edges
        common = np.minimum(right[a], right[b])
        common -= np.maximum(left[a], left[b])
        height = np.minimum(bottom[a], bottom[b])
        height -= np.maximum(top[a], top[b])
        np.maximum(common, 0.0, out=common)
        np.maximum(height, 0.0, out=height)
        common *= height
        union = np.add(self._areas[a], self._areas[b], out=height)
        union -= common
        np.maximum(union, np.finfo(np.float64).tiny, out=union)
        common /= union
        over = common > self._threshold
        over &= self._groups[a] == self._groups[b]
        return np.asarray(over)


def _strips(top: Reals, bottom: Reals) -> tuple[int, Ints, Ints]:
    """How many strips there are, each box's first one and how many it touches.

    Two boxes that overlap share one. As high as boxes are on average: a box touches
    three of them, then, on average and at most.
    """
    begin = top.min()
    whole = max(float(bottom.max() - begin), 0.0)
    height = max(float(np.maximum(bottom - top, 0.0).mean()), whole / STRIPS)
    if height <= 0 or not np.isfinite(whole / height):
        return 1, np.zeros(len(top), np.intp), np.ones(len(top), np.intp)
    first = ((top - begin) / height).astype(np.intp)
    last = np.maximum(((bottom - begin) / height).astype(np.intp), first)
    return int(last.max()) + 1, first, last - first + 1


def _resolve(boxes: Ints, better: Ints, worse: Ints) -> Ints:
    """Those of the boxes that survive, given the pairs of which one removes the other.

    Whoever is dead removes nobody, so only the pairs of survivors are gone through.
    """
    if not len(better):
        return boxes
    by = np.argsort(better)
    better, worse = better[by], worse[by]
    starts = [0, *(np.flatnonzero(better[1:] != better[:-1]) + 1).tolist()]
    ends = [*starts[1:], len(worse)]
    dead = np.zeros(int(boxes[-1]) + 1, np.bool_)
    for box, start, end in zip(better[starts].tolist(), starts, ends, strict=True):
        if not dead[box]:
            dead[worse[start:end]] = True
    return np.asarray(boxes[~dead[boxes]])
