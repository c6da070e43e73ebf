"""Takes frames through the stages of a step: one at a time, or as a batch."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from threading import Lock
from typing import NamedTuple

from edgepipe.errors import StageError
from edgepipe.pipeline.frame import Frame
from edgepipe.pipeline.stage import FrameError, Stage
from edgepipe.pipeline.streams import StreamRun, Travelling
from edgepipe.pipeline.worker import Worker
from edgepipe.scheduler.events import Failed, JobDone, JobFailed, Start
from edgepipe.scheduler.fates import Fate, Reason
from edgepipe.scheduler.job import Job
from edgepipe.telemetry.clock import Clock
from edgepipe.telemetry.records import Span

log = logging.getLogger("edgepipe")

FAILURES = frozenset({Reason.STAGE_ERROR, Reason.BAD_OUTPUT, Reason.HUNG})
"""Reasons for which something broke; all others are drops, made on purpose."""


class _Member(NamedTuple):
    """One frame of a batch."""

    job: Job
    travelling: Travelling
    stages: tuple[Stage, ...]


class StageErrors:
    """For each stage that raised: how often, and the first error in words."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._found: dict[str, tuple[int, str]] = {}

    def add(self, stage: str, words: str) -> bool:
        """Count one; True if it is the stage's first."""
        with self._lock:
            count, first = self._found.get(stage, (0, ""))
            self._found[stage] = (count + 1, first or words)
        return count == 0

    def counts(self) -> dict[str, tuple[int, str]]:
        """By stage name."""
        with self._lock:
            return dict(self._found)


class Executor:
    """Runs what was started and says how it went. Raises nothing that a stage raises.

    ``run`` may be called by many threads at once, each with a worker of its own.
    """

    def __init__(self, streams: Mapping[str, StreamRun], clock: Clock) -> None:
        self._streams = streams
        self._clock = clock
        self.errors = StageErrors()

    def run(self, start: Start, worker: Worker) -> JobDone | JobFailed:
        """Take the frames of a start through their step.

        Between two stages a worker that was abandoned gives up; nobody looks at its
        answer.
        """
        jobs, latest_start_ns = start
        if len(jobs) != 1:
            return self._run_batch(start, worker)
        job = jobs[0]
        stream, step = self._streams[job.stream], job.step
        travelling = stream.frames.get(job.sequence)
        if travelling is None or step in stream.stuck:
            # stop() gave up on it, or a thread that hangs is still in there.
            return JobFailed(jobs, Fate.FAILED, Reason.HUNG)
        clock = self._clock
        begun_ns = before_ns = clock.now_ns()
        if latest_start_ns is not None and begun_ns > latest_start_ns:
            travelling.short_ns = begun_ns - latest_start_ns
            return JobFailed(jobs, Fate.DROPPED, Reason.DOOMED)
        frame = stream.prepared(job, travelling.frame)
        worker.enter(start, begun_ns, (travelling,))
        told = frame.events
        spans, ready_ns = travelling.spans, travelling.ready_ns
        resource, number = worker.resource, worker.number
        for stage in stream.plan.stages[step]:
            worker.stage = stage
            error: Exception | None = None
            try:
                frame = stage.process(frame, number)
            except Exception as caught:  # noqa: BLE001 - one frame fails, not all
                error = caught
            after_ns = clock.now_ns()
            spans.append(
                Span(stage.name, ready_ns, before_ns, after_ns, resource, number)
            )
            travelling.frame = frame
            if frame.events is not told:
                travelling.news = frame.events[len(told) :]
            if error is not None:
                travelling.ready_ns = after_ns
                if isinstance(error, FrameError):
                    travelling.news += error.events
                return JobFailed(jobs, *self._failed(job, travelling, stage, error))
            if worker.is_abandoned:
                break
            ready_ns = before_ns = after_ns
        travelling.ready_ns = ready_ns
        return JobDone(jobs, before_ns - begun_ns, (), frame.delivered_ns)

    # --- batches ----------------------------------------------------------------------

    def _run_batch(self, start: Start, worker: Worker) -> JobDone | JobFailed:
        """Take several frames through the same step."""
        members: list[_Member] = []
        for job in start.jobs:
            stream = self._streams[job.stream]
            travelling = stream.frames.get(job.sequence)
            if travelling is None:  # stop() gave up on all of them
                return JobFailed(start.jobs, Fate.FAILED, Reason.HUNG)
            travelling.frame = stream.prepared(job, travelling.frame)
            members.append(_Member(job, travelling, stream.plan.stages[job.step]))
        begun_ns = self._clock.now_ns()
        members, failed = _in_time(members, start.latest_start_ns, begun_ns)
        worker.enter(start, begun_ns, tuple(m.travelling for m in members))
        for stages in zip_longest(*(member.stages for member in members)):
            for stage in {id(s): s for s in stages if s is not None}.values():
                group = [
                    member
                    for member, own in zip(members, stages, strict=True)
                    if own is stage and _goes_on(member, failed)
                ]
                failed += self._pass(stage, group, worker)
        service_ns = self._clock.now_ns() - begun_ns
        return _outcome(start.jobs, service_ns, failed)

    def _pass(
        self, stage: Stage, group: Sequence[_Member], worker: Worker
    ) -> list[Failed]:
        """Take the members through one stage, at once if it can; return who failed."""
        process_batch: _ProcessBatch | None = getattr(stage, "process_batch", None)
        if process_batch is None or len(group) == 1:
            return [
                failed
                for member in group
                for failed in self._pass_alone(stage, member, worker)
            ]
        if worker.is_abandoned:
            return []
        worker.stage = stage
        frames = [member.travelling.frame for member in group]
        before_ns = self._clock.now_ns()
        answers = _answers(process_batch, frames, worker.number)
        after_ns = self._clock.now_ns()
        found: list[Failed] = []
        for member, answer in zip(group, answers, strict=True):
            member.travelling.batch = len(group)
            found += self._book(stage, member, answer, before_ns, after_ns, worker)
        return found

    def _pass_alone(
        self, stage: Stage, member: _Member, worker: Worker
    ) -> list[Failed]:
        if worker.is_abandoned:
            return []
        worker.stage = stage
        before_ns = self._clock.now_ns()
        answer: Frame | Exception
        try:
            answer = stage.process(member.travelling.frame, worker.number)
        except Exception as error:  # noqa: BLE001 - one frame fails, not all
            answer = error
        after_ns = self._clock.now_ns()
        return self._book(stage, member, answer, before_ns, after_ns, worker)

    def _book(
        self,
        stage: Stage,
        member: _Member,
        answer: Frame | Exception,
        before_ns: int,
        after_ns: int,
        worker: Worker,
    ) -> list[Failed]:
        """Note what a stage answered for one member; return it if it failed."""
        job, travelling, _ = member
        span = Span(
            stage.name,
            travelling.ready_ns,
            before_ns,
            after_ns,
            job.resource,
            worker.number,
        )
        if isinstance(answer, Exception):
            travelling.passed(span, travelling.frame)
            return [Failed(job, *self._failed(job, travelling, stage, answer))]
        travelling.passed(span, answer)
        return []

    # --- what goes wrong --------------------------------------------------------------

    def _failed(
        self, job: Job, travelling: Travelling, stage: Stage, error: Exception
    ) -> tuple[Fate, Reason]:
        """Turn what a stage raised into the frame's fate."""
        frame = travelling.frame
        travelling.short_ns = max(0, travelling.ready_ns - frame.deadline_ns)
        if isinstance(error, FrameError):
            reason = error.reason
            if reason not in FAILURES:
                return Fate.DROPPED, reason
        else:
            reason = Reason.STAGE_ERROR
        if self.errors.add(stage.name, repr(error)):
            wrapped = StageError(stage.name, job.stream, job.sequence)
            wrapped.__cause__ = error
            log.error("%s", wrapped, exc_info=wrapped)
        return Fate.FAILED, reason


