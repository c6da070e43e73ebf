"""Synthetic cameras and stages that follow the frames drawn for a scenario."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event

import numpy as np

from edgepipe.pipeline.frame import Frame, Picture, PixelFormat
from edgepipe.pipeline.source import Arrival, SourceInfo
from edgepipe.scheduler.job import FULL, Rung, Step
from edgepipe.scheduler.outcome import TRACK_ONLY
from edgepipe.scheduler.scenario import scaled
from edgepipe.scheduler.simulate import batch_ns
from edgepipe.scheduler.workload import DrawnFrame
from edgepipe.telemetry.clock import Clock
from live.work import Perform, Task

PICTURE = Picture(PixelFormat.GRAY, (np.zeros((2, 2), np.uint8),), 2, 2)


@dataclass
class DrawnCamera:
    """A camera that delivers the frames at the moments that were drawn for them.

    The media time of a frame is its capture in the scenario. Frames that arrive after
    their capture are held back here; for the others the runtime waits. The first frame
    comes at its capture, from which the runtime learns when the scenario began.
    """

    frames: Sequence[DrawnFrame]
    clock: Clock
    begins_ns: int = 0
    """When the scenario begins, by the clock."""
    given: int = 0
    ended: bool = False
    closed: Event = field(default_factory=Event)
    end_state: tuple[str, str] = ("ended", "")
    warnings: tuple[str, ...] = ()
    info: SourceInfo = field(
        default_factory=lambda: SourceInfo("drawn:", 2, 2, None, "raw", live=True)
    )

    def next_arrival(self) -> Arrival | None:
        """The next frame, not before it arrives."""
        if self.given == len(self.frames):
            self.ended = True
            return None
        frame = self.frames[self.given]
        arrival_ns = frame.arrival_ns if self.given else frame.capture_ns
        if not self.given or arrival_ns > frame.capture_ns:
            self.clock.wait_until(self.begins_ns + arrival_ns, self.closed)
        self.given += 1
        return Arrival(frame.sequence, frame.capture_ns)

    def decode(self, index: int) -> Picture:
        """The one picture there is."""
        del index
        return PICTURE

    def close(self) -> None:
        """Wait for nothing any more."""
        self.closed.set()


@dataclass(frozen=True)
class Load:
    """What the frames of a scenario cost, and how: the same for all its stages."""

    frames: Mapping[str, Mapping[int, DrawnFrame]]
    """By stream and sequence."""
    ladders: Mapping[str, Mapping[str, Rung]]
    """By stream and name of the rung."""

    def cost_ns(self, frame: Frame, step: int) -> int:
        """What the step takes for the frame alone."""
        cost_ns = self.frames[frame.stream][frame.sequence].cost_ns[step]
        rung = self.ladders[frame.stream].get(frame.rung, FULL)
        if not rung.cost_permille:
            return cost_ns
        return scaled(cost_ns, rung.cost_permille[step])


@dataclass(frozen=True)
class DrawnStage:
    """A stage that takes as long as was drawn for the frame."""

    name: str
    number: int
    """Index into the steps of every stream that uses it."""
    step: Step
    load: Load
    perform: Perform
    clock: Clock

    def process(self, frame: Frame, worker: int) -> Frame:
        """Do one frame's work."""
        del worker
        self._work([frame])
        return frame.with_changes(variant=variant(frame), batch=frame.batch or 1)

    def process_batch(
        self, frames: Sequence[Frame], worker: int
    ) -> list[Frame | Exception]:
        """Do the work of several frames as one, for what the step's curve says."""
        del worker
        self._work(frames)
        size = len(frames)
        return [
            frame.with_changes(variant=variant(frame), batch=max(size, frame.batch))
            for frame in frames
        ]

    def close(self) -> None:
        """Nothing to release."""

    def _work(self, frames: Sequence[Frame]) -> None:
        start_ns, first = self.clock.now_ns(), frames[0]
        costs_ns = [self.load.cost_ns(frame, self.number) for frame in frames]
        cost_ns = costs_ns[0]
        if len(costs_ns) > 1:
            cost_ns = batch_ns(costs_ns, self.step.batch_curve)
        self.perform(
            Task(
                first.stream,
                first.sequence,
                self.number,
                self.step.resource,
                start_ns,
                cost_ns,
            )
        )


def variant(frame: Frame) -> str:
    """What looks at the frame."""
    return TRACK_ONLY if frame.track_only else frame.rung or FULL.name
