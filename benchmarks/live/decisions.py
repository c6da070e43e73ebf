"""How long it takes from an event until a worker begins what was decided on it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from edgepipe.scheduler.core import Scheduler
from edgepipe.scheduler.events import (
    Action,
    Event,
    JobDone,
    SetTimer,
    Start,
    TimerFired,
)
from edgepipe.scheduler.job import Job, Resource, StreamSpec
from edgepipe.scheduler.policy import Policy
from edgepipe.telemetry.records import FrameRecord


class Step(NamedTuple):
    """One step of one frame."""

    stream: str
    sequence: int
    step: int


Decisions = dict[Step, Step | int]
"""For each step that was started: the step whose end made it so, or the moment (ns) at
which the timer was due or the scheduler heard of the event."""


class Watched(Scheduler):
    """The scheduler, and a note of what each start was decided on."""

    def __init__(
        self,
        streams: Iterable[StreamSpec],
        resources: Iterable[Resource],
        policy: Policy,
    ) -> None:
        super().__init__(streams, resources, policy)
        self.decisions: Decisions = {}
        self.timer_ns: int | None = None
        """When the scheduler wants to be told the time."""

    def handle(self, now_ns: int, event: Event) -> list[Action]:
        """What the scheduler says."""
        due: Step | int = now_ns
        if isinstance(event, JobDone):
            due = of_job(event.jobs[0])
        elif isinstance(event, TimerFired) and self.timer_ns is not None:
            due, self.timer_ns = self.timer_ns, None
        actions = super().handle(now_ns, event)
        for action in actions:
            if isinstance(action, Start):
                for job in action.jobs:
                    self.decisions[of_job(job)] = due
            elif isinstance(action, SetTimer):
                self.timer_ns = action.at_ns
        return actions


def of_job(job: Job) -> Step:
    """The step that the job is."""
    return Step(job.stream, job.sequence, job.step)


def latencies_ns(
    decisions: Decisions,
    records: Iterable[FrameRecord],
    steps: Mapping[str, Sequence[str]],
) -> list[int]:
    """From the event to the moment at which the worker began, for every start.

    Args:
        decisions: What was decided on what.
        records: The frames; starts of frames that are not among them do not count.
        steps: Names of the steps, by stream.
    """
    spans = {
        Step(record.stream, record.sequence, steps[record.stream].index(span.stage)): (
            span.start_ns,
            span.end_ns,
        )
        for record in records
        for span in record.spans
    }
    found: list[int] = []
    for step, due in decisions.items():
        if (times := spans.get(step)) is None:
            continue
        if not isinstance(due, int):
            if due not in spans:
                continue
            due = spans[due][1]
        found.append(times[0] - due)
    return found
