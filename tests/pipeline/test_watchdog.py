"""Stages that do not come back: who notices, and what becomes of the others."""

import logging
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from edgepipe.pipeline.buffers import BufferRing
from edgepipe.pipeline.crew import MOST_REPLACED
from edgepipe.pipeline.frame import Frame
from edgepipe.pipeline.pace import Pace
from edgepipe.pipeline.pump import Pump
from edgepipe.pipeline.runtime import Runtime, StreamPlan
from edgepipe.pipeline.stage import Stage
from edgepipe.pipeline.streams import StreamRun
from edgepipe.pipeline.watchdog import Watchdog
from edgepipe.pipeline.worker import Worker
from edgepipe.scheduler.core import Scheduler
from edgepipe.scheduler.events import JobDone, Start
from edgepipe.scheduler.job import Job, OnMiss, Resource, Step, StreamSpec
from edgepipe.telemetry.clock import ManualClock
from edgepipe.telemetry.records import FrameRecord

from .scripted import MS, Do, ScriptedSource, nothing

SECOND = 1000 * MS
FAR_NS = 10**15
"""A deadline that nobody misses."""


# --- the rule ---------------------------------------------------------------------


def dog(cost_ns: int = 0) -> Watchdog:
    spec = StreamSpec("a", (Step("s", "cpu", stateful=False, cost_ns=cost_ns),))
    stages: tuple[tuple[Stage, ...], ...] = ((Do("x", nothing),),)
    plan = StreamPlan(spec, ScriptedSource(0), stages, 1, Pace.FAST)
    return Watchdog({"a": StreamRun(plan, Pump.__new__(Pump))}, 10 * SECOND)


def start(*sequences: int) -> Start:
    return Start(tuple(Job("a", n, 0, "cpu", 0, False, 0, 0) for n in sequences), None)


def busy(since_ns: int, stage: Stage | None = None) -> Worker:
    worker = Worker("cpu", 0)
    worker.enter(start(0), since_ns, ())
    worker.stage = stage
    return worker


def test_a_worker_hangs_after_the_time_that_was_set_and_not_before() -> None:
    worker = busy(since_ns=5)
    assert dog().look([worker], 5 + 10 * SECOND - 1) == ([], 5 + 10 * SECOND)
    hung, again_ns = dog().look([worker], 5 + 10 * SECOND)
    assert hung == [(worker, start(0))]
    assert again_ns == 5 + 20 * SECOND


def test_an_idle_worker_is_looked_at_again_before_it_can_hang() -> None:
    assert dog().look([Worker("cpu", 0)], 7) == ([], 7 + 10 * SECOND)


def test_a_step_with_a_long_budget_gets_three_times_that() -> None:
    assert dog(cost_ns=20 * SECOND).allowed_ns(start(0)) == 60 * SECOND
    assert dog(cost_ns=1 * SECOND).allowed_ns(start(0)) == 10 * SECOND


def test_a_step_that_was_slow_and_came_back_gets_three_times_that() -> None:
    watchdog = dog()
    watchdog.note(JobDone(start(0).jobs, 9 * SECOND))
    watchdog.note(JobDone(start(1).jobs, 4 * SECOND))
    assert watchdog.allowed_ns(start(2)) == 27 * SECOND


def test_a_batch_gets_the_time_of_all_its_members() -> None:
    assert dog(cost_ns=4 * SECOND).allowed_ns(start(0, 1, 2)) == 36 * SECOND


def test_a_stage_that_may_wait_for_somebody_is_left_alone() -> None:
    @dataclass
    class Patient(Do):
        waits: bool = True

    worker = busy(0, Patient("deliver", nothing))
    assert dog().look([worker], 100 * SECOND)[0] == []


def test_nobody_is_blamed_when_the_whole_process_stood_still() -> None:
    watchdog, worker = dog(), busy(since_ns=0)
    assert watchdog.look([worker], 0) == ([], 10 * SECOND)
    assert watchdog.look([worker], 90 * SECOND) == ([], 100 * SECOND)
    assert watchdog.look([worker], 100 * SECOND)[0] == [(worker, start(0))]


# --- real threads -----------------------------------------------------------------


@dataclass
class Hanging:
    """A stage that hangs in some frames until it is let go."""

    hangs: Callable[[Frame], bool]
    inside: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    go_on: threading.Event = field(default_factory=threading.Event)
    left: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    name: str = "infer"
    renewed: list[int] = field(default_factory=list[int])

    def process(self, frame: Frame, worker: int) -> Frame:
        if self.hangs(frame):
            self.inside.release()
            assert self.go_on.wait(30)
            self.left.release()
        return frame

    def renew(self, worker: int) -> None:
        self.renewed.append(worker)

    def close(self) -> None:
        pass


@dataclass
class Rig:
    runtime: Runtime
    clock: ManualClock
    records: list[FrameRecord]

    def fates(self, stream: str) -> list[str]:
        mine = sorted(r for r in self.records if r.stream == stream)
        return [f"{r.fate}:{r.reason}" if r.reason else r.fate for r in mine]


def stream_of(
    name: str, frames: int, *stages: Stage, stateful: bool = False
) -> StreamPlan:
    steps = tuple(Step(stage.name, "cpu", stateful) for stage in stages)
    spec = StreamSpec(name, steps, credits=True, on_miss=OnMiss.DELIVER_LATE)
    groups = tuple((stage,) for stage in stages)
    return StreamPlan(spec, ScriptedSource(frames), groups, FAR_NS, Pace.FAST)


@contextmanager
def rig(*plans: StreamPlan, slots: int = 1) -> Generator[Rig, None, None]:
    clock, records = ManualClock(), list[FrameRecord]()
    resources = (Resource("cpu", slots),)
    core = Scheduler([plan.spec for plan in plans], resources)
    runtime = Runtime(plans, core, resources, clock, records.append)
    runtime.start()
    yield Rig(runtime, clock, records)
    runtime.stop(within_s=5)
    assert runtime.irregularities() == []


