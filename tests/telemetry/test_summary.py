import json
from collections.abc import Callable
from dataclasses import replace
from math import isclose
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgepipe.telemetry.records import FrameRecord, SourceRecord
from edgepipe.telemetry.report import render_report
from edgepipe.telemetry.run_facts import EventFacts, MoveFacts, RunFacts, StreamFacts
from edgepipe.telemetry.run_statistics import RunStatistics
from edgepipe.telemetry.summary import MOST_EVENTS, build_summary
from edgepipe.telemetry.summary_schema import validate
from edgepipe.telemetry.text_summary import render_text

MS = 1_000_000

MakeFrame = Callable[..., FrameRecord]
MakeRun = Callable[..., tuple[RunFacts, RunStatistics]]


DESIGNED = """
verdict reasons duration_s warmup_s environment config_hash input_hash commit
streams.front.captured streams.front.completed streams.front.late
streams.front.dropped streams.front.failed streams.front.in_flight
streams.front.deadline_ms streams.front.miss_ratio streams.front.fps_in
streams.front.fps_out streams.front.jitter_ms
streams.front.latency_ms.p50 streams.front.latency_ms.p90
streams.front.latency_ms.p95 streams.front.latency_ms.p97
streams.front.latency_ms.p99 streams.front.latency_ms.p99_9
streams.front.latency_ms.max streams.front.age_ms.p50 streams.front.age_ms.max
stages.infer.n stages.infer.queue_ms.p99 stages.infer.service_ms.p99
stages.infer.resource resources.cpu.utilisation resources.cpu.blocked_ms.p99
device.power.value device.power.reason device.power.scope device.power.sensor
device.power.rate_hz device.energy_j.gross device.energy_j.net
device.energy_j.idle_w device.joules_per_frame.error_pct device.clocks
device.temperature device.throttle.events
process.cpu_s_per_frame process.rss_mb.start process.rss_mb.end
process.rss_mb.slope_per_h process.threads process.fds ledger.balanced
"""


@pytest.fixture
def summary(make_run: MakeRun, make_frame: MakeFrame) -> dict[str, Any]:
    return build_summary(*make_run([make_frame(n) for n in range(300)]))


def test_a_summary_fits_its_schema_and_is_json(summary: dict[str, Any]) -> None:
    validate(summary)
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


@pytest.mark.parametrize(
    "path",
    DESIGNED.split(),
)
def test_the_summary_has_every_key_that_was_designed(
    summary: dict[str, Any], path: str
) -> None:
    here: Any = summary
    for key in path.split("."):
        assert key in here, path
        here = here[key]


def test_what_no_sensor_read_is_null_with_a_reason_and_never_zero(
    summary: dict[str, Any],
) -> None:
    device = summary["device"]
    measured = "power energy_j joules_per_frame clocks temperature throttle sampling"
    for name in measured.split():
        quantity = device[name]
        reason = quantity["reason"]
        assert set(quantity.values()) == {None, reason}, name
        assert "no sensor was read" in reason, name
    assert (device["other_scopes"], device["rails_w"], device["unread"]) == ({}, {}, {})


def test_a_valid_run_gives_no_reasons_and_an_invalid_one_does(
    make_run: MakeRun, make_frame: MakeFrame, summary: dict[str, Any]
) -> None:
    assert (summary["verdict"], summary["reasons"]) == ("VALID", [])
    short = build_summary(*make_run([make_frame(0)]))
    assert short["verdict"] == "INVALID"
    assert len(short["reasons"]) == 1


def test_counts_rates_and_ratios_are_those_of_the_measured_part(
    make_run: MakeRun, make_frame: MakeFrame
) -> None:
    frames = [
        *(make_frame(n, warm_up=True, latency_ms=200) for n in range(10)),
        *(make_frame(n) for n in range(10, 80)),
        *(make_frame(n, fate="dropped", reason="stale") for n in range(80, 100)),
        *(make_frame(n, fate="dropped", reason="doomed") for n in range(100, 105)),
        *(make_frame(n, fate="failed", reason="damaged") for n in range(105, 108)),
        *(make_frame(n, fate="late") for n in range(108, 110)),
    ]
    facts, statistics = make_run(frames)
    stream = build_summary(facts, statistics)["streams"]["front"]
    assert stream["captured"] == 100
    assert stream["completed"] == 70
    assert stream["late"] == 2
    assert stream["dropped"] == {"doomed": 5, "stale": 20}
    assert stream["failed"] == {"damaged": 3}
    assert stream["warmup_frames"] == 10
    assert stream["miss_ratio"] == 0.30
    assert stream["drop_ratio"] == 0.25
    assert (stream["fps_in"], stream["fps_out"]) == (10.0, 7.2)


