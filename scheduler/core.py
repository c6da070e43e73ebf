"""The scheduler as a state machine: events and the time go in, decisions come out."""

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush

from edgepipe.scheduler.deadlines import NEVER_NS, Deadlines
from edgepipe.scheduler.dispatch import RESERVE_AFTER, Dispatcher
from edgepipe.scheduler.events import (
    Action,
    Admitted,
    Alarm,
    Cause,
    ClockChanged,
    Event,
    Evidence,
    FrameArrived,
    Grant,
    JobDone,
    JobFailed,
    Kind,
    Leave,
    Redated,
    SetTimer,
    Start,
    StreamAdded,
    StreamRemoved,
    TimerFired,
)
from edgepipe.scheduler.fates import Fate, Reason
from edgepipe.scheduler.job import (
    Job,
    Mode,
    OnMiss,
    Overflow,
    Resource,
    StreamSpec,
)
from edgepipe.scheduler.ladder import Ladder
from edgepipe.scheduler.policy import BY_NAME, Policy, Shed, by_freshness
from edgepipe.scheduler.roster import Roster
from edgepipe.scheduler.state import (
    FrameState,
    ResourceState,
    State,
    StreamState,
)

MOST_ABANDONED = 64
"""Jobs of frames that have left may stay on the heaps up to this number."""


