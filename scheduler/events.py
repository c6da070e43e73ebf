"""What the scheduler is told, and what it decides. Plain values."""

from typing import NamedTuple

from edgepipe.scheduler.fates import Fate, Reason
from edgepipe.scheduler.job import Job


class FrameArrived(NamedTuple):
    """A source has a new frame. Sequences only go up within a stream."""

    stream: str
    sequence: int
    deadline_ns: int


class JobDone(NamedTuple):
    """A step has finished on its resource."""

    job: Job
    service_ns: int


class JobFailed(NamedTuple):
    """A step has finished and its frame goes no further."""

    job: Job
    fate: Fate
    reason: Reason


class Stop(NamedTuple):
    """Give up everything that waits; running jobs are awaited by the caller."""


Event = FrameArrived | JobDone | JobFailed | Stop


class Start(NamedTuple):
    """Run this job now on a free slot of its resource."""

    job: Job
    latest_start_ns: int | None
    """Starting later than this cannot meet the deadline: fail the job as doomed
    instead. None when the stream takes late results."""


class Leave(NamedTuple):
    """The frame's journey ends here.

    ``fate`` is None when it took its last step: whoever delivered it knows whether it
    was in time.
    """

    stream: str
    sequence: int
    fate: Fate | None
    reason: Reason | None
    short_ns: int = 0
    """Evidence of a doomed frame: how much time it lacked when it was given up."""


class Grant(NamedTuple):
    """The stream's source may produce so many more frames."""

    stream: str
    credits: int


Action = Start | Leave | Grant