def test_frames_still_in_flight_are_captured_frames(
    make_run: MakeRun, make_frame: MakeFrame
) -> None:
    facts, statistics = make_run([make_frame(n) for n in range(98)])
    ledger = replace(facts.streams[0], captured=100, in_flight=2)
    facts = replace(facts, streams=[ledger])
    summary = build_summary(facts, statistics)
    assert summary["streams"]["front"]["captured"] == 100
    assert summary["streams"]["front"]["in_flight"] == 2
    assert summary["ledger"] == {"balanced": True}


def test_the_warm_up_is_shown_apart_with_its_worst_latency(
    make_run: MakeRun, make_frame: MakeFrame
) -> None:
    frames = [make_frame(0, warm_up=True, latency_ms=416.2), make_frame(1)]
    summary = build_summary(*make_run(frames))
    assert summary["warmup"]["frames"] == 1
    assert summary["warmup"]["latency_ms"]["max"] == 416.2
    assert summary["streams"]["front"]["latency_ms"]["max"] == 20.0


def test_a_stream_without_a_single_frame_is_all_null_with_reasons(
    make_run: MakeRun,
) -> None:
    silent = StreamFacts("front", "normal", 33 * MS, 0, 0, {})
    summary = build_summary(*make_run([], streams=[silent]))
    validate(summary)
    stream = summary["streams"]["front"]
    assert stream["miss_ratio"] is None
    assert stream["reason"] == "no frame was captured"
    assert stream["latency_ms"]["reason"] == "no frame was delivered"
    assert stream["latency_parts_ms"]["total"] is None
    assert stream["source"]["reason"] == "the source did not report how it ended"


def test_a_run_of_no_length_has_no_rates(
    make_run: MakeRun, make_frame: MakeFrame
) -> None:
    summary = build_summary(*make_run([make_frame()], measured_until_ns=5_000 * MS))
    validate(summary)
    assert summary["streams"]["front"]["fps_in"] is None
    assert summary["resources"]["cpu"]["utilisation"] is None


def test_a_run_without_inference_says_so(
    make_run: MakeRun, make_frame: MakeFrame
) -> None:
    facts, statistics = make_run([make_frame()], engine=None, model=None)
    summary = build_summary(facts, statistics)
    validate(summary)
    assert summary["engine"] == {"value": None, "reason": "no stage infers"}


def test_the_parts_of_the_mean_latency_add_up_to_it(summary: dict[str, Any]) -> None:
    parts = summary["streams"]["front"]["latency_parts_ms"]
    stages = sum(s["queue"] + s["service"] for s in parts["stages"].values())
    assert isclose(parts["capture"] + stages + parts["other"], 20.0)
    assert parts["total"] == summary["streams"]["front"]["latency_ms"]["mean"] == 20.0


def test_utilisation_is_busy_time_by_slots_and_measured_time(
    make_run: MakeRun, make_frame: MakeFrame
) -> None:
    frames = [make_frame(n) for n in range(250)]
    summary = build_summary(*make_run(frames))
    busy_ns = 250 * sum(span.service_ns for span in make_frame().spans)
    cpu = summary["resources"]["cpu"]
    assert cpu["busy_s"] == busy_ns / 1e9
    assert isclose(cpu["utilisation"], busy_ns / (2 * 10e9))


def test_a_stream_that_freezes_shows_the_age_of_its_last_result_at_the_end(
    make_run: MakeRun, make_frame: MakeFrame
) -> None:
    summary = build_summary(*make_run([make_frame(n) for n in range(3)]))
    age = summary["streams"]["front"]["age_ms"]
    assert age["n"] == 3
    assert age["max"] == 10_000 - 80  # captured 80 ms into ten seconds


def test_passwords_in_addresses_never_reach_the_summary(
    make_run: MakeRun, make_frame: MakeFrame
) -> None:
    source = SourceRecord("front", "rtsp://me:s3@cret@10.0.0.7/1", "stopped", "", None)
    summary = build_summary(*make_run([make_frame()], sources=[source]))
    assert "cret" not in json.dumps(summary)
    assert summary["streams"]["front"]["source"]["uri"] == "rtsp://***@10.0.0.7/1"


