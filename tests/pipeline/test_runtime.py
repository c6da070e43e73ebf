"""Real threads, scripted sources and stages, a clock that only moves on demand."""

import logging
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from edgepipe.errors import StoppedError
from edgepipe.pipeline.buffers import BufferRing
from edgepipe.pipeline.frame import Frame
from edgepipe.pipeline.pace import Pace
from edgepipe.pipeline.runtime import Runtime, StreamPlan
from edgepipe.pipeline.source import Arrival
from edgepipe.pipeline.stage import FrameError, Stage
from edgepipe.scheduler.core import Scheduler
from edgepipe.scheduler.events import Action, JobDone
from edgepipe.scheduler.events import Event as CoreEvent
from edgepipe.scheduler.fates import Reason
from edgepipe.scheduler.job import OnMiss, Overflow, Resource, Step, StreamSpec
from edgepipe.telemetry.clock import ManualClock
from edgepipe.telemetry.records import FrameRecord
from edgepipe.telemetry.run_statistics import RunStatistics

from .scripted import CPU, MS, PERIOD_NS, Do, ScriptedSource, nothing


@dataclass
class Rig:
    runtime: Runtime
    records: list[FrameRecord]
    clock: ManualClock

    def fates(self) -> list[tuple[int, str, str]]:
        return [
            (r.sequence, r.fate, r.reason)
            for r in sorted(self.records, key=lambda r: r.sequence)
        ]


@contextmanager
def rig(
    *stages: Stage,
    source: ScriptedSource,
    slots: int = 1,
    pace: Pace = Pace.FAST,
    on_miss: OnMiss = OnMiss.DROP,
    warm_up_ns: int = 0,
    deadline_ns: int = 100_000_000,
    capacity: int = 2,
    max_in_flight: int = 8,
    stateful: bool = True,
    start: bool = True,
) -> Generator[Rig, None, None]:
    clock, records = ManualClock(1_000), list[FrameRecord]()
    spec = StreamSpec(
        "front",
        tuple(Step(stage.name, "cpu", stateful) for stage in stages),
        on_miss=on_miss,
        queue_capacity=capacity,
        overflow=Overflow.BLOCK,
        max_in_flight=max_in_flight,
        credits=True,
    )
    plan = StreamPlan(spec, source, tuple((s,) for s in stages), deadline_ns, pace)
    resources = [Resource("cpu", slots)]
    core = Scheduler([spec], resources)
    runtime = Runtime([plan], core, resources, clock, records.append)
    if start:
        runtime.start(warm_up_ns)
    yield Rig(runtime, records, clock)
    runtime.stop(within_s=5)
    assert runtime.balanced
    assert runtime.account("front").in_flight == 0


def test_every_frame_of_a_file_comes_out_in_order() -> None:
    seen: list[int] = []
    track = Do("track", lambda frame, _: seen.append(frame.sequence))
    with rig(Do("infer", nothing), track, source=ScriptedSource(50), slots=2) as r:
        assert r.runtime.wait(10)
        account = r.runtime.account("front")
    assert seen == list(range(50))
    assert (account.captured, account.completed) == (50, 50)
    assert {span.stage for span in r.records[7].spans} == {"infer", "track"}


def test_a_realtime_recording_is_captured_when_its_frames_are_due() -> None:
    source = ScriptedSource(3)
    with rig(Do("infer", nothing), source=source, pace=Pace.REALTIME) as r:
        assert r.runtime.wait(10)
    captured = sorted(record.capture_ns for record in r.records)
    assert captured == [1_000, 1_000 + PERIOD_NS, 1_000 + 2 * PERIOD_NS]


def test_frames_captured_during_warm_up_have_books_of_their_own() -> None:
    source = ScriptedSource(5)
    with rig(
        Do("infer", nothing),
        source=source,
        pace=Pace.REALTIME,
        warm_up_ns=2 * PERIOD_NS,
    ) as r:
        assert r.runtime.wait(10)
        assert r.runtime.account("front").captured == 3
        assert r.runtime.account("front", warm_up=True).captured == 2
    assert [record.warm_up for record in r.records] == [True, True, False, False, False]


def test_a_run_of_a_given_length_takes_the_frames_captured_in_it() -> None:
    source = ScriptedSource(10**6)
    with rig(Do("infer", nothing), source=source, pace=Pace.REALTIME, start=False) as r:
        r.runtime.start(warm_up_ns=2 * PERIOD_NS, measure_ns=5 * PERIOD_NS)
        assert r.runtime.wait(10)
    assert r.runtime.account("front").captured == 5
    assert r.runtime.account("front", warm_up=True).captured == 2


