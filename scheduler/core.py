"""The scheduler as a state machine: events and the time go in, decisions come out."""

from collections.abc import Iterable, Mapping
from enum import Enum
from heapq import heapify, heappop, heappush

from edgepipe.scheduler.budget import ServiceTimes
from edgepipe.scheduler.events import (
    Action,
    Event,
    FrameArrived,
    Grant,
    JobDone,
    JobFailed,
    Leave,
    Start,
    Stop,
)
from edgepipe.scheduler.fates import Fate, Reason
from edgepipe.scheduler.job import Job, OnMiss, Overflow, StreamSpec
from edgepipe.scheduler.policy import Policy, earliest_deadline_first

PROBE_EVERY = 8
"""One in so many doomed frames in a row is run all the same. Without it a step whose
estimate was spoilt by one long stall would never be measured again."""


MOST_ABANDONED = 64
"""Jobs of frames that have left may stay on the heaps up to this number."""


class _State(Enum):
    BLOCKED = 0
    """Waits for an older frame of its stream to pass a stateful step."""
    READY = 1
    RUNNING = 2


class _Travelling:
    """A frame in flight: where it stands."""

    __slots__ = (
        "arrival",
        "deadline_ns",
        "is_probe",
        "queued",
        "release_ns",
        "sequence",
        "state",
        "step",
    )

    def __init__(self, arrived: FrameArrived, arrival: int, now_ns: int) -> None:
        self.sequence = arrived.sequence
        self.deadline_ns = arrived.deadline_ns
        self.arrival = arrival
        self.step = 0
        self.state = _State.BLOCKED
        self.queued = True
        """False once it has begun the last queued step. It never becomes true again,
        also while an earlier queued step runs: room that was granted must not vanish.
        """
        self.is_probe = False
        """Run to the end although it seems doomed, so that its steps are measured."""
        self.release_ns = now_ns


class _Stream:
    """One stream's frames in flight, oldest first, and its counters."""

    __slots__ = (
        "doomed_in_a_row",
        "frames",
        "outstanding_credits",
        "queued",
        "remaining_ns",
        "spec",
        "times",
    )

    def __init__(self, spec: StreamSpec) -> None:
        self.spec = spec
        self.frames: dict[int, _Travelling] = {}
        self.times = tuple(ServiceTimes() for _ in spec.steps)
        self.remaining_ns = [0] * len(spec.steps)
        """Optimistic time that the steps from each one on will take."""
        self.queued = 0
        """How many of the frames count against the queue's capacity."""
        self.outstanding_credits = 0
        self.doomed_in_a_row = 0

    def observe(self, step: int, service_ns: int) -> None:
        """Take a measured service time into the estimates."""
        change_ns = self.times[step].observe(service_ns)
        if change_ns:
            for index in range(step + 1):
                self.remaining_ns[index] += change_ns

    def room(self) -> int:
        """How many more frames the queue and the bound in flight would take."""
        return min(
            self.spec.queue_capacity - self.queued,
            self.spec.max_in_flight - len(self.frames),
        )

    def oldest_waiting(self) -> _Travelling | None:
        """The oldest frame that counts against the queue and is not being worked on."""
        for frame in self.frames.values():
            if frame.queued and frame.state is not _State.RUNNING:
                return frame
        return None