def test_the_input_hash_is_the_files_and_for_several_streams_depends_on_each(
    make_run: MakeRun, make_frame: MakeFrame
) -> None:
    one = build_summary(*make_run([make_frame()]))
    assert one["input_hash"] == {"value": "ab" * 32, "reason": ""}
    frames = [make_frame(), make_frame(stream="rear")]
    facts, statistics = make_run(frames)
    both = build_summary(facts, statistics)
    other = replace(facts.sources[1], input_hash="ef" * 32)
    changed = build_summary(
        replace(facts, sources=[facts.sources[0], other]), statistics
    )
    assert both["input_hash"]["value"] not in (None, "ab" * 32)
    assert both["input_hash"] != changed["input_hash"]


def test_an_input_that_is_no_file_has_no_hash_but_a_reason(
    make_run: MakeRun, make_frame: MakeFrame
) -> None:
    camera = SourceRecord("front", "v4l2:///dev/video0", "stopped", "", None)
    summary = build_summary(*make_run([make_frame()], sources=[camera]))
    assert summary["input_hash"]["value"] is None
    assert "stream 'front' is not one file" in summary["input_hash"]["reason"]


def test_the_warm_up_is_not_in_percentiles_nor_in_misses(
    cases: Path, make_run: MakeRun, make_frame: MakeFrame
) -> None:
    given_ms = json.loads((cases / "B11/latencies_ms.json").read_text())
    expected = json.loads((cases / "B11/expected.json").read_text())
    deadline_ms = given_ms["deadline_ms"]
    frames = [
        make_frame(
            n,
            latency_ms=ms,
            fate="late" if ms > deadline_ms else "completed",
            warm_up=n < given_ms["warmup_frames"],
        )
        for n, ms in enumerate(given_ms["latencies"])
    ]
    summary = build_summary(*make_run(frames))
    stream, latency = (
        summary["streams"]["front"],
        summary["streams"]["front"]["latency_ms"],
    )
    assert latency["n"] == expected["n"]
    for name in ("p50", "p95", "p99", "max"):
        assert latency[name] == expected[name]
    assert isclose(latency["mean"], expected["mean"], abs_tol=5e-4)
    assert stream["late"] == expected["misses"]
    assert stream["miss_ratio"] == expected["misses"] / expected["n"]
    assert summary["warmup"]["frames"] == expected["warmup"]["n"]
    assert summary["warmup"]["latency_ms"]["max"] == expected["warmup"]["max"]


def test_every_captured_frame_has_one_fate_or_is_in_flight(
    cases: Path, make_run: MakeRun, make_frame: MakeFrame
) -> None:
    events = dict(json.loads((cases / "B06/counters.json").read_text())["events"])
    expected = json.loads((cases / "B06/expected.json").read_text())["events"]
    fates = (
        [("completed", "")] * events["done"]
        + [("dropped", "overflow")] * events["drop_queue"]
        + [("dropped", "stale")] * events["drop_stale"]
        + [("failed", "damaged")] * events["fail_decode"]
    )
    facts, statistics = make_run(
        [make_frame(n, fate=fate, reason=why) for n, (fate, why) in enumerate(fates)]
    )
    ledger = replace(
        facts.streams[0], captured=events["cap"], in_flight=expected["pending"]
    )
    stream = build_summary(replace(facts, streams=[ledger]), statistics)["streams"][
        "front"
    ]
    assert stream["captured"] == expected["captured"]
    assert stream["completed"] == expected["processed"]
    assert sum(stream["dropped"].values()) == expected["dropped"]
    assert sum(stream["failed"].values()) == expected["failed"]
    assert stream["drop_ratio"] == expected["drop_rate"]


