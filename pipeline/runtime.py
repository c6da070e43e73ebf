"""Carries the scheduler's decisions out: threads, sources, stages and the books.

Frames enter in one place (:meth:`Runtime._arrive`) and leave in one place
(:meth:`Runtime._leave`). Everything that decides is in ``scheduler``; everything that
works is in a stage. What is left here is waiting, calling and keeping count.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from threading import Event, Lock, Thread, current_thread

from edgepipe.errors import StageError, StoppedError
from edgepipe.pipeline.frame import Frame
from edgepipe.pipeline.ledger import Account, Ledger
from edgepipe.pipeline.notices import Notices
from edgepipe.pipeline.pace import Pace
from edgepipe.pipeline.pump import Pump
from edgepipe.pipeline.source import Arrival, Source
from edgepipe.pipeline.stage import FrameError, Stage
from edgepipe.pipeline.timer import Timer
from edgepipe.scheduler.core import Scheduler
from edgepipe.scheduler.events import (
    Action,
    ClockChanged,
    FrameArrived,
    Grant,
    JobDone,
    JobFailed,
    Leave,
    Redated,
    SetTimer,
    Start,
    Stop,
    TimerFired,
)
from edgepipe.scheduler.events import Event as CoreEvent
from edgepipe.scheduler.fates import Fate, Reason
from edgepipe.scheduler.job import Job, Resource, StreamSpec
from edgepipe.telemetry.clock import Clock
from edgepipe.telemetry.records import FrameRecord, SourceRecord, Span

log = logging.getLogger("edgepipe")

FAILURES = frozenset({Reason.STAGE_ERROR, Reason.BAD_OUTPUT, Reason.HUNG})
"""Reasons for which something broke; all others are drops, made on purpose."""


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """One stream, ready to run. The runtime closes nothing: its maker does."""

    spec: StreamSpec
    source: Source
    stages: tuple[tuple[Stage, ...], ...]
    """For each of the spec's steps, the stages that it runs."""
    deadline_ns: int
    """Time allowed from capture to delivery."""
    pace: Pace

    def __post_init__(self) -> None:
        """Refuse a plan that the runtime cannot carry out."""
        if len(self.stages) != len(self.spec.steps) or not all(self.stages):
            raise ValueError(f"stream {self.spec.id!r}: every step needs its stages")
        for step in self.spec.steps:
            if step.batch_max > 1:
                raise ValueError(
                    f"stream {self.spec.id!r}: step {step.name!r} asks for batches of"
                    f" {step.batch_max}, but a stage takes one frame at a time"
                )


class _Travelling:
    """A frame in flight with what was recorded of it so far."""

    __slots__ = ("frame", "ready_ns", "short_ns", "spans")

    def __init__(self, frame: Frame, now_ns: int) -> None:
        self.frame = frame
        self.ready_ns = now_ns
        """When the next stage could begin."""
        self.spans: list[Span] = []
        self.short_ns = 0
        """How far past its latest start or its deadline a worker found it."""

    def redate(self, capture_ns: int, deadline_ns: int) -> None:
        """Put the times right, before any stage has seen the frame.

        It keeps its place inside or outside the warm-up, where it is booked.
        """
        self.frame = self.frame.with_changes(
            capture_ns=capture_ns, deadline_ns=deadline_ns
        )

    def record(self, leave: Leave, fate: Fate, done_ns: int) -> FrameRecord:
        """What became of it, for whoever keeps records."""
        frame, spans, found = self.frame, self.spans, self.frame.detections
        evidence = leave.evidence
        return FrameRecord(
            frame.stream,
            frame.sequence,
            frame.capture_ns,
            frame.pts_ns,
            frame.deadline_ns,
            fate.value,
            leave.reason.value if leave.reason is not None else "",
            spans[-1].stage if spans else "",
            done_ns,
            frame.warm_up,
            frame.variant,
            frame.batch,
            len(found) if found is not None else 0,
            found.truncated if found is not None else 0,
            tuple(spans),
            leave.short_ns if evidence is not None else self.short_ns,
            evidence.passed_over if evidence is not None else 0,
            evidence.newer if evidence is not None else None,
        )


class _Stream:
    """What the runtime keeps for one stream while it runs."""

    def __init__(self, plan: StreamPlan, pump: Pump) -> None:
        self.plan = plan
        self.pump = pump
        self.frames: dict[int, _Travelling] = {}
        self.ended: SourceRecord | None = None


