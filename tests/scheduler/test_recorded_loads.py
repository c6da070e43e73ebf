"""Loads under which others fell behind, played against our scheduler."""

import json
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from edgepipe.scheduler.job import (
    Criticality,
    Mode,
    OnMiss,
    Resource,
    Step,
    StreamSpec,
)
from edgepipe.scheduler.outcome import SimulatedFrame
from edgepipe.scheduler.policy import BY_NAME
from edgepipe.scheduler.scenario import Camera, Pause, Scenario, ServiceModel
from edgepipe.scheduler.simulate import simulate

MS = 1_000_000
SECOND = 1000 * MS


def read(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What was given, and what is right."""
    given = json.loads((folder / "load.json").read_text())
    return given, json.loads((folder / "expected.json").read_text())


def camera(name: str, fps_milli: int, service_ms: float, **spec: Any) -> Camera:
    """A stream of one step that always takes the same time."""
    service_ns = round(service_ms * MS)
    step = Step("work", "gpu", stateful=False, cost_ns=service_ns)
    told = StreamSpec(name, (step,), period_ns=10**12 // fps_milli, **spec)
    return Camera(told, (ServiceModel(service_ns),), fps_milli)


def waiting_at_most(records: list[SimulatedFrame]) -> int:
    """Most frames that had come and neither begun nor left."""
    begins = [(r.spans[0].start_ns if r.spans else r.done_ns, -1) for r in records]
    # A frame that is pushed out leaves at the moment at which the new one comes.
    steps = sorted([(r.capture_ns, 1) for r in records] + begins)
    return max(accumulate(step for _, step in steps))


@pytest.mark.parametrize("policy", ["edf", "slack"])
def test_a_slow_consumer_makes_no_result_older(cases: Path, policy: str) -> None:
    given, expected = read(cases / "B01")
    one = camera(
        "front",
        given["fps"] * 1000,
        given["service_ms"],
        deadline_ns=given["deadline_ms"] * MS,
        mode=Mode.LATEST_ONLY,
    )
    length_ns = given["frames"] * SECOND // given["fps"]
    outcome = simulate(
        Scenario("slow", length_ns, (Resource("gpu"),), (one,)), BY_NAME[policy]
    )
    done = [record for record in outcome.records if record.fate == "completed"]
    latencies_ms = [(record.done_ns - record.capture_ns) / MS for record in done]
    assert outcome.captured == expected["captured"]
    assert abs(len(done) - expected["processed"]) <= expected["tolerance_frames"]
    dropped = outcome.captured - len(done)
    assert abs(dropped - expected["dropped"]) <= expected["tolerance_frames"]
    assert max(latencies_ms) == pytest.approx(expected["max_latency_ms"], abs=0.05)
    # It does not grow: the last ten seconds look like the first ten.
    assert max(latencies_ms[-200:]) <= max(latencies_ms[:200]) + 0.001


def test_without_a_bound_the_same_consumer_falls_half_a_minute_behind(
    cases: Path,
) -> None:
    given, expected = read(cases / "B01")
    one = camera(
        "front",
        given["fps"] * 1000,
        given["service_ms"],
        deadline_ns=given["deadline_ms"] * MS,
        on_miss=OnMiss.DELIVER_LATE,
    )
    length_ns = given["frames"] * SECOND // given["fps"]
    outcome = simulate(
        Scenario("slow", length_ns, (Resource("gpu"),), (one,)), BY_NAME["fifo"]
    )
    last = outcome.records[-1]
    latency_ms = (last.done_ns - last.capture_ns) / MS
    assert latency_ms == pytest.approx(expected["fifo_last_latency_ms"], abs=1)


def test_a_consumer_that_stands_still_costs_neither_memory_nor_freshness(
    cases: Path,
) -> None:
    given, expected = read(cases / "B02")
    stop_ms, go_on_ms = given["consumer_stalled_ms"]
    one = camera(
        "front",
        given["fps"] * 1000,
        given["service_ms"],
        # The load names no deadline: all that the queue holds is worth the work.
        deadline_ns=100 * MS,
        on_miss=OnMiss.DELIVER_LATE,
        queue_capacity=given["queue_capacity"],
    )
    outcome = simulate(
        Scenario(
            "stalled",
            given["seconds"] * SECOND,
            (Resource("gpu"),),
            (one,),
            pauses=(Pause("gpu", stop_ms * MS, go_on_ms * MS),),
        ),
        BY_NAME["slack"],
    )
    dropped = [record for record in outcome.records if record.fate == "dropped"]
    assert outcome.captured == expected["captured"]
    assert abs(len(dropped) - expected["dropped_about"]) <= expected["tolerance"]
    assert {record.reason for record in dropped} == {"overflow"}
    assert waiting_at_most(outcome.records) <= expected["queue_max"]
    _, age_ns = min(
        (record.spans[0].start_ns, record.spans[0].start_ns - record.capture_ns)
        for record in outcome.records
        if record.spans and record.spans[0].start_ns >= go_on_ms * MS
    )
    assert age_ns / MS <= expected["age_of_first_frame_after_stall_ms_max"]


@pytest.mark.parametrize(
    ("policy", "missed"),
    [("fifo", 166), ("edf", 166), ("slack-unbatched", 0), ("slack", 0)],
)
def test_a_long_background_job_costs_critical_frames_only_where_nobody_looks_ahead(
    policy: str, missed: int
) -> None:
    # 299 frames at 30 a second, 10 ms each within 30 ms; 60 ms of background work
    # every 90 ms, the first one 5 ms after the first frame.
    front = camera(
        "front",
        30_000,
        10,
        criticality=Criticality.CRITICAL,
        deadline_ns=30 * MS,
    )
    background = camera(
        "background",
        11_111,
        60,
        criticality=Criticality.BACKGROUND,
        deadline_ns=1 * SECOND,
    )
    late = Camera(background.spec, background.service, 11_111, phase_ns=5 * MS)
    length_ns = 299 * SECOND // 30
    outcome = simulate(
        Scenario("long", length_ns, (Resource("gpu"),), (front, late)), BY_NAME[policy]
    )
    frames = [record for record in outcome.records if record.stream == "front"]
    assert len(frames) == 299
    assert sum(record.fate != "completed" for record in frames) == missed
