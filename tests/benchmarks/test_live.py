"""What the live measurements rest on: work, frames, decisions, figures."""

import time
from dataclasses import replace
from threading import Event
from typing import Any

import live_critical
import live_freshness
import pytest
from live import ours, plain
from live.cameras import DrawnCamera, DrawnStage, Load
from live.chosen import CHOSEN, chosen
from live.decisions import Decisions, Step, Watched, latencies_ns
from live.figures import figures, percentile, reasons, shown, table
from live.memory import MIB, resident_bytes, slope
from live.work import BURNS, Burn, RealWork, Task, check_slots, wait_until
from live_agreement import Rounds
from live_freshness import Tally

from edgepipe.commands.simulation import to_record
from edgepipe.pipeline.frame import Frame
from edgepipe.scheduler.events import FrameArrived, JobDone, Start, TimerFired
from edgepipe.scheduler.job import Resource, Rung, StreamSpec
from edgepipe.scheduler.job import Step as StepSpec
from edgepipe.scheduler.policy import BY_NAME
from edgepipe.scheduler.scenario import Pause
from edgepipe.scheduler.simulate import simulate
from edgepipe.scheduler.workload import DrawnFrame
from edgepipe.telemetry.clock import ManualClock
from edgepipe.telemetry.records import FrameRecord, Span

MS = 1_000_000
SECOND = 1000 * MS


def record(
    stream: str = "a", sequence: int = 0, fate: str = "completed", **changes: Any
) -> FrameRecord:
    """A frame that was captured at 10 ms and worked on from 20 to 50 ms."""
    span = Span("detect", 12 * MS, 20 * MS, 50 * MS, "gpu", 0)
    made = FrameRecord(
        stream,
        sequence,
        10 * MS,
        None,
        100 * MS,
        fate,
        "expired" if fate == "dropped" else "",
        "detect",
        50 * MS,
        False,
        "full",
        1,
        0,
        0,
        (span,),
    )
    return made._replace(**changes)


# --- work -----------------------------------------------------------------------------


@pytest.mark.parametrize("burn", BURNS.values())
def test_work_on_the_processor_uses_the_cpu_time_that_was_asked_for(burn: Burn) -> None:
    before_ns = time.thread_time_ns()
    burn(3 * MS)
    assert time.thread_time_ns() - before_ns >= 3 * MS


def test_an_accelerator_is_a_wait_that_never_ends_early() -> None:
    at_ns = time.monotonic_ns() + 2 * MS
    wait_until(at_ns)
    assert time.monotonic_ns() >= at_ns


def test_how_late_work_ends_is_kept_by_its_kind() -> None:
    work = RealWork(lambda cost_ns: None)
    begun_ns = time.monotonic_ns() - SECOND
    work.perform(Task("a", 0, 0, "cpu", begun_ns, 100 * MS))
    work.perform(Task("a", 0, 1, "gpu", begun_ns, 200 * MS))
    assert len(work.cpu_error_ns) == len(work.accelerator_error_ns) == 1
    assert work.cpu_error_ns[0] >= 900 * MS
    assert work.accelerator_error_ns[0] >= 800 * MS


def test_nobody_burns_more_cores_than_there_are() -> None:
    with pytest.raises(ValueError, match="4096 slots of cpu"):
        check_slots([Resource("gpu", 4096), Resource("cpu", 4096)])
    check_slots([Resource("gpu", 4096), Resource("cpu")])


# --- frames ---------------------------------------------------------------------------


def test_a_camera_holds_back_what_arrives_after_its_capture() -> None:
    clock = ManualClock()
    drawn = [(0, 0), (40, 40), (200, 80), (200, 120)]
    frames = [
        DrawnFrame(arrival * MS, number, capture * MS, (MS,))
        for number, (arrival, capture) in enumerate(drawn)
    ]
    camera = DrawnCamera(frames, clock, begins_ns=SECOND)
    found: list[tuple[int, int | None, int]] = []
    while (arrival := camera.next_arrival()) is not None:
        found.append((arrival.index, arrival.pts_ns, clock.now_ns()))
    assert found == [
        (0, 0, SECOND),
        (1, 40 * MS, SECOND),  # for its capture the runtime waits
        (2, 80 * MS, SECOND + 200 * MS),
        (3, 120 * MS, SECOND + 200 * MS),
    ]
    assert camera.ended


