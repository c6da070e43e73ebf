"""The closed lists: what can become of a frame, and why."""

from enum import Enum


class Fate(Enum):
    """What became of a frame; every captured frame gets exactly one."""

    COMPLETED = "completed"
    """Delivered by its deadline."""
    LATE = "late"
    """Delivered after its deadline, because the stream asks for late results."""
    DROPPED = "dropped"
    """Given up on purpose, with a reason."""
    FAILED = "failed"
    """Something broke, with a reason."""


class Reason(Enum):
    """Why a frame was dropped or failed."""

    STALE = "stale"
    """Too old on arrival: its deadline had passed before any stage saw it."""
    REFUSED = "refused"
    """Not admitted."""
    OVERFLOW = "overflow"
    """The stream's bounded queue was full."""
    DOOMED = "doomed"
    """Could not finish in time any more; found before the work was spent."""
    EXPIRED = "expired"
    """Its deadline passed while it was worked on; the stream wants no late results."""
    SUPERSEDED = "superseded"
    """A newer frame of the stream took its place."""
    RATE_CAP = "rate_cap"
    """Came sooner after the last one than the stream's rate cap allows."""
    STRIDE = "stride"
    """Skipped by the degradation ladder; counts as a miss."""
    UNSEEN = "unseen"
    """Track-only, and the network had not looked for longer than tracks may live on."""
    DAMAGED = "damaged"
    """The decoder had no usable picture for it."""
    DECODER_SKIP = "decoder_skip"
    """Left out by the decoder, which could not have reached it in time."""
    SOURCE_GAP = "source_gap"
    """The source said that it lost the frame."""
    SHUTDOWN = "shutdown"
    """Still in flight when the pipeline was stopped."""
    STAGE_ERROR = "stage_error"
    """A stage raised."""
    BAD_OUTPUT = "bad_output"
    """The network's output was not finite."""
    HUNG = "hung"
    """A stage had not come back when the pipeline gave up waiting for it."""
