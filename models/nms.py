"""Non-maximum suppression: exact, for any number of boxes."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

PAIRS = 50_000
"""Most pairs of boxes that are written down at once. This and what follows here only
decide on speed."""
CHUNK = 8192
"""Most of them that are looked at together: more do not fit into the cache."""
BLOCK = 64
"""Boxes that are compared with all others where there are more pairs than that."""
TILE = 32_768
"""Most overlaps that are computed at once then: more do not fit into the cache."""
STRIPS = 1024
"""Most strips that the boxes are sorted into."""

EPSILON = float(np.finfo(np.float64).eps)
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
    """Boxes sorted by group (and strip), and in it from left to right.

    A box stands in each strip that it touches.
    """

    boxes: Ints
    meets: Ints
    """How many of the following entries begin before this one ends."""
    strip: Ints | None = None
    first_strip: Ints | None = None
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
        while len(rest) > 1:
            few = 8 * len(rest)
            by, meets = self._sweep(rest, self._groups[rest])
            sweep = _Sweep(rest[by], meets)
            if sweep.meets.sum() > few:
                sweep = self._sweep_in_strips(rest)
            pairs = int(sweep.meets.sum())
            if pairs <= max(PAIRS, few):
                rest = _resolve(rest, *self._pairs(sweep))
                break
            # Pairs grow with the square of the boxes.
            enough = int(len(rest) * (PAIRS / pairs) ** 0.5)
            while len(rest) > max(enough, 1):
                block = self._survivors(rest[:BLOCK])
                rest = self._spared(block, rest[BLOCK:])
                kept.append(block)
        return np.concatenate([*kept, rest])

    def _sweep(self, boxes: Ints, bucket: NDArray[Any]) -> tuple[Ints, Ints]:
        """Boxes by bucket and left edge, and how many of the next each may overlap."""
        left, right = self._edges[0][boxes], self._edges[2][boxes]
        low, high = float(left.min()), float(right.max())
        # Each bucket has a span of numbers of its own.
        span = max(high - low, 0.0) + 1.0
        offset = bucket * span
        # No pair may be lost to rounding; that some are found for nothing does no harm.
        largest = float(np.abs(offset).max()) + span + abs(low) + abs(high)
        start = left + offset
        end = right + offset + 16 * EPSILON * largest
        by = np.argsort(start)
        ends = np.asarray(np.searchsorted(start[by], end[by]), np.intp)
        meets = np.maximum(ends - np.arange(1, len(by) + 1), 0)
        return by, meets

    def _sweep_in_strips(self, rest: Ints) -> _Sweep:
        """The same with far fewer pairs, for three times the entries at most."""
        strips, first, touched = _strips(self._edges[1][rest], self._edges[3][rest])
        entries = np.repeat(np.arange(len(rest)), touched)
        ahead = np.cumsum(touched) - touched - first
        strip = np.arange(len(entries)) - ahead[entries]
        boxes = rest[entries]
        by, meets = self._sweep(boxes, self._groups[boxes] * float(strips) + strip)
        return _Sweep(boxes[by], meets, strip[by], first[entries[by]])

    def _pairs(self, sweep: _Sweep) -> tuple[Ints, Ints]:
        """The better and the worse box of each pair that overlaps too much."""
        last = np.cumsum(sweep.meets)
        starts, pairs = [0], int(last[-1])
        if pairs > CHUNK:
            cuts = np.searchsorted(last, np.arange(CHUNK, pairs, CHUNK))
            starts += np.unique(cuts + 1).tolist()
        ends = [*starts[1:], len(last)]
        found = [
            self._pairs_of(sweep, last, start, end)
            for start, end in zip(starts, ends, strict=True)
        ]
        a, b = (np.concatenate(side) for side in zip(*found, strict=True))
        return np.minimum(a, b), np.maximum(a, b)

    def _pairs_of(
        self, sweep: _Sweep, last: Ints, start: int, end: int
    ) -> tuple[Ints, Ints]:
        """The pairs of some entries with those after them."""
        one = np.repeat(np.arange(start, end), sweep.meets[start:end])
        # Each entry's pairs follow those of the one before it.
        first = np.arange(1, len(last) + 1) + sweep.meets - last
        before = int(last[start] - sweep.meets[start])
        other = np.arange(before, before + len(one)) + first[one]
        if sweep.strip is not None and sweep.first_strip is not None:
            # A pair that shares several strips counts in the first of them.
            shared = np.maximum(sweep.first_strip[one], sweep.first_strip[other])
            once = np.flatnonzero(shared == sweep.strip[one])
            one, other = one[once], other[once]
        a, b = sweep.boxes[one], sweep.boxes[other]
        over = np.flatnonzero(self._over(a, b))
        return a[over], b[over]

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
    better, removed = better[by], worse[by].tolist()
    starts = [0, *(np.flatnonzero(better[1:] != better[:-1]) + 1).tolist()]
    ends = [*starts[1:], len(removed)]
    # Most have one or two to remove: plain Python is faster here than an array.
    dead = bytearray(int(boxes[-1]) + 1)
    for box, start, end in zip(better[starts].tolist(), starts, ends, strict=True):
        if not dead[box]:
            for other in removed[start:end]:
                dead[other] = 1
    return np.asarray(boxes[np.frombuffer(dead, np.uint8)[boxes] == 0])
