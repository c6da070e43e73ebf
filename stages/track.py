"""The ``iou`` tracker: overlap decides who is who, time decides where to look."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgepipe.pipeline.detections import UNTRACKED, Detections
from edgepipe.pipeline.frame import Frame
from edgepipe.pipeline.source_events import EventKind
from edgepipe.pipeline.stage import FrameError
from edgepipe.scheduler.fates import Reason
from edgepipe.scheduler.outcome import TRACK_ONLY
from edgepipe.stages.association import (
    Boxes,
    Indices,
    Mask,
    TrackTable,
    assign,
    iou_matrix,
)

_ENDS_TRACKS = frozenset(
    {
        EventKind.LOOP,
        EventKind.DISCONTINUITY,
        EventKind.RESOLUTION,
        EventKind.ROTATION,
    }
)
"""After these nothing is where it would have been."""


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
    jump of capture time that far, forward or back, therefore ends every track. What
    follows a loop or a discontinuity is another scene, and pictures of another size or
    rotation have other coordinates, so these end every track as well; a gap only lets
    time pass.

    Detections of different classes are never the same object. A detection without an
    area or with coordinates that are not finite keeps -1. At most ``max_tracks`` are
    held: the longest lost make room for new ones, and what finds no room keeps -1.

    In a track-only frame, which the network did not see, the objects of the last frame
    that it saw are expected where their speed has brought them. Such a frame tells
    nothing about the tracks, so it neither confirms nor ends any.

    Args:
        iou: Least overlap, above 0, between a detection and where its track is
            expected or, for what that leaves over, where it was last seen.
        max_age_ns: How long a track that is not seen is remembered.
        min_hits: Detections that confirm a track.
        max_tracks: Bound on the tracks held, lost ones included.
        track_only_max_age_ns: How long ago the network may have seen the objects of a
            track-only frame; more than ``max_age_ns`` is no more than that.
    """

    name = "track"

    def __init__(
        self,
        iou: float = 0.3,
        max_age_ns: int = 1_000_000_000,
        min_hits: int = 2,
        max_tracks: int = 1000,
        track_only_max_age_ns: int = 500_000_000,
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
        self._track_only_max_age_ns = min(track_only_max_age_ns, max_age_ns)
        self._now_ns = 0
        self._looked_ns: int | None = None
        """When the network last saw a frame that these tracks know of."""
        self._size: tuple[int, int] | None = None
        """Width and height of the picture before."""
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

        A frame without detections that is not track-only counts as an empty one.

        Raises:
            FrameError: ``unseen``: a track-only frame, and the network has seen
                nothing for too long, or nothing at all.
        """
        size = frame.size or self._size
        if size != self._size or any(e.kind in _ENDS_TRACKS for e in frame.events):
            self.close()
        self._size = size
        self._advance(frame.scene_ns)
        if frame.track_only:
            return self._expect(frame)
        found = frame.detections
        if found is None:
            found = Detections.empty()
        self._looked_ns = self._now_ns
        tracked = found.tracked(self._identify(found))
        return frame.with_changes(detections=tracked, looked_ns=frame.scene_ns)

    def _expect(self, frame: Frame) -> Frame:
        """The objects that were seen last, where they should be now."""
        looked_ns = self._looked_ns
        if looked_ns is None or self._now_ns - looked_ns > self._track_only_max_age_ns:
            raise FrameError(Reason.UNSEEN, "the network has not looked for too long")
        tracks = self._tracks
        seen = np.flatnonzero(tracks.seen_ns == looked_ns)
        found = Detections.of(
            tracks.boxes()[seen], tracks.score[seen], tracks.class_id[seen]
        )
        return frame.with_changes(
            detections=found.tracked(tracks.track_id[seen]),
            variant=TRACK_ONLY,
            looked_ns=looked_ns,
        )

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
        self._looked_ns = None
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
        followed, row = places[row >= 0], row[row >= 0]
        self._tracks.score[row] = found.score[followed]
        track_id[followed] = self._tracks.track_id[row]
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