def stage(clock: ManualClock, tasks: list[Task]) -> DrawnStage:
    """The second step of two streams; ``a`` has a rung that costs half."""
    drawn = {0: DrawnFrame(0, 0, 0, (MS, 10 * MS))}
    halved = Rung("small", 800, (1000, 500))
    load = Load({"a": drawn, "b": drawn}, {"a": {"small": halved}, "b": {}})
    step = StepSpec(
        "detect", "gpu", False, batch_key="d", batch_max=2, batch_curve=(1000, 1600)
    )
    return DrawnStage("detect", 1, step, load, tasks.append, clock)


def test_a_stage_takes_what_was_drawn_for_the_frame_on_its_rung() -> None:
    tasks: list[Task] = []
    detect = stage(ManualClock(5), tasks)
    full = detect.process(Frame("b", 0, 0, 0), 0)
    small = detect.process(Frame("a", 0, 0, 0, rung="small"), 0)
    assert [task.cost_ns for task in tasks] == [10 * MS, 5 * MS]
    assert tasks[0] == Task("b", 0, 1, "gpu", 5, 10 * MS)
    assert (full.variant, small.variant) == ("full", "small")


def test_a_batch_takes_what_its_curve_says() -> None:
    tasks: list[Task] = []
    detect = stage(ManualClock(), tasks)
    frames = detect.process_batch([Frame("a", 0, 0, 0), Frame("b", 0, 0, 0)], 0)
    assert [task.cost_ns for task in tasks] == [16 * MS]
    assert [f.batch for f in frames if isinstance(f, Frame)] == [2, 2]


def test_what_only_a_simulator_can_do_is_refused() -> None:
    scenario = chosen("bimodal", SECOND)
    ours.check(scenario)
    with pytest.raises(ValueError, match="only the simulator"):
        ours.check(replace(scenario, pauses=(Pause("gpu", 0, 1),)))
    camera = replace(scenario.cameras[0], starts_ns=1)
    with pytest.raises(ValueError, match="cam-0: only the simulator"):
        ours.check(replace(scenario, cameras=(camera,)))


@pytest.mark.parametrize("name", CHOSEN)
def test_what_is_chosen_can_be_played_live(name: str) -> None:
    ours.check(chosen(name, SECOND))


def test_a_shorter_scenario_has_its_stalls_sooner_and_as_long() -> None:
    found = chosen("stall-burst", 6 * SECOND)
    stalls = [
        (camera.spec.id, stall.start_ns, stall.end_ns)
        for camera in found.cameras
        for stall in camera.stalls
    ]
    assert stalls == [
        ("cam-1", 2 * SECOND, 3 * SECOND),
        ("cam-2", 4 * SECOND, 5500 * MS),
    ]


def test_a_result_that_is_late_is_given_up_where_late_ones_are_not_wanted() -> None:
    late = record(fate="late", done_ns=103 * MS)
    assert ours.judged(late)[5:7] == ("dropped", "expired")
    assert ours.judged(late).short_ns == 3 * MS
    assert ours.judged(record()) == record()


# --- the plain pipeline ---------------------------------------------------------------


def test_the_plain_pipeline_lets_no_frame_out_twice_and_none_get_lost() -> None:
    scenario, clock = chosen("mixed-criticality", SECOND), ManualClock()
    frames = ours.drawn(scenario, 1)
    found = plain.play(scenario, 4, frames, lambda task: None, clock).records
    everything = [(name, f.sequence) for name, each in frames.items() for f in each]
    assert sorted((r.stream, r.sequence) for r in found) == sorted(everything)
    fates = {(record.fate, record.reason) for record in found}
    assert fates <= {("completed", ""), ("late", ""), ("dropped", "overflow")}


def test_a_full_queue_of_the_plain_pipeline_drops_its_oldest_frame() -> None:
    scenario = live_freshness.overrun("100ms", SECOND)
    frames, tick = ours.drawn(scenario, 1), Event()
    most = len(frames["front"]) - 2

    def perform(task: Task) -> None:
        """Work on the first frame until all others have come."""
        while len(pipeline.records) < most:
            tick.wait(0.001)

    pipeline = plain.Pipeline(scenario, 1, perform, ManualClock())
    pipeline.run([scenario.cameras[0].spec], frames, 0)
    dropped = [r.sequence for r in pipeline.records if r.reason == "overflow"]
    assert len(dropped) >= most
    assert dropped == sorted(dropped)
    assert most + 1 not in dropped


