"""The queue between a pipeline and the program that takes its results."""

import threading

import pytest

from edgepipe.pipeline.frame import Frame
from edgepipe.pipeline.pace import Pace
from edgepipe.pipeline.results import Results, WhenFull, run
from edgepipe.pipeline.runtime import Runtime, StreamPlan
from edgepipe.pipeline.stage import Stage
from edgepipe.scheduler.core import Scheduler
from edgepipe.scheduler.events import Action, JobDone
from edgepipe.scheduler.events import Event as CoreEvent
from edgepipe.scheduler.job import OnMiss, Overflow, Step, StreamSpec
from edgepipe.telemetry.clock import ManualClock

from .scripted import CPU, Do, ScriptedSource


def frame(sequence: int) -> Frame:
    return Frame("front", sequence, 0, 1)


def filled(when_full: WhenFull, *sequences: int, capacity: int = 2) -> Results:
    results = Results(capacity, when_full)
    for sequence in sequences:
        results.write(frame(sequence), 0)
    return results


def taken(results: Results) -> list[int]:
    found: list[int] = []
    while (one := results.take()) is not None:
        found.append(one.sequence)
    return found


def test_results_come_in_order_and_end_when_it_is_finished() -> None:
    results = filled(WhenFull.BLOCK, 0, 1)
    results.finish()
    assert taken(results) == [0, 1]


def test_the_oldest_result_makes_room_for_the_newest() -> None:
    results = filled(WhenFull.DROP_OLDEST, 0, 1, 2, 3)
    results.finish()
    assert taken(results) == [2, 3]
    statistics = results.statistics()
    assert (statistics.dropped, statistics.peak_depth, statistics.depth) == (2, 2, 0)
    assert not results.waits


def test_a_full_queue_keeps_the_writer_until_somebody_takes_one() -> None:
    results = filled(WhenFull.BLOCK, 0, 1)
    writer = threading.Thread(target=results.write, args=(frame(2), 0))
    writer.start()
    first = results.take()
    writer.join(10)
    assert first is not None
    assert first.sequence == 0
    assert results.statistics().depth == 2
    assert results.waits


def test_a_writer_that_waits_goes_on_when_nobody_will_take_any_more() -> None:
    results = filled(WhenFull.BLOCK, 0, 1)
    writer = threading.Thread(target=results.write, args=(frame(2), 0))
    writer.start()
    results.close()
    writer.join(10)
    assert not writer.is_alive()
    assert results.statistics().dropped == 3
    assert results.take() is None


def test_who_waits_for_a_result_is_told_that_none_will_come() -> None:
    results, found = Results(), list[Frame | None]()
    taker = threading.Thread(target=lambda: found.append(results.take()))
    taker.start()
    results.finish()
    taker.join(10)
    assert found == [None]


def test_room_for_no_result_is_refused() -> None:
    with pytest.raises(ValueError, match="capacity must be at least 1, got 0"):
        Results(0)


# --- with a runtime ---------------------------------------------------------------


def runtime_into(
    results: Results, source: ScriptedSource, core: type[Scheduler] = Scheduler
) -> Runtime:
    """One stream whose only stage delivers into the results."""
    deliver = Do("deliver", lambda frame, _: results.write(frame, 0))
    spec = StreamSpec(
        "front",
        (Step("deliver", "cpu", stateful=True),),
        overflow=Overflow.BLOCK,
        credits=True,
        on_miss=OnMiss.DELIVER_LATE,
    )
    stages: tuple[tuple[Stage, ...], ...] = ((deliver,),)
    plan = StreamPlan(spec, source, stages, 10**9, Pace.FAST)
    return Runtime([plan], core([spec], CPU), CPU, ManualClock(), lambda record: None)


def test_a_loop_gets_every_result_and_ends_with_the_source() -> None:
    results = Results()
    runtime = runtime_into(results, ScriptedSource(20))
    found = [one.sequence for one in run(results, runtime, 5)]
    assert found == list(range(20))
    assert not runtime.wait(0) or runtime.stop() == []
    assert runtime.account("front").completed == 20


def test_a_loop_that_is_left_early_stops_everything() -> None:
    results = Results()
    runtime = runtime_into(results, ScriptedSource(10**6))
    loop = run(results, runtime, 5)
    assert next(loop).sequence == 0
    loop.close()
    assert runtime.stop() == []
    assert runtime.irregularities() == []
    names = [t.name for t in threading.enumerate()]
    assert not [name for name in names if name.startswith("edgepipe")]


def test_a_slow_loop_holds_the_source_back() -> None:
    results, source = Results(), ScriptedSource(10**6)
    loop = run(results, runtime_into(results, source), 5)
    taken_so_far = [next(loop).sequence for _ in range(3)]
    assert taken_so_far == [0, 1, 2]
    assert source.given <= 3 + 4 + 8 + 1  # taken, waiting, in flight, about to be
    loop.close()


def test_a_stop_from_elsewhere_ends_the_loop() -> None:
    results = Results()
    runtime = runtime_into(results, ScriptedSource(10**6))
    loop = run(results, runtime, 5)
    next(loop)
    assert runtime.stop() == []
    assert len(list(loop)) <= 4 + 1


def test_a_bug_in_the_runtime_reaches_the_loop() -> None:
    class Broken(Scheduler):
        def handle(self, now_ns: int, event: CoreEvent) -> list[Action]:
            if isinstance(event, JobDone):
                raise ZeroDivisionError
            return super().handle(now_ns, event)

    results = Results()
    runtime = runtime_into(results, ScriptedSource(2), Broken)
    with pytest.raises(ZeroDivisionError):
        list(run(results, runtime, 5))
