"""What a world around the scheduler core knows for itself: streams, frames, batches.

Nothing here is asked of the core. The estimates are fed with the same service times as
the core's own, so that what it says about a frame can be compared.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from edgepipe.scheduler.budget import StepCost
from edgepipe.scheduler.job import PERMILLE, Job, Resource, StreamSpec
from edgepipe.scheduler.policy import Policy


@dataclass(slots=True, eq=False)
class RefFrame:
    """A frame in flight. Times are nanoseconds."""

    stream: "RefStream"
    sequence: int
    deadline_ns: int
    arrival: int
    """Position in the order of arrival over all streams."""
    release_ns: int
    """When its next step became possible."""
    step: int = 0
    job: Job | None = None
    """While it runs."""
    queued: bool = True
    """Whether it still counts against the queue."""
    track_only: bool = False
    needed_before: list[int] = field(default_factory=list[int])
    """:meth:`needs_ns` before the event that is looked at."""

    @property
    def band(self) -> int:
        """Its stream's criticality; 0 matters most."""
        return self.stream.spec.criticality.band

    @property
    def stream_index(self) -> int:
        """Position of its stream in the order in which they joined."""
        return self.stream.index

    @property
    def period_ns(self) -> int:
        """Time between frames of its stream, as declared."""
        return self.stream.spec.period_ns

    @property
    def resource(self) -> str:
        """Where its next step runs, or the present one."""
        return self.stream.spec.steps[self.step].resource

    @property
    def is_blocked(self) -> bool:
        """Whether an older frame of the stream has not taken this stateful step yet."""
        if not self.stream.spec.steps[self.step].stateful:
            return False
        return any(
            other.sequence < self.sequence and other.step <= self.step
            for other in self.stream.frames.values()
        )

    @property
    def longest_ns(self) -> int:
        """What it may still need where it waits, on the dearest rung."""
        here = self.resource
        return max(
            sum(
                cost.alone.plan_ns
                for step, cost in zip(self.stream.spec.steps, row, strict=True)
                if step.resource == here
            )
            for row in self.stream.costs
        )

    @property
    def is_measured(self) -> bool:
        """Whether every cheaper rung has been measured, or costs the same.

        Until then the core may expect of it a part of what rung 0 was measured at.
        """
        first, *others = self.stream.costs
        return all(
            cost is first[index] or cost.alone.measured
            for row in others
            for index, cost in enumerate(row)
        )

    def needs_ns(self) -> list[int]:
        """What its remaining steps take by the optimistic estimate, by rung."""
        steps = self.stream.spec.steps
        return [
            sum(
                cost.alone.shed_ns
                for index, (step, cost) in enumerate(zip(steps, row, strict=True))
                if index >= self.step
                and (step.runs_on_track_only or not self.track_only)
            )
            for row in self.stream.costs
        ]

    def skip(self) -> None:
        """Leave out the network's steps if it is track-only."""
        steps = self.stream.spec.steps
        while (
            self.track_only
            and self.step < len(steps)
            and not steps[self.step].runs_on_track_only
        ):
            self.step += 1


@dataclass(slots=True, eq=False)
class RefStream:
    """A stream while it is known."""

    spec: StreamSpec
    index: int
    costs: list[list[StepCost]]
    """By rung and step."""
    rung: int = 0
    frames: dict[int, RefFrame] = field(default_factory=dict[int, RefFrame])
    credits: int = 0
    """Granted and not used. Below 0 when the source took what was not granted."""
    last_sequence: int = -1
    taken: int = 0
    """Frames that were not refused: what a stride and sparse inference count."""
    admitted_ns: list[int] = field(default_factory=list[int])
    """When its frames were taken."""
    miss_run: int = 0
    """Frames in a row, up to the last that left, that were not in time."""
    passed: dict[int, int] = field(default_factory=dict[int, int])
    """By stateful step, the last sequence that began it."""

    @property
    def queued(self) -> int:
        """Frames that count against the queue."""
        return sum(frame.queued for frame in self.frames.values())

    @property
    def room(self) -> int:
        """How many more frames the queue and the bound in flight take."""
        return min(
            self.spec.queue_capacity - self.queued,
            self.spec.max_in_flight - len(self.frames),
        )


@dataclass(slots=True, eq=False)
class RefBatch:
    """Jobs that run together."""

    jobs: tuple[Job, ...]
    frames: list[RefFrame]
    start_ns: int


class Books:
    """All that is in flight."""

    def __init__(self, resources: list[Resource], policy: Policy) -> None:
        self.policy = policy
        self.resources = {resource.name: resource for resource in resources}
        self.clocks = dict.fromkeys(self.resources, PERMILLE)
        self.streams: dict[str, RefStream] = {}
        self.leaving: list[RefStream] = []
        """Gone, but for what still runs."""
        self.batches: list[RefBatch] = []
        self.timer_ns: int | None = None
        self.now_ns = 0
        """As the core must see it: it never falls."""
        self.starved_ns: dict[str, int] = {}
        """By resource, when a slot may last have been kept for a stream that missed too
        much, or one that has gone since."""
        self.captured = 0
        self.left = 0
        self.stopped = False
        self._joined = 0
        self._shared: dict[tuple[str, int], StepCost] = {}

    def join(self, spec: StreamSpec) -> None:
        """A stream is taken in."""
        rows: list[list[StepCost]] = []
        for number, rung in enumerate(spec.ladder):
            row: list[StepCost] = []
            for index, step in enumerate(spec.steps):
                scale = rung.cost_permille[index] if rung.cost_permille else PERMILLE
                if number and scale == PERMILLE:
                    row.append(rows[0][index])
                    continue
                expected_ns = step.cost_ns * scale // PERMILLE
                clock = self.clocks[step.resource]
                cost = StepCost(expected_ns, step.batch_curve, clock)
                if step.batch_key:
                    cost = self._shared.setdefault((step.batch_key, scale), cost)
                    cost.set_clock(clock)  # it may have changed while nobody was there
                row.append(cost)
            rows.append(row)
        self.streams[spec.id] = RefStream(spec, self._joined, rows)
        self._joined += 1

    def set_clock(self, resource: str, permille: int) -> None:
        """Every estimate of the resource is rescaled, whoever may be there to see."""
        self.clocks[resource] = permille
        for stream in self.all_streams():
            for row in stream.costs:
                for step, cost in zip(stream.spec.steps, row, strict=True):
                    if step.resource == resource:
                        cost.set_clock(permille)

    def all_streams(self) -> Iterator[RefStream]:
        """Those that are there, and those that go once their jobs have ended."""
        yield from self.streams.values()
        yield from self.leaving

    def all_frames(self) -> Iterator[RefFrame]:
        """Every frame in flight."""
        for stream in self.all_streams():
            yield from stream.frames.values()

    def free_slots(self, resource: str) -> int:
        """Slots on which nothing runs."""
        running = sum(batch.jobs[0].resource == resource for batch in self.batches)
        return self.resources[resource].slots - running

    def ready(self, resource: str) -> list[RefFrame]:
        """Frames that lack nothing but a slot of this resource."""
        return [
            frame
            for frame in self.all_frames()
            if frame.job is None and frame.resource == resource and not frame.is_blocked
        ]

    def top_band(self, resource: str) -> int:
        """The most important criticality that uses the resource."""
        return min(
            (
                stream.spec.criticality.band
                for stream in self.streams.values()
                if any(step.resource == resource for step in stream.spec.steps)
            ),
            default=0,
        )

    def is_planned(self, resource: str) -> bool:
        """Whether the policy looks ahead there."""
        return self.policy.plan and self.resources[resource].planned
