"""What the pipeline expects of a stage and of a sink."""

from collections.abc import Sequence
from typing import Protocol

from edgepipe.pipeline.frame import Frame
from edgepipe.pipeline.source_events import SourceEvent
from edgepipe.scheduler.fates import Reason


class Stage(Protocol):
    """One named step. Any object with these members is a stage.

    A stateless stage may be called from several workers at once, on different frames.
    A stateful stage (one instance per stream) is called for one frame at a time, in
    the order of ``frame.sequence``; frames that were dropped on the way are simply
    not there, and ``frame.gap`` says how many.

    What befell the source and only shows in a picture, a stage adds to the end of
    ``frame.events`` (one that does not take batches): it is told, counted and handed to
    the steps after it like everything else that befell the source.

    Two members are optional. ``waits: bool`` is True while the stage may wait as long
    as it likes for somebody outside, so that nobody takes it for hung. A stage that
    keeps something for each worker has ``renew(worker: int)``: the thread of that
    number hangs in some stage and may use it for ever; the next one of that number,
    which makes the call, needs another.
    """

    @property
    def name(self) -> str:
        """Unique within a pipeline; used in logs, metrics and errors."""
        ...

    def process(self, frame: Frame, worker: int) -> Frame:
        """Return the frame with this stage's work added.

        ``worker`` is the slot of the resource that runs it, from 0: an index for
        per-worker scratch memory and inference requests.

        Raises:
            FrameError: This frame cannot be used; the pipeline goes on.
        """
        ...

    def close(self) -> None:
        """Release everything; calling it again does nothing."""
        ...


class BatchStage(Stage, Protocol):
    """A stage that takes several frames at once, for less than one after the other."""

    def process_batch(
        self, frames: Sequence[Frame], worker: int
    ) -> list[Frame | Exception]:
        """Each frame with this stage's work added, or what that frame failed with.

        The answer has the order and the length of ``frames``, which may be of several
        streams. A :class:`FrameError` in it gives up one frame for a stated reason;
        any other exception is that frame's stage error. What is raised instead of
        returned fails all of them.
        """
        ...


class FrameError(Exception):
    """A stage gives up one frame, for a reason of the closed list.

    Args:
        reason: What is booked for the frame.
        detail: One line for people.
        events: What befell the source with this frame.
    """

    def __init__(
        self, reason: Reason, detail: str, events: tuple[SourceEvent, ...] = ()
    ) -> None:
        super().__init__(detail)
        self.reason = reason
        self.events = events


class Sink(Protocol):
    """Where results leave: one instance serves all streams, one frame at a time."""

    @property
    def name(self) -> str:
        """Unique within a pipeline; used in logs and errors."""
        ...

    def write(self, frame: Frame, now_ns: int) -> None:
        """Take one delivered frame. May raise anything: failures are counted."""
        ...

    def close(self) -> None:
        """Flush and release; calling it again does nothing."""
        ...