def test_a_stage_that_raises_fails_one_frame_and_is_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def odd(frame: Frame, worker: int) -> None:
        if frame.sequence in (1, 3):
            raise RuntimeError("cold solder joint")

    with (
        caplog.at_level(logging.ERROR, "edgepipe"),
        rig(Do("infer", odd), source=ScriptedSource(4)) as r,
    ):
        assert r.runtime.wait(10)
        errors = r.runtime.stage_errors()
    assert [fate for _, fate, _ in r.fates()] == [
        "completed",
        "failed",
        "completed",
        "failed",
    ]
    assert r.fates()[1][2] == "stage_error"
    assert errors == {"infer": (2, "RuntimeError('cold solder joint')")}
    assert len(caplog.records) == 1  # the first one in full, the others only counted


@pytest.mark.parametrize(
    ("reason", "fate"),
    [
        (Reason.DAMAGED, "dropped"),
        (Reason.EXPIRED, "dropped"),
        (Reason.BAD_OUTPUT, "failed"),
    ],
)
def test_a_stage_may_give_a_frame_up_with_a_reason(reason: Reason, fate: str) -> None:
    def give_up(frame: Frame, worker: int) -> None:
        raise FrameError(reason, "because")

    with rig(Do("decode", give_up), source=ScriptedSource(1)) as r:
        assert r.runtime.wait(10)
    assert r.fates() == [(0, fate, reason.value)]


def test_a_result_after_its_deadline_is_marked_late() -> None:
    def slow(frame: Frame, worker: int) -> None:
        r.clock.advance(200_000_000)

    with rig(
        Do("infer", slow),
        source=ScriptedSource(1),
        on_miss=OnMiss.DELIVER_LATE,
        start=False,
    ) as r:
        r.runtime.start()
        assert r.runtime.wait(10)
    (record,) = r.records
    assert (record.fate, record.latency_ns) == ("late", 200_000_000)
    assert record.delivered


def test_buffers_come_back_whatever_becomes_of_the_frame() -> None:
    ring = BufferRing(8, 2, 2)

    def convert(frame: Frame, worker: int) -> Frame:
        return frame.with_changes(tensor=ring.lend())

    def sometimes(frame: Frame, worker: int) -> None:
        if frame.sequence % 2:
            raise FrameError(Reason.BAD_OUTPUT, "not finite")

    with rig(
        Do("convert", convert), Do("infer", sometimes), source=ScriptedSource(20)
    ) as r:
        assert r.runtime.wait(10)
    assert ring.statistics().lent == 0
    assert ring.statistics().peak_lent >= 1


def test_a_source_that_fails_ends_its_stream_and_says_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with rig(Do("infer", nothing), source=ScriptedSource(9, fail_at=2)) as r:
        assert r.runtime.wait(10)
        (ended,) = r.runtime.source_records()
    assert (ended.state, ended.detail) == ("failed", "the cable is out")
    assert r.runtime.account("front").completed == 2
    assert "front: the cable is out" in caplog.text


def test_a_source_that_breaks_in_a_way_nobody_foresaw_ends_its_stream_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(ScriptedSource):
        def next_arrival(self) -> Arrival | None:
            raise ZeroDivisionError

    with rig(Do("infer", nothing), source=Broken(1)) as r:
        assert r.runtime.wait(10)
        (ended,) = r.runtime.source_records()
    assert (ended.state, ended.detail) == ("failed", "ZeroDivisionError()")
    assert "its source failed" in caplog.text


def test_a_source_that_gives_a_number_twice_ends_its_stream() -> None:
    class Stuttering(ScriptedSource):
        def next_arrival(self) -> Arrival | None:
            super().next_arrival()
            return Arrival(3, None)

    with rig(Do("infer", nothing), source=Stuttering(9)) as r:
        assert r.runtime.wait(10)
        (ended,) = r.runtime.source_records()
    assert (ended.state, ended.detail) == ("failed", "frame 3 came after 3")
    assert r.runtime.account("front").completed == 1


