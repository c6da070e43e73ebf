"""From start to stop in every order, and what a copy made by fork may do."""

import os
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from edgepipe.errors import StoppedError
from edgepipe.pipeline.frame import Frame
from edgepipe.pipeline.pace import Pace
from edgepipe.pipeline.placement import Placement
from edgepipe.pipeline.runtime import Runtime, StreamPlan
from edgepipe.pipeline.stage import Stage
from edgepipe.scheduler.core import Scheduler
from edgepipe.scheduler.events import Action, Stop
from edgepipe.scheduler.events import Event as CoreEvent
from edgepipe.scheduler.job import OnMiss, Overflow, Resource, Step, StreamSpec
from edgepipe.telemetry.clock import ManualClock, MonotonicClock
from edgepipe.telemetry.records import FrameRecord

from .scripted import CPU, Do, ScriptedSource, nothing

FAR_NS = 10**15


def plan_of(
    name: str,
    source: ScriptedSource,
    work: Callable[[Frame, int], Frame | None] = nothing,
    *,
    stateful: bool = False,
) -> StreamPlan:
    spec = StreamSpec(
        name,
        (Step("infer", "cpu", stateful),),
        credits=True,
        on_miss=OnMiss.DELIVER_LATE,
    )
    stages: tuple[tuple[Stage, ...], ...] = ((Do("infer", work),),)
    return StreamPlan(spec, source, stages, FAR_NS, Pace.FAST)


def runtime_of(
    *plans: StreamPlan,
    slots: int = 1,
    core: type[Scheduler] = Scheduler,
    on_record: Callable[[FrameRecord], None] = lambda record: None,
    placements: dict[str, Placement] | None = None,
) -> Runtime:
    resources = (Resource("cpu", slots),)
    scheduler = core([plan.spec for plan in plans], resources)
    return Runtime(
        plans,
        scheduler,
        resources,
        ManualClock(),
        on_record,
        placements=placements or {},
    )


def ours() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("edgepipe")]


# --- ready ------------------------------------------------------------------------


def test_it_is_ready_when_every_stream_has_delivered() -> None:
    gate = threading.Event()
    runtime = runtime_of(
        plan_of("a", ScriptedSource(5)), plan_of("b", ScriptedSource(5, gate=gate))
    )
    runtime.start()
    assert not runtime.wait_until_ready(0)
    gate.set()
    assert runtime.wait_until_ready(10)
    assert runtime.is_ready
    assert runtime.stop() == []


def test_a_stream_whose_source_has_ended_keeps_nobody_waiting() -> None:
    runtime = runtime_of(plan_of("a", ScriptedSource(0)))
    runtime.start()
    assert runtime.wait_until_ready(10)
    assert runtime.stop() == []


def test_who_waits_for_readiness_is_told_when_it_is_stopped_first() -> None:
    gate = threading.Event()
    runtime = runtime_of(plan_of("a", ScriptedSource(5, gate=gate)))
    runtime.start()
    answers: list[bool] = []
    waiter = threading.Thread(
        target=lambda: answers.append(runtime.wait_until_ready(30))
    )
    waiter.start()
    stopper = threading.Thread(target=runtime.stop)
    stopper.start()
    gate.set()
    stopper.join(10)
    waiter.join(10)
    assert len(answers) == 1


def test_the_end_is_told_once_and_at_once_to_whoever_asks_later() -> None:
    told: list[str] = []
    runtime = runtime_of(plan_of("a", ScriptedSource(2)))
    runtime.at_end(lambda: told.append("early"))
    runtime.start()
    assert runtime.wait(10)
    runtime.at_end(lambda: told.append("late"))
    assert runtime.stop() == []
    assert told == ["early", "late"]


# --- stop -------------------------------------------------------------------------


