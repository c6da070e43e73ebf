"""What a tracker works with: overlap, assignment, and tracks that move."""

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.pipeline.detections import UNTRACKED

# A constant-velocity Kalman filter in which lengths are multiples of the box's own
# size: the size cancels out of the gains, and x and y share one covariance. Gains are
# flat around these values (public pedestrian clips at full, half and quarter rate).
_MEASURED_VARIANCE = 0.15**2
"""Of a detected centre."""
_FIRST_SPEED_VARIANCE = 2.0**2
"""Of the unknown speed of a new track, per second squared."""
_ACCELERATION_POWER = 1.0
"""Of the white acceleration noise, per second cubed."""
_SIZE_GAIN = 0.5
"""Share of a new measurement in the smoothed width and height."""

Boxes = NDArray[np.float64]
"""(n, 4): x1, y1, x2, y2 in pixels, each with an area."""
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]


def iou_matrix(a: Boxes, b: Boxes) -> NDArray[np.float64]:
    """Intersection over union of every box of ``a`` (n) with each of ``b``: (n, m)."""
    a, b = a[:, None, :], b[None, :, :]
    wide = np.minimum(a[..., 2], b[..., 2])
    wide -= np.maximum(a[..., 0], b[..., 0])
    high = np.minimum(a[..., 3], b[..., 3])
    high -= np.maximum(a[..., 1], b[..., 1])
    shared = np.maximum(wide, 0.0, out=wide)
    shared *= np.maximum(high, 0.0, out=high)
    union = _area(a) + _area(b)
    union -= shared
    shared /= union
    return shared


def _area(boxes: Boxes) -> NDArray[np.float64]:
    size = boxes[..., 2:] - boxes[..., :2]
    return size[..., 0] * size[..., 1]


def assign(gain: NDArray[np.float64], least: float) -> tuple[Indices, Indices]:
    """Pair rows with columns so that the gains of the pairs add up to the most.

    Pairs below ``least`` (above 0) are never made. A short cut for frames in which
    nobody has two candidates was measured and left out: it gains nothing over the
    solver at 1 to 200 objects.

    Returns:
        Row and column index of each pair.
    """
    optimize: Any = import_module("scipy.optimize")  # SciPy ships no types
    usable = np.where(gain >= least, gain, 0.0)
    pairs: tuple[Indices, Indices] = optimize.linear_sum_assignment(usable, True)
    made = gain[pairs] >= least
    return pairs[0][made], pairs[1][made]


def _columns(
    table: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Views of the three columns."""
    return table[:, 0], table[:, 1], table[:, 2]


class TrackTable:
    """All tracks of one stream as a struct of arrays, in the order of their birth."""

    def __init__(self, xyxy: Boxes, class_id: NDArray[np.int64], seen_ns: int) -> None:
        n = len(xyxy)
        self.center = (xyxy[:, :2] + xyxy[:, 2:]) / 2
        """(n, 2): filtered centre in pixels, at the time last advanced to."""
        self.size = xyxy[:, 2:] - xyxy[:, :2]
        """(n, 2): smoothed width and height in pixels."""
        self.velocity = np.zeros((n, 2))
        """(n, 2): pixels per second."""
        self.covariance = np.tile(
            [_MEASURED_VARIANCE, 0.0, _FIRST_SPEED_VARIANCE], (n, 1)
        )
        """(n, 3): of place, of place with speed, of speed."""
        self.last = xyxy
        """(n, 4): the box last measured."""
        self.class_id = class_id
        self.track_id = np.full(n, UNTRACKED, np.int64)
        self.score = np.zeros(n)
        """(n,): of the box last measured."""
        self.hits = np.ones(n, np.int64)
        self.seen_ns = np.full(n, seen_ns, np.int64)

    def __len__(self) -> int:
        return len(self.center)

    def boxes(self) -> Boxes:
        """Where the tracks should be at the time last advanced to."""
        half = self.size / 2
        return np.concatenate([self.center - half, self.center + half], axis=1)

    def keep(self, which: Mask) -> None:
        """Forget the tracks that are not marked."""
        if not which.all():
            for column, values in vars(self).items():
                setattr(self, column, values[which])

    def append(self, more: "TrackTable") -> None:
        """Add the tracks of another table at the end."""
        for column, values in vars(self).items():
            setattr(self, column, np.concatenate([values, getattr(more, column)]))

    def advance(self, seconds: float) -> None:
        """Move every track on at its own speed."""
        self.center += self.velocity * seconds
        place, mixed, speed = _columns(self.covariance)
        noise = _ACCELERATION_POWER * seconds
        place += seconds * (2 * mixed + seconds * speed) + noise * seconds**2 / 3
        mixed += seconds * speed + noise * seconds / 2
        speed += noise

    def correct(self, which: Indices, xyxy: Boxes, seen_ns: int) -> None:
        """Take a measured box for each of the tracks ``which``."""
        place, mixed, speed = _columns(self.covariance[which])
        place_gain = place / (place + _MEASURED_VARIANCE)
        speed_gain = mixed / (place + _MEASURED_VARIANCE)
        error = (xyxy[:, :2] + xyxy[:, 2:]) / 2 - self.center[which]
        self.center[which] += place_gain[:, None] * error
        self.velocity[which] += speed_gain[:, None] * error
        self.covariance[which] = np.stack(
            [
                (1 - place_gain) * place,
                (1 - place_gain) * mixed,
                speed - speed_gain * mixed,
            ],
            axis=1,
        )
        size = xyxy[:, 2:] - xyxy[:, :2]
        self.size[which] += _SIZE_GAIN * (size - self.size[which])
        self.last[which] = xyxy
        self.hits[which] += 1
        self.seen_ns[which] = seen_ns
