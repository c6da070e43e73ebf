"""What is kept for each stream and each of its frames while they are under way."""

from collections import deque
from dataclasses import dataclass
from fractions import Fraction

from edgepipe.pipeline.frame import Frame
from edgepipe.pipeline.pace import Pace
from edgepipe.pipeline.pump import Pump
from edgepipe.pipeline.source import Source
from edgepipe.pipeline.source_events import SourceEvent
from edgepipe.pipeline.stage import Stage
from edgepipe.scheduler.events import Leave
from edgepipe.scheduler.fates import Fate
from edgepipe.scheduler.job import Job, StreamSpec
from edgepipe.telemetry.records import FrameRecord, SourceRecord, Span

MOST_EVENTS = 64
"""Of what befell a source, so much is kept for steps that have not been told yet."""


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """One stream, ready to run. The runtime closes nothing: its maker does."""

    spec: StreamSpec
    source: Source
    stages: tuple[tuple[Stage, ...], ...]
    """For each of the spec's steps, the stages that it runs."""
    deadline_ns: int
    """Time allowed from capture to delivery."""
    pace: Pace
    branch_of: str | None = None
    """The stream whose frames it gets once they have taken their first step, with the
    pictures that they have then; ``source`` is that stream's, and only describes it."""
    speed: Fraction = Fraction(1)
    """How many seconds of a recording pass in one, at its own pace."""

    def __post_init__(self) -> None:
        """Refuse a plan that the runtime cannot carry out."""
        if len(self.stages) != len(self.spec.steps) or not all(self.stages):
            raise ValueError(f"stream {self.spec.id!r}: every step needs its stages")


@dataclass(frozen=True, slots=True)
class Depths:
    """How many frames of a stream there are now, and were at most."""

    capacity: int
    """Most frames that may wait in its queue."""
    queued: int
    """Frames that count against the queue: their network input is not being made."""
    peak_queued: int
    max_in_flight: int
    """Most frames that may be between source and sinks."""
    in_flight: int
    peak_in_flight: int


class Travelling:
    """A frame in flight with what was recorded of it so far."""

    __slots__ = (
        "batch",
        "frame",
        "is_abandoned",
        "is_queued",
        "news",
        "ready_ns",
        "short_ns",
        "spans",
    )

    def __init__(self, frame: Frame, now_ns: int) -> None:
        self.frame = frame
        self.ready_ns = now_ns
        """When the next stage could begin."""
        self.spans: list[Span] = []
        self.short_ns = 0
        """How far past its latest start or its deadline a worker found it."""
        self.batch = 0
        """Frames in the largest batch that it was a part of."""
        self.is_queued = True
        """Whether it counts against the stream's queue."""
        self.is_abandoned = False
        """Whether a hung stage may go on using what the frame holds."""
        self.news: tuple[SourceEvent, ...] = ()
        """What the last step found to have befallen the source."""

    def redate(self, capture_ns: int, deadline_ns: int) -> None:
        """Put the times right, before any stage has seen the frame.

        It keeps its place inside or outside the warm-up, where it is booked.
        """
        self.frame = self.frame.with_changes(
            capture_ns=capture_ns, deadline_ns=deadline_ns
        )

    def passed(self, span: Span, frame: Frame) -> None:
        """A stage has worked on it; ``frame`` is what came out."""
        self.spans.append(span)
        self.frame = frame
        self.ready_ns = span.end_ns

    def release(self) -> None:
        """Let go of its network input, which may be overwritten from now on."""
        tensor = self.frame.tensor
        if tensor is None:
            return
        if self.is_abandoned:
            tensor.write_off()
        else:
            tensor.give_back()

    def record(self, leave: Leave, fate: Fate, done_ns: int) -> FrameRecord:
        """What became of it, for whoever keeps records."""
        frame, spans, found = self.frame, self.spans, self.frame.detections
        evidence = leave.evidence
        return FrameRecord(
            frame.stream,
            frame.sequence,
            frame.capture_ns,
            frame.pts_ns,
            frame.deadline_ns,
            fate.value,
            leave.reason.value if leave.reason is not None else "",
            spans[-1].stage if spans else "",
            done_ns,
            frame.warm_up,
            frame.variant,
            self.batch if self.batch > frame.batch else frame.batch,
            len(found) if found is not None else 0,
            found.truncated if found is not None else 0,
            tuple(spans),
            leave.short_ns if evidence is not None else self.short_ns,
            evidence.passed_over if evidence is not None else 0,
            evidence.newer if evidence is not None else None,
        )


