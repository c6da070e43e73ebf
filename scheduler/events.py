"""What the scheduler is told, and what it decides. Plain values."""

from enum import Enum
from typing import NamedTuple

from edgepipe.scheduler.fates import Fate, Reason
from edgepipe.scheduler.job import Job, StreamSpec


class FrameArrived(NamedTuple):
    """A source has a new frame. Sequences only go up within a stream."""

    stream: str
    sequence: int
    capture_ns: int
    deadline_ns: int


class Failed(NamedTuple):
    """One job of a batch whose frame goes no further."""

    job: Job
    fate: Fate
    reason: Reason


class JobDone(NamedTuple):
    """A job, or a batch of them, has finished on its resource."""

    jobs: tuple[Job, ...]
    """As they were started."""
    service_ns: int
    """How long the batch took as a whole."""
    failed: tuple[Failed, ...] = ()
    """Those of the batch whose frames end here; the others go on."""
    delivered_ns: int | None = None
    """When the last step delivered its result, if that was before its end."""


class JobFailed(NamedTuple):
    """A job, or a batch, has finished and its frames go no further."""

    jobs: tuple[Job, ...]
    fate: Fate
    reason: Reason


class TimerFired(NamedTuple):
    """The moment of the last :class:`SetTimer`. Coming too often does no harm."""


class ClockChanged(NamedTuple):
    """The hardware clock of a resource has changed (DVFS, throttling)."""

    resource: str
    permille: int
    """Thousandths of the clock at which the budgets and profiles were measured."""


class StreamAdded(NamedTuple):
    """A stream asks to be admitted."""

    spec: StreamSpec


class StreamRemoved(NamedTuple):
    """A stream has gone: its waiting frames are given up, running ones are awaited."""

    stream: str


class Stop(NamedTuple):
    """Give up everything that waits; running jobs are awaited by the caller."""


Event = (
    FrameArrived
    | JobDone
    | JobFailed
    | TimerFired
    | ClockChanged
    | StreamAdded
    | StreamRemoved
    | Stop
)


class Start(NamedTuple):
    """Run these jobs now, as one batch, on a free slot of their resource."""

    jobs: tuple[Job, ...]
    latest_start_ns: int | None
    """Starting later than this cannot meet the nearest deadline: fail the jobs as
    doomed instead. None when late results are taken."""


class Evidence(NamedTuple):
    """Why a frame was given up, in numbers as they were at that moment."""

    needed_ns: int = 0
    """Least time that its remaining steps take, by the optimistic estimate."""
    left_ns: int = 0
    """Time to its deadline; negative when it has passed."""
    waiting: int = 0
    """Frames of its stream that waited or ran with it."""
    passed_over: int = 0
    """How many times a plan had to leave it out for frames that were worth more."""
    newer: int | None = None
    """Sequence of the frame that took its place."""


class Leave(NamedTuple):
    """The frame's journey ends here.

    ``fate`` is None when it took its last step: whoever delivered it knows whether it
    was in time.
    """

    stream: str
    sequence: int
    fate: Fate | None
    reason: Reason | None
    evidence: Evidence | None = None
    """None for frames that took their last step, failed or met a shutdown."""

    @property
    def short_ns(self) -> int:
        """Time that it lacked for what it still needed, or since its deadline; or 0."""
        found = self.evidence
        return max(0, found.needed_ns - found.left_ns) if found is not None else 0


class Grant(NamedTuple):
    """The stream's source may produce so many more frames."""

    stream: str
    credits: int


class SetTimer(NamedTuple):
    """Send :class:`TimerFired` at this moment. It takes the place of an earlier one."""

    at_ns: int


class Cause(Enum):
    """Why a stream was moved on its ladder."""

    DEMAND = "demand"
    """More work is expected than the resource can do."""
    CLOCK = "clock"
    """The resource's clock fell."""
    ADMISSION = "admission"
    """A stream was admitted."""
    MISSES = "misses"
    """Promises were broken although the demand seemed to fit."""
    PROBE = "probe"
    """There seems to be room again: one stream tries."""
    PROBE_FAILED = "probe_failed"
    """There was not."""


class RungChanged(NamedTuple):
    """Frames of the stream that begin from now on take another rung of its ladder."""

    stream: str
    rung: int
    cause: Cause
    demand_permille: int
    """Expected demand on the scarcest resource before the move."""


class Redated(NamedTuple):
    """The frame's time stamp cannot be true: its deadline counts from its arrival."""

    stream: str
    sequence: int
    capture_ns: int
    deadline_ns: int


class Admitted(NamedTuple):
    """Answer to :class:`StreamAdded`: the stream's frames are taken from now on."""

    stream: str


class Refused(NamedTuple):
    """Answer to :class:`StreamAdded`: with it, promises could not be kept."""

    stream: str
    resource: str
    """Where there is no room, or which does not exist; empty: not a matter of room."""
    utilisation_permille: int
    """What the resource would be asked for; above 1000 it is too much."""
    blocked_by: str
    """Stream whose deadline a longer job of a lower criticality would break; its own
    id if its steps alone take too long, or if there is a stream of that id already; or
    the empty text."""


class Kind(Enum):
    """What an alarm is about."""

    TIME_WENT_BACK = "time_went_back"
    UNKNOWN_STREAM = "unknown_stream"
    UNKNOWN_RESOURCE = "unknown_resource"
    UNKNOWN_JOB = "unknown_job"
    REPEATED_SEQUENCE = "repeated_sequence"
    TIMESTAMP_STEP = "timestamp_step"


class Alarm(NamedTuple):
    """Something that should not happen was taken in, and did no harm."""

    kind: Kind
    subject: str
    """The stream or resource."""
    detail: int = 0
    """A sequence, or nanoseconds, as the kind asks."""


Action = (
    Start
    | Leave
    | Grant
    | SetTimer
    | RungChanged
    | Redated
    | Admitted
    | Refused
    | Alarm
)
