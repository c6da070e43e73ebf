"""Non-maximum suppression: exact, for any number of boxes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BLOCK = 128
"""Boxes compared at once with all that follow; only speed depends on it."""


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
    groups = np.zeros_like(class_id) if class_agnostic else class_id
    # Classes side by side, so that a block meets only boxes of its own classes.
    order = np.lexsort((-score, groups))
    alive = _greedy(xyxy[order].astype(np.float64), groups[order], iou_threshold)
    kept = np.sort(order[alive])
    kept = kept[np.argsort(-score[kept], kind="stable")]
    return Kept(kept[:max_detections], max(0, len(kept) - max_detections))


def best_first(score: NDArray[np.float32], max_detections: int) -> Kept:
    """No suppression, only the order and the cut: for networks that do it themselves.

    The order and the count are those of :func:`suppress`.
    """
    order = np.argsort(-score, kind="stable")
    return Kept(order[:max_detections], max(0, len(order) - max_detections))


def _greedy(
    boxes: NDArray[np.float64], groups: NDArray[np.int32], iou_threshold: float
) -> NDArray[np.bool_]:
    """Which boxes survive, given by group and, inside a group, best first."""
    alive = np.ones(len(boxes), np.bool_)
    edges = np.ascontiguousarray(np.transpose(boxes))
    areas = np.maximum(edges[2] - edges[0], 0.0) * np.maximum(edges[3] - edges[1], 0.0)
    start = 0
    while start < len(boxes):
        block = start + np.flatnonzero(alive[start : start + BLOCK])
        if len(block):
            end = int(np.searchsorted(groups, groups[block[-1]], side="right"))
            rest = start + np.flatnonzero(alive[start:end])
            over = _iou(edges, areas, block, rest) > iou_threshold
            if groups[block[0]] != groups[block[-1]]:
                over &= groups[block, np.newaxis] == groups[rest]
            alive[rest[_removed(over)]] = False
        start += BLOCK
    return alive


def _removed(over: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which columns fall; row i is box i of the columns, best first.

    A row without any later overlap is never looked at.
    """
    later = np.triu(over, k=1)
    removed = np.zeros(over.shape[1], np.bool_)
    for row in np.flatnonzero(np.any(later, axis=1)):
        if not removed[row]:
            np.logical_or(removed, later[row], out=removed)
    return removed


def _iou(
    edges: NDArray[np.float64],
    areas: NDArray[np.float64],
    rows: NDArray[np.intp],
    columns: NDArray[np.intp],
) -> NDArray[np.float64]:
    """Intersection over union of two selections, (rows, columns); 0 without area."""
    a, b = edges[:, rows, np.newaxis], edges[:, columns]
    common: NDArray[np.float64] = np.minimum(a[2], b[2])
    common -= np.maximum(a[0], b[0])
    height = np.minimum(a[3], b[3])
    height -= np.maximum(a[1], b[1])
    np.maximum(common, 0.0, out=common)
    np.maximum(height, 0.0, out=height)
    common *= height
    union = np.add(areas[rows, np.newaxis], areas[columns], out=height)
    union -= common
    np.maximum(union, np.finfo(np.float64).tiny, out=union)
    common /= union
    return common
