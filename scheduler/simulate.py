"""Plays a scenario in virtual time and drives the scheduler with it.

The core is the one that runs live. It is told what happens, what it says is done, and
what comes out are the records that a live run would leave behind. Events of one moment
come in this order: ends of jobs, changes of clocks and streams, arrivals, the timer;
within each kind in the order in which they were set.

A batch takes its step's curve at its size times the mean of what its jobs would take
alone. The clock at the start of a job decides how long it takes.
"""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from heapq import heappop, heappush
from typing import NamedTuple, Protocol

from edgepipe.scheduler.core import Scheduler
from edgepipe.scheduler.events import (
    Action,
    Admitted,
    Alarm,
    ClockChanged,
    Event,
    Evidence,
    FrameArrived,
    Grant,
    JobDone,
    JobFailed,
    Leave,
    Redated,
    Refused,
    RungChanged,
    SetTimer,
    Start,
    StreamAdded,
    StreamRemoved,
    TimerFired,
)
from edgepipe.scheduler.fates import Fate, Reason
from edgepipe.scheduler.job import PERMILLE, Job, OnMiss, Resource, StreamSpec
from edgepipe.scheduler.outcome import Outcome, SimulatedFrame
from edgepipe.scheduler.policy import Policy
from edgepipe.scheduler.scenario import Camera, Scenario
from edgepipe.scheduler.workload import DrawnFrame
from edgepipe.scheduler.world import BrokenRuleError, Machine, MovingFrame, Run, Source

ENDLESS = 1 << 40
"""Room of a queue that has no bound."""
LONGEST_IDLE_NS = 3600 * 10**9
"""Virtual time without a departure after which the scheduler is held to be stuck."""
MOST_TIMERS_AT_ONCE = 1000
_NEVER = 1 << 62
_NO_EVIDENCE = Evidence()
_END, _CHANGE, _ARRIVAL = (kind << 48 for kind in range(3))


class Core(Protocol):
    """What decides: :class:`edgepipe.scheduler.core.Scheduler`, or one around it."""

    def initial_grants(self) -> list[Grant]:
        """The credits that sources may use before anything has happened."""
        ...

    def handle(self, now_ns: int, event: Event) -> list[Action]:
        """Take one event and return what must be done about it."""
        ...


MakeCore = Callable[[list[StreamSpec], tuple[Resource, ...], Policy], Core]
OnRecord = Callable[[SimulatedFrame], None]


def simulate(
    scenario: Scenario,
    policy: Policy,
    seed: int = 1,
    on_record: OnRecord | None = None,
    *,
    digest: bool = False,
    make_core: MakeCore = Scheduler,
) -> Outcome:
    """Play the scenario until its last frame has left.

    Args:
        scenario: What happens.
        policy: Who decides.
        seed: Which draw of the scenario; the same for all policies that are compared.
        on_record: Takes each frame's record; without it they are kept in the outcome.
        digest: Whether to compute :attr:`Outcome.digest`, which takes time.
        make_core: Makes the scheduler; another one for measurements around it.

    Raises:
        BrokenRuleError: The scheduler did what no scheduler may do.
    """
    sources = [
        Source(scenario, index, spec_for(camera, policy), seed)
        for index, camera in enumerate(scenario.cameras)
    ]
    present = [source.spec for source in sources if not source.camera.starts_ns]
    core = make_core(present, scenario.resources, policy)
    simulation = _Simulation(scenario, sources, core, on_record, digest=digest)
    return simulation.run()


def spec_for(camera: Camera, policy: Policy) -> StreamSpec:
    """The stream as the policy gets it: some baselines have queues without end."""
    if policy.bounded:
        return camera.spec
    return replace(camera.spec, queue_capacity=ENDLESS, max_in_flight=ENDLESS)


class _Due(NamedTuple):
    """A frame on its way from its camera."""

    source: Source
    frame: DrawnFrame


class _ClockTurned(NamedTuple):
    """The clock of a resource really changes, whoever may know."""

    resource: str
    permille: int


