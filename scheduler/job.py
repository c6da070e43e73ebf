"""What is scheduled: resources, streams, the steps their frames take, and jobs.

All times are integer nanoseconds, all shares are integer thousandths (``_permille``):
no decision depends on how a processor rounds.
"""

from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

PERMILLE = 1000


class Criticality(Enum):
    """How much a stream matters. By name: numbers run opposite ways elsewhere."""

    CRITICAL = "critical"
    NORMAL = "normal"
    BACKGROUND = "background"

    @property
    def band(self) -> int:
        """Order of importance: 0 matters most."""
        return _BANDS[self]


_BANDS = {Criticality.CRITICAL: 0, Criticality.NORMAL: 1, Criticality.BACKGROUND: 2}


class OnMiss(Enum):
    """What to do with a result that cannot be delivered by its deadline."""

    DROP = "drop"
    DELIVER_LATE = "deliver_late"


class Overflow(Enum):
    """What a full queue does with one more frame."""

    BLOCK = "block"
    """Make the source wait: backpressure by credits."""
    DROP_OLDEST = "drop_oldest"
    """Keep the freshest frames: right for live cameras."""
    DROP_NEWEST = "drop_newest"
    """Keep what is already waiting."""


class Mode(Enum):
    """Which of a stream's own waiting frames are worth the work."""

    ALL = "all"
    """Every frame that can be in time."""
    LATEST_ONLY = "latest_only"
    """A newer frame takes the place of one that waits for the same step."""
    FRESHEST_FIRST = "freshest_first"
    """All are kept, the newest goes first."""


@dataclass(frozen=True, slots=True)
class Contract:
    """The (m,k) promise: of any ``k`` frames in a row at least ``m`` are in time."""

    m: int
    k: int

    def __post_init__(self) -> None:
        """Refuse a promise that means nothing."""
        if not 1 <= self.m <= self.k <= 64:
            raise ValueError(f"a contract needs 1 <= m <= k <= 64, got {self}")


@dataclass(frozen=True, slots=True)
class Resource:
    """Something that steps occupy. A job that has begun on it is never interrupted."""

    name: str
    slots: int = 1
    """How many jobs (or batches) run on it at the same time."""
    planned: bool = True
    """Whether the policy looks ahead before it lets a job begin here. Right for what
    can become scarce; elsewhere the order of deadlines is enough, and cheaper."""

    def __post_init__(self) -> None:
        """Refuse a resource that can never run anything."""
        if self.slots < 1:
            raise ValueError(f"resource {self.name!r} has no slots")


@dataclass(frozen=True, slots=True)
class Step:
    """One or more adjacent stages that run as one job on one resource."""

    name: str
    resource: str
    stateful: bool
    """A stateful step sees the frames of a stream one at a time and in order."""
    cost_ns: int = 0
    """Its budget: the service time to expect before any was measured; 0: not known."""
    batch_key: str = ""
    """Steps with the same key, of any stream, can run as one batch; empty: none can."""
    batch_max: int = 1
    """Most jobs in one batch."""
    batch_curve: tuple[int, ...] = ()
    """Cost of a batch of 1, 2, ... in thousandths of the cost of one job, as a profile
    measured it. Past its end each further job costs as much as the first. It serves
    until a batch size has been seen often enough."""
    runs_on_track_only: bool = True
    """False for the steps that a track-only frame leaves out: the network's."""

    def __post_init__(self) -> None:
        """Refuse bounds that make no sense."""
        if self.cost_ns < 0 or self.batch_max < 1:
            raise ValueError(f"step {self.name!r}: cost_ns < 0 or batch_max < 1")
        if self.batch_max > 1 and (not self.batch_key or self.stateful):
            raise ValueError(
                f"step {self.name!r}: a batch needs a batch_key and a stateless step"
            )
        if any(cost < 1 for cost in self.batch_curve):
            raise ValueError(f"step {self.name!r}: batch_curve must be positive")


def split(step: Step, segments: int) -> tuple[Step, ...]:
    """The step as so many steps in a row, for an engine that can stop in between.

    Other jobs get their turn between two segments, so a long background job blocks
    them no longer than one segment takes.
    """
    if segments < 1:
        raise ValueError(f"segments must be at least 1, got {segments}")
    if segments == 1:
        return (step,)
    return tuple(
        replace(
            step,
            name=f"{step.name}[{number}/{segments}]",
            cost_ns=step.cost_ns // segments,
            batch_key=step.batch_key and f"{step.batch_key}[{number}/{segments}]",
        )
        for number in range(1, segments + 1)
    )


