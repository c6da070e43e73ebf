"""What is scheduled: streams, the steps their frames take, and jobs."""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Criticality(Enum):
    """How much a stream matters. By name: numbers run opposite ways elsewhere."""

    CRITICAL = "critical"
    NORMAL = "normal"
    BACKGROUND = "background"

    @property
    def band(self) -> int:
        """Order of dispatch: 0 is served first."""
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


@dataclass(frozen=True, slots=True)
class Step:
    """One or more adjacent stages that run as one job on one resource."""

    name: str
    resource: str
    stateful: bool
    """A stateful step sees the frames of a stream one at a time and in order."""


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

    def __post_init__(self) -> None:
        """Refuse bounds that make no sense."""
        if not self.steps:
            raise ValueError(f"stream {self.id!r} has no steps")
        for name in ("queue_capacity", "max_in_flight"):
            if (value := getattr(self, name)) < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if not 1 <= self.queued_steps <= len(self.steps):
            raise ValueError(
                f"queued_steps must be 1..{len(self.steps)}, got {self.queued_steps}"
            )


class Job(NamedTuple):
    """One frame that wants to take one step. Times are monotonic nanoseconds."""

    stream: str
    sequence: int
    step: int
    """Index into the stream's steps."""
    resource: str
    band: int
    release_ns: int
    """When the step became possible."""
    deadline_ns: int
    arrival: int
    """Position of the frame in the order of arrival over all streams: breaks ties."""
