"""A world around the scheduler core that keeps its own books and believes nothing.

It has nothing in common with the simulator. Whoever drives it decides what happens and
when; it tells the core, follows every action, and fails at the first that no scheduler
may take. Whether an allowed action was also a good one, the reference rules judge.
"""

from edgepipe.scheduler.core import Scheduler
from edgepipe.scheduler.events import (
    Action,
    Admitted,
    Alarm,
    ClockChanged,
    Event,
    FrameArrived,
    Grant,
    JobDone,
    JobFailed,
    Kind,
    Leave,
    Redated,
    Refused,
    RungChanged,
    SetTimer,
    Start,
    Stop,
    StreamAdded,
    StreamRemoved,
    TimerFired,
)
from edgepipe.scheduler.fates import Fate, Reason
from edgepipe.scheduler.job import Job, Resource, StreamSpec
from edgepipe.scheduler.policy import Policy
from tests.scheduler import reference_rules as rules
from tests.scheduler.reference_books import Books, RefBatch, RefFrame

USUAL_DEADLINE_NS = 50_000_000
"""Of frames whose stream leaves the deadline to them."""
NOT_TAKEN = {Reason.STALE, Reason.RATE_CAP, Reason.OVERFLOW, Reason.SHUTDOWN}
"""Why a new frame is refused before it counts."""
REMEMBERED = 8
"""Jobs that have ended, to be reported a second time."""

Log = list[tuple[int, Event, list[Action]]]
"""What the core was told, when, and what it answered."""


class World:
    """Tells one core what happens, follows what it does, and compares."""

    def __init__(
        self, streams: list[StreamSpec], resources: list[Resource], policy: Policy
    ) -> None:
        self.books = Books(resources, policy)
        self.core = Scheduler(streams, resources, policy)
        self.log: Log = []
        self.ended: list[tuple[Job, ...]] = []
        """Jobs that have ended, the newest last."""
        for spec in streams:
            self.books.join(spec)
        for grant in self.core.initial_grants():
            self._grant(grant)

    @property
    def now_ns(self) -> int:
        """As the core must see it."""
        return self.books.now_ns

    def tell(self, at_ns: int, event: Event) -> list[Action]:
        """Tell the core, follow its actions and look at everything afterwards."""
        books = self.books
        went_back = bool(self.log) and at_ns < books.now_ns
        books.now_ns = max(books.now_ns, at_ns) if self.log else at_ns
        for frame in books.all_frames():
            frame.needed_before = frame.needs_ns()
        actions = self.core.handle(at_ns, event)
        self.log.append((at_ns, event, actions))
        alarms = [action.kind for action in actions if isinstance(action, Alarm)]
        if went_back:
            assert alarms[:1] == [Kind.TIME_WENT_BACK], "time that falls is alarmed"
            del alarms[0]
        assert Kind.TIME_WENT_BACK not in alarms, "time did not fall"
        _Follower(self, event, actions, alarms).run()
        rules.judge_state(books)
        self._compare()
        return actions

    def arrive(self, stream: str, sequence: int, at_ns: int, capture_ns: int) -> None:
        """A frame comes; its deadline is what its stream allows, by its stamp."""
        found = self.books.streams.get(stream)
        allowed_ns = found.spec.deadline_ns if found else 0
        deadline_ns = capture_ns + (allowed_ns or USUAL_DEADLINE_NS)
        self.tell(at_ns, FrameArrived(stream, sequence, capture_ns, deadline_ns))

    def finish(self, batch: RefBatch, at_ns: int) -> None:
        """A batch ends well. Its service time is what has passed since its start."""
        self.tell(at_ns, JobDone(batch.jobs, max(0, at_ns - batch.start_ns)))

    def drain(self) -> None:
        """Stop, and await what runs: nothing may be left."""
        books = self.books
        self.tell(books.now_ns, Stop())
        while books.batches:
            self.finish(books.batches[0], books.now_ns + 1_000_000)
        assert not list(books.all_frames()), "a drained scheduler holds no frame"
        assert books.captured == books.left, "every frame has one fate"
        after = self.tell(books.now_ns + 1_000_000, TimerFired())
        others = [action for action in after if not isinstance(action, RungChanged)]
        assert others == [], "nothing is left that a timer could wake"

    def _grant(self, grant: Grant) -> None:
        stream = self.books.streams.get(grant.stream)
        assert stream is not None, "credits go to streams that are there"
        assert stream.spec.credits, "credits go to sources that wait for them"
        assert grant.credits > 0
        stream.credits += grant.credits

    def _compare(self) -> None:
        """The core's own figures are those of the books."""
        books = self.books
        in_flight = sum(1 for _ in books.all_frames())
        assert books.captured == books.left + in_flight, "no frame is lost"
        for name, stream in books.streams.items():
            assert self.core.in_flight(name) == len(stream.frames)
        rules.judge_memory(books, self.core.jobs_waiting())

    def take(self, event: Event, action: Action) -> None:
        """Follow an action that is about no frame."""
        books = self.books
        if isinstance(action, Grant):
            self._grant(action)
        elif isinstance(action, SetTimer):
            rules.judge_timer(books, action, event)
            books.timer_ns = action.at_ns
        elif isinstance(action, RungChanged):
            stream = books.streams[action.stream]
            rules.judge_move(books, stream, action)
            stream.rung = action.rung
        elif isinstance(action, Admitted | Refused):
            assert isinstance(event, StreamAdded)
            assert event.spec.id == action.stream
            known = {stream.spec.id for stream in books.all_streams()}
            places = {step.resource for step in event.spec.steps}
            if isinstance(action, Admitted):
                assert event.spec.id not in known, "an id is given once at a time"
                assert places <= books.resources.keys()
                books.join(event.spec)


