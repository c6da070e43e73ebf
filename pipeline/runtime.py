"""Carries the scheduler's decisions out: threads, sources, stages and the books.

Frames enter in one place (:meth:`Runtime._enter`) and leave in one place
(:meth:`Runtime._leave`). Everything that decides is in ``scheduler``; everything that
works is in a stage. What is left here is waiting, calling and keeping count.
"""

import logging
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from threading import Event, Lock, Thread, current_thread

from edgepipe.errors import StoppedError
from edgepipe.pipeline.crew import Crew
from edgepipe.pipeline.execute import Executor
from edgepipe.pipeline.forks import tell_copies
from edgepipe.pipeline.frame import Frame
from edgepipe.pipeline.ledger import Account, Ledger
from edgepipe.pipeline.notices import Befallen, Notices, RungMove
from edgepipe.pipeline.pace import Epoch
from edgepipe.pipeline.placement import Placement
from edgepipe.pipeline.pump import Pump
from edgepipe.pipeline.source import Arrival, SourceStatus, Watchable
from edgepipe.pipeline.source_events import SourceEvent
from edgepipe.pipeline.streams import Depths, StreamPlan, StreamRun, Travelling
from edgepipe.pipeline.timer import Timer
from edgepipe.pipeline.watchdog import HANG_AFTER_NS, Watchdog
from edgepipe.pipeline.worker import Worker
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
from edgepipe.scheduler.job import Resource
from edgepipe.telemetry.clock import Clock
from edgepipe.telemetry.records import FrameRecord, SourceRecord

__all__ = ["Runtime", "StreamPlan"]

log = logging.getLogger("edgepipe")

NOWHERE: Mapping[str, Placement] = {}


