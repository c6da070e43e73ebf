"""The plain records that the pipeline hands to telemetry."""

from dataclasses import dataclass
from typing import NamedTuple


class Span(NamedTuple):
    """One stage's work on one frame. Times are monotonic nanoseconds.

    A tuple, not a dataclass: five or six are made for every frame on the hot path.
    """

    stage: str
    ready_ns: int
    """When the stage could have begun (end of the stage before, or release)."""
    start_ns: int
    end_ns: int
    resource: str
    worker: int
    """Slot number of the resource, from 0."""

    @property
    def queue_ns(self) -> int:
        """Time waited before the stage began."""
        return self.start_ns - self.ready_ns

    @property
    def service_ns(self) -> int:
        """Time the stage worked."""
        return self.end_ns - self.start_ns


class FrameRecord(NamedTuple):
    """What became of one frame. Made once, when the frame leaves.

    ``fate`` is ``completed``, ``late``, ``dropped`` or ``failed``; ``reason`` is
    empty for the first two and one of the closed list of reasons otherwise.
    """

    stream: str
    sequence: int
    capture_ns: int
    pts_ns: int | None
    """Media time since the start of the recording; None if the source has none."""
    deadline_ns: int
    fate: str
    reason: str
    stage: str
    """Last stage that touched the frame; empty when none did."""
    done_ns: int
    """When the frame left: delivered, dropped or failed."""
    warm_up: bool
    """True for frames before the measured part of a run."""
    variant: str
    """Name of the model variant that looked at the frame; empty when none did."""
    batch: int
    """Frames in the inference batch; 0 when none was run."""
    objects: int
    """Detections or tracks delivered."""
    truncated: int
    """Detections cut by ``max_detections``."""
    spans: tuple[Span, ...]
    short_ns: int = 0
    """How much time a dropped or failed frame lacked: for the steps it still needed,
    or since its deadline; 0 when time was not short."""
    passed_over: int = 0
    """How many times a dropped frame had to wait because others were worth more."""
    superseded_by: int | None = None
    """Sequence of the newer frame that took its place; None when none did."""

    @property
    def latency_ns(self) -> int:
        """From capture to leaving; for a delivered frame also its age then."""
        return self.done_ns - self.capture_ns

    @property
    def delivered(self) -> bool:
        """Whether a result reached the sinks."""
        return self.fate in ("completed", "late")


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """How one stream's source ended."""

    stream: str
    uri: str
    state: str
    """``ended``, ``truncated``, ``stopped`` or ``failed``."""
    detail: str
    """One line for people; empty when there is nothing to say."""
    input_hash: str | None
    """sha256 of the file's bytes, or None when the source is not one file."""


@dataclass(frozen=True, slots=True)
class RecorderFacts:
    """What became of the frame records on their way to the disk."""

    written: int
    lost: int
    """Records that the log has not: the disk could not keep up or was full."""
    write_failures: int
    """Attempts to write that failed; the records were tried again."""