class Scheduler:
    """Decides which ready job starts next and which frame is given up.

    The caller owns time and threads: it reports events through :meth:`handle` and
    carries the returned actions out, in order. A resource runs ``slots`` jobs at a
    time and none is ever preempted.
    """

    def __init__(
        self,
        streams: Iterable[StreamSpec],
        resources: Mapping[str, int],
        policy: Policy = earliest_deadline_first,
    ) -> None:
        self._streams = {spec.id: _Stream(spec) for spec in streams}
        self._free = dict(resources)
        for stream in self._streams.values():
            for step in stream.spec.steps:
                if self._free.get(step.resource, 0) < 1:
                    raise ValueError(
                        f"step {step.name!r} needs resource {step.resource!r}, "
                        f"which has no slots"
                    )
        self._policy = policy
        self._ready: dict[str, list[tuple[tuple[int, ...], Job]]] = {
            name: [] for name in resources
        }
        self._arrivals = 0
        self._abandoned = 0
        """Jobs on the heaps whose frames have left."""
        self._stopped = False

    def in_flight(self, stream: str) -> int:
        """Frames of the stream that have arrived and not left."""
        return len(self._streams[stream].frames)

    def jobs_waiting(self) -> int:
        """Jobs on the ready heaps, some of which may be of frames that have left."""
        return sum(len(heap) for heap in self._ready.values())

    def initial_grants(self) -> list[Grant]:
        """The credits that sources may use before anything has happened."""
        grants: list[Action] = []
        for stream in self._streams.values():
            self._grant(stream, grants)
        return [action for action in grants if isinstance(action, Grant)]

    def handle(self, now_ns: int, event: Event) -> list[Action]:
        """Take one event and return what must be done about it."""
        actions: list[Action] = []
        if isinstance(event, Stop):
            self._stop(actions)
            return actions
        if isinstance(event, FrameArrived):
            stream = self._arrive(now_ns, event, actions)
        elif isinstance(event, JobDone):
            stream = self._done(now_ns, event, actions)
        else:
            stream = self._fail(event, actions)
        self._make_ready(stream)
        while self._dispatch(now_ns, actions):
            pass
        if self._abandoned > MOST_ABANDONED:
            self._sweep()
        # Only arrivals, starts and departures change how much room a stream has.
        touched = {stream.spec.id: stream}
        for action in actions:
            name = action.job.stream if isinstance(action, Start) else action.stream
            touched[name] = self._streams[name]
        for stream in touched.values():
            self._grant(stream, actions)
        return actions

    def _arrive(
        self, now_ns: int, event: FrameArrived, actions: list[Action]
    ) -> _Stream:
        stream = self._streams[event.stream]
        spec = stream.spec
        if spec.credits:
            stream.outstanding_credits -= 1
        reason: Reason | None = None
        if self._stopped:
            reason = Reason.SHUTDOWN
        elif spec.on_miss is OnMiss.DROP and now_ns > event.deadline_ns:
            reason = Reason.STALE
        elif stream.room() < 1 and not self._make_room(stream, actions):
            reason = Reason.OVERFLOW
        if reason is None:
            frame = _Travelling(event, self._arrivals, now_ns)
            self._arrivals += 1
            stream.frames[event.sequence] = frame
            stream.queued += 1
        else:
            actions.append(Leave(spec.id, event.sequence, Fate.DROPPED, reason))
        return stream

    def _make_room(self, stream: _Stream, actions: list[Action]) -> bool:
        """Drop the oldest waiting frame for a new one, if the stream wants that."""
        if stream.spec.overflow is not Overflow.DROP_OLDEST:
            return False
        victim = stream.oldest_waiting()
        if victim is None:
            return False
        self._leave(stream, victim.sequence, Fate.DROPPED, Reason.OVERFLOW, actions)
        return True

    def _done(self, now_ns: int, event: JobDone, actions: list[Action]) -> _Stream:
        job = event.job
        stream = self._streams[job.stream]
        stream.observe(job.step, event.service_ns)
        self._free[job.resource] += 1
        frame = stream.frames[job.sequence]
        frame.step += 1
        frame.state = _State.BLOCKED
        frame.release_ns = now_ns
        if frame.step == len(stream.spec.steps):
            stream.doomed_in_a_row = 0
            self._leave(stream, job.sequence, None, None, actions)
        elif self._stopped:
            self._leave(stream, job.sequence, Fate.DROPPED, Reason.SHUTDOWN, actions)
        return stream

    def _fail(self, event: JobFailed, actions: list[Action]) -> _Stream:
        stream = self._streams[event.job.stream]
        self._free[event.job.resource] += 1
        self._leave(stream, event.job.sequence, event.fate, event.reason, actions)
        return stream

    def _stop(self, actions: list[Action]) -> None:
        self._stopped = True
        for stream in self._streams.values():
            for frame in list(stream.frames.values()):
                if frame.state is not _State.RUNNING:
                    self._leave(
                        stream, frame.sequence, Fate.DROPPED, Reason.SHUTDOWN, actions
                    )

    def _leave(
        self,
        stream: _Stream,
        sequence: int,
        fate: Fate | None,
        reason: Reason | None,
        actions: list[Action],
        short_ns: int = 0,
    ) -> None:
        frame = stream.frames.pop(sequence)
        stream.queued -= frame.queued
        self._abandoned += frame.state is _State.READY
        actions.append(Leave(stream.spec.id, sequence, fate, reason, short_ns))

    def _make_ready(self, stream: _Stream) -> None:
        """Put every frame that no older frame blocks any more on its ready heap."""
        steps = stream.spec.steps
        oldest_step = len(steps)
        for frame in stream.frames.values():
            step = steps[frame.step]
            if frame.state is _State.BLOCKED and (
                not step.stateful or oldest_step > frame.step
            ):
                frame.state = _State.READY
                job = Job(
                    stream.spec.id,
                    frame.sequence,
                    frame.step,
                    step.resource,
                    stream.spec.criticality.band,
                    frame.release_ns,
                    frame.deadline_ns,
                    frame.arrival,
                )
                heappush(self._ready[step.resource], (self._policy(job), job))
            if frame.step < oldest_step:
                oldest_step = frame.step

    def _dispatch(self, now_ns: int, actions: list[Action]) -> bool:
        """Fill free slots with the best ready jobs; give doomed frames up.

        Returns whether a frame was given up: that may have made others ready.
        """
        gave_up = False
        for resource, heap in self._ready.items():
            while heap and self._free[resource] > 0:
                _, job = heappop(heap)
                stream = self._streams[job.stream]
                frame = stream.frames.get(job.sequence)
                if frame is None:
                    self._abandoned -= 1
                    continue  # it left while its job was waiting on the heap
                latest_ns = self._latest_start_ns(now_ns, stream, frame, job)
                if latest_ns is not None and now_ns > latest_ns:
                    frame.state = _State.BLOCKED  # its job is off the heap
                    self._leave(
                        stream,
                        job.sequence,
                        Fate.DROPPED,
                        Reason.DOOMED,
                        actions,
                        short_ns=now_ns - latest_ns,
                    )
                    self._make_ready(stream)
                    gave_up = True
                    continue
                frame.state = _State.RUNNING
                if frame.queued and job.step >= stream.spec.queued_steps - 1:
                    frame.queued = False
                    stream.queued -= 1
                self._free[resource] -= 1
                actions.append(Start(job, latest_ns))
        return gave_up

    def _sweep(self) -> None:
        """Take the jobs of frames that have left off the heaps.

        Those of a band that is never served would pile up there without end.
        """
        for heap in self._ready.values():
            heap[:] = [
                (key, job)
                for key, job in heap
                if job.sequence in self._streams[job.stream].frames
            ]
            heapify(heap)
        self._abandoned = 0

    def _latest_start_ns(
        self, now_ns: int, stream: _Stream, frame: _Travelling, job: Job
    ) -> int | None:
        """When the job must have started to be in time; None if that is no matter."""
        if stream.spec.on_miss is OnMiss.DELIVER_LATE:
            return None
        latest_ns = job.deadline_ns - stream.remaining_ns[job.step]
        if now_ns > latest_ns and not frame.is_probe:
            stream.doomed_in_a_row += 1
            frame.is_probe = stream.doomed_in_a_row % PROBE_EVERY == 0
        return job.deadline_ns if frame.is_probe else latest_ns

    def _grant(self, stream: _Stream, actions: list[Action]) -> None:
        """Turn free room into credits, for sources that wait for them."""
        if not stream.spec.credits or self._stopped:
            return
        new = stream.room() - stream.outstanding_credits
        if new > 0:
            stream.outstanding_credits += new
            actions.append(Grant(stream.spec.id, new))