class _Follower:
    """Takes one event and the actions that answered it into the books, in order."""

    def __init__(
        self, world: World, event: Event, actions: list[Action], alarms: list[Kind]
    ) -> None:
        self._world = world
        self._books = world.books
        self._event = event
        self._actions = actions
        self._alarms = alarms
        self._ended: list[RefFrame] = []
        """Frames whose job the event ended."""
        self._failed: dict[int, tuple[Fate, Reason]] = {}
        """Those of them, by identity, that go no further, and why."""
        self._newcomer: RefFrame | None = None

    def run(self) -> None:
        """Follow everything."""
        self._take_event()
        for action in self._actions:
            rules.judge_figures(action)
            if isinstance(action, Start):
                self._start(action)
            elif isinstance(action, Leave):
                self._leave(action)
            else:
                self._world.take(self._event, action)
        assert not [
            frame
            for frame in self._ended
            if frame.step == len(frame.stream.spec.steps) or id(frame) in self._failed
        ], "who took the last step, or failed, has left"
        if self._newcomer is not None:
            self._newcomer.stream.admitted_ns.append(self._books.now_ns)
        self._books.leaving = [s for s in self._books.leaving if s.frames]

    # --- the event --------------------------------------------------------------

    def _take_event(self) -> None:
        books, event = self._books, self._event
        if isinstance(event, FrameArrived):
            self._arrived(event)
        elif isinstance(event, JobDone | JobFailed):
            self._job_ended(event)
        elif isinstance(event, TimerFired):
            books.timer_ns = None
        elif isinstance(event, ClockChanged):
            is_known = event.resource in books.resources
            assert self._alarms == ([] if is_known else [Kind.UNKNOWN_RESOURCE])
            if is_known:
                books.set_clock(event.resource, event.permille)
        elif isinstance(event, StreamRemoved):
            stream = books.streams.pop(event.stream, None)
            is_known = stream is not None or any(
                one.spec.id == event.stream for one in books.leaving
            )
            assert (Kind.UNKNOWN_STREAM in self._alarms) == (not is_known)
            if stream is not None:
                books.leaving.append(stream)
                # A slot that was kept for it is looked at when the timer fires.
                for step in stream.spec.steps:
                    books.starved_ns[step.resource] = books.now_ns
        elif isinstance(event, Stop):
            books.stopped = True

    def _arrived(self, event: FrameArrived) -> None:
        books = self._books
        stream = books.streams.get(event.stream)
        if stream is None:
            books.captured += 1
            assert self._alarms == [Kind.UNKNOWN_STREAM]
            return
        if event.sequence <= stream.last_sequence:
            assert self._alarms == [Kind.REPEATED_SEQUENCE]
            self._changes_nothing()
            return
        books.captured += 1
        stream.last_sequence = event.sequence
        if stream.spec.credits:
            stream.credits -= 1
        self._newcomer = frame = RefFrame(
            stream,
            event.sequence,
            event.deadline_ns,
            len(self._world.log),
            books.now_ns,
        )
        for action in self._actions:
            if isinstance(action, Redated):
                rules.judge_redating(books, frame, action)
                frame.deadline_ns = action.deadline_ns
        every = stream.spec.ladder[stream.rung].infer_every
        if stream.taken % every:
            frame.track_only = True
            frame.skip()
        refusal = next(
            (
                action.reason
                for action in self._actions
                if isinstance(action, Leave)
                and (action.stream, action.sequence) == event[:2]
            ),
            None,
        )
        stream.taken += refusal not in NOT_TAKEN
        stream.frames[event.sequence] = frame

    def _job_ended(self, event: JobDone | JobFailed) -> None:
        books = self._books
        batch = next((b for b in books.batches if b.jobs == event.jobs), None)
        if batch is None:
            assert self._alarms == [Kind.UNKNOWN_JOB], "no such job runs"
            self._changes_nothing()
            return
        assert self._alarms == []
        books.batches.remove(batch)
        self._world.ended = [*self._world.ended[1 - REMEMBERED :], batch.jobs]
        if isinstance(event, JobDone):
            job = event.jobs[0]
            cost = batch.frames[0].stream.costs[job.rung][job.step]
            cost.observe(len(event.jobs), event.service_ns)
        failed = dict[Job, tuple[Fate, Reason]]()
        if isinstance(event, JobFailed):
            failed = dict.fromkeys(event.jobs, (event.fate, event.reason))
        else:
            failed = {job: (fate, reason) for job, fate, reason in event.failed}
        for frame, job in zip(batch.frames, batch.jobs, strict=True):
            frame.job = None
            frame.release_ns = books.now_ns
            self._ended.append(frame)
            if job in failed:
                self._failed[id(frame)] = failed[job]
            else:
                frame.step += 1
                frame.skip()

    def _changes_nothing(self) -> None:
        """Nothing follows but from what was due at that moment anyway."""
        others = [a for a in self._actions if not isinstance(a, Alarm)]
        was_due = any(isinstance(a, Leave | RungChanged) for a in others)
        assert was_due or not others

    # --- the actions ------------------------------------------------------------

    def _start(self, start: Start) -> None:
        books = self._books
        assert start.jobs, "an empty batch is none"
        frames = [self._startable(job) for job in start.jobs]
        assert len({id(frame) for frame in frames}) == len(frames), "no frame twice"
        assert books.free_slots(start.jobs[0].resource) > 0, "no slot is taken twice"
        rules.judge_batch(start, frames)
        rules.judge_start(books, start, frames)
        for frame, job in zip(frames, start.jobs, strict=True):
            stream = frame.stream
            frame.job = job
            if job.step >= stream.spec.queued_steps - 1:
                frame.queued = False
            if stream.spec.steps[job.step].stateful:
                last = stream.passed.get(job.step, -1)
                assert last < job.sequence, "a stateful step sees frames in order"
                stream.passed[job.step] = job.sequence
        books.batches.append(RefBatch(start.jobs, frames, books.now_ns))

    def _startable(self, job: Job) -> RefFrame:
        books = self._books
        assert not books.stopped, "nothing begins after a stop"
        stream = books.streams.get(job.stream)
        assert stream is not None, "no job of a stream that has gone begins"
        frame = stream.frames.get(job.sequence)
        assert frame is not None, "a frame that has left takes no step"
        assert frame.job is None, "a frame is worked on once at a time"
        assert job.track_only == frame.track_only
        assert job.step == frame.step, "steps are taken in order"
        assert job.resource == frame.resource
        assert job.release_ns == frame.release_ns <= books.now_ns, "it is ready"
        assert job.deadline_ns == frame.deadline_ns
        assert 0 <= job.rung < len(stream.spec.ladder), "a rung of its ladder"
        assert not frame.is_blocked, "a stateful step sees frames in order"
        return frame

    def _leave(self, leave: Leave) -> None:
        books, event = self._books, self._event
        frame = self._find(leave)
        books.left += 1
        if frame is None:
            return
        assert frame.job is None, "what runs is never taken away"
        has_ended = frame in self._ended
        if id(frame) in self._failed:
            assert (leave.fate, leave.reason) == self._failed[id(frame)]
        elif frame.step == len(frame.stream.spec.steps):
            assert has_ended or frame is self._newcomer
            assert leave.fate is None, "whoever delivers it knows its fate"
        else:
            assert leave.fate is Fate.DROPPED
            rules.judge_drop(books, leave, frame, is_new=frame is self._newcomer)
        if has_ended:
            self._ended.remove(frame)
        ended_ns = event.delivered_ns if isinstance(event, JobDone) else None
        in_time = (ended_ns or books.now_ns) <= frame.deadline_ns and not leave.fate
        frame.stream.miss_run = 0 if in_time else frame.stream.miss_run + 1
        if frame is self._newcomer:
            self._newcomer = None
        del frame.stream.frames[frame.sequence]

    def _find(self, leave: Leave) -> RefFrame | None:
        """The frame that leaves; None for one of a stream that is not known."""
        books, event = self._books, self._event
        for stream in books.all_streams():
            if stream.spec.id == leave.stream and leave.sequence in stream.frames:
                return stream.frames[leave.sequence]
        assert isinstance(event, FrameArrived), f"{leave} of a frame that is not here"
        assert (event.stream, event.sequence) == (leave.stream, leave.sequence)
        assert event.stream not in books.streams
        return None
