"""One job or one batch on its way through the stages of a step, without a thread."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from edgepipe.pipeline.execute import Executor
from edgepipe.pipeline.frame import Frame
from edgepipe.pipeline.pace import Pace
from edgepipe.pipeline.pump import Pump
from edgepipe.pipeline.runtime import StreamPlan
from edgepipe.pipeline.stage import FrameError, Stage
from edgepipe.pipeline.streams import StreamRun, Travelling
from edgepipe.pipeline.worker import Worker
from edgepipe.scheduler.events import Failed, JobDone, JobFailed, Start
from edgepipe.scheduler.fates import Fate, Reason
from edgepipe.scheduler.job import Job, Rung, Step, StreamSpec
from edgepipe.telemetry.clock import ManualClock
from edgepipe.telemetry.records import Span

from .scripted import MS, Do, ScriptedSource

Answer = Callable[[Sequence[Frame]], list[Frame | Exception]]


def all_well(frames: Sequence[Frame]) -> list[Frame | Exception]:
    return list(frames)


@dataclass
class Together:
    """A stage that takes batches, 10 ms each, and keeps what it was given."""

    clock: ManualClock
    answer: Answer = all_well
    name: str = "infer"
    seen: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])

    def process(self, frame: Frame, worker: int) -> Frame:
        self.seen.append((frame.sequence,))
        self.clock.advance(10 * MS)
        return frame

    def process_batch(
        self, frames: Sequence[Frame], worker: int
    ) -> list[Frame | Exception]:
        self.seen.append(tuple(frame.sequence for frame in frames))
        self.clock.advance(10 * MS)
        return self.answer(frames)

    def close(self) -> None:
        pass


class Bench:
    """Streams of one step each, whose frames are ready to take it."""

    def __init__(self, clock: ManualClock, **stages: tuple[Stage, ...]) -> None:
        self.clock = clock
        self.streams = {name: self._stream(name, own) for name, own in stages.items()}
        self.executor = Executor(self.streams, clock)
        self.worker = Worker("cpu", 0)

    def _stream(self, name: str, stages: tuple[Stage, ...]) -> StreamRun:
        step = Step("s", "cpu", stateful=False, batch_key="s", batch_max=4)
        spec = StreamSpec(name, (step,))
        plan = StreamPlan(spec, ScriptedSource(0), (stages,), 100 * MS, Pace.FAST)
        pump = Pump.__new__(Pump)  # no frame comes from it
        return StreamRun(plan, pump)

    def job(self, stream: str, sequence: int, deadline_ns: int = 100 * MS) -> Job:
        """A frame that is ready, and the job of its step."""
        frame = Frame(stream, sequence, 0, deadline_ns)
        travelling = Travelling(frame, self.clock.now_ns())
        self.streams[stream].enter(sequence, travelling)
        return Job(stream, sequence, 0, "cpu", 0, False, 0, deadline_ns)

    def run(
        self, *jobs: Job, latest_start_ns: int | None = None
    ) -> JobDone | JobFailed:
        return self.executor.run(Start(jobs, latest_start_ns), self.worker)

    def spans(self, job: Job) -> list[Span]:
        return self.streams[job.stream].frames[job.sequence].spans


def test_a_batch_goes_through_a_stage_at_once_and_its_time_is_each_members_span() -> (
    None
):
    clock = ManualClock(5)
    infer = Together(clock)
    bench = Bench(clock, a=(infer,), b=(infer,))
    jobs = bench.job("a", 0), bench.job("b", 7), bench.job("a", 1)
    done = bench.run(*jobs)
    assert infer.seen == [(0, 7, 1)]
    assert done == JobDone(jobs, 10 * MS)
    span = Span("infer", 5, 5, 5 + 10 * MS, "cpu", 0)
    assert [bench.spans(job) for job in jobs] == [[span]] * 3
    assert {bench.streams[j.stream].frames[j.sequence].batch for j in jobs} == {3}


def test_a_stage_that_takes_single_frames_takes_those_of_a_batch_in_turn() -> None:
    clock = ManualClock()
    order: list[tuple[str, int]] = []

    def convert(frame: Frame, worker: int) -> None:
        order.append((frame.stream, frame.sequence))
        clock.advance(MS)

    infer = Together(clock)
    stages = {name: (Do("convert", convert), infer) for name in "ab"}
    bench = Bench(clock, **stages)
    jobs = bench.job("a", 0), bench.job("b", 0)
    done = bench.run(*jobs)
    assert order == [("a", 0), ("b", 0)]
    assert infer.seen == [(0, 0)]
    assert done == JobDone(jobs, 12 * MS)
    first, second = (bench.spans(job) for job in jobs)
    assert (first[0].end_ns, second[0].start_ns) == (MS, MS)
    # The first one waited for the second: that is time in the queue of the network.
    assert (first[1].queue_ns, second[1].queue_ns) == (MS, 0)


def test_streams_with_networks_of_their_own_are_not_mixed() -> None:
    clock = ManualClock()
    mine, other = Together(clock), Together(clock)
    bench = Bench(clock, a=(mine,), b=(other,))
    bench.run(bench.job("a", 0), bench.job("b", 1), bench.job("a", 2))
    assert (mine.seen, other.seen) == ([(0, 2)], [(1,)])


def test_a_member_that_fails_alone_costs_the_others_nothing() -> None:
    clock = ManualClock()

    def spoilt(frames: Sequence[Frame]) -> list[Frame | Exception]:
        return [frames[0], FrameError(Reason.BAD_OUTPUT, "not finite"), frames[2]]

    after: list[int] = []
    track = Do("track", lambda frame, _: after.append(frame.sequence))
    bench = Bench(clock, a=(Together(clock, spoilt), track))
    jobs = tuple(bench.job("a", n) for n in range(3))
    failed = Failed(jobs[1], Fate.FAILED, Reason.BAD_OUTPUT)
    assert bench.run(*jobs) == JobDone(jobs, 10 * MS, (failed,))
    assert after == [0, 2]
    assert bench.executor.errors.counts()["infer"][0] == 1


def test_a_frame_that_was_dropped_by_a_stage_of_a_batch_is_no_error() -> None:
    clock = ManualClock()

    def one_expired(frames: Sequence[Frame]) -> list[Frame | Exception]:
        return [FrameError(Reason.EXPIRED, "late"), *frames[1:]]

    bench = Bench(clock, a=(Together(clock, one_expired),))
    jobs = bench.job("a", 0), bench.job("a", 1)
    failed = Failed(jobs[0], Fate.DROPPED, Reason.EXPIRED)
    assert bench.run(*jobs) == JobDone(jobs, 10 * MS, (failed,))
    assert bench.executor.errors.counts() == {}


def raises(frames: Sequence[Frame]) -> list[Frame | Exception]:
    raise MemoryError("no room for four")


def forgets(frames: Sequence[Frame]) -> list[Frame | Exception]:
    return [frames[0]]


@pytest.mark.parametrize("answer", [raises, forgets])
def test_a_batch_that_breaks_as_a_whole_fails_all_of_its_members(
    answer: Answer, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    bench = Bench(clock, a=(Together(clock, answer),))
    jobs = bench.job("a", 0), bench.job("a", 1)
    assert bench.run(*jobs) == JobFailed(jobs, Fate.FAILED, Reason.STAGE_ERROR)
    assert bench.executor.errors.counts()["infer"][0] == 2
    assert len(caplog.records) == 1


def test_a_batch_that_starts_late_goes_on_without_those_for_whom_that_is_too_late() -> (
    None
):
    clock = ManualClock(60 * MS)
    infer = Together(clock)
    bench = Bench(clock, a=(infer,))
    soon = bench.job("a", 0, deadline_ns=80 * MS)
    later = bench.job("a", 1, deadline_ns=100 * MS)
    # 30 ms are needed: the first had to begin at 50 ms, the second may until 70 ms.
    done = bench.run(soon, later, latest_start_ns=50 * MS)
    failed = Failed(soon, Fate.DROPPED, Reason.DOOMED)
    assert done == JobDone((soon, later), 10 * MS, (failed,))
    assert infer.seen == [(1,)]
    assert bench.streams["a"].frames[0].short_ns == 10 * MS


def test_a_batch_that_is_too_late_for_everybody_runs_nothing() -> None:
    clock = ManualClock(60 * MS)
    infer = Together(clock)
    bench = Bench(clock, a=(infer,))
    jobs = bench.job("a", 0, 70 * MS), bench.job("a", 1, 71 * MS)
    done = bench.run(*jobs, latest_start_ns=50 * MS)
    assert done == JobFailed(jobs, Fate.DROPPED, Reason.DOOMED)
    assert infer.seen == []


def test_a_batch_that_stop_has_given_up_is_not_begun() -> None:
    clock = ManualClock()
    infer = Together(clock)
    bench = Bench(clock, a=(infer,))
    jobs = bench.job("a", 0), bench.job("a", 1)
    bench.streams["a"].frames.clear()
    assert bench.run(*jobs) == JobFailed(jobs, Fate.FAILED, Reason.HUNG)
    assert infer.seen == []


def test_a_job_done_says_when_its_result_was_delivered() -> None:
    clock = ManualClock(3)

    def deliver(frame: Frame, worker: int) -> Frame:
        delivered = frame.with_changes(delivered_ns=clock.now_ns())
        clock.advance(MS)
        return delivered

    bench = Bench(clock, a=(Do("deliver", deliver),))
    job = bench.job("a", 0)
    assert bench.run(job) == JobDone((job,), MS, (), 3)


def test_a_worker_that_was_abandoned_enters_no_further_stage() -> None:
    clock = ManualClock()
    entered: list[str] = []

    def hang(frame: Frame, worker: int) -> None:
        entered.append("first")
        bench.worker.is_abandoned = True

    after = Do("second", lambda frame, _: entered.append("second"))
    bench = Bench(clock, a=(Do("first", hang), after))
    bench.run(bench.job("a", 0))
    bench.worker.is_abandoned = False
    bench.run(bench.job("a", 1), bench.job("a", 2))
    assert entered == ["first", "first"]


# --- what a frame carries into a step ---------------------------------------------


def stream_with(*stateful: bool, ladder: tuple[Rung, ...] = ()) -> StreamRun:
    steps = tuple(Step(f"s{n}", "cpu", state) for n, state in enumerate(stateful))
    spec = StreamSpec("a", steps, queued_steps=len(steps))
    if ladder:
        spec = replace(spec, ladder=ladder)
    stages: tuple[tuple[Stage, ...], ...] = ((Do("x", lambda f, w: f),),) * len(steps)
    plan = StreamPlan(spec, ScriptedSource(0), stages, 1, Pace.FAST)
    return StreamRun(plan, Pump.__new__(Pump))


def job_of(
    sequence: int, step: int = 0, rung: int = 0, track_only: bool = False
) -> Job:
    return Job("a", sequence, step, "cpu", rung, track_only, 0, 0)


def test_a_stateful_step_is_told_how_many_frames_it_never_saw() -> None:
    stream = stream_with(True, False, True)
    frames = {n: Frame("a", n, 0, 0) for n in (0, 1, 4, 5)}
    decode = {n: stream.prepared(job_of(n), frames[n]) for n in frames}
    assert [frame.gap for frame in decode.values()] == [0, 0, 2, 0]
    # Frame 1 was dropped after decoding: the last step misses one more.
    track = [stream.prepared(job_of(n, step=2), decode[n]).gap for n in (0, 4, 5)]
    assert track == [0, 3, 0]


def test_a_stateless_step_leaves_the_gap_as_it_is() -> None:
    stream = stream_with(True, False)
    frame = stream.prepared(job_of(6), Frame("a", 6, 0, 0))
    assert stream.prepared(job_of(6, step=1), frame).gap == 6


def test_a_frame_that_is_as_it_should_be_is_not_made_anew() -> None:
    frame = Frame("a", 0, 0, 0)
    assert stream_with(True).prepared(job_of(0), frame) is frame


def test_a_frame_knows_its_rung_and_whether_the_network_looks_at_it() -> None:
    stream = stream_with(False, ladder=(Rung("full"), Rung("small")))
    frame = Frame("a", 0, 0, 0)
    assert stream.prepared(job_of(0), frame).rung == "full"
    changed = stream.prepared(job_of(0, rung=1, track_only=True), frame)
    assert (changed.rung, changed.track_only) == ("small", True)


def test_the_queue_of_a_stream_ends_where_its_last_queued_step_begins() -> None:
    stream = stream_with(True, True)
    for number in range(3):
        stream.enter(number, Travelling(Frame("a", number, 0, 0), 0))
        stream.note_peaks()
    stream.begin(0, 0)
    assert stream.depths().queued == 3
    stream.begin(0, 1)
    stream.leave(2)
    stream.leave(0)
    depths = stream.depths()
    assert (depths.queued, depths.peak_queued) == (1, 3)
    assert (depths.in_flight, depths.peak_in_flight) == (1, 3)