def test_two_stages_that_stop_it_at_the_same_moment_do_not_wait_for_each_other() -> (
    None
):
    both, answers = threading.Barrier(2), list[list[str]]()

    def stop(frame: Frame, worker: int) -> None:
        if frame.sequence == 0:
            both.wait(10)
            answers.append(runtime.stop(within_s=60))

    runtime = runtime_of(
        plan_of("a", ScriptedSource(10**6), stop),
        plan_of("b", ScriptedSource(10**6), stop),
        slots=2,
    )
    runtime.start()
    assert runtime.wait(10)
    assert runtime.stop(within_s=5) == []
    assert answers == [[], []]
    assert runtime.irregularities() == []


def test_who_stops_it_second_waits_for_the_first() -> None:
    inside, go_on = threading.Event(), threading.Event()

    def slow(frame: Frame, worker: int) -> None:
        inside.set()
        go_on.wait(10)

    runtime = runtime_of(plan_of("a", ScriptedSource(10**6), slow))
    runtime.start()
    assert inside.wait(10)
    stoppers = [threading.Thread(target=runtime.stop) for _ in range(4)]
    for stopper in stoppers:
        stopper.start()
    go_on.set()
    for stopper in stoppers:
        stopper.join(10)
    assert not any(stopper.is_alive() for stopper in stoppers)
    assert ours() == []
    with pytest.raises(StoppedError):
        runtime.start()


def test_a_scheduler_that_cannot_be_stopped_is_a_crash_and_still_the_end() -> None:
    class Broken(Scheduler):
        def handle(self, now_ns: int, event: CoreEvent) -> list[Action]:
            if isinstance(event, Stop):
                raise ZeroDivisionError
            return super().handle(now_ns, event)

    runtime = runtime_of(plan_of("a", ScriptedSource(10**6)), core=Broken)
    runtime.start()
    assert runtime.stop(within_s=5) == []
    assert ours() == []
    with pytest.raises(ZeroDivisionError):
        runtime.wait(0)


def test_a_source_may_stop_the_pipeline_that_it_feeds() -> None:
    @dataclass
    class Ending(ScriptedSource):
        stop: Callable[[], Sequence[str]] = list

        def next_arrival(self):  # type: ignore[no-untyped-def]
            if self.given == 3:
                self.stop()
            return super().next_arrival()

    source = Ending(10**6)
    runtime = runtime_of(plan_of("a", source))
    source.stop = runtime.stop
    runtime.start()
    assert runtime.wait(10)
    assert runtime.stop() == []
    assert runtime.balanced


# --- the books while it runs ------------------------------------------------------


@dataclass
class Checker:
    """Looks at the books as often as it can until it is told to end."""

    runtime: Runtime
    looks: int = 0
    found: list[str] = field(default_factory=list[str])
    done: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self.done.is_set():
            self.found += self.runtime.irregularities()
            self.looks += 1


def test_the_books_balance_at_every_instant_while_eight_threads_work() -> None:
    plans = [
        plan_of(f"s{number}", ScriptedSource(150), stateful=bool(number % 2))
        for number in range(4)
    ]
    runtime = runtime_of(*plans, slots=8)
    checker = Checker(runtime)
    thread = threading.Thread(target=checker.run)
    thread.start()
    runtime.start()
    assert runtime.wait(30)
    checker.done.set()
    thread.join(10)
    runtime.stop()
    assert checker.looks > 10
    assert checker.found == []
    assert [runtime.account(plan.spec.id).completed for plan in plans] == [150] * 4


def test_more_frames_in_flight_than_are_allowed_are_an_irregularity() -> None:
    inside, go_on = threading.Event(), threading.Event()

    def slow(frame: Frame, worker: int) -> None:
        inside.set()
        go_on.wait(10)

    plan = plan_of("a", ScriptedSource(3), slow)
    runtime = runtime_of(plan)
    runtime.start()
    assert inside.wait(10)
    assert runtime.irregularities() == []
    object.__setattr__(plan.spec, "max_in_flight", 0)
    (found,) = runtime.irregularities()
    assert found.endswith("frames in flight, at most 0 may be")
    object.__setattr__(plan.spec, "max_in_flight", 8)
    go_on.set()
    runtime.stop()