fates = st.sampled_from(
    [("completed", ""), ("late", ""), ("dropped", "stale"), ("failed", "damaged")]
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(fates, st.booleans(), st.floats(0.1, 500)), max_size=40))
def test_any_run_gives_a_valid_document_whose_nulls_have_reasons(
    make_run: MakeRun,
    make_frame: MakeFrame,
    drawn: list[tuple[tuple[str, str], bool, float]],
) -> None:
    frames = [
        make_frame(n, fate=fate, reason=why, warm_up=warm_up, latency_ms=latency_ms)
        for n, ((fate, why), warm_up, latency_ms) in enumerate(drawn)
    ]
    summary = build_summary(*make_run(frames))
    validate(summary)
    for stream in summary["streams"].values():
        parts = (
            stream["completed"]
            + stream["late"]
            + sum(stream["dropped"].values())
            + sum(stream["failed"].values())
            + stream["in_flight"]
        )
        assert stream["captured"] == parts
        assert stream["captured"] + stream["warmup_frames"] == len(frames)


def test_what_stages_raised_and_sources_assumed_is_told(
    make_run: MakeRun, make_frame: MakeFrame
) -> None:
    facts, statistics = make_run(
        [make_frame()],
        stage_errors={"infer": (3, "ValueError('x')")},
        warnings=["front: assumed 25 fps"],
        unrecorded=2,
    )
    summary = build_summary(facts, statistics)
    validate(summary)
    assert summary["stage_errors"] == {
        "infer": {"count": 3, "first": "ValueError('x')"}
    }
    assert summary["warnings"] == ["front: assumed 25 fps"]
    assert summary["frame_log"]["unrecorded"] == 2


LADDER = {"full": 1.0, "small": 0.8, "track_only": 0.5}


def with_ladder(
    make_run: MakeRun, make_frame: MakeFrame
) -> tuple[RunFacts, RunStatistics]:
    frames = [
        *(make_frame(n, variant="full") for n in range(4)),
        *(make_frame(n, variant="small") for n in range(4, 7)),
        make_frame(7, variant="small", fate="late"),
        make_frame(8, variant="track_only"),
        make_frame(9, variant="", fate="dropped", reason="stride"),
    ]
    facts, statistics = make_run(frames)
    moves = [
        MoveFacts(facts.measured_from_ns - 2 * 10**8, "front", "small", "clock", 1250),
        MoveFacts(facts.measured_from_ns + 10**9, "front", "full", "probe", 600),
    ]
    (stream,) = facts.streams
    facts = replace(
        facts,
        streams=[replace(stream, values=LADDER)],
        moves=moves,
        moves_left_out=3,
    )
    return facts, statistics


def test_utility_counts_what_the_results_in_time_were_worth(
    make_run: MakeRun, make_frame: MakeFrame
) -> None:
    summary = build_summary(*with_ladder(make_run, make_frame))
    assert summary["streams"]["front"]["ladder"] == {
        "utility": pytest.approx((4 * 1 + 3 * 0.8 + 0.5) / 10),
        "on_time_share": 0.8,
        "rungs": {
            "full": {"value": 1.0, "on_time": 4},
            "small": {"value": 0.8, "on_time": 3},
            "track_only": {"value": 0.5, "on_time": 1},
        },
        "reason": "",
    }
    validate(summary)


def test_without_a_ladder_utility_is_the_share_in_time(
    make_run: MakeRun, make_frame: MakeFrame
) -> None:
    frames = [make_frame(0), make_frame(1, fate="dropped", reason="doomed")]
    ladder = build_summary(*make_run(frames))["streams"]["front"]["ladder"]
    assert (ladder["utility"], ladder["on_time_share"]) == (0.5, 0.5)
    assert ladder["rungs"] == {}


def test_moves_on_the_ladder_are_listed_with_time_and_cause(
    make_run: MakeRun, make_frame: MakeFrame
) -> None:
    summary = build_summary(*with_ladder(make_run, make_frame))
    assert summary["rung_changes"] == {
        "events": [
            {
                "at_s": -0.2,
                "stream": "front",
                "rung": "small",
                "cause": "clock",
                "demand": 1.25,
            },
            {
                "at_s": 1.0,
                "stream": "front",
                "rung": "full",
                "cause": "probe",
                "demand": 0.6,
            },
        ],
        "left_out": 3,
    }


def test_the_ladder_is_shown_where_there_is_one(
    make_run: MakeRun, make_frame: MakeFrame
) -> None:
    summary = build_summary(*with_ladder(make_run, make_frame))
    shown = render_text(summary)
    assert "front              69.0 %   80.0 %  full 4, small 3, track_only 1" in shown
    assert (
        "front           -0.2 s: small, because of clock at a demand of 125.0 %"
        in shown
    )
    assert "and 3 moves before these" in shown
    page = render_report(summary, ())
    assert "<h2>Ladder</h2>" in page
    assert "-0.20 s" in page
    plain = build_summary(*make_run([make_frame()]))
    assert "ladder" not in render_text(plain)
    assert "<h2>Ladder</h2>" not in render_report(plain, ())


