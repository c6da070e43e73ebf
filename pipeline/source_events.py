"""What can befall a source between two frames."""

from enum import Enum
from typing import NamedTuple


class EventKind(Enum):
    """What can befall a source besides another frame."""

    GAP = "gap"
    """Frames are missing, or the time stamps jump forward by more than a few frames."""
    DISCONTINUITY = "discontinuity"
    """What follows does not continue what was before, and nothing says by how much."""
    LOOP = "loop"
    """A recording begins again."""
    WRAP = "wrap"
    """The counter of the time stamps ran over; times go on as if it had not."""
    DUPLICATE = "duplicate"
    """A time stamp came twice, or was zero; it was moved up."""
    REGRESSION = "regression"
    """A time stamp was earlier than the one before; it was moved up."""
    RESOLUTION = "resolution"
    """Pictures have another size from here on."""
    ROTATION = "rotation"
    """Pictures are turned by another angle from here on."""
    DAMAGE = "damage"
    """Pictures are not fit to look at until the next key frame."""
    DECODING = "decoding"
    """The decoder leaves out more, or fewer, kinds of frames from here on."""
    CONNECTING = "connecting"
    """A camera is being opened."""
    LIVE = "live"
    """A camera delivers, for the first time or again."""
    STALLED = "stalled"
    """A camera has delivered nothing for too long, and is still connected."""
    FROZEN = "frozen"
    """A camera delivers the same picture again and again."""
    BACKING_OFF = "backing off"
    """A camera is lost; it is tried again later."""
    END = "end"
    """No frame follows: the recording is over, or cannot be read any further."""
    GONE = "gone"
    """A camera is given up."""


class SourceEvent(NamedTuple):
    """Something that befell a source before its next frame.

    It is told as soon as it is known, and goes with the next frame to every stage.
    """

    kind: EventKind
    detail: str = ""
    """One line for people."""
    pts_ns: int | None = None
    """Media time of the first frame after it; None if none is known."""
    amount_ns: int = 0
    """How much time is concerned: the length of a gap, of a step back, of a wait."""