class StreamRun:
    """One stream while it runs. The caller serialises what changes it."""

    def __init__(self, plan: StreamPlan, pump: Pump) -> None:
        self.plan = plan
        self.pump = pump
        self.frames: dict[int, Travelling] = {}
        self.branches: list[StreamRun] = []
        """Streams that get this one's frames, too."""
        self.ended: SourceRecord | None = None
        """How its source ended; of a branch, when its stream has no more to give it."""
        self.has_delivered = False
        self.stuck: set[int] = set()
        """Stateful steps that an abandoned thread is still in: nobody else may enter
        them."""
        self._stateful = tuple(step.stateful for step in plan.spec.steps)
        self._seen = [-1] * len(plan.stages)
        """For each stateful step the last frame that came to it."""
        self._events: deque[tuple[int, SourceEvent]] = deque(maxlen=MOST_EVENTS)
        """What befell the source, and before which frame; what every stateful step
        has been told is forgotten."""
        ladder = plan.spec.ladder
        self._rungs = tuple(r.name for r in ladder) if len(ladder) > 1 else ("",)
        self._queued = self._peak_queued = self._peak_in_flight = 0

    def add_branch(self, branch: "StreamRun") -> None:
        """Frames of this stream go to that one, too.

        Raises:
            ValueError: They would not come in order.
        """
        if not self._stateful[0]:
            raise ValueError(
                f"stream {branch.plan.spec.id!r}: frames would come out of order from"
                f" {self.plan.spec.id!r}, whose first step is stateless"
            )
        self.branches.append(branch)

    def prepared(self, job: Job, frame: Frame) -> Frame:
        """The frame as its step must find it: with its gap, its rung, its way.

        To be called once for each job, just before it begins.
        """
        step, gap = job.step, frame.gap
        if self._stateful[step]:
            seen = self._seen
            if self._events:
                # Those of frames that never came here are news all the same.
                frame = frame.with_changes(events=self._since(seen[step], job.sequence))
            gap = job.sequence - seen[step] - 1
            seen[step] = job.sequence
        rung = self._rungs[job.rung]
        if (
            gap == frame.gap
            and rung == frame.rung
            and job.track_only == frame.track_only
        ):
            return frame  # as good as always: a copy costs a microsecond
        return frame.with_changes(gap=gap, rung=rung, track_only=job.track_only)

    def _since(self, seen: int, sequence: int) -> tuple[SourceEvent, ...]:
        """What befell the source after one frame and up to another."""
        told = min(
            last
            for last, stateful in zip(self._seen, self._stateful, strict=True)
            if stateful
        )
        while self._events and self._events[0][0] <= told:
            self._events.popleft()
        return tuple(event for at, event in self._events if seen < at <= sequence)

    # --- how many there are -----------------------------------------------------------

    def enter(self, sequence: int, travelling: Travelling) -> None:
        """A frame has been captured."""
        self.frames[sequence] = travelling
        self._queued += 1
        self.befell(sequence, travelling.frame.events)

    def befell(self, sequence: int, events: tuple[SourceEvent, ...]) -> None:
        """Every stateful step that this frame or a later one comes to is to be told."""
        for event in events:
            self._events.append((sequence, event))

    def begin(self, sequence: int, step: int) -> None:
        """A frame starts this step."""
        travelling = self.frames[sequence]
        if travelling.is_queued and step >= self.plan.spec.queued_steps - 1:
            travelling.is_queued = False
            self._queued -= 1

    def leave(self, sequence: int) -> Travelling:
        """A frame's journey ends; return what was recorded of it."""
        travelling = self.frames.pop(sequence)
        self._queued -= travelling.is_queued
        return travelling

    def note_peaks(self) -> None:
        """What there is now may be more than ever; after each capture."""
        if self._queued > self._peak_queued:
            self._peak_queued = self._queued
        if len(self.frames) > self._peak_in_flight:
            self._peak_in_flight = len(self.frames)

    def depths(self) -> Depths:
        """How many frames there are now, and were at most."""
        spec = self.plan.spec
        return Depths(
            spec.queue_capacity,
            self._queued,
            self._peak_queued,
            spec.max_in_flight,
            len(self.frames),
            self._peak_in_flight,
        )