@dataclass(frozen=True, slots=True)
class Rung:
    """One step of the degradation ladder: how a stream's frames are worked on.

    Rung 0 is the best quality; each further one must cost less.
    """

    name: str
    value_permille: int = PERMILLE
    """What a frame is worth on this rung: 1000 at full quality."""
    cost_permille: tuple[int, ...] = ()
    """Expected cost of each step in thousandths of rung 0, until it was measured.
    Empty: no step becomes cheaper."""
    stride: int = 1
    """One frame in so many is worked on; the others are dropped and are misses."""
    infer_every: int = 1
    """One frame in so many runs the network; the others are track-only."""
    track_only_value_permille: int = PERMILLE
    """What a track-only frame is worth."""
    batch_max: int | None = None
    """Most jobs in a batch on this rung; None: as the step says."""

    def __post_init__(self) -> None:
        """Refuse rungs that make no sense."""
        if min(self.stride, self.infer_every) < 1:
            raise ValueError(f"rung {self.name!r}: stride and infer_every start at 1")
        if not 0 < self.value_permille <= PERMILLE:
            raise ValueError(f"rung {self.name!r}: value_permille must be 1..1000")
        if any(cost < 1 for cost in self.cost_permille):
            raise ValueError(f"rung {self.name!r}: cost_permille must be positive")


FULL = Rung("full")
"""The only rung of a stream without a ladder."""


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """What the scheduler must know of one stream. Times are nanoseconds."""

    id: str
    steps: tuple[Step, ...]
    criticality: Criticality = Criticality.NORMAL
    on_miss: OnMiss = OnMiss.DROP
    queue_capacity: int = 2
    """Most frames that may wait for the queued steps."""
    overflow: Overflow = Overflow.DROP_OLDEST
    queued_steps: int = 1
    """The first so many steps draw from the bounded queue. Later steps work on
    frames in which much has been invested; they are never dropped for overflow."""
    max_in_flight: int = 8
    """Most frames between source and sink: bounds memory and buffers."""
    credits: bool = False
    """Whether the source waits for credits before each frame."""
    deadline_ns: int = 0
    """Time allowed from capture to delivery; 0: each frame brings its deadline and
    time stamps are believed."""
    period_ns: int = 0
    """Expected time between frames; 0: learned from the arrivals."""
    weight: int = 1
    """What one frame is worth against those of other streams of its criticality."""
    contract: Contract | None = None
    mode: Mode = Mode.ALL
    min_interval_ns: int = 0
    """Rate cap: frames that come closer together are refused; 0: no cap."""
    min_service_ns: int = 0
    """A background stream that has not been served for so long may cost streams with
    a contract a frame that the contract allows; 0: it waits for its chance."""
    ladder: tuple[Rung, ...] = (FULL,)

    def __post_init__(self) -> None:
        """Refuse bounds that make no sense."""
        if not self.steps:
            raise ValueError(f"stream {self.id!r} has no steps")
        for name in ("queue_capacity", "max_in_flight", "weight"):
            if (value := getattr(self, name)) < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        for name in ("deadline_ns", "period_ns", "min_interval_ns", "min_service_ns"):
            if (value := getattr(self, name)) < 0:
                raise ValueError(f"{name} must not be negative, got {value}")
        if not 1 <= self.queued_steps <= len(self.steps):
            raise ValueError(
                f"queued_steps must be 1..{len(self.steps)}, got {self.queued_steps}"
            )
        if not self.ladder:
            raise ValueError(f"stream {self.id!r}: a ladder needs a rung")
        for rung in self.ladder:
            if rung.infer_every > 1 and not any(
                step.runs_on_track_only for step in self.steps
            ):
                raise ValueError(f"rung {rung.name!r}: a track-only frame has no step")
            if rung.cost_permille and len(rung.cost_permille) != len(self.steps):
                raise ValueError(
                    f"rung {rung.name!r}: cost_permille needs a figure for each of "
                    f"{len(self.steps)} steps, got {len(rung.cost_permille)}"
                )


class Job(NamedTuple):
    """One frame that takes one step. Times are monotonic nanoseconds."""

    stream: str
    sequence: int
    step: int
    """Index into the stream's steps."""
    resource: str
    rung: int
    """Index into the stream's ladder: which variant does the work."""
    track_only: bool
    """Whether the frame leaves the network out."""
    release_ns: int
    """When the step became possible."""
    deadline_ns: int