# --- decisions ------------------------------------------------------------------------


def test_what_a_start_was_decided_on_is_noted() -> None:
    steps = (StepSpec("one", "cpu", False), StepSpec("two", "gpu", False))
    spec = StreamSpec("a", steps, deadline_ns=100, period_ns=10)
    core = Watched([spec], [Resource("cpu"), Resource("gpu")], BY_NAME["fifo"])
    (start,) = core.handle(7, FrameArrived("a", 0, 5, 105))
    assert isinstance(start, Start)
    core.handle(20, JobDone(start.jobs, 13))
    core.handle(30, TimerFired())
    assert core.decisions == {
        Step("a", 0, 0): 7,
        Step("a", 0, 1): Step("a", 0, 0),
    }


def test_a_decision_counts_from_the_end_of_what_made_it_possible() -> None:
    second = Span("post", 50 * MS, 53 * MS, 60 * MS, "cpu", 0)
    frame = record()
    frame = frame._replace(spans=(*frame.spans, second))
    decisions: Decisions = {
        Step("a", 0, 0): 19 * MS,
        Step("a", 0, 1): Step("a", 0, 0),
        Step("gone", 0, 0): 0,
    }
    steps = {"a": ["detect", "post"]}
    assert latencies_ns(decisions, [frame], steps) == [1 * MS, 3 * MS]


# --- figures --------------------------------------------------------------------------


def test_live_and_simulated_records_give_the_same_figures() -> None:
    scenario = chosen("overload", 2 * SECOND)
    outcome = simulate(scenario, BY_NAME["slack"], 1)
    found = figures(scenario, [to_record(frame) for frame in outcome.records])
    assert found.captured == outcome.captured
    assert found.on_time == sum(r.fate == "completed" for r in outcome.records)
    assert found.on_time + sum(found.misses.values()) == found.captured
    rounds = Rounds("overload", {"slack": [found]}, {"slack": [found]})
    assert rounds.ratios("slack") == [1.0]
    assert reasons([found]).startswith("doomed ")


def test_figures_are_shown_as_median_and_range() -> None:
    assert shown([3.0, 1.0, None, 2.0]) == "2.0 [1.0, 3.0]"
    assert shown([None]) == "-"
    assert percentile([5, 1, 4, 2, 3], 0.99) == 5
    assert percentile([], 0.5) == 0
    assert table(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"


def test_a_tally_tells_useful_work_from_wasted() -> None:
    tally = Tally()
    tally.add(record(sequence=0))
    tally.add(record(sequence=1, fate="dropped", done_ns=70 * MS))
    assert (tally.captured, tally.delivered, tally.oldest_ns) == (2, 1, 40 * MS)
    assert tally.wasted_share == 0.5
    assert tally.capacity_used == 0.5
    assert tally.misses == {"expired": 1}


def test_frames_wander_between_five_and_nine_a_second() -> None:
    scenario = live_freshness.overrun("wandering", SECOND)
    (camera,) = scenario.cameras
    costs_ns = camera.service[0].replay_ns
    assert (min(costs_ns), max(costs_ns)) == (110 * MS, 200 * MS)
    assert camera.spec.deadline_ns == 2 * sum(costs_ns) // len(costs_ns)


def test_a_critical_stream_is_heard_beside_the_longest_background_job() -> None:
    scenario = live_critical.beside(1, 60 * MS, SECOND)
    records = [record("front"), record("map"), record("front", 1, "dropped")]
    heard = live_critical.heard(scenario, records)
    assert heard.on_time == 0.5
    assert (heard.p99_ms, heard.longest_ms) == (40, 30)
    assert heard.background == 0.03
    assert len(live_critical.alone(scenario).cameras) == 1


def test_the_slope_of_memory_has_an_upper_end_that_holds_the_noise() -> None:
    times_s = [float(second) for second in range(0, 600, 10)]
    steady = [100 * MIB + (MIB if n % 2 else 0) for n in range(60)]
    leaking = [100 * MIB + n * MIB for n in range(60)]
    assert abs(slope(times_s, steady).slope) < 0.01 < slope(times_s, steady).upper
    assert slope(times_s, leaking).slope == pytest.approx(6)
    assert resident_bytes() > MIB