def test_a_sink_that_stands_still_keeps_no_more_frames_than_are_allowed() -> None:
    """The source has a million frames; memory has room for eight of them."""
    inside, go_on = threading.Event(), threading.Event()

    def sink(frame: Frame, worker: int) -> None:
        inside.set()
        go_on.wait(10)

    source = ScriptedSource(10**6)
    spec = StreamSpec(
        "a",
        (Step("decode", "cpu", stateful=True), Step("deliver", "cpu", stateful=True)),
        credits=True,
        overflow=Overflow.BLOCK,
        queue_capacity=2,
        max_in_flight=8,
    )
    stages: tuple[tuple[Stage, ...], ...] = ((Do("d", nothing),), (Do("s", sink),))
    plan = StreamPlan(spec, source, stages, FAR_NS, Pace.FAST)
    resources = (Resource("cpu", 2),)
    runtime = Runtime(
        [plan], Scheduler([spec], resources), resources, ManualClock(), lambda _: None
    )
    runtime.start()
    assert inside.wait(10)
    # The other worker goes on until the bound is reached, and then nothing runs.
    while runtime.depths("a").in_flight < 8:
        runtime.wait(0.001)
    depths = runtime.depths("a")
    assert (depths.in_flight, depths.peak_in_flight, depths.max_in_flight) == (8, 8, 8)
    assert depths.peak_queued <= depths.capacity == 2
    assert source.given <= 9
    go_on.set()
    assert runtime.stop() == []


# --- placement --------------------------------------------------------------------


def test_what_was_granted_and_refused_to_the_workers_is_known(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cpu = min(os.sched_getaffinity(0))
    granted = runtime_of(
        plan_of("a", ScriptedSource(1)), placements={"cpu": Placement(cpus=(cpu,))}
    )
    granted.start()
    assert granted.wait(10)
    granted.stop()
    assert granted.placed == {"edgepipe-cpu-0": f"cpus {cpu}"}
    refused = runtime_of(
        plan_of("a", ScriptedSource(1)), placements={"cpu": Placement(cpus=(1000,))}
    )
    refused.start()
    assert refused.wait(10)
    refused.stop()
    assert "refused" in refused.placed["edgepipe-cpu-0"]
    assert "edgepipe-cpu-0: cpus 1000 refused" in caplog.text


# --- fork -------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_copy_made_by_fork_can_be_closed_at_once_and_runs_nothing() -> None:
    inside, go_on = threading.Event(), threading.Event()

    def slow(frame: Frame, worker: int) -> None:
        inside.set()
        go_on.wait(20)

    runtime = runtime_of(plan_of("a", ScriptedSource(10**6), slow))
    runtime.start()
    assert inside.wait(10)
    # As if another thread had it at the moment of the fork.
    lock = runtime._lock  # pyright: ignore[reportPrivateUsage]
    lock.acquire()
    child = os.fork()
    if child == 0:
        signal.alarm(10)  # a child that hangs is killed, and fails the test
        fine = (
            runtime.is_inherited
            and runtime.stop() == []
            and runtime.wait()
            and runtime.account("a").captured >= 1
        )
        os._exit(0 if fine else 1)
    lock.release()
    assert os.waitpid(child, 0)[1] == 0
    assert not runtime.is_inherited
    go_on.set()
    assert runtime.stop() == []


def test_cycles_of_start_and_stop_leave_no_thread_and_no_descriptor() -> None:
    before = len(os.listdir("/proc/self/fd"))
    for number in range(50):
        source = ScriptedSource(10**6 if number % 2 else 2)
        plan = plan_of("a", source)
        runtime = Runtime(
            [plan],
            Scheduler([plan.spec], CPU),
            CPU,
            MonotonicClock(),
            lambda record: None,
        )
        runtime.start()
        assert runtime.wait_until_ready(10)
        assert runtime.stop(within_s=5) == []
        assert runtime.irregularities() == []
    assert ours() == []
    assert len(os.listdir("/proc/self/fd")) == before