class _Simulation:
    """The world around the scheduler, and its time."""

    def __init__(
        self,
        scenario: Scenario,
        sources: list[Source],
        core: Core,
        on_record: OnRecord | None,
        *,
        digest: bool,
    ) -> None:
        self._core = core
        self._outcome = Outcome()
        self._on_record = on_record or self._outcome.records.append
        self._hash = hashlib.sha256() if digest else None
        self._sources = {source.spec.id: source for source in sources}
        self._machines = {
            resource.name: Machine(resource, scenario.pauses)
            for resource in scenario.resources
        }
        self._now_ns = 0
        self._timer_ns = _NEVER
        self._timers_at_once = 0
        self._in_flight = 0
        self._rank = 0
        self._heap: list[tuple[int, int, Run | _Due | _ClockTurned | Event]] = []
        self._set_up(scenario)

    def _set_up(self, scenario: Scenario) -> None:
        """Everything that is known to happen, and each source's first frame."""
        for step in scenario.clock_steps:
            turned = _ClockTurned(step.resource, step.permille)
            self._push(step.at_ns, _CHANGE, turned)
            if step.reported_after_ns is not None:
                told_ns = step.at_ns + step.reported_after_ns
                self._push(told_ns, _CHANGE, ClockChanged(*turned))
        for source in self._sources.values():
            camera = source.camera
            if camera.starts_ns:
                self._push(camera.starts_ns, _CHANGE, StreamAdded(source.spec))
            if camera.ends_ns is not None and camera.ends_ns < scenario.duration_ns:
                # One deadline later: its last frames may still be in time.
                gone_ns = camera.ends_ns + source.spec.deadline_ns
                self._push(gone_ns, _CHANGE, StreamRemoved(source.spec.id))
        for grant in self._core.initial_grants():
            self._sources[grant.stream].credits += grant.credits
        for source in self._sources.values():
            self._expect(source)

    def _push(
        self, at_ns: int, kind: int, what: Run | _Due | _ClockTurned | Event
    ) -> None:
        self._rank += 1
        heappush(self._heap, (at_ns, kind + self._rank, what))

    def run(self) -> Outcome:
        """Play everything, to the end."""
        heap = self._heap
        while heap or self._in_flight:
            if self._timer_ns < (heap[0][0] if heap else _NEVER):
                self._fire()
                continue
            if not heap:
                raise BrokenRuleError(f"{self._in_flight} frames wait for nothing")
            self._now_ns, _, what = heappop(heap)
            if isinstance(what, Run):
                self._finish(what)
            elif isinstance(what, _Due):
                self._arrive(what.source, what.frame)
            elif isinstance(what, _ClockTurned):
                self._machines[what.resource].permille = what.permille
            else:
                self._change(what)
        return self._finished()

    def _finished(self) -> Outcome:
        outcome = self._outcome
        for name, source in self._sources.items():
            if source.parked is not None:
                raise BrokenRuleError(f"{name}: its source waits for ever")
        outcome.captured = sum(source.captured for source in self._sources.values())
        outcome.busy_ns = {n: each.busy_ns for n, each in self._machines.items()}
        outcome.digest = self._hash.hexdigest() if self._hash else ""
        return outcome

    def _fire(self) -> None:
        """The timer's moment has come."""
        due_ns, self._timer_ns = self._timer_ns, _NEVER
        late = due_ns <= self._now_ns
        self._timers_at_once = self._timers_at_once + 1 if late else 0
        if self._timers_at_once > MOST_TIMERS_AT_ONCE:
            raise BrokenRuleError("the timer is set to the present again and again")
        if not self._heap and due_ns > self._outcome.ended_ns + LONGEST_IDLE_NS:
            raise BrokenRuleError(f"{self._in_flight} frames wait while timers come")
        self._now_ns = max(self._now_ns, due_ns)
        self._tell(TimerFired())

    def _tell(self, event: Event) -> None:
        """Tell the scheduler, and do what it says."""
        now_ns = self._now_ns
        self._outcome.events += 1
        actions = self._core.handle(now_ns, event)
        if self._hash is not None:
            self._hash.update(repr((now_ns, event, actions)).encode())
        for action in actions:
            if isinstance(action, Start):
                self._start(action)
            elif isinstance(action, Leave):
                self._leave(action)
            elif isinstance(action, SetTimer):
                self._timer_ns = action.at_ns
            else:
                self._note(action)

    def _note(self, action: Action) -> None:
        """Take in what is rare."""
        outcome = self._outcome
        if isinstance(action, Grant):
            self._grant(self._sources[action.stream], action.credits)
        elif isinstance(action, Redated):
            outcome.redated += 1
        elif isinstance(action, RungChanged):
            outcome.keep(outcome.moves, (self._now_ns, action))
        elif isinstance(action, Alarm):
            outcome.keep(outcome.alarms, (self._now_ns, action))
        elif isinstance(action, Admitted | Refused):
            outcome.answers.append((self._now_ns, action))
            self._sources[action.stream].refused = isinstance(action, Refused)

    def _change(self, event: Event) -> None:
        gone = isinstance(event, StreamRemoved) and self._sources[event.stream].refused
        if not gone:
            self._tell(event)

    def _expect(self, source: Source) -> None:
        """Find out when the camera's next frame arrives; it may have to wait."""
        frame = next(source.drawn, None)
        if frame is None:
            return
        arrival_ns = frame.arrival_ns + source.late_ns
        if not source.spec.credits:
            self._push(arrival_ns, _ARRIVAL, _Due(source, frame))
        elif source.credits:
            source.credits -= 1
            self._push(arrival_ns, _ARRIVAL, _Due(source, frame))
        else:
            source.parked = frame

    def _grant(self, source: Source, credits_: int) -> None:
        source.credits += credits_
        if source.parked is not None and source.credits:
            frame, source.parked = source.parked, None
            source.credits -= 1
            # A source that had to wait goes on from there, as a paused player does.
            kept_ns = self._now_ns - (frame.arrival_ns + source.late_ns)
            source.late_ns += max(0, kept_ns)
            self._push(frame.arrival_ns + source.late_ns, _ARRIVAL, _Due(source, frame))

    def _arrive(self, source: Source, drawn: DrawnFrame) -> None:
        _, sequence, capture_ns, cost_ns = drawn
        now_ns = self._now_ns
        self._expect(source)
        capture_ns += source.late_ns
        source.captured += 1
        frame = MovingFrame(capture_ns, cost_ns, now_ns)
        if source.refused:
            self._record(source, sequence, frame, Fate.DROPPED, Reason.REFUSED)
            return
        source.frames[sequence] = frame
        self._in_flight += 1
        stamp_ns = source.stamp_ns(capture_ns)
        spec = source.spec
        self._tell(
            FrameArrived(spec.id, sequence, stamp_ns, stamp_ns + spec.deadline_ns)
        )

    def _start(self, start: Start) -> None:
        """Put a batch on a slot, as a worker does at once."""
        now_ns, (jobs, latest_start_ns) = self._now_ns, start
        if latest_start_ns is not None and now_ns > latest_start_ns:
            raise BrokenRuleError(f"{start} comes too late at {now_ns}")
        machine = self._machines[jobs[0].resource]
        if not machine.free:
            raise BrokenRuleError(f"{machine.name} has no slot for {jobs}")
        if len(jobs) == 1:
            work_ns = self._sources[jobs[0].stream].begin(jobs[0])
        else:
            work_ns = self._begin_batch(jobs)
        end_ns = machine.end_ns(now_ns, work_ns)
        machine.busy_ns += end_ns - now_ns
        self._push(end_ns, _END, Run(jobs, machine, machine.free.pop(), now_ns))

    def _begin_batch(self, jobs: tuple[Job, ...]) -> int:
        """Start several jobs as one; every one must be of the same kind."""
        costs_ns = [self._sources[job.stream].begin(job) for job in jobs]
        first = jobs[0]
        step = self._sources[first.stream].spec.steps[first.step]
        for job in jobs:
            source = self._sources[job.stream]
            source.frames[job.sequence].batch = max(
                source.frames[job.sequence].batch, len(jobs)
            )
            same = source.spec.steps[job.step].batch_key == step.batch_key
            if not same or job.resource != first.resource or job.track_only:
                raise BrokenRuleError(f"{job} does not fit into a batch with {first}")
        if len(jobs) > step.batch_max:
            raise BrokenRuleError(f"{len(jobs)} jobs in a batch of {step.name}")
        return batch_ns(costs_ns, step.batch_curve)

    def _finish(self, run: Run) -> None:
        """A batch has ended: its frames go on, or it has failed."""
        jobs, machine, worker, start_ns = run
        now_ns = self._now_ns
        machine.free.append(worker)
        failure = None
        for job in jobs:
            source = self._sources[job.stream]
            source.end(job, start_ns, now_ns, worker)
            if source.may_fail:
                failure = failure or source.failure(job)
        if failure is None:
            self._tell(JobDone(jobs, now_ns - start_ns))
        else:
            self._tell(JobFailed(jobs, failure.fate, failure.reason))

    def _leave(self, leave: Leave) -> None:
        source = self._sources[leave.stream]
        frame = source.frames.pop(leave.sequence, None)
        if frame is None or frame.running:
            raise BrokenRuleError(f"{leave} of a frame that is gone or still running")
        self._in_flight -= 1
        fate, reason = leave.fate, leave.reason
        if fate is None:
            if not source.is_done(frame):
                raise BrokenRuleError(f"{leave} before its last step")
            fate, reason = _delivered(source, frame, self._now_ns)
        if leave.evidence is not None:
            outcome = self._outcome
            outcome.keep(outcome.departures, (self._now_ns, leave))
        self._record(source, leave.sequence, frame, fate, reason, leave.evidence)

    def _record(
        self,
        source: Source,
        sequence: int,
        frame: MovingFrame,
        fate: Fate,
        reason: Reason | None,
        evidence: Evidence | None = None,
    ) -> None:
        self._outcome.ended_ns = self._now_ns
        spans = frame.spans
        deadline_ns = frame.capture_ns + source.spec.deadline_ns
        found = evidence or _NO_EVIDENCE
        short_ns = found.needed_ns - found.left_ns
        if evidence is None and fate in (Fate.DROPPED, Fate.FAILED):
            short_ns = self._now_ns - deadline_ns
        self._on_record(
            SimulatedFrame(
                source.spec.id,
                sequence,
                frame.capture_ns,
                frame.capture_ns,
                deadline_ns,
                fate.value,
                reason.value if reason is not None else "",
                spans[-1].stage if spans else "",
                self._now_ns,
                False,
                frame.variant,
                frame.batch,
                0,
                0,
                tuple(spans),
                max(0, short_ns),
                found.passed_over,
                found.newer,
            )
        )


def batch_ns(costs_ns: list[int], curve: tuple[int, ...]) -> int:
    """What a batch takes: the curve's factor of the mean of its jobs alone.

    Past the end of the curve each further job costs as much as the first one.
    """
    size = len(costs_ns)
    known = curve[min(size, len(curve)) - 1] if curve else PERMILLE
    factor = known + (size - max(1, min(size, len(curve)))) * PERMILLE
    return max(1, sum(costs_ns) * factor // (size * PERMILLE))


def _delivered(
    source: Source, frame: MovingFrame, now_ns: int
) -> tuple[Fate, Reason | None]:
    """The fate of a frame that took its last step, by its true deadline."""
    if now_ns <= frame.capture_ns + source.spec.deadline_ns:
        return Fate.COMPLETED, None
    if source.spec.on_miss is OnMiss.DELIVER_LATE:
        return Fate.LATE, None
    return Fate.DROPPED, Reason.EXPIRED