class Scheduler:
    """Decides which waiting jobs start next and which frame is given up.

    The caller owns time and threads: it reports events through :meth:`handle` and
    carries the returned actions out, in order. A resource runs ``slots`` jobs or
    batches at a time and none is ever preempted. The same events at the same times
    give the same actions, in any process and on any processor.
    """

    def __init__(
        self,
        streams: Iterable[StreamSpec],
        resources: Iterable[Resource],
        policy: Policy = BY_NAME["slack"],
    ) -> None:
        self._policy = policy
        self._dispatcher = Dispatcher(policy)
        self._roster = Roster(resources, policy)
        self._streams = self._roster.streams
        self._resources = self._roster.resources
        self._dirty: list[ResourceState] = []
        """Resources on which something may start."""
        self._touched: dict[str, StreamState] = {}
        """Streams whose credits may have changed."""
        self._arrivals = 0
        self._abandoned = 0
        """Jobs on the heaps whose frames have left."""
        self._stopped = False
        self._now_ns: int | None = None
        self._timer_ns: int | None = None
        self._deadlines = Deadlines()
        self._ladder = (
            Ladder(self._streams, self._resources.values(), batched=policy.batch)
            if policy.ladder
            else None
        )
        for spec in streams:
            self._join(spec)

    # --- what is known --------------------------------------------------------------

    def in_flight(self, stream: str) -> int:
        """Frames of the stream that have arrived and not left."""
        return len(self._streams[stream].frames)

    def jobs_waiting(self) -> int:
        """Jobs that wait for a slot, some of which may be of frames that have left."""
        return sum(len(r.heap) + len(r.ready) for r in self._resources.values())

    def initial_grants(self) -> list[Grant]:
        """The credits that sources may use before anything has happened."""
        actions: list[Action] = []
        self._grant(actions)
        return [action for action in actions if isinstance(action, Grant)]

    # --- events ---------------------------------------------------------------------

    def handle(self, now_ns: int, event: Event) -> list[Action]:
        """Take one event and return what must be done about it."""
        actions: list[Action] = []
        before_ns = self._now_ns
        if before_ns is not None and now_ns < before_ns:
            actions.append(
                Alarm(Kind.TIME_WENT_BACK, type(event).__name__, before_ns - now_ns)
            )
            now_ns = before_ns
        self._now_ns = now_ns
        if self._deadlines.first_ns <= now_ns:
            self._expire(now_ns, actions)
        if isinstance(event, JobDone):
            self._done(now_ns, event, actions)
        elif isinstance(event, FrameArrived):
            self._arrive(now_ns, event, actions)
        else:
            self._rare(now_ns, event, actions)
        if self._ladder is not None and now_ns >= self._ladder.next_look_ns:
            actions += self._ladder.look(now_ns)
        if self._dirty:
            self._dispatch(now_ns, actions)
        if self._deadlines.first_ns < NEVER_NS:
            self._await_deadlines(actions)
        if self._touched:
            self._grant(actions)
        return actions

    def _rare(self, now_ns: int, event: Event, actions: list[Action]) -> None:
        """Everything that does not happen for each frame."""
        if isinstance(event, JobFailed):
            self._fail(event, actions)
        elif isinstance(event, TimerFired):
            self._timer_ns = None
            for resource in self._resources.values():
                if resource.ready and not resource.is_dirty:
                    self._mark(resource)
        elif isinstance(event, ClockChanged):
            self._set_clock(event, actions)
        elif isinstance(event, StreamAdded):
            self._add(event.spec, actions)
        elif isinstance(event, StreamRemoved):
            self._remove(event.stream, actions)
        else:
            self._stop(actions)

    def _arrive(self, now_ns: int, event: FrameArrived, actions: list[Action]) -> None:
        name, sequence, capture_ns, deadline_ns = event
        stream = self._streams.get(name)
        if stream is None or stream.is_leaving:
            actions.append(Alarm(Kind.UNKNOWN_STREAM, name, sequence))
            actions.append(Leave(name, sequence, Fate.DROPPED, Reason.REFUSED))
            return
        spec = stream.spec
        if sequence <= stream.last_sequence:
            actions.append(Alarm(Kind.REPEATED_SEQUENCE, name, sequence))
            return
        stream.last_sequence = sequence
        if spec.credits:
            stream.outstanding_credits -= 1
            self._touched[name] = stream
        arrivals = stream.arrivals
        jumped = arrivals.note(now_ns, capture_ns)
        offset_ns = arrivals.offset_ns
        if offset_ns and self._policy.dates and spec.deadline_ns:
            if jumped:
                actions.append(Alarm(Kind.TIMESTAMP_STEP, name, offset_ns))
            capture_ns -= offset_ns
            deadline_ns = capture_ns + spec.deadline_ns
            actions.append(Redated(name, sequence, capture_ns, deadline_ns))
        stream.allowed_ns = deadline_ns - now_ns
        if spec.min_service_ns and not stream.frames:
            # Who asks for nothing does not starve.
            since_ns = stream.served_ns
            if since_ns is not None and now_ns - since_ns > spec.min_service_ns:
                stream.served_ns = now_ns
        reason = self._why_not(stream, now_ns, deadline_ns, actions)
        if reason is not None:
            self._turn_away(stream, sequence, reason, deadline_ns - now_ns, actions)
            return
        frame = FrameState(
            stream, sequence, capture_ns, deadline_ns, self._arrivals, now_ns
        )
        self._arrivals += 1
        stream.frames[sequence] = frame
        stream.queued += 1
        stream.newest_deadline_ns = deadline_ns
        every = spec.ladder[stream.rung].infer_every
        if every > 1 and stream.taken % every:
            frame.track_only = True
            frame.costs = stream.track_costs
            self._skip(frame)
        stream.taken += 1
        self._enter(stream, frame, actions)

    def _why_not(
        self, stream: StreamState, now_ns: int, deadline_ns: int, actions: list[Action]
    ) -> Reason | None:
        """Why the stream does not take one more frame now; None if it does."""
        spec = stream.spec
        if self._stopped:
            return Reason.SHUTDOWN
        if (
            now_ns > deadline_ns
            and spec.on_miss is OnMiss.DROP
            and self._policy.shed is not Shed.NEVER
        ):
            return Reason.STALE
        if spec.min_interval_ns and not self._is_within_rate(stream, now_ns):
            return Reason.RATE_CAP
        stride = spec.ladder[stream.rung].stride
        if stride > 1 and stream.taken % stride:
            stream.taken += 1
            return Reason.STRIDE
        if stream.room() < 1 and not self._make_room(stream, now_ns, actions):
            return Reason.OVERFLOW
        return None

    def _is_within_rate(self, stream: StreamState, now_ns: int) -> bool:
        """Whether the rate cap has a place for a frame now; if so, it takes it.

        A frame may come a quarter of an interval early, and the one after it then
        comes late: jitter must not halve the rate.
        """
        interval_ns = stream.spec.min_interval_ns
        due_ns = stream.next_admitted_ns
        if due_ns is None:
            due_ns = now_ns
        if now_ns < due_ns - interval_ns // 4:
            return False
        stream.next_admitted_ns = max(due_ns, now_ns - interval_ns // 4) + interval_ns
        return True

    def _make_room(
        self, stream: StreamState, now_ns: int, actions: list[Action]
    ) -> bool:
        """Drop the oldest waiting frame for a new one, if the stream wants that."""
        if stream.spec.overflow is not Overflow.DROP_OLDEST:
            return False
        victim = stream.oldest_waiting()
        if victim is None:
            return False
        evidence = Evidence(
            left_ns=victim.deadline_ns - now_ns,
            waiting=len(stream.frames),
            passed_over=victim.passed_over,
        )
        self._leave(victim, Fate.DROPPED, Reason.OVERFLOW, actions, evidence)
        return True

    def _turn_away(
        self,
        stream: StreamState,
        sequence: int,
        reason: Reason,
        left_ns: int,
        actions: list[Action],
    ) -> None:
        """Give a frame up before it has entered."""
        evidence = Evidence(left_ns=left_ns, waiting=len(stream.frames))
        self._book(stream, in_time=False)
        actions.append(Leave(stream.spec.id, sequence, Fate.DROPPED, reason, evidence))

    def _done(self, now_ns: int, event: JobDone, actions: list[Action]) -> None:
        frames = self._finished(event.jobs, actions)
        if frames is None:
            return
        first = frames[0]
        first.costs[first.step].observe(len(frames), event.service_ns)
        ended_ns = now_ns if event.delivered_ns is None else event.delivered_ns
        for job, fate, reason in event.failed:
            found = [
                f for f, done in zip(frames, event.jobs, strict=True) if done == job
            ]
            if not found:
                actions.append(Alarm(Kind.UNKNOWN_JOB, job.stream, job.sequence))
            for frame in found:
                self._leave(frame, fate, reason, actions)
        if len(frames) > 1:
            frames.sort(key=lambda frame: frame.arrival)
        for frame in frames:
            if frame.state is State.GONE:
                continue  # failed, or superseded by another one of the batch
            stream = frame.stream
            frame.step += 1
            if frame.track_only:
                self._skip(frame)
            if frame.step == len(stream.places):
                self._leave(
                    frame, None, None, actions, in_time=ended_ns <= frame.deadline_ns
                )
            elif self._stopped or stream.is_leaving:
                self._leave(frame, Fate.DROPPED, Reason.SHUTDOWN, actions)
            else:
                frame.release_ns = now_ns
                self._enter(stream, frame, actions)
                if stream.blocked:
                    self._unblock(stream)

    def _skip(self, frame: FrameState) -> None:
        """Leave out the steps that a track-only frame does not take."""
        steps = frame.stream.spec.steps
        while frame.step < len(steps) and not steps[frame.step].runs_on_track_only:
            frame.step += 1

    def _fail(self, event: JobFailed, actions: list[Action]) -> None:
        for frame in self._finished(event.jobs, actions) or ():
            self._leave(frame, event.fate, event.reason, actions)

    def _finished(
        self, jobs: tuple[Job, ...], actions: list[Action]
    ) -> list[FrameState] | None:
        """Take a batch off its resource; None if it is not one that runs."""
        frames: list[FrameState] = []
        for job in jobs:
            stream = self._streams.get(job.stream)
            frame = stream.frames.get(job.sequence) if stream is not None else None
            if frame is None or frame.job is None or frame.job != job:
                actions.append(Alarm(Kind.UNKNOWN_JOB, job.stream, job.sequence))
                return None
            frames.append(frame)
        if not frames or any(frame.batch != frames[0].batch for frame in frames):
            actions.append(Alarm(Kind.UNKNOWN_JOB, "", len(frames)))
            return None
        resource = self._resources[jobs[0].resource]
        batch = frames[0].batch
        if resource.sizes.get(batch) != len(frames):
            actions.append(Alarm(Kind.UNKNOWN_JOB, jobs[0].stream, jobs[0].sequence))
            return None
        del resource.sizes[batch], resource.running[batch]
        resource.free += 1
        if not resource.is_dirty and (resource.ready or resource.heap):
            self._mark(resource)
        for frame in frames:
            frame.job = None
            frame.state = State.MOVING
        return frames

    def _stop(self, actions: list[Action]) -> None:
        self._stopped = True
        for stream in self._streams.values():
            self._give_up_waiting(stream, actions)

    def _give_up_waiting(self, stream: StreamState, actions: list[Action]) -> None:
        for frame in list(stream.frames.values()):
            if frame.state is not State.RUNNING:
                self._leave(frame, Fate.DROPPED, Reason.SHUTDOWN, actions)

    def _set_clock(self, event: ClockChanged, actions: list[Action]) -> None:
        if event.resource not in self._resources:
            actions.append(Alarm(Kind.UNKNOWN_RESOURCE, event.resource, event.permille))
            return
        resource = self._roster.set_clock(event.resource, event.permille)
        if self._ladder is not None:
            actions += self._ladder.relieve(self._now_ns or 0, Cause.CLOCK)
        if resource.ready and not resource.is_dirty:
            self._mark(resource)

    # --- streams --------------------------------------------------------------------

    def _add(self, spec: StreamSpec, actions: list[Action]) -> None:
        """Admit a stream, if the promises made so far can still be kept."""
        answer = self._roster.judge(spec)
        actions.append(answer)
        if isinstance(answer, Admitted):
            self._join(spec)
            if self._ladder is not None:
                actions += self._ladder.relieve(self._now_ns or 0, Cause.ADMISSION)

    def _join(self, spec: StreamSpec) -> None:
        stream = self._roster.join(spec)
        if spec.credits:
            self._touched[spec.id] = stream

    def _remove(self, name: str, actions: list[Action]) -> None:
        stream = self._streams.get(name)
        if stream is None:
            actions.append(Alarm(Kind.UNKNOWN_STREAM, name))
            return
        self._roster.retire(stream)
        self._touched.pop(name, None)
        self._give_up_waiting(stream, actions)
        self._forget(stream)
        for place in dict.fromkeys(stream.places):
            place.wait_until_ns = None  # it may have been kept for this stream
            if place.ready and place.free and not place.is_dirty:
                self._mark(place)

    def _forget(self, stream: StreamState) -> None:
        """Drop a stream that is leaving once nothing of it is in flight."""
        if not stream.frames and self._roster.leave(stream):
            self._dispatcher.starving -= stream.miss_run >= RESERVE_AFTER
            self._touched.pop(stream.spec.id, None)

    # --- frames on their way ----------------------------------------------------------

    def _enter(
        self, stream: StreamState, frame: FrameState, actions: list[Action]
    ) -> None:
        """The frame wants to take its next step."""
        keep = self._policy.keep
        if keep is None and stream.spec.mode is Mode.LATEST_ONLY:
            keep = 1
        if keep is not None and len(stream.frames) > keep:
            self._supersede(stream, frame.step, keep, actions)
            if frame.state is State.GONE:
                return
        stateful = stream.spec.steps[frame.step].stateful
        if stateful and self._is_freshest_first(stream) and frame.step:
            self._supersede_all(stream, frame, actions)
        if stateful and not self._may_pass(stream, frame):
            frame.state = State.BLOCKED
            stream.blocked += 1
            self._watch(frame)
        else:
            self._ready(frame)

    def _supersede(
        self, stream: StreamState, step: int, keep: int, actions: list[Action]
    ) -> None:
        """Give up all but the newest of those that wait for the same step."""
        waiting = [
            frame
            for frame in stream.frames.values()
            if frame.step == step and frame.state is not State.RUNNING
        ]
        for frame in waiting[:-keep]:
            self._replace(frame, waiting[-1], actions)

    def _supersede_all(
        self, stream: StreamState, newer: FrameState, actions: list[Action]
    ) -> None:
        """Give up what a fresher frame has overtaken on its way to a stateful step."""
        for frame in list(stream.frames.values()):
            if frame is newer:
                return
            if frame.state is not State.RUNNING and frame.step <= newer.step:
                self._replace(frame, newer, actions)

    def _replace(
        self, frame: FrameState, newer: FrameState, actions: list[Action]
    ) -> None:
        evidence = Evidence(
            left_ns=frame.deadline_ns - (self._now_ns or 0),
            waiting=len(frame.stream.frames),
            passed_over=frame.passed_over,
            newer=newer.sequence,
        )
        self._leave(frame, Fate.DROPPED, Reason.SUPERSEDED, actions, evidence)

    def _is_freshest_first(self, stream: StreamState) -> bool:
        return (
            stream.spec.mode is Mode.FRESHEST_FIRST
            or self._policy.order is by_freshness
        )

    def _may_pass(self, stream: StreamState, frame: FrameState) -> bool:
        """Whether no older frame still has to take the step before it."""
        for other in stream.frames.values():
            if other is frame:
                return True
            if other.step <= frame.step:
                return False
        return True

    def _unblock(self, stream: StreamState) -> None:
        """Make ready what no older frame holds back any more."""
        steps = stream.spec.steps
        oldest_step = len(steps)
        for frame in stream.frames.values():
            if frame.state is State.BLOCKED and (
                not steps[frame.step].stateful or oldest_step > frame.step
            ):
                stream.blocked -= 1
                self._ready(frame)
            if frame.step < oldest_step:
                oldest_step = frame.step

    def _ready(self, frame: FrameState) -> None:
        """Nothing but a slot is missing now."""
        frame.state = State.READY
        resource = frame.stream.places[frame.step]
        if resource.is_planned:
            resource.ready.append(frame)
            if frame.stream.served_ns is None:
                frame.stream.served_ns = frame.release_ns
        else:
            heappush(resource.heap, (self._policy.order(frame), frame))
        if not resource.free:
            self._watch(frame)
        elif not resource.is_dirty:
            self._mark(resource)

    def _mark(self, resource: ResourceState) -> None:
        resource.is_dirty = True
        self._dirty.append(resource)

    def _leave(
        self,
        frame: FrameState,
        fate: Fate | None,
        reason: Reason | None,
        actions: list[Action],
        evidence: Evidence | None = None,
        *,
        in_time: bool = False,
    ) -> None:
        """The one way out."""
        stream = frame.stream
        del stream.frames[frame.sequence]
        stream.queued -= frame.queued
        if frame.state is State.READY:
            resource = stream.places[frame.step]
            if resource.is_planned:
                resource.ready.remove(frame)
            else:
                self._abandoned += 1
                if self._abandoned > MOST_ABANDONED:
                    self._sweep()
        elif frame.state is State.BLOCKED:
            stream.blocked -= 1
        if self._ladder is not None:
            self._report(frame, reason)
        frame.state = State.GONE
        self._book(stream, in_time=in_time)
        actions.append(Leave(stream.spec.id, frame.sequence, fate, reason, evidence))
        if stream.blocked:
            self._unblock(stream)
        if stream.is_leaving:
            self._forget(stream)
        elif stream.spec.credits:
            self._touched[stream.spec.id] = stream

    def _book(self, stream: StreamState, *, in_time: bool) -> None:
        """Book the end of a frame, and whether its stream starves now."""
        starved = stream.miss_run >= RESERVE_AFTER
        stream.outcome(in_time=in_time)
        self._dispatcher.starving += (stream.miss_run >= RESERVE_AFTER) - starved

    def _report(self, frame: FrameState, reason: Reason | None) -> None:
        """Tell the ladder what became of a frame, and on whose account."""
        assert self._ladder is not None
        stream, now_ns = frame.stream, self._now_ns or 0
        culprit: ResourceState | None = None
        if (
            reason is Reason.DOOMED
            and frame.deadline_ns - frame.release_ns >= frame.needed_ns
            and now_ns >= stream.at_risk_ns
            and (stream.spec.contract is None or not stream.margin())
        ):
            culprit = frame.held_by or stream.places[frame.step]
        for place in dict.fromkeys(stream.places):
            self._ladder.left(place, stream, missed=place is culprit)

    def _sweep(self) -> None:
        """Take the jobs of frames that have left off the heaps.

        Those of a band that is never served would pile up there without end.
        """
        for resource in self._resources.values():
            heap = resource.heap
            heap[:] = [item for item in heap if item[1].state is State.READY]
            heapify(heap)
        self._abandoned = 0

    # --- deadlines that pass --------------------------------------------------------

    def _watch(self, frame: FrameState) -> None:
        """Note when the frame, which has to wait, cannot be in time any more."""
        shed = self._policy.shed
        if (
            frame.is_watched
            or shed is Shed.NEVER
            or frame.stream.spec.on_miss is OnMiss.DELIVER_LATE
        ):
            return
        last_ns = frame.deadline_ns
        if shed is Shed.DOOMED and not frame.is_probe:
            for cost in frame.costs[frame.step :]:
                last_ns -= cost.alone.shed_ns
        self._deadlines.add(frame, last_ns)

    def _expire(self, now_ns: int, actions: list[Action]) -> None:
        """Give up what waits and cannot be in time, also while all slots are busy."""
        for frame in self._deadlines.passed(now_ns):
            if frame.state is State.GONE:
                continue  # another one's end took it along
            if self._dispatcher.is_doomed(frame, now_ns):
                self._give_up(frame, now_ns, actions)
            elif now_ns <= frame.deadline_ns:
                self._watch(frame)

    def _await_deadlines(self, actions: list[Action]) -> None:
        """Ask to be woken when the next waiting frame cannot be in time any more."""
        at_ns = self._deadlines.next_ns()
        if at_ns is not None and (self._timer_ns is None or at_ns < self._timer_ns):
            self._timer_ns = at_ns
            actions.append(SetTimer(at_ns))

    # --- starts -----------------------------------------------------------------------

    def _dispatch(self, now_ns: int, actions: list[Action]) -> None:
        """Fill free slots; give up what cannot be in time."""
        dirty = self._dirty
        while dirty:
            resource = dirty.pop()
            resource.is_dirty = False
            if resource.is_planned:
                self._dispatch_planned(resource, now_ns, actions)
            else:
                self._dispatch_ordered(resource, now_ns, actions)

    def _dispatch_planned(
        self, resource: ResourceState, now_ns: int, actions: list[Action]
    ) -> None:
        while resource.free and resource.ready:
            doomed, batch, wake_ns = self._dispatcher.decide(resource, now_ns)
            for frame in tuple(doomed):
                self._give_up(frame, now_ns, actions)
            if not batch:
                if wake_ns is not None and (
                    self._timer_ns is None or wake_ns < self._timer_ns
                ):
                    self._timer_ns = wake_ns
                    actions.append(SetTimer(wake_ns))
                break
            if len(batch) == len(resource.ready):
                resource.ready = []
            elif len(batch) == 1:
                resource.ready.remove(batch[0])
            else:
                resource.ready = [f for f in resource.ready if f not in batch]
            self._start(resource, batch, now_ns, actions)
        for frame in resource.ready:
            self._watch(frame)

    def _dispatch_ordered(
        self, resource: ResourceState, now_ns: int, actions: list[Action]
    ) -> None:
        heap = resource.heap
        sheds = self._policy.shed is not Shed.NEVER
        while heap and resource.free:
            frame = heappop(heap)[1]
            if frame.state is not State.READY:
                self._abandoned -= 1
            elif sheds and self._dispatcher.is_doomed(frame, now_ns):
                frame.state = State.MOVING  # its job is off the heap
                self._give_up(frame, now_ns, actions)
            else:
                self._start(resource, (frame,), now_ns, actions)
        for _, frame in heap:
            if frame.state is State.READY:
                self._watch(frame)

    def _give_up(self, frame: FrameState, now_ns: int, actions: list[Action]) -> None:
        """A frame will not be in time."""
        evidence = Evidence(
            frame.needed_ns,
            frame.deadline_ns - now_ns,
            len(frame.stream.frames),
            frame.passed_over,
        )
        doomed = self._policy.shed is Shed.DOOMED
        reason = Reason.DOOMED if doomed else Reason.EXPIRED
        self._leave(frame, Fate.DROPPED, reason, actions, evidence)

    def _start(
        self,
        resource: ResourceState,
        batch: Sequence[FrameState],
        now_ns: int,
        actions: list[Action],
    ) -> None:
        """Put a batch on a free slot."""
        latest_ns: int | None = None
        jobs: list[Job] = []
        sheds = self._policy.shed
        for frame in batch:
            stream = frame.stream
            spec, step = stream.spec, frame.step
            if spec.on_miss is OnMiss.DROP and sheds is not Shed.NEVER:
                limit_ns = frame.deadline_ns
                if sheds is Shed.DOOMED and not frame.is_probe:
                    limit_ns -= frame.needed_ns
                if latest_ns is None or limit_ns < latest_ns:
                    latest_ns = limit_ns
            frame.state = State.RUNNING
            frame.is_watched = False
            if frame.queued and step >= spec.queued_steps - 1:
                frame.queued = False
                stream.queued -= 1
                if spec.credits and not stream.is_leaving:
                    self._touched[spec.id] = stream
            if resource.is_planned:
                stream.served_ns = now_ns
                stream.refused_since_ns = stream.best_price = None
            frame.batch = batch[0].arrival
            frame.job = job = Job(
                spec.id,
                frame.sequence,
                step,
                resource.name,
                frame.rung,
                frame.track_only,
                frame.release_ns,
                frame.deadline_ns,
            )
            jobs.append(job)
        first = batch[0]
        cost_ns = first.costs[first.step].plan_ns(len(batch))
        resource.free -= 1
        resource.running[first.arrival] = now_ns + cost_ns
        resource.sizes[first.arrival] = len(batch)
        resource.wait_until_ns = None
        actions.append(Start(tuple(jobs), latest_ns))

    def _grant(self, actions: list[Action]) -> None:
        """Turn free room into credits, for sources that wait for them."""
        touched, self._touched = self._touched, {}
        if self._stopped:
            return
        for name, stream in touched.items():
            if stream.is_leaving:
                continue
            new = stream.room() - stream.outstanding_credits
            if new > 0:
                stream.outstanding_credits += new
                actions.append(Grant(name, new))
