"""Scheduling policies by name: the slack policy, its parts left out, and baselines."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol


class Waiting(Protocol):
    """What a policy may look at when it orders jobs. Times are nanoseconds."""

    @property
    def band(self) -> int:
        """Criticality; 0 matters most."""
        ...

    @property
    def release_ns(self) -> int:
        """When the job could first have begun."""
        ...

    @property
    def deadline_ns(self) -> int:
        """Absolute end-to-end deadline."""
        ...

    @property
    def period_ns(self) -> int:
        """Time between frames of the stream."""
        ...

    @property
    def stream_index(self) -> int:
        """Position of the stream in the configuration."""
        ...

    @property
    def arrival(self) -> int:
        """Position in the order of arrival over all streams: breaks every tie."""
        ...


Order = Callable[[Waiting], tuple[int, ...]]


def by_arrival(job: Waiting) -> tuple[int, ...]:
    """The frame that arrived first; knows neither deadlines nor criticality."""
    return (job.arrival,)


def by_entry(job: Waiting) -> tuple[int, ...]:
    """First into this queue, first out: what queues between stages do."""
    return (job.release_ns, job.arrival)


def by_deadline(job: Waiting) -> tuple[int, ...]:
    """The nearest deadline first (Liu and Layland, 1973)."""
    return (job.deadline_ns, job.arrival)


def by_band_and_deadline(job: Waiting) -> tuple[int, ...]:
    """Criticality bands, inside a band the nearest deadline."""
    return (job.band, job.deadline_ns, job.arrival)


def by_priority(job: Waiting) -> tuple[int, ...]:
    """Fixed priority: criticality, then the order of the streams."""
    return (job.band, job.stream_index, job.arrival)


def by_rate(job: Waiting) -> tuple[int, ...]:
    """Rate monotonic: the stream with the shortest period first."""
    return (job.period_ns, job.stream_index, job.arrival)


def by_freshness(job: Waiting) -> tuple[int, ...]:
    """The frame that arrived last."""
    return (-job.arrival,)


class Shed(Enum):
    """Which frames are given up before they are worked on."""

    NEVER = "never"
    EXPIRED = "expired"
    """Those whose deadline has passed. The survivor is then the frame with the least
    time left, which is late as well: the trap of overload."""
    DOOMED = "doomed"
    """Those that cannot be in time any more, all later steps counted."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A set of rules. The baselines have few."""

    name: str
    order: Order
    shed: Shed
    keep: int | None = None
    """Most frames of a stream that wait for one step; older ones are superseded.
    None: the stream's own mode decides."""
    bounded: bool = True
    """Whether a stream's queue has its capacity; endless queues are a baseline's."""
    plan: bool = False
    """Look at all waiting jobs before one starts: leave out what does not fit by worth
    and class, not by age."""
    guard: bool = False
    """Keep long jobs of a lower class from starting just before a higher one comes."""
    batch: bool = False
    ladder: bool = False
    dates: bool = True
    """Whether time stamps that cannot be true are put right."""


_ALL = (
    Policy("fifo", by_arrival, Shed.NEVER, bounded=False, dates=False),
    Policy("leaky-newest-1", by_entry, Shed.NEVER, keep=1, dates=False),
    Policy("leaky-newest-2", by_entry, Shed.NEVER, keep=2, dates=False),
    Policy("edf", by_deadline, Shed.NEVER, bounded=False, dates=False),
    Policy("edf-drop", by_deadline, Shed.EXPIRED, bounded=False, dates=False),
    Policy("edf-profile", by_deadline, Shed.DOOMED, dates=False),
    Policy("fixed-priority", by_priority, Shed.EXPIRED, bounded=False, dates=False),
    Policy("rate-monotonic", by_rate, Shed.EXPIRED, bounded=False, dates=False),
    Policy("freshest", by_freshness, Shed.EXPIRED, bounded=False, dates=False),
    Policy("slack-unbatched", by_deadline, Shed.DOOMED, plan=True, guard=True),
    Policy("slack", by_deadline, Shed.DOOMED, plan=True, guard=True, batch=True),
    Policy(
        "slack+ladder",
        by_deadline,
        Shed.DOOMED,
        plan=True,
        guard=True,
        batch=True,
        ladder=True,
    ),
)

BY_NAME: Mapping[str, Policy] = {policy.name: policy for policy in _ALL}