class Runtime:
    """Runs streams on worker threads, one thread for each slot of each resource.

    ``on_record`` is called once for every frame that leaves, by whichever thread made
    it leave, under the runtime's lock: it must be quick. If it raises, that is counted.

    Args:
        plans: The streams.
        scheduler: Decides; it was made for these streams and resources.
        resources: What jobs run on.
        clock: The time.
        on_record: Takes each frame's record.
        hang_after_ns: A stage that has not come back for so long hangs: its frame is
            failed and its thread replaced. One that is known to be slow gets longer.
        placements: Where the threads of a resource may run, by its name.
    """

    def __init__(
        self,
        plans: Sequence[StreamPlan],
        scheduler: Scheduler,
        resources: Sequence[Resource],
        clock: Clock,
        on_record: Callable[[FrameRecord], None],
        *,
        hang_after_ns: int = HANG_AFTER_NS,
        placements: Mapping[str, Placement] = NOWHERE,
    ) -> None:
        self._sources_stop = Event()
        self._epochs: dict[str, Epoch] = {}
        """Of recordings with several streams, by their timelines."""
        self._streams = {
            plan.spec.id: StreamRun(plan, self._make_pump(plan, clock))
            for plan in plans
        }
        for run in self._streams.values():
            if run.plan.branch_of is not None:
                self._streams[run.plan.branch_of].add_branch(run)
        self._has_branches = any(plan.branch_of is not None for plan in plans)
        self._resources = {resource.name: resource.slots for resource in resources}
        self._scheduler = scheduler
        self._clock = clock
        self._on_record = on_record
        self._ledger = Ledger(list(self._streams))
        self._executor = Executor(self._streams, clock)
        self._watchdog = Watchdog(self._streams, hang_after_ns)
        self._lock = Lock()
        self._crew = Crew(
            resources,
            placements,
            self._executor,
            [stage for plan in plans for group in plan.stages for stage in group],
            self._finish,
            self._make_thread,
        )
        self._idle, self._ready, self._stopped = Event(), Event(), Event()
        self._at_end: list[Callable[[], None]] = []
        self._stopping = False
        self._closed = False
        self._is_inherited = False
        self._stuck: list[str] = []
        self._measure_from_ns = 0
        self._until_ns: int | None = None
        self._crash: BaseException | None = None
        self._lost_records = 0
        self._recording: Thread | None = None
        self._notices = Notices()
        self._pumps = [
            self._make_thread(f"edgepipe-source-{name}", self._feed, stream)
            for name, stream in self._streams.items()
            if stream.plan.branch_of is None
        ]
        # One for both who want to be told the time: a thread costs more than a look.
        self._timer = Timer(clock, self._timer_fired)
        self._timer_thread = self._make_thread("edgepipe-timer", self._timer.run)
        self._wake_ns: int | None = None
        """When the scheduler wants to be told the time."""
        self._look_ns = 0
        """When somebody may hang."""
        tell_copies(self)

    def _make_pump(self, plan: StreamPlan, clock: Clock) -> Pump:
        spec = plan.spec
        timeline = plan.source.info.timeline
        epoch = None
        if timeline is not None:
            epoch = self._epochs.setdefault(timeline, Epoch())
        return Pump(
            spec.id,
            plan.source,
            plan.pace,
            clock,
            self._sources_stop,
            partial(self._arrive, spec.id),
            partial(self._befell, spec.id),
            waits=spec.credits,
            speed=plan.speed,
            epoch=epoch,
        )

    def _make_thread(
        self, name: str, body: Callable[..., None], *args: object
    ) -> Thread:
        # Daemons: a stage stuck in native code must not keep the process alive after
        # stop() has named it.
        return Thread(target=self._guard, args=(body, *args), name=name, daemon=True)

    # --- life cycle ---------------------------------------------------------------

    def start(self, warm_up_ns: int = 0, measure_ns: int | None = None) -> None:
        """Start all threads.

        Frames captured in the first ``warm_up_ns`` have books of their own. Sources are
        stopped at the first frame captured ``measure_ns`` after that.
        """
        if self._stopping or self._closed:
            raise StoppedError("the pipeline has been stopped and cannot start again")
        self._measure_from_ns = self._clock.now_ns() + warm_up_ns
        if measure_ns is not None:
            self._until_ns = self._measure_from_ns + measure_ns
        for grant in self._scheduler.initial_grants():
            self._streams[grant.stream].pump.grant(grant.credits)
        with self._lock:
            self._watch(self._clock.now_ns())
        # Sources last: whoever gets a frame is there.
        self._timer_thread.start()
        self._crew.start()
        for thread in self._pumps:
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

    def wait_until_ready(self, timeout_s: float | None = None) -> bool:
        """Wait until it is ready, or comes to its end; return :attr:`is_ready`.

        Raises:
            Exception: A thread of the runtime itself failed; that is a bug.
        """
        self._ready.wait(timeout_s)
        if self._crash is not None:
            raise self._crash
        return self.is_ready

    @property
    def is_ready(self) -> bool:
        """Whether every stream has delivered a result, or its source has ended."""
        return all(
            stream.has_delivered or stream.ended is not None
            for stream in self._streams.values()
        )

    def at_end(self, tell: Callable[[], None]) -> None:
        """Call ``tell`` when all is delivered or a stop begins; at once if that is so.

        It is called once, by any thread and maybe under the runtime's lock: it must be
        quick.
        """
        with self._lock:
            if not self._stopping and not self._idle.is_set():
                self._at_end.append(tell)
                return
        tell()

    def _end(self) -> None:
        """Nothing more will be delivered."""
        self._idle.set()
        self._ready.set()
        self._tell_end()

    def _tell_end(self) -> None:
        waiting, self._at_end = self._at_end, []
        for tell in waiting:
            tell()

    def stop(self, within_s: float = 5.0) -> list[str]:
        """Stop now: what waits is dropped, what runs may finish for ``within_s``.

        Safe to call twice, from any thread and in any state, but not in a signal's
        handler. From a thread of the runtime while another one stops it, and from
        ``on_record``, it returns at once. Returns the names of threads that were still
        stuck in a stage or source; their frames count as failed with the reason
        ``hung``.
        """
        if self._closed:
            return self._stuck
        if self._recording is current_thread():
            # on_record runs under the lock that stopping needs.
            Thread(target=self.stop, args=(within_s,), daemon=True).start()
            return []
        with self._lock:
            is_first, self._stopping = not self._stopping, True
        if not is_first:
            # Whoever stops it may be waiting for the thread that we are in.
            if current_thread() not in self._threads():
                self._stopped.wait(within_s)
            return self._stuck
        give_up_ns = self._clock.now_ns() + int(within_s * 1e9)
        self.drain()
        self._tell_end()
        try:
            self._tell(Stop())
        except BaseException as error:  # a broken scheduler must stop, too
            log.exception("the scheduler could not be stopped")
            self._crash = error
        self._timer.stop()
        self._crew.end()
        # Who was abandoned hangs: there is nothing to wait for.
        self._stuck = [
            thread.name
            for thread in self._threads()
            if not self._joined(thread, give_up_ns)
        ] + [w.name for w in self._crew.lost if w.thread.is_alive()]
        self._close()
        return self._stuck

    def _threads(self) -> list[Thread]:
        """Those that come back when they are asked to."""
        workers = [worker.thread for worker in self._crew.workers]
        return [*self._pumps, *workers, self._timer_thread]

    def _close(self) -> None:
        """Give up what is left; nothing happens any more."""
        # Without a stuck thread, that is the frame whose stage called stop().
        fate, reason = (
            (Fate.FAILED, Reason.HUNG)
            if self._stuck
            else (Fate.DROPPED, Reason.SHUTDOWN)
        )
        with self._lock:
            self._closed = True
            now_ns = self._clock.now_ns()
            for name, stream in self._streams.items():
                for sequence in list(stream.frames):
                    self._leave(now_ns, Leave(name, sequence, fate, reason))
            self._end()
        self._stopped.set()

    def _joined(self, thread: Thread, give_up_ns: int) -> bool:
        if thread is current_thread() or thread.ident is None:
            return True  # a stage called stop(), or start() never came this far
        thread.join(max(0.0, (give_up_ns - self._clock.now_ns()) / 1e9))
        return not thread.is_alive()

    def inherited(self) -> None:
        """This process is a copy: the threads are not here, the locks may be taken."""
        self._lock = Lock()
        self._idle, self._ready, self._stopped = Event(), Event(), Event()
        self._at_end = []
        self._closed = self._stopping = self._is_inherited = True
        for event in (self._idle, self._ready, self._stopped):
            event.set()

    @property
    def is_inherited(self) -> bool:
        """Whether it runs in the process that this one was forked from, not here."""
        return self._is_inherited

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

    def irregularities(self) -> list[str]:
        """What is wrong with the books at this instant, one line each.

        The ledger must balance; it, the runtime and the scheduler must know of the
        same frames in flight, and of no more than are allowed.
        """
        with self._lock:
            found = [] if self._ledger.balanced else ["the ledger does not balance"]
            for name, stream in self._streams.items():
                booked, here = self._ledger.in_flight(name), stream.frames.keys()
                planned = self._scheduler.in_flight(name)
                if booked != here or (planned != len(here) and not self._closed):
                    found.append(
                        f"stream {name!r}: {len(booked)} frames are booked as in"
                        f" flight, {len(here)} are, {planned} are planned"
                    )
                if len(here) > stream.plan.spec.max_in_flight:
                    found.append(
                        f"stream {name!r}: {len(here)} frames in flight, at most"
                        f" {stream.plan.spec.max_in_flight} may be"
                    )
        return found

    def depths(self, stream: str) -> Depths:
        """How many frames of the stream wait and are in flight, and were at most."""
        with self._lock:
            return self._streams[stream].depths()

    @property
    def jobs_running(self) -> int:
        """Workers that have something to do at this instant."""
        return self._crew.running

    @property
    def replaced(self) -> list[str]:
        """Names of the threads that hung and were replaced."""
        with self._lock:
            return [worker.name for worker in self._crew.lost]

    @property
    def placed(self) -> dict[str, str]:
        """For each thread with a placement, what the system granted and refused."""
        return self._crew.placed

    def source_records(self) -> list[SourceRecord]:
        """How the sources ended; those that still run are missing."""
        return [s.ended for s in self._streams.values() if s.ended is not None]

    def stage_errors(self) -> dict[str, tuple[int, str]]:
        """For each stage that raised: how often, and the first error in words."""
        return self._executor.errors.counts()

    @property
    def alarms(self) -> dict[tuple[str, str], int]:
        """What should not have happened: how often, by kind and stream or resource."""
        with self._lock:
            return dict(self._notices.alarms)

    @property
    def source_events(self) -> dict[tuple[str, str], int]:
        """What befell the sources: how often, by stream and kind."""
        with self._lock:
            return dict(self._notices.source_events)

    @property
    def source_history(self) -> list[Befallen]:
        """The newest of what befell the sources, oldest first."""
        with self._lock:
            return list(self._notices.history)

    @property
    def source_statuses(self) -> dict[str, SourceStatus]:
        """How the cameras are doing, by stream; recordings are missing."""
        sources = {name: run.plan.source for name, run in self._streams.items()}
        return {
            name: source.status
            for name, source in sources.items()
            if isinstance(source, Watchable)
        }

    @property
    def rung_changes(self) -> dict[tuple[str, str], int]:
        """Moves on the degradation ladder: how many, by stream and cause."""
        with self._lock:
            return dict(self._notices.rung_changes)

    @property
    def rung_moves(self) -> list[RungMove]:
        """The newest moves on the degradation ladder, oldest first."""
        with self._lock:
            return list(self._notices.moves)

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
            self._end()

    def _feed(self, stream: StreamRun) -> None:
        """Run one source's loop and book its end."""
        ended = stream.pump.run(self._until_ns)
        with self._lock:
            stream.ended = ended
            self._check_ready()
            self._check_idle()

    def _finish(self, worker: Worker, event: JobDone | JobFailed) -> Start | None:
        """Tell the scheduler how a job went; return the worker's next one, if any."""
        with self._lock:
            started, worker.start = worker.start, None
            if worker.is_abandoned:
                self._came_back(worker, started)
                return None
            if self._closed:
                return None
            now_ns = self._clock.now_ns()
            for travelling in worker.carried:
                if travelling.news:
                    self._note(now_ns, travelling, lost=isinstance(event, JobFailed))
            if isinstance(event, JobDone):
                if event.service_ns > self._watchdog.worth_noting_ns:
                    self._watchdog.note(event)
                if self._has_branches:
                    self._branch(now_ns, event)
            actions = self._scheduler.handle(now_ns, event)
            return self._carry_out(now_ns, actions, worker.resource)

    # --- who hangs --------------------------------------------------------------------

    def _watch(self, now_ns: int) -> None:
        """Replace the threads that hang, and say when to look again."""
        hung, self._look_ns = self._watchdog.look(self._crew.workers, now_ns)
        for worker, start in hung:
            self._replace(worker, start, now_ns)
        self._set_timer()

    def _replace(self, worker: Worker, start: Start, now_ns: int) -> None:
        """Give up a thread that hangs, and its frames; another one takes its place."""
        stage = worker.stage.name if worker.stage is not None else ""
        words = f"no answer for {(now_ns - worker.begun_ns) / 1e9:.1f} s"
        self._executor.errors.add(stage, words)
        log.error(
            "stage %s: %s; %s is given up, its stack is\n%s",
            stage,
            words,
            worker.name,
            _stack(worker.thread),
        )
        for job in start.jobs:
            stream = self._streams[job.stream]
            if stream.plan.spec.steps[job.step].stateful:
                stream.stuck.add(job.step)
        if not self._crew.replace(worker):
            log.error("%d threads hang: the run ends", len(self._crew.lost))
            self.drain()
            stop = self._scheduler.handle(now_ns, Stop())
            self._carry_out(now_ns, stop, None)
        failed = JobFailed(start.jobs, Fate.FAILED, Reason.HUNG)
        self._carry_out(now_ns, self._scheduler.handle(now_ns, failed), None)

    def _came_back(self, worker: Worker, start: Start | None) -> None:
        """A thread that had been given up is back: nobody needs its answer."""
        for travelling in worker.carried:
            tensor = travelling.frame.tensor
            if tensor is not None:
                tensor.give_back()
        for job in start.jobs if start is not None else ():
            self._streams[job.stream].stuck.discard(job.step)

    # --- the way in, the decisions, the way out ---------------------------------------

    def _befell(self, name: str, event: SourceEvent) -> None:
        """Something befell a source that is no frame."""
        with self._lock:
            self._notices.befell(name, event, self._clock.now_ns())

    def _note(self, now_ns: int, travelling: Travelling, *, lost: bool) -> None:
        """A step found that something befell the source; the lock is held."""
        news, travelling.news = travelling.news, ()
        frame = travelling.frame
        # What came with a lost frame is news to every step, this one's rest included.
        self._streams[frame.stream].befell(frame.sequence + lost, news)
        for event in news:
            self._notices.befell(frame.stream, event, now_ns)

    def _arrive(
        self,
        name: str,
        arrival: Arrival,
        capture_ns: int,
        events: tuple[SourceEvent, ...],
    ) -> None:
        """A source has a frame."""
        frame = Frame(
            name,
            arrival.index,
            capture_ns,
            capture_ns + self._streams[name].plan.deadline_ns,
            arrival.pts_ns,
            warm_up=capture_ns < self._measure_from_ns,
            events=events,
        )
        with self._lock:
            if not self._closed:
                self._enter(self._clock.now_ns(), frame)

    def _branch(self, now_ns: int, event: JobDone) -> None:
        """Give the frames that have taken their first step to the branches, too."""
        given_up = [failed.job for failed in event.failed]
        for job in event.jobs:
            stream = self._streams[job.stream]
            if job.step or not stream.branches or job in given_up:
                continue
            frame = stream.frames[job.sequence].frame
            for branch in stream.branches:
                own = frame.with_changes(
                    stream=branch.plan.spec.id,
                    deadline_ns=frame.capture_ns + branch.plan.deadline_ns,
                    rung="",
                    track_only=False,
                    gap=0,
                )
                self._enter(now_ns, own)

    def _enter(self, now_ns: int, frame: Frame) -> None:
        """The one way in: a captured frame is booked and shown to the scheduler."""
        name, sequence = frame.stream, frame.sequence
        stream = self._streams[name]
        event = FrameArrived(name, sequence, frame.capture_ns, frame.deadline_ns)
        self._ledger.captured(name, sequence, warm_up=frame.warm_up)
        stream.enter(sequence, Travelling(frame, now_ns))
        self._carry_out(now_ns, self._scheduler.handle(now_ns, event), None)
        stream.note_peaks()

    def _tell(self, event: CoreEvent) -> None:
        """Tell the scheduler what happened, and do what it decides."""
        with self._lock:
            if not self._closed:
                now_ns = self._clock.now_ns()
                actions = self._scheduler.handle(now_ns, event)
                self._carry_out(now_ns, actions, None)

    def _carry_out(
        self, now_ns: int, actions: Sequence[Action], own: str | None
    ) -> Start | None:
        """Do what was decided; return a start for the resource ``own``, if any."""
        mine: Start | None = None
        for action in actions:
            if isinstance(action, Start):
                for job in action.jobs:
                    self._streams[job.stream].begin(job.sequence, job.step)
                resource = action.jobs[0].resource
                if mine is None and resource == own:
                    mine = action
                else:
                    self._crew.queues[resource].put(action)
            elif isinstance(action, Leave):
                self._leave(now_ns, action)
            elif isinstance(action, Grant):
                self._streams[action.stream].pump.grant(action.credits)
            elif isinstance(action, SetTimer):
                self._wake_ns = action.at_ns
                self._set_timer()
            elif isinstance(action, Redated):
                travelling = self._streams[action.stream].frames[action.sequence]
                travelling.redate(action.capture_ns, action.deadline_ns)
            else:
                self._notices.take(action, now_ns)
        return mine

    def _timer_fired(self) -> None:
        """Tell the scheduler the time, and look who hangs, whichever is due."""
        with self._lock:
            if self._closed:
                return
            now_ns = self._clock.now_ns()
            if self._wake_ns is not None and now_ns >= self._wake_ns:
                self._wake_ns = None
                actions = self._scheduler.handle(now_ns, TimerFired())
                self._carry_out(now_ns, actions, None)
            if now_ns >= self._look_ns and not self._stopping:
                self._watch(now_ns)
            self._set_timer()

    def _set_timer(self) -> None:
        wake_ns, look_ns = self._wake_ns, self._look_ns
        self._timer.set(look_ns if wake_ns is None else min(wake_ns, look_ns))

    def _leave(self, now_ns: int, leave: Leave) -> None:
        """The one way out: buffers go back, the books and the record are written."""
        stream = self._streams[leave.stream]
        travelling = stream.leave(leave.sequence)
        frame = travelling.frame
        fate, done_ns = leave.fate, now_ns
        if fate is None:
            delivered_ns = frame.delivered_ns
            if delivered_ns is None:
                delivered_ns = travelling.spans[-1].end_ns
            done_ns = delivered_ns
            fate = Fate.COMPLETED if done_ns <= frame.deadline_ns else Fate.LATE
            if not stream.has_delivered:
                stream.has_delivered = True
                self._check_ready()
        if not self._closed:
            travelling.release()  # after a stop a stage may still be using it
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

    def _check_ready(self) -> None:
        if self.is_ready:
            self._ready.set()

    def _check_idle(self) -> None:
        for stream in self._streams.values():
            if stream.branches and stream.ended is not None and not stream.frames:
                for branch in stream.branches:
                    branch.ended = replace(stream.ended, stream=branch.plan.spec.id)
        if all(s.ended is not None and not s.frames for s in self._streams.values()):
            self._end()


def _stack(thread: Thread) -> str:
    """Where a thread is, for people."""
    frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]
    frame = frames.get(thread.ident or 0)
    return "".join(traceback.format_stack(frame)) if frame is not None else "gone\n"
