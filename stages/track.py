"""The ``iou`` tracker: overlap decides who is who, time decides where to look."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgepipe.pipeline.detections import UNTRACKED, Detections
from edgepipe.pipeline.frame import Frame

# A constant-velocity Kalman filter in which every length is a multiple of the box's
# own size. The size then cancels out of the gains, so x and y share one covariance.
_MEASURED_VAR = 0.05**2
"""Variance of a detected centre."""
_FIRST_SPEED_VAR = 2.0**2
"""Variance of the unknown speed of a new track, per second squared."""
_JERKINESS = 1.0
"""Power of the white acceleration noise, per second cubed."""
_SIZE_GAIN = 0.5
"""Share of a new measurement in the smoothed width and height."""

Boxes = NDArray[np.float64]
"""(n, 4): x1, y1, x2, y2 in pixels."""
Indices = NDArray[np.intp]


def iou_matrix(a: Boxes, b: Boxes) -> NDArray[np.float64]:
    """Intersection over union of every box of ``a`` (n) with each of ``b``: (n, m)."""
    ax1, ay1, ax2, ay2 = a.T[:, :, None]
    bx1, by1, bx2, by2 = b.T[:, None, :]
    shared = np.minimum(ax2, bx2)
    shared -= np.maximum(ax1, bx1)
    np.maximum(shared, 0.0, out=shared)
    high = np.minimum(ay2, by2)
    high -= np.maximum(ay1, by1)
    shared *= np.maximum(high, 0.0, out=high)
    union = (ax2 - ax1) * (ay2 - ay1) + (bx2 - bx1) * (by2 - by1)
    union -= shared
    shared /= union
    return shared


def assign(gain: NDArray[np.float64], least: float) -> tuple[Indices, Indices]:
    """Pair rows with columns so that the gains of the pairs add up to the most.

    Pairs below ``least`` (above 0) are never made. A row and a column that have no
    other candidate are paired at once, which leaves the optimum as it is; only the
    contested rest goes to the solver.

    Returns:
        Row and column index of each pair.
    """
    rows, columns = np.nonzero(gain >= least)
    contested = np.bincount(rows, minlength=1)[rows] > 1
    contested |= np.bincount(columns, minlength=1)[columns] > 1
    if not contested.any():
        return rows, columns
    from scipy.optimize import linear_sum_assignment

    some_rows = np.unique(rows[contested])
    some_columns = np.unique(columns[contested])
    some = gain[np.ix_(some_rows, some_columns)]
    some = np.where(some >= least, some, 0.0)
    i, j = linear_sum_assignment(some, maximize=True)
    made = some[i, j] > 0.0
    return (
        np.concatenate([rows[~contested], some_rows[i[made]]]),
        np.concatenate([columns[~contested], some_columns[j[made]]]),
    )


class _Tracks:
    """All tracks of one stream, as a struct of arrays of one length, oldest first."""

    def __init__(
        self, xyxy: Boxes, class_id: NDArray[np.int64], seen_ns: int
    ) -> None:
        n = len(xyxy)
        self.center = (xyxy[:, :2] + xyxy[:, 2:]) / 2
        self.size = xyxy[:, 2:] - xyxy[:, :2]
        self.velocity = np.zeros((n, 2))
        """(n, 2): pixels per second."""
        self.covariance = np.tile([_MEASURED_VAR, 0.0, _FIRST_SPEED_VAR], (n, 1))
        """(n, 3): of place, of place with speed, of speed, in box sizes and seconds."""
        self.last = xyxy
        self.class_id = class_id
        self.track_id = np.full(n, UNTRACKED, np.int64)
        self.hits = np.ones(n, np.int64)
        self.seen_ns = np.full(n, seen_ns, np.int64)

    def __len__(self) -> int:
        return len(self.center)

    def keep(self, which) -> None:
        for k, v in vars(self).items():
            setattr(self, k, v[which])

    def extend(self, other: "_Tracks") -> None:
        for k, v in vars(self).items():
            setattr(self, k, np.concatenate([v, getattr(other, k)]))

    def boxes(self) -> Boxes:
        half = self.size / 2
        return np.concatenate([self.center - half, self.center + half], axis=1)

    def advance(self, s: float) -> None:
        self.center += self.velocity * s
        place, both, speed = self.covariance.T
        place += s * (2 * both + s * speed) + _JERKINESS * s**3 / 3
        both += s * speed + _JERKINESS * s**2 / 2
        speed += _JERKINESS * s

    def correct(self, which: Indices, xyxy: Boxes, seen_ns: int) -> None:
        place, both, speed = self.covariance[which].T
        k0 = place / (place + _MEASURED_VAR)
        k1 = both / (place + _MEASURED_VAR)
        off = (xyxy[:, :2] + xyxy[:, 2:]) / 2 - self.center[which]
        self.center[which] += k0[:, None] * off
        self.velocity[which] += k1[:, None] * off
        self.covariance[which] = np.stack(
            [(1 - k0) * place, (1 - k0) * both, speed - k1 * both], axis=1
        )
        self.size[which] += _SIZE_GAIN * (xyxy[:, 2:] - xyxy[:, :2] - self.size[which])
        self.last[which] = xyxy
        self.hits[which] += 1
        self.seen_ns[which] = seen_ns


class IouTracker:
    LAST = True
    TENT = True

    def __init__(self, iou=0.3, max_age_ns=1_000_000_000, min_hits=2, max_tracks=1000):
        self.iou, self.max_age_ns, self.min_hits, self.max_tracks = iou, max_age_ns, min_hits, max_tracks
        self._t = _Tracks(np.empty((0, 4)), np.empty(0, np.int64), 0)
        self._now = 0
        self._next = 1

    def process(self, frame, worker):
        d = frame.detections if frame.detections is not None else Detections.empty()
        t = self._t
        now = frame.capture_ns
        t.advance((now - self._now) / 1e9)
        self._now = now
        t.keep(now - t.seen_ns <= self.max_age_ns)
        xyxy = d.xyxy.astype(np.float64)
        cls = d.class_id.astype(np.int64)
        g = iou_matrix(t.boxes(), xyxy)
        other = t.class_id[:, None] != cls[None]
        g[other] = 0
        r, c = assign(g, self.iou)
        if self.LAST:
            rr = np.setdiff1d(np.arange(len(t)), r); cc = np.setdiff1d(np.arange(len(d)), c)
            if len(rr) and len(cc):
                g2 = iou_matrix(t.last[rr], xyxy[cc]); g2[other[np.ix_(rr, cc)]] = 0
                r2, c2 = assign(g2, self.iou)
                r = np.concatenate([r, rr[r2]]); c = np.concatenate([c, cc[c2]])
        t.correct(r, xyxy[c], now)
        new = np.setdiff1d(np.arange(len(d)), c)
        mx = len(t)
        t.extend(_Tracks(xyxy[new], cls[new], now))
        r = np.concatenate([r, np.arange(mx, len(t))]); c = np.concatenate([c, new])
        o = np.argsort(c); r = r[o]; c = c[o]
        ripe = r[(t.track_id[r] < 0) & (t.hits[r] >= self.min_hits)]
        t.track_id[ripe] = self._next + np.arange(len(ripe)); self._next += len(ripe)
        ids = np.full(len(d), -1, np.int64)
        ids[c] = t.track_id[r]
        if self.TENT:
            t.keep((t.seen_ns == now) | (t.hits >= self.min_hits))
        return frame.with_changes(detections=d.tracked(ids))