def is_second(frame: Frame) -> bool:
    return frame.sequence == 1


def test_the_only_slot_of_a_resource_is_free_again_when_its_thread_hangs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    infer = Hanging(is_second)
    with (
        caplog.at_level(logging.ERROR, "edgepipe"),
        rig(stream_of("a", 5, infer)) as r,
    ):
        assert infer.inside.acquire(timeout=10)
        r.clock.advance(10 * SECOND)
        assert r.runtime.wait(10)
        assert r.runtime.replaced == ["edgepipe-cpu-0"]
        assert infer.renewed == [0]
        infer.go_on.set()
    done = "completed"
    assert r.fates("a") == [done, "failed:hung", done, done, done]
    assert r.runtime.stage_errors() == {"infer": (1, "no answer for 10.0 s")}
    (logged,) = caplog.messages
    assert "stage infer: no answer for 10.0 s; edgepipe-cpu-0 is given up" in logged
    assert "self.go_on.wait(30)" in logged


def test_what_a_hung_stage_answers_in_the_end_is_ignored() -> None:
    infer = Hanging(is_second)
    after = list[int]()
    track = Do("track", lambda frame, _: after.append(frame.sequence))
    with rig(stream_of("a", 3, infer, track)) as r:
        assert infer.inside.acquire(timeout=10)
        r.clock.advance(10 * SECOND)
        assert r.runtime.wait(10)
        infer.go_on.set()
        assert infer.left.acquire(timeout=10)
        assert r.runtime.stop(within_s=5) in ([], ["edgepipe-cpu-0"])
    assert sorted(after) == [0, 2]
    assert r.runtime.account("a").failed == {"hung": 1}


def test_a_stop_does_not_wait_for_a_thread_that_was_given_up_and_names_it() -> None:
    infer = Hanging(is_second)
    with rig(stream_of("a", 3, infer)) as r:
        assert infer.inside.acquire(timeout=10)
        r.clock.advance(10 * SECOND)
        assert r.runtime.wait(10)
        assert r.runtime.stop(within_s=60) == ["edgepipe-cpu-0"]
    infer.go_on.set()


def test_nobody_enters_a_stateful_stage_that_somebody_still_hangs_in() -> None:
    decode = Hanging(is_second, name="decode")
    with rig(
        stream_of("a", 5, decode, stateful=True), stream_of("b", 5, Do("x", nothing))
    ) as r:
        assert decode.inside.acquire(timeout=10)
        r.clock.advance(10 * SECOND)
        assert r.runtime.wait(10)
        infer_failed = r.runtime.account("a").failed
        decode.go_on.set()
    assert r.fates("b") == ["completed"] * 5
    assert r.fates("a") == ["completed", *["failed:hung"] * 4]
    assert infer_failed == {"hung": 4}
    assert r.runtime.replaced == ["edgepipe-cpu-0"]


def test_a_stateful_stage_whose_thread_came_back_is_used_again() -> None:
    gate = threading.Event()
    decode = Hanging(is_second, name="decode")
    source = ScriptedSource(5)
    plan = stream_of("a", 5, decode, stateful=True)
    plan = StreamPlan(plan.spec, source, plan.stages, FAR_NS, Pace.FAST)
    with rig(plan) as r:
        source.gate = gate
        assert decode.inside.acquire(timeout=10)
        r.clock.advance(10 * SECOND)
        given_up = [t for t in threading.enumerate() if t.name == "edgepipe-cpu-0"]
        decode.go_on.set()
        for thread in given_up:
            thread.join(10)
        gate.set()
        assert r.runtime.wait(10)
    assert r.fates("a")[-1] == "completed"


def test_the_buffer_of_a_hung_frame_is_replaced_and_never_lent_twice() -> None:
    ring = BufferRing(2, 2, 2)
    arrays = list[int]()

    def convert(frame: Frame, worker: int) -> Frame:
        slot = ring.lend()
        arrays.append(id(slot.array))
        return frame.with_changes(tensor=slot)

    infer = Hanging(lambda frame: frame.sequence == 0)
    with rig(stream_of("a", 6, Do("convert", convert), infer)) as r:
        assert infer.inside.acquire(timeout=10)
        r.clock.advance(10 * SECOND)
        assert r.runtime.wait(10)
        assert ring.statistics().lent == 0
        assert arrays.count(arrays[0]) == 1
        infer.go_on.set()
        assert infer.left.acquire(timeout=10)
    assert ring.statistics().lent == 0


def test_a_run_in_which_thread_after_thread_hangs_ends_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    infer = Hanging(lambda frame: True)
    with rig(stream_of("a", 10**6, infer)) as r:
        for _ in range(MOST_REPLACED + 1):
            assert infer.inside.acquire(timeout=10)
            r.clock.advance(10 * SECOND)
        assert r.runtime.wait(10)
        assert r.runtime.account("a").failed == {"hung": MOST_REPLACED + 1}
        infer.go_on.set()
    assert f"{MOST_REPLACED + 1} threads hang: the run ends" in caplog.text


def test_a_stage_that_cannot_be_renewed_is_a_stage_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Stubborn(Hanging):
        def renew(self, worker: int) -> None:
            raise RuntimeError("no more requests")

    infer = Stubborn(is_second)
    with rig(stream_of("a", 3, infer)) as r:
        assert infer.inside.acquire(timeout=10)
        r.clock.advance(10 * SECOND)
        assert r.runtime.wait(10)
        infer.go_on.set()
    assert r.runtime.stage_errors()["infer"][0] == 2
    assert "no answer" in caplog.text
