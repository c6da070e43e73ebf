"""Which frames wait, and when each of them cannot be in time any more."""

from heapq import heapify, heappop, heappush
from typing import TypeAlias

from edgepipe.scheduler.state import FrameState, State

NEVER_NS = 1 << 63
"""Later than any moment."""
MOST_STALE = 64
"""Notes of frames that wait no more may be kept up to this number and as many again as
there are of frames that do."""

_Note: TypeAlias = tuple[int, int, int, FrameState]
"""(moment, order of arrival, step, frame)."""


class Deadlines:
    """Notes of moments after which waiting frames are too late, the first one first.

    A note is stale when its frame no longer waits for the step that it was made for.
    """

    __slots__ = ("_notes", "_tidy_at", "first_ns")

    def __init__(self) -> None:
        self._notes: list[_Note] = []
        self._tidy_at = MOST_STALE
        self.first_ns = NEVER_NS
        """No frame is too late before this moment, but one need not be then."""

    def __len__(self) -> int:
        return len(self._notes)

    def add(self, frame: FrameState, last_ns: int) -> None:
        """The frame, which waits, is in time until ``last_ns`` and not after that."""
        frame.is_watched = True
        heappush(self._notes, (last_ns + 1, frame.arrival, frame.step, frame))
        if len(self._notes) > self._tidy_at:
            self._notes = [note for note in self._notes if _waits(note)]
            heapify(self._notes)
            self._tidy_at = MOST_STALE + 2 * len(self._notes)
        self.first_ns = self._notes[0][0]

    def passed(self, now_ns: int) -> list[FrameState]:
        """Take out the frames that still wait and are too late, or as good as."""
        frames: list[FrameState] = []
        notes = self._notes
        while notes and notes[0][0] <= now_ns:
            note = heappop(notes)
            if _waits(note):
                note[3].is_watched = False
                frames.append(note[3])
        self.first_ns = notes[0][0] if notes else NEVER_NS
        return frames

    def next_ns(self) -> int | None:
        """When the next frame that still waits will be too late; None if none does."""
        notes = self._notes
        while notes and not _waits(notes[0]):
            heappop(notes)
        self.first_ns = notes[0][0] if notes else NEVER_NS
        return notes[0][0] if notes else None


def _waits(note: _Note) -> bool:
    _, _, step, frame = note
    return frame.step == step and frame.state in (State.BLOCKED, State.READY)