def test_a_result_counts_as_delivered_when_it_was_handed_over() -> None:
    def deliver(frame: Frame, worker: int) -> Frame:
        delivered = frame.with_changes(delivered_ns=r.clock.now_ns())
        r.clock.advance(500_000_000)  # a sink that takes its time
        return delivered

    with rig(Do("deliver", deliver), source=ScriptedSource(1), start=False) as r:
        r.runtime.start()
        assert r.runtime.wait(10)
    (record,) = r.records
    assert (record.fate, record.latency_ns) == ("completed", 0)
    assert record.spans[-1].service_ns == 500_000_000


def test_a_dead_source_costs_the_others_nothing() -> None:
    gate = threading.Event()
    dead, live = ScriptedSource(5, gate=gate), ScriptedSource(30)
    spec = [
        StreamSpec(name, (Step("infer", "cpu", stateful=False),), credits=True)
        for name in ("dead", "live")
    ]
    stages: tuple[tuple[Stage, ...], ...] = ((Do("infer", nothing),),)
    plans = [
        StreamPlan(s, source, stages, 10**9, Pace.FAST)
        for s, source in zip(spec, (dead, live), strict=True)
    ]
    thirty = threading.Semaphore(0)
    runtime = Runtime(
        plans,
        Scheduler(spec, CPU),
        CPU,
        ManualClock(),
        lambda _: thirty.release(),
    )
    runtime.start()
    assert all(thirty.acquire(timeout=10) for _ in range(30))
    assert not runtime.wait(0)
    gate.set()
    assert runtime.wait(10)
    assert runtime.stop() == []


def test_draining_lets_frames_in_flight_finish() -> None:
    inside, go_on = threading.Event(), threading.Event()

    def slow(frame: Frame, worker: int) -> None:
        inside.set()
        go_on.wait(10)

    with rig(Do("infer", slow), source=ScriptedSource(10**6)) as r:
        assert inside.wait(10)
        r.runtime.drain()
        go_on.set()
        assert r.runtime.wait(10)
        account = r.runtime.account("front")
    assert account.captured == account.completed >= 1
    assert r.runtime.source_records()[0].state == "stopped"


def test_stopping_with_full_queues_drops_what_waits_and_leaves_no_thread() -> None:
    inside, go_on = threading.Event(), threading.Event()

    def slow(frame: Frame, worker: int) -> None:
        inside.set()
        go_on.wait(10)

    with rig(Do("infer", slow), source=ScriptedSource(10**6)) as r:
        assert inside.wait(10)
        stopper = threading.Timer(0, go_on.set)
        stopper.start()
        assert r.runtime.stop(within_s=5) == []
        stopper.join()
    assert not [t for t in threading.enumerate() if t.name.startswith("edgepipe")]
    reasons = {reason for _, _, reason in r.fates()}
    assert reasons <= {"", "shutdown"}


def test_stopping_names_the_thread_that_hangs_and_books_its_frame() -> None:
    inside, go_on = threading.Event(), threading.Event()

    def hang(frame: Frame, worker: int) -> None:
        inside.set()
        go_on.wait(60)

    with rig(Do("infer", hang), source=ScriptedSource(10**6)) as r:
        assert inside.wait(10)
        assert r.runtime.stop(within_s=1) == ["edgepipe-cpu-0"]
        assert r.runtime.account("front").failed == {"hung": 1}
        go_on.set()  # it comes back after all: nobody counts it a second time
    assert r.runtime.account("front").failed == {"hung": 1}


def test_stopping_twice_and_without_a_start_is_fine() -> None:
    with rig(Do("infer", nothing), source=ScriptedSource(5), start=False) as r:
        assert r.runtime.stop() == []
        assert r.runtime.stop() == []
        with pytest.raises(StoppedError):
            r.runtime.start()


def test_a_stage_may_stop_the_pipeline_it_runs_in() -> None:
    answers: list[list[str]] = []
    done = threading.Event()

    def stop(frame: Frame, worker: int) -> None:
        if frame.sequence == 2:
            answers.append(r.runtime.stop(within_s=5))
            done.set()

    with rig(Do("infer", stop), source=ScriptedSource(10**6), start=False) as r:
        r.runtime.start()
        assert done.wait(10)
    assert answers == [[]]
    assert (2, "dropped", "shutdown") in r.fates()


def alone(on_record: Callable[[FrameRecord], None], core: type[Scheduler]) -> Runtime:
    spec = StreamSpec("a", (Step("infer", "cpu", stateful=False),), credits=True)
    stages: tuple[tuple[Stage, ...], ...] = ((Do("infer", nothing),),)
    plan = StreamPlan(spec, ScriptedSource(3), stages, 10**9, Pace.FAST)
    return Runtime([plan], core([spec], CPU), CPU, ManualClock(), on_record)