def with_events(
    make_run: MakeRun, make_frame: MakeFrame, count: int
) -> tuple[RunFacts, RunStatistics]:
    facts, statistics = make_run([make_frame(0)])
    at_ns = facts.measured_from_ns
    history = [
        EventFacts(at_ns - 10**9, "front", "gap", "nothing", 5 * 10**8, 2 * 10**8),
        *(
            EventFacts(at_ns + k, "front", "end", "ended", None, 0)
            for k in range(count - 1)
        ),
    ]
    counts = {("front", "gap"): 7, ("front", "end"): count - 1, ("rear", "gap"): 1}
    facts = replace(facts, source_events=counts, source_history=history)
    return facts, statistics


def test_what_befell_a_source_is_counted_by_kind(
    make_run: MakeRun, make_frame: MakeFrame
) -> None:
    summary = build_summary(*with_events(make_run, make_frame, 2))
    assert summary["streams"]["front"]["source"]["events"] == {"end": 1, "gap": 7}
    assert summary["source_events"] == {
        "events": [
            {
                "at_s": -1.0,
                "stream": "front",
                "kind": "gap",
                "detail": "nothing",
                "pts_s": 0.5,
                "amount_s": 0.2,
                "reason": "",
            },
            {
                "at_s": 0.0,
                "stream": "front",
                "kind": "end",
                "detail": "ended",
                "pts_s": None,
                "amount_s": 0.0,
                "reason": "no frame has it",
            },
        ],
        "left_out": 7,
    }
    validate(summary)


def test_of_what_befell_sources_only_the_newest_is_listed(
    make_run: MakeRun, make_frame: MakeFrame
) -> None:
    run = with_events(make_run, make_frame, MOST_EVENTS + 5)
    found = build_summary(*run)["source_events"]
    assert len(found["events"]) == MOST_EVENTS
    assert found["left_out"] == MOST_EVENTS + 4 + 7 + 1 - MOST_EVENTS
    assert found["events"][-1]["at_s"] == pytest.approx((MOST_EVENTS + 3) / 1e9)


def test_what_befell_a_source_reaches_whoever_reads_text_or_the_report(
    make_run: MakeRun, make_frame: MakeFrame
) -> None:
    summary = build_summary(*with_events(make_run, make_frame, 2))
    assert "source events: gap 7" in " ".join(render_text(summary).split())
    report = render_report(summary, ())
    assert "What befell the sources" in report
    assert "0.500 s" in report


def test_a_run_to_which_nothing_happened_says_nothing_of_it(
    make_run: MakeRun, make_frame: MakeFrame
) -> None:
    summary = build_summary(*make_run([make_frame(0)]))
    assert "befell" not in render_text(summary) + render_report(summary, ())


def test_the_summarys_percentiles_are_those_of_all_frames(
    make_run: MakeRun, make_frame: MakeFrame, cases: Path
) -> None:
    seconds = json.loads((cases / "E08/per_second_ms.json").read_text())
    expected = json.loads((cases / "E08/expected.json").read_text())
    latencies = [ms for second in seconds for ms in second]
    frames = [make_frame(n, latency_ms=ms) for n, ms in enumerate(latencies)]
    latency = build_summary(*make_run(frames))["streams"]["front"]["latency_ms"]
    assert latency["n"] == expected["n"]
    for name, wanted in {
        "p50": "p50_pooled",
        "p99": "p99_pooled",
        "max": "max",
    }.items():
        assert isclose(latency[name], expected[wanted], abs_tol=1e-6)
    assert isclose(latency["p99_9"], expected["p999_pooled"], rel_tol=0.01)
    assert "p99_99" not in latency


def test_a_percentile_that_too_few_frames_bear_is_null_and_says_so(
    make_run: MakeRun, make_frame: MakeFrame
) -> None:
    frames = [make_frame(n, latency_ms=10 + n % 7) for n in range(1500)]
    latency = build_summary(*make_run(frames))["streams"]["front"]["latency_ms"]
    assert latency["p99"] is not None
    assert latency["p99_9"] is None
    assert "p99_9 needs 2995" in latency["reason"]