_ProcessBatch = Callable[[Sequence[Frame], int], list[Frame | Exception]]


def _answers(
    process_batch: _ProcessBatch, frames: Sequence[Frame], worker: int
) -> Sequence[Frame | Exception]:
    """One answer for each frame, whatever the stage does."""
    try:
        answers = process_batch(frames, worker)
    except Exception as error:  # noqa: BLE001 - these frames fail, not all
        return [error] * len(frames)
    if len(answers) != len(frames):
        wrong = ValueError(f"{len(answers)} answers for a batch of {len(frames)}")
        return [wrong] * len(frames)
    return answers


def _in_time(
    members: list[_Member], latest_start_ns: int | None, begun_ns: int
) -> tuple[list[_Member], list[Failed]]:
    """Who may still begin, and who is given up because it is too late.

    The latest start is that of the member with the nearest deadline; what the others
    have more is theirs.
    """
    if latest_start_ns is None or begun_ns <= latest_start_ns:
        return members, []
    needed_ns = min(m.job.deadline_ns for m in members) - latest_start_ns
    kept: list[_Member] = []
    failed: list[Failed] = []
    for member in members:
        job, travelling, _ = member
        over_ns = begun_ns - (job.deadline_ns - needed_ns)
        if over_ns > 0:
            travelling.short_ns = over_ns
            failed.append(Failed(job, Fate.DROPPED, Reason.DOOMED))
        else:
            kept.append(member)
    return kept, failed


def _goes_on(member: _Member, failed: Iterable[Failed]) -> bool:
    return all(each.job is not member.job for each in failed)


def _outcome(
    jobs: tuple[Job, ...], service_ns: int, failed: Sequence[Failed]
) -> JobDone | JobFailed:
    """What the scheduler is told of a batch."""
    if len(failed) == len(jobs):
        fates = {(each.fate, each.reason) for each in failed}
        if len(fates) == 1:
            return JobFailed(jobs, *fates.pop())
    return JobDone(jobs, service_ns, tuple(failed))