def test_a_record_keeper_that_fails_is_counted_and_stops_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(record: FrameRecord) -> None:
        raise KeyError("no such column")

    runtime = alone(broken, Scheduler)
    runtime.start()
    assert runtime.wait(10)
    runtime.stop(within_s=5)
    assert runtime.account("a").completed == runtime.lost_records == 3
    assert len(caplog.records) == 1


def test_a_bug_in_the_core_is_raised_to_whoever_waits(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(Scheduler):
        def handle(self, now_ns: int, event: CoreEvent) -> list[Action]:
            if isinstance(event, JobDone):
                raise ZeroDivisionError
            return super().handle(now_ns, event)

    runtime = alone(lambda _: None, Broken)
    runtime.start()
    with pytest.raises(ZeroDivisionError):
        runtime.wait(10)
    runtime.stop(within_s=1)
    assert "edgepipe-cpu-0 failed" in caplog.text


def test_a_plan_without_a_stage_for_each_step_is_refused() -> None:
    spec = StreamSpec("a", (Step("infer", "cpu", stateful=False),))
    with pytest.raises(ValueError, match="every step needs its stages"):
        StreamPlan(spec, ScriptedSource(1), (), 1, Pace.FAST)


def test_stopping_from_the_record_keeper_is_carried_out_by_another_thread() -> None:
    answers: list[list[str]] = []
    runtime: Runtime

    def stop(record: FrameRecord) -> None:
        answers.append(runtime.stop(within_s=5))

    runtime = alone(stop, Scheduler)
    runtime.start()
    assert runtime.wait(10)
    runtime.stop(within_s=5)
    assert answers[0] == []
    assert runtime.balanced


def test_a_stage_that_stops_the_pipeline_gives_its_buffer_back_itself() -> None:
    ring = BufferRing(2, 2, 2)

    def convert(frame: Frame, worker: int) -> Frame:
        return frame.with_changes(tensor=ring.lend())

    def infer(frame: Frame, worker: int) -> Frame:
        r.runtime.stop(within_s=5)
        assert frame.tensor is not None
        frame.tensor.give_back()
        done.set()
        return frame.with_changes(tensor=None)

    done = threading.Event()
    stages = Do("convert", convert), Do("infer", infer)
    with rig(*stages, source=ScriptedSource(1), start=False) as r:
        r.runtime.start()
        assert done.wait(10)
    assert ring.statistics().lent == 0
    assert r.runtime.stage_errors() == {}


def test_what_waits_for_one_network_goes_through_it_together() -> None:
    inside, go_on = threading.Event(), threading.Event()
    clock = ManualClock()

    class Network(Do):
        def process_batch(
            self, frames: Sequence[Frame], worker: int
        ) -> list[Frame | Exception]:
            clock.advance(3 * MS)
            return list(frames)

    def alone(frame: Frame, worker: int) -> None:
        inside.set()
        go_on.wait(10)

    network = Network("infer", alone)
    step = Step("infer", "cpu", stateful=False, batch_key="infer", batch_max=4)
    specs = [
        StreamSpec(
            name,
            (step,),
            on_miss=OnMiss.DELIVER_LATE,
            overflow=Overflow.BLOCK,
            credits=True,
            queue_capacity=2,
        )
        for name in ("front", "rear")
    ]
    plans = [
        StreamPlan(spec, ScriptedSource(6), ((network,),), 10**12, Pace.FAST)
        for spec in specs
    ]
    kept, records = RunStatistics(100), list[FrameRecord]()

    def keep(record: FrameRecord) -> None:
        kept.add(record)
        records.append(record)

    runtime = Runtime(plans, Scheduler(specs, CPU), CPU, clock, keep)
    runtime.start()
    assert inside.wait(10)
    while sum(runtime.depths(spec.id).queued for spec in specs) < 3:
        runtime.wait(0.001)
    go_on.set()
    assert runtime.wait(10)
    assert runtime.stop() == []
    assert {record.fate for record in records} == {"completed"}
    together = [record for record in records if record.batch > 1]
    assert {record.stream for record in together} == {"front", "rear"}
    # Each batch has worked 3 ms, however many frames it had.
    batches = len({record.spans[0].start_ns for record in together})
    assert kept.busy_ns["cpu"] == 3 * MS * batches
