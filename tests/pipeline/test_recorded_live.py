"""Loads under which others fell behind, played by the real runtime in virtual time."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from live import ours

from edgepipe.scheduler.job import Mode, OnMiss, Resource, Step, StreamSpec
from edgepipe.scheduler.policy import BY_NAME
from edgepipe.scheduler.scenario import Camera, Pause, Scenario, ServiceModel
from edgepipe.scheduler.workload import DrawnFrame
from edgepipe.telemetry.records import FrameRecord
from edgepipe.telemetry.scheduling_metrics import measure

from .virtual_time import live_through

MS = 1_000_000
SECOND = 1000 * MS
GPU = (Resource("gpu"),)


def read(path: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(path.read_text())
    return data


def camera(name: str, fps: int, service: ServiceModel, **spec: Any) -> Camera:
    """A stream of one step on the accelerator."""
    step = Step("work", "gpu", stateful=False, cost_ns=service.mean_ns)
    told = StreamSpec(name, (step,), period_ns=SECOND // fps, **spec)
    return Camera(told, (service,), fps * 1000)


def in_time(records: list[FrameRecord]) -> list[FrameRecord]:
    return [record for record in records if record.fate == "completed"]


@pytest.mark.parametrize("policy", ["edf", "slack"])
def test_a_slow_consumer_makes_no_result_older(cases: Path, policy: str) -> None:
    given, expected = read(cases / "B01/load.json"), read(cases / "B01/expected.json")
    one = camera(
        "front",
        given["fps"],
        ServiceModel(round(given["service_ms"] * MS)),
        deadline_ns=given["deadline_ms"] * MS,
        mode=Mode.LATEST_ONLY,
    )
    length_ns = given["frames"] * SECOND // given["fps"]
    records = live_through(
        Scenario("slow", length_ns, GPU, (one,)), BY_NAME[policy]
    ).records
    done = in_time(records)
    ages_ms = [record.latency_ns / MS for record in done]
    tolerance = expected["tolerance_frames"]
    assert len(records) == expected["captured"]
    assert abs(len(done) - expected["processed"]) <= tolerance
    assert abs(len(records) - len(done) - expected["dropped"]) <= tolerance
    assert max(ages_ms) == pytest.approx(expected["max_latency_ms"], abs=0.05)
    # It does not grow: the last ten seconds look like the first ten.
    assert max(ages_ms[-200:]) <= max(ages_ms[:200]) + 0.001


def test_a_consumer_that_stands_still_costs_neither_memory_nor_freshness(
    cases: Path,
) -> None:
    given, expected = read(cases / "B02/load.json"), read(cases / "B02/expected.json")
    stop_ms, go_on_ms = given["consumer_stalled_ms"]
    one = camera(
        "front",
        given["fps"],
        ServiceModel(given["service_ms"] * MS),
        # The load names no deadline: all that the queue holds is worth the work.
        deadline_ns=100 * MS,
        on_miss=OnMiss.DELIVER_LATE,
        queue_capacity=given["queue_capacity"],
    )
    lived = live_through(
        Scenario(
            "stalled",
            given["seconds"] * SECOND,
            GPU,
            (one,),
            pauses=(Pause("gpu", stop_ms * MS, go_on_ms * MS),),
        ),
        BY_NAME["slack"],
    )
    dropped = [record for record in lived.records if record.fate == "dropped"]
    begun = [r for r in lived.records if r.spans]
    after = [r for r in begun if r.spans[0].start_ns >= go_on_ms * MS]
    first = min(after, key=lambda record: record.spans[0].start_ns)
    age_ms = (first.spans[0].start_ns - first.capture_ns) / MS
    assert len(lived.records) == expected["captured"]
    assert abs(len(dropped) - expected["dropped_about"]) <= expected["tolerance"]
    assert {record.reason for record in dropped} == {"overflow"}
    assert lived.stand.runtime.depths("front").peak_queued <= expected["queue_max"]
    assert age_ms <= expected["age_of_first_frame_after_stall_ms_max"]


def four_cameras(given: Mapping[str, Any]) -> Scenario:
    """Cameras in step whose frames are looked at in batches; three of four fit."""
    step = Step(
        "work",
        "gpu",
        stateful=False,
        cost_ns=10 * MS,
        batch_key="work",
        batch_max=given["batch"],
        batch_curve=(1000, 1400, 1800, 2200),
    )
    period_ns = SECOND // given["fps"]
    cameras = [
        Camera(
            StreamSpec(str(number), (step,), deadline_ns=100 * MS, period_ns=period_ns),
            (ServiceModel(10 * MS),),
            given["fps"] * 1000,
        )
        for number in range(given["sources"])
    ]
    return Scenario("dead", given["seconds"] * SECOND, GPU, tuple(cameras))


def silent(
    frames: dict[str, list[DrawnFrame]], dead: Mapping[str, Any]
) -> dict[str, list[DrawnFrame]]:
    """The frames without those of a source that is connected and sends nothing."""
    start_ns, end_ns = dead["from_s"] * SECOND, dead["to_s"] * SECOND
    name = str(dead["index"])
    heard = [f for f in frames[name] if not start_ns <= f.capture_ns < end_ns]
    return frames | {name: heard}


def test_a_source_that_falls_silent_costs_the_others_nothing(cases: Path) -> None:
    given, expected = (
        read(cases / "B03/sources.json"),
        read(cases / "B03/expected.json"),
    )
    scenario, dead = four_cameras(given), str(given["dead"]["index"])
    every = ours.drawn(scenario, 1)
    some = silent(every, given["dead"])
    records = live_through(scenario, BY_NAME["slack"], some).records
    before = live_through(scenario, BY_NAME["slack"], every).records
    captured = {name: sum(r.stream == name for r in records) for name in every}
    assert captured.pop(dead) == expected["frames_dead_source"]
    assert set(captured.values()) == {expected["frames_other_sources_each"]}
    assert {record.fate for record in records} == {"completed"}
    extra_ns = max(r.latency_ns for r in records) - max(r.latency_ns for r in before)
    assert extra_ns <= expected["extra_latency_ms_max"] * MS
    # Three arrive together: they are a batch of three, and nobody waits for a fourth.
    start_ns, end_ns = given["dead"]["from_s"] * SECOND, given["dead"]["to_s"] * SECOND
    meanwhile = [r for r in records if start_ns <= r.capture_ns < end_ns]
    assert max(record.batch for record in meanwhile) < given["batch"]


def test_a_warm_up_is_in_no_figure_and_reported_on_its_own(cases: Path) -> None:
    given = read(cases / "B11/latencies_ms.json")
    expected = read(cases / "B11/expected.json")
    times_ns = tuple(round(ms * MS) for ms in given["latencies"])
    one = camera(
        "front",
        1,
        ServiceModel(replay_ns=times_ns),
        deadline_ns=round(given["deadline_ms"] * MS),
        on_miss=OnMiss.DELIVER_LATE,
    )
    scenario = Scenario("warm-up", len(times_ns) * SECOND, GPU, (one,))
    warm_up_ns = given["warmup_frames"] * SECOND
    records = live_through(scenario, BY_NAME["slack"], warm_up_ns=warm_up_ns).records
    found = measure(records).all
    figures = {name: found.latency.percentiles[name] for name in ("p50", "p95", "p99")}
    assert figures == {name: round(expected[name] * MS) for name in figures}
    assert found.latency.n == expected["n"]
    assert found.latency.max == round(expected["max"] * MS)
    assert found.latency.mean == pytest.approx(expected["mean"] * MS, abs=0.001 * MS)
    assert found.outcomes.late == expected["misses"]
    warm = [record.latency_ns for record in records if record.warm_up]
    assert len(warm) == expected["warmup"]["n"]
    assert max(warm) == round(expected["warmup"]["max"] * MS)


@pytest.mark.parametrize("offset_ms", [0, 1, 9, 20, 33])
@pytest.mark.parametrize("policy", ["slack-unbatched", "slack"])
def test_a_process_that_stands_still_for_a_moment_is_soon_back(
    cases: Path, policy: str, offset_ms: int
) -> None:
    said = read(cases / "B13/expected.json")
    assert "60 ms stop-the-world pause" in said["inject"]
    assert "at most 3 misses" in said["rule"]
    period_ns, length_ns = SECOND // 30, 60 * SECOND
    one = camera("front", 30, ServiceModel(8 * MS), deadline_ns=33_300_000)
    scenario = Scenario("pauses", length_ns, GPU, (one,))
    begins_ns = [at + offset_ms * MS for at in range(5 * SECOND, length_ns, 5 * SECOND)]
    halts_ns = [(at_ns, at_ns + 60 * MS) for at_ns in begins_ns]
    lived = live_through(scenario, BY_NAME[policy], halts_ns=halts_ns)
    records = sorted(lived.records, key=lambda record: record.sequence)
    missed = [record for record in records if record.fate != "completed"]
    assert missed
    # The stamps are the camera's, not those of a late wake-up.
    stamps_ns = [f.capture_ns for f in ours.drawn(scenario, 1)["front"]]
    assert [record.capture_ns for record in records] == stamps_ns
    for start_ns, end_ns in halts_ns:
        near = [m for m in missed if start_ns - SECOND < m.capture_ns < end_ns + SECOND]
        assert len(near) <= 3
        assert all(miss.capture_ns < end_ns + 3 * period_ns for miss in near)
    assert {miss.reason for miss in missed} <= {"stale", "doomed", "expired"}
    assert lived.stand.runtime.depths("front").peak_in_flight <= 4
