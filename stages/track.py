"""The ``iou`` tracker: overlap decides who is who, time decides where to look."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.pipeline.detections import UNTRACKED, Detections
from edgepipe.pipeline.frame import Frame

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


@dataclass(frozen=True, slots=True)
class TrackerStatistics:
    """A snapshot of one tracker."""

    capacity: int
    live: int
    """Tracks held now: seen in the last frame, or lost and not yet forgotten."""
    peak_live: int
    issued: int
    """Identities given out since the stream began."""
    evicted: int
    """Lost tracks forgotten early, and detections not followed, for want of room."""


class IouTracker:
    """Gives the detections of one stream their identities; one instance per stream.

    A track gets its id with its ``min_hits``-th detection in consecutive frames;
    until then its detections keep -1. Ids count up from 1 and are never used again.
    Motion is predicted over the time between captures, so a track survives frames
    that never came; it is forgotten once it has not been seen for ``max_age_ns``. A
    jump of capture time that far, forward or back, therefore ends every track.
    Detections of different classes are never the same object. A detection without an
    area or with coordinates that are not finite keeps -1. At most ``max_tracks`` are
    held: the longest lost make room for new ones, and what finds no room keeps -1.

    Args:
        iou: Least overlap, above 0, between a detection and where its track is
            expected or, for what that leaves over, where it was last seen.
        max_age_ns: How long a track that is not seen is remembered.
        min_hits: Detections that confirm a track.
        max_tracks: Bound on the tracks held, lost ones included.
    """

    name = "track"

    def __init__(
        self,
        iou: float = 0.3,
        max_age_ns: int = 1_000_000_000,
        min_hits: int = 2,
        max_tracks: int = 1000,
    ) -> None:
        if not 0 < iou <= 1:
            raise ValueError(f"iou: must be above 0 and at most 1, got {iou}")
        least = {"max_age_ns": max_age_ns, "min_hits": min_hits}
        for argument, value in {**least, "max_tracks": max_tracks}.items():
            if value < 1:
                raise ValueError(f"{argument}: must be at least 1, got {value}")
        self._iou = iou
        self._max_age_ns = max_age_ns
        self._min_hits = min_hits
        self._max_tracks = max_tracks
        self._now_ns = 0
        self._issued = 0
        self._evicted = 0
        self._peak_live = 0
        # Imports SciPy's solver now: a tenth of a second is a missed deadline later.
        assign(np.zeros((0, 0)), iou)
        self.close()

    @property
    def tracks(self) -> TrackTable:
        """The live tracks; belongs to the tracker and changes with the next frame."""
        return self._tracks

    def process(self, frame: Frame, worker: int) -> Frame:
        """Return the frame with identities; the detections keep their order.

        A frame that nobody looked at (no detections) counts as an empty one.
        """
        found = frame.detections
        if found is None:
            found = Detections.empty()
        self._advance(frame.scene_ns)
        return frame.with_changes(detections=found.tracked(self._identify(found)))

    def statistics(self) -> TrackerStatistics:
        """Tracks held now and most ever, ids given out, tracks pushed out."""
        return TrackerStatistics(
            capacity=self._max_tracks,
            live=len(self._tracks),
            peak_live=self._peak_live,
            issued=self._issued,
            evicted=self._evicted,
        )

    def close(self) -> None:
        """Forget all tracks; calling it again does nothing."""
        self._tracks = TrackTable(np.empty((0, 4)), np.empty(0, np.int64), 0)

    def _advance(self, capture_ns: int) -> None:
        """Bring the tracks to the time of a new frame and forget the old ones."""
        if abs(capture_ns - self._now_ns) > self._max_age_ns:
            self.close()
            self._now_ns = capture_ns
        # A stamp that repeats or slips back a little does not move time.
        step_ns = max(0, capture_ns - self._now_ns)
        self._now_ns += step_ns
        if len(self._tracks):
            self._tracks.keep(self._now_ns - self._tracks.seen_ns <= self._max_age_ns)
            self._tracks.advance(step_ns / 1e9)

    def _identify(self, found: Detections) -> NDArray[np.int64]:
        """Associate, start and confirm tracks; return the (n,) ids."""
        xyxy = found.xyxy.astype(np.float64)
        usable = np.isfinite(xyxy).all(axis=1) & (xyxy[:, 2:] > xyxy[:, :2]).all(axis=1)
        places = np.flatnonzero(usable)
        xyxy = xyxy[places]
        class_id = found.class_id[places].astype(np.int64)
        # Row of each usable detection's track, -1 where it has none.
        row = np.full(len(places), -1)
        if len(self._tracks):
            self._match(xyxy, class_id, row)
            missed = np.ones(len(self._tracks), np.bool_)
            missed[row[row >= 0]] = False
            row = self._forget(missed & (self._tracks.hits < self._min_hits), row)
        row = self._start(xyxy, class_id, row)
        self._confirm(row[row >= 0])
        track_id = np.full(len(found), UNTRACKED, np.int64)
        track_id[places[row >= 0]] = self._tracks.track_id[row[row >= 0]]
        return track_id

    def _match(self, xyxy: Boxes, class_id: NDArray[np.int64], row: Indices) -> None:
        """Write into ``row`` which track each detection continues."""
        tracks = self._tracks
        stranger = tracks.class_id[:, None] != class_id[None, :]
        overlap = iou_matrix(tracks.boxes(), xyxy)
        overlap[stranger] = 0.0
        i, j = assign(overlap, self._iou)
        row[j] = i
        if len(i) < min(len(tracks), len(xyxy)):
            # What turned or stopped is not where its speed says, but near where it was.
            left = np.ones(len(tracks), np.bool_)
            left[i] = False
            lost, new = np.flatnonzero(left), np.flatnonzero(row < 0)
            overlap = iou_matrix(tracks.last[lost], xyxy[new])
            overlap[stranger[np.ix_(lost, new)]] = 0.0
            i, j = assign(overlap, self._iou)
            row[new[j]] = lost[i]
        seen = np.flatnonzero(row >= 0)
        tracks.correct(row[seen], xyxy[seen], self._now_ns)

    def _forget(self, which: Mask, row: Indices) -> Indices:
        """Remove tracks that no detection continues; return the renumbered rows."""
        if not which.any():
            return row
        self._tracks.keep(~which)
        shift = np.cumsum(which)
        return np.where(row >= 0, row - shift[row], -1)

    def _start(self, xyxy: Boxes, class_id: NDArray[np.int64], row: Indices) -> Indices:
        """Start a track for each detection without one; return the rows."""
        new = np.flatnonzero(row < 0)
        if not len(new):
            return row
        row, room = self._make_room(len(new), row)
        self._evicted += len(new) - room
        new = new[:room]
        row[new] = len(self._tracks) + np.arange(room)
        self._tracks.append(TrackTable(xyxy[new], class_id[new], self._now_ns))
        self._peak_live = max(self._peak_live, len(self._tracks))
        return row

    def _make_room(self, wanted: int, row: Indices) -> tuple[Indices, int]:
        """Push out the longest lost; return the rows and how many tracks fit."""
        lacking = len(self._tracks) + wanted - self._max_tracks
        if lacking <= 0:
            return row, wanted
        lost = np.ones(len(self._tracks), np.bool_)
        lost[row[row >= 0]] = False
        oldest = np.argsort(self._tracks.seen_ns, kind="stable")
        oldest = oldest[lost[oldest]][:lacking]
        out = np.zeros(len(self._tracks), np.bool_)
        out[oldest] = True
        self._evicted += len(oldest)
        return self._forget(out, row), wanted - (lacking - len(oldest))

    def _confirm(self, row: Indices) -> None:
        """Give the tracks in these rows their ids once they have enough hits."""
        tracks = self._tracks
        ripe = row[(tracks.track_id[row] < 0) & (tracks.hits[row] >= self._min_hits)]
        tracks.track_id[ripe] = self._issued + 1 + np.arange(len(ripe))
        self._issued += len(ripe)