class Runtime:
    """Runs streams on worker threads, one thread for each slot of each resource.

    ``on_record`` is called once for every frame that leaves, by whichever thread made
    it leave, under the runtime's lock: it must be quick. If it raises, that is counted.
    """

    def __init__(
        self,
        plans: Sequence[StreamPlan],
        scheduler: Scheduler,
        resources: Sequence[Resource],
        clock: Clock,
        on_record: Callable[[FrameRecord], None],
    ) -> None:
        self._sources_stop = Event()
        self._streams = {
            plan.spec.id: _Stream(plan, self._make_pump(plan, clock)) for plan in plans
        }
        self._resources = {resource.name: resource.slots for resource in resources}
        self._scheduler = scheduler
        self._clock = clock
        self._on_record = on_record
        self._ledger = Ledger(list(self._streams))
        self._lock = Lock()
        self._starts: dict[str, SimpleQueue[Start | None]] = {
            name: SimpleQueue() for name in self._resources
        }
        self._idle = Event()
        self._closed = False
        self._stuck: list[str] = []
        self._measure_from_ns = 0
        self._until_ns: int | None = None
        self._crash: BaseException | None = None
        self._lost_records = 0
        self._recording: Thread | None = None
        self._stage_errors: dict[str, tuple[int, str]] = {}
        self._notices = Notices()
        self._timer = Timer(clock, self._timer_fired)
        # Daemons: a stage stuck in native code must not keep the process alive after
        # stop() has named it.
        self._workers = [
            Thread(
                target=self._guard,
                args=(self._work, resource, worker),
                name=f"edgepipe-{resource}-{worker}",
                daemon=True,
            )
            for resource, slots in self._resources.items()
            for worker in range(slots)
        ]
        self._pumps = [
            Thread(
                target=self._guard,
                args=(self._feed, stream),
                name=f"edgepipe-source-{name}",
                daemon=True,
            )
            for name, stream in self._streams.items()
        ]
        # Started when the scheduler first asks for the time: most runs never do.
        self._timer_thread = Thread(
            target=self._guard,
            args=(self._timer.run,),
            name="edgepipe-timer",
            daemon=True,
        )

    def _make_pump(self, plan: StreamPlan, clock: Clock) -> Pump:
        spec = plan.spec
        return Pump(
            spec.id,
            plan.source,
            plan.pace,
            clock,
            self._sources_stop,
            partial(self._arrive, spec.id),
            waits=spec.credits,
        )

    # --- life cycle ---------------------------------------------------------------

    def start(self, warm_up_ns: int = 0, measure_ns: int | None = None) -> None:
        """Start all threads.

        Frames captured in the first ``warm_up_ns`` have books of their own. Sources are
        stopped at the first frame captured ``measure_ns`` after that.
        """
        if self._closed:
            raise StoppedError("the pipeline has been stopped and cannot start again")
        self._measure_from_ns = self._clock.now_ns() + warm_up_ns
        if measure_ns is not None:
            self._until_ns = self._measure_from_ns + measure_ns
        for grant in self._scheduler.initial_grants():
            self._streams[grant.stream].pump.grant(grant.credits)
        for thread in (*self._workers, *self._pumps):
            thread.start()

    @property
    def measure_from_ns(self) -> int:
        """Frames captured before this moment are warm-up."""
        return self._measure_from_ns

    def drain(self) -> None:
        """Ask the sources to stop; frames in flight go on to their ends."""
        self._sources_stop.set()
        for stream in self._streams.values():
            stream.pump.wake()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until all sources have ended and no frame is in flight.

        Raises:
            Exception: A thread of the runtime itself failed; that is a bug.
        """
        idle = self._idle.wait(timeout_s)
        if self._crash is not None:
            raise self._crash
        return idle

    def stop(self, within_s: float = 5.0) -> list[str]:
        """Stop now: what waits is dropped, what runs may finish for ``within_s``.

        Safe to call twice, from any thread and in any state; from ``on_record`` it
        returns at once and is carried out by another thread. Returns the names of
        threads that were still stuck in a stage or source; their frames count as
        failed with the reason ``hung``.
        """
        if self._closed:
            return self._stuck
        if self._recording is current_thread():
            # on_record runs under the lock that stopping needs.
            Thread(target=self.stop, args=(within_s,), daemon=True).start()
            return []
        give_up_ns = self._clock.now_ns() + int(within_s * 1e9)
        self.drain()
        self._tell(Stop())
        self._timer.stop()
        for resource, slots in self._resources.items():
            for _ in range(slots):
                self._starts[resource].put(None)
        self._stuck = stuck = [
            thread.name
            for thread in (*self._pumps, *self._workers, self._timer_thread)
            if not self._joined(thread, give_up_ns)
        ]
        # Without a stuck thread, what is left is the frame whose stage called stop().
        fate, reason = (
            (Fate.FAILED, Reason.HUNG) if stuck else (Fate.DROPPED, Reason.SHUTDOWN)
        )
        with self._lock:
            self._closed = True
            now_ns = self._clock.now_ns()
            for name, stream in self._streams.items():
                for sequence in list(stream.frames):
                    self._leave(now_ns, Leave(name, sequence, fate, reason))
        self._idle.set()
        return stuck

    def _joined(self, thread: Thread, give_up_ns: int) -> bool:
        if thread is current_thread() or thread.ident is None:
            return True  # a stage called stop(), or start() never came this far
        thread.join(max(0.0, (give_up_ns - self._clock.now_ns()) / 1e9))
        return not thread.is_alive()

    def clock_changed(self, resource: str, permille: int) -> None:
        """The resource's hardware clock has changed (DVFS, throttling).

        Args:
            resource: Whose clock it is.
            permille: Thousandths of the clock at which its steps were measured.

        Raises:
            KeyError: There is no such resource.
        """
        if resource not in self._resources:
            raise KeyError(resource)
        self._tell(ClockChanged(resource, permille))

    # --- what is known ------------------------------------------------------------

    def account(self, stream: str, *, warm_up: bool = False) -> Account:
        """One stream's books now."""
        with self._lock:
            return self._ledger.account(stream, warm_up=warm_up)

    @property
    def balanced(self) -> bool:
        """Whether every captured frame is accounted for at this instant."""
        with self._lock:
            return self._ledger.balanced

    def source_records(self) -> list[SourceRecord]:
        """How the sources ended; those that still run are missing."""
        return [s.ended for s in self._streams.values() if s.ended is not None]

    def stage_errors(self) -> dict[str, tuple[int, str]]:
        """For each stage that raised: how often, and the first error in words."""
        with self._lock:
            return dict(self._stage_errors)

    @property
    def alarms(self) -> dict[tuple[str, str], int]:
        """What should not have happened: how often, by kind and stream or resource."""
        with self._lock:
            return dict(self._notices.alarms)

    @property
    def rung_changes(self) -> dict[tuple[str, str], int]:
        """Moves on the degradation ladder: how many, by stream and cause."""
        with self._lock:
            return dict(self._notices.rung_changes)

    @property
    def lost_records(self) -> int:
        """Records that ``on_record`` could not take."""
        return self._lost_records

    # --- threads --------------------------------------------------------------------

    def _guard(self, body: Callable[..., None], *args: object) -> None:
        """Top of every thread: a bug in the runtime ends the run, loudly."""
        try:
            body(*args)
        except BaseException as error:
            log.exception("%s failed", current_thread().name)
            self._crash = error
            self.drain()
            self._idle.set()

    def _feed(self, stream: _Stream) -> None:
        """Run one source's loop and book its end."""
        ended = stream.pump.run(self._until_ns)
        with self._lock:
            stream.ended = ended
            self._check_idle()

    def _work(self, resource: str, worker: int) -> None:
        """Run jobs of one resource until told to stop."""
        queue = self._starts[resource]
        start: Start | None = None
        while True:
            if start is None:
                start = queue.get()
                if start is None:
                    return
            # The next job of this resource is taken over at once: no hand-off.
            start = self._tell(self._run(start, worker), resource)

    def _timer_fired(self) -> None:
        self._tell(TimerFired())

    def _run(self, start: Start, worker: int) -> CoreEvent:
        """Take one frame through one step."""
        jobs, latest_start_ns = start.jobs, start.latest_start_ns
        (job,) = jobs  # StreamPlan refuses steps that ask for batches
        clock = self._clock
        stream = self._streams[job.stream]
        travelling = stream.frames.get(job.sequence)
        if travelling is None:  # stop() gave up on it; nobody will look at the answer
            return JobFailed(jobs, Fate.FAILED, Reason.HUNG)
        begun_ns = before_ns = clock.now_ns()
        if latest_start_ns is not None and begun_ns > latest_start_ns:
            travelling.short_ns = begun_ns - latest_start_ns
            return JobFailed(jobs, Fate.DROPPED, Reason.DOOMED)
        frame, ready_ns = travelling.frame, travelling.ready_ns
        for stage in stream.plan.stages[job.step]:
            error: Exception | None = None
            try:
                frame = stage.process(frame, worker)
            except Exception as caught:  # noqa: BLE001 - one frame fails, not all
                error = caught
            after_ns = clock.now_ns()
            travelling.spans.append(
                Span(stage.name, ready_ns, before_ns, after_ns, job.resource, worker)
            )
            travelling.frame = frame
            if error is not None:
                travelling.short_ns = max(0, after_ns - frame.deadline_ns)
                return self._failed(job, stage, error)
            ready_ns = before_ns = after_ns
        travelling.ready_ns = ready_ns
        return JobDone(jobs, ready_ns - begun_ns)

    def _failed(self, job: Job, stage: Stage, error: Exception) -> JobFailed:
        """Turn what a stage raised into the frame's fate."""
        if isinstance(error, FrameError):
            reason = error.reason
            if reason not in FAILURES:
                return JobFailed((job,), Fate.DROPPED, reason)
        else:
            reason = Reason.STAGE_ERROR
        with self._lock:
            count, first = self._stage_errors.get(stage.name, (0, ""))
            self._stage_errors[stage.name] = (count + 1, first or repr(error))
        if count == 0:
            wrapped = StageError(stage.name, job.stream, job.sequence)
            wrapped.__cause__ = error
            log.error("%s", wrapped, exc_info=wrapped)
        return JobFailed((job,), Fate.FAILED, reason)

    # --- the way in, the decisions, the way out ---------------------------------------

    def _arrive(self, name: str, arrival: Arrival, capture_ns: int) -> None:
        """The one way in: a captured frame is booked and shown to the scheduler."""
        stream = self._streams[name]
        frame = Frame(
            name,
            arrival.index,
            capture_ns,
            capture_ns + stream.plan.deadline_ns,
            arrival.pts_ns,
            warm_up=capture_ns < self._measure_from_ns,
        )
        event = FrameArrived(name, arrival.index, capture_ns, frame.deadline_ns)
        with self._lock:
            if self._closed:
                return
            now_ns = self._clock.now_ns()
            self._ledger.captured(name, frame.sequence, warm_up=frame.warm_up)
            stream.frames[frame.sequence] = _Travelling(frame, now_ns)
            self._carry_out(now_ns, self._scheduler.handle(now_ns, event), None)

    def _tell(self, event: CoreEvent, own: str | None = None) -> Start | None:
        """Tell the scheduler what happened, and do what it decides.

        Returns a start for the resource ``own``, if there is one.
        """
        with self._lock:
            if self._closed:
                return None
            now_ns = self._clock.now_ns()
            return self._carry_out(now_ns, self._scheduler.handle(now_ns, event), own)

    def _carry_out(
        self, now_ns: int, actions: Sequence[Action], own: str | None
    ) -> Start | None:
        """Do what was decided; return a start for the resource ``own``, if any."""
        mine: Start | None = None
        for action in actions:
            if isinstance(action, Start):
                resource = action.jobs[0].resource
                if mine is None and resource == own:
                    mine = action
                else:
                    self._starts[resource].put(action)
            elif isinstance(action, Leave):
                self._leave(now_ns, action)
            elif isinstance(action, Grant):
                self._streams[action.stream].pump.grant(action.credits)
            elif isinstance(action, SetTimer):
                self._set_timer(action.at_ns)
            elif isinstance(action, Redated):
                travelling = self._streams[action.stream].frames[action.sequence]
                travelling.redate(action.capture_ns, action.deadline_ns)
            else:
                self._notices.take(action)
        return mine

    def _set_timer(self, at_ns: int) -> None:
        self._timer.set(at_ns)
        if self._timer_thread.ident is None:
            self._timer_thread.start()

    def _leave(self, now_ns: int, leave: Leave) -> None:
        """The one way out: buffers go back, the books and the record are written."""
        stream = self._streams[leave.stream]
        travelling = stream.frames.pop(leave.sequence)
        frame = travelling.frame
        fate, done_ns = leave.fate, now_ns
        if fate is None:
            delivered_ns = frame.delivered_ns
            if delivered_ns is None:
                delivered_ns = travelling.spans[-1].end_ns
            done_ns = delivered_ns
            fate = Fate.COMPLETED if done_ns <= frame.deadline_ns else Fate.LATE
        if frame.tensor is not None and not self._closed:
            frame.tensor.give_back()  # after a stop a stage may still be using it
        self._ledger.fate(
            leave.stream, leave.sequence, fate, leave.reason, warm_up=frame.warm_up
        )
        self._keep(travelling.record(leave, fate, done_ns))
        self._check_idle()

    def _keep(self, record: FrameRecord) -> None:
        """Hand a record over; whoever takes it may fail, the pipeline goes on."""
        self._recording = current_thread()
        try:
            self._on_record(record)
        except Exception:  # telemetry's edge
            self._lost_records += 1
            if self._lost_records == 1:
                log.exception("a frame record was lost; more will only be counted")
        self._recording = None

    def _check_idle(self) -> None:
        if all(s.ended is not None and not s.frames for s in self._streams.values()):
            self._idle.set()
