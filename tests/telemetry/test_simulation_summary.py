from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from edgepipe.telemetry.frame_columns import by_stream
from edgepipe.telemetry.records import FrameRecord, Span
from edgepipe.telemetry.scheduling_metrics import Terms, measure
from edgepipe.telemetry.simulation_summary import (
    NEVER,
    NO_BOUND,
    NO_EVENT,
    PolicyRun,
    SimulationFacts,
    policy_summary,
    simulation_summary,
)
from edgepipe.telemetry.summary_schema import load_schema, reference, validate

ROOT = Path(__file__).parents[2]
MS = 1_000_000
SECOND = 1000 * MS

MakeFrame = Callable[..., FrameRecord]


def frames(fates: str, stream: str = "cam") -> list[FrameRecord]:
    """Ten frames a second of 20 ms each: ``.`` on time, ``x`` doomed after 5 ms."""
    return [frame(n, fate == ".", stream) for n, fate in enumerate(fates)]


def frame(sequence: int, on_time: bool, stream: str) -> FrameRecord:
    capture_ns = sequence * 100 * MS
    end_ns = capture_ns + (20 if on_time else 5) * MS
    return FrameRecord(
        stream,
        sequence,
        capture_ns,
        capture_ns,
        capture_ns + 50 * MS,
        "completed" if on_time else "dropped",
        "" if on_time else "doomed",
        "detect",
        end_ns,
        False,
        "full",
        1,
        0,
        0,
        (Span("detect", capture_ns, capture_ns, end_ns, "gpu", 0),),
    )


def facts(**changes: Any) -> SimulationFacts:
    fields: dict[str, Any] = {
        "scenario": "test",
        "about": "one camera",
        "seeds": [1, 2],
        "duration_ns": SECOND,
        "config_hash": "ab" * 32,
        "accelerators": ["gpu"],
        "slots": {"gpu": 1, "cpu": 2},
        "events": [],
    }
    return SimulationFacts(**(fields | changes))


TERMS = Terms(
    criticality={"cam": "critical", "map": "background"},
    contracts={"cam": (2, 3)},
)


def run(records: Sequence[FrameRecord], **changes: Any) -> PolicyRun:
    ended_ns = max((record.done_ns for record in records), default=0)
    events_ns = changes.pop("events_ns", ())
    metrics = measure(records, TERMS, from_ns=0, until_ns=ended_ns, events_ns=events_ns)
    fields: dict[str, Any] = {
        "metrics": metrics,
        "frames": by_stream(records),
        "ended_ns": ended_ns,
        "moves": 0,
        "redated": 0,
        "alarms": {},
        "refused": [],
    }
    return PolicyRun(**(fields | changes))


def test_shares_are_means_over_the_seeds_and_the_range_is_told() -> None:
    summary = policy_summary(facts(), [run(frames("....")), run(frames("..xx"))])
    assert (summary["on_time"], summary["on_time_range"]) == (0.75, [0.5, 1.0])
    assert summary["on_time_by_criticality"] == {"critical": 0.75}
    assert summary["utility"] == 0.75


def test_counts_are_sums_over_the_seeds_and_runs_of_misses_the_longest() -> None:
    runs = [
        run(frames(".x.x"), moves=2, alarms={"timestamp_step": 1}, redated=3),
        run(frames("xxx."), moves=1, alarms={"timestamp_step": 2}, refused=["map"]),
    ]
    summary = policy_summary(facts(), runs)
    assert (summary["captured"], summary["dropped"]) == (8, {"doomed": 5})
    assert (summary["mk_violations"], summary["max_consecutive_misses"]) == (3, 3)
    assert (summary["ladder_moves"], summary["redated"]) == (3, 3)
    assert (summary["alarms"], summary["refused"]) == ({"timestamp_step": 3}, ["map"])


def test_percentiles_are_of_the_frames_of_all_seeds_together() -> None:
    summary = policy_summary(facts(), [run(frames("...")), run(frames("..."))])
    latency = summary["latency_ms"]
    assert (latency["n"], latency["p50"], latency["max"]) == (6, 20, 20)
    assert (summary["age_ms"]["n"], summary["age_ms"]["max"]) == (4, 120)


def test_the_accelerator_s_time_for_frames_that_missed_is_wasted() -> None:
    summary = policy_summary(facts(), [run(frames(".x"))])
    assert summary["wasted_share"] == pytest.approx(5 / 25)
    assert summary["utilisation"] == {"gpu": pytest.approx(25 / 105), "cpu": 0.0}
    nowhere = policy_summary(facts(accelerators=["dla"]), [run(frames(".x"))])
    assert nowhere["wasted_share"] is None


def test_fairness_is_the_lowest_of_any_criticality_and_seed() -> None:
    both = frames("....") + frames("....", "map")
    uneven = frames("....") + frames("xxxx", "other")
    terms = Terms(criticality={"cam": "critical", "other": "critical"})
    metrics = measure(uneven, terms, from_ns=0, until_ns=SECOND)
    runs = [run(both), run(uneven, metrics=metrics)]
    assert policy_summary(facts(), runs)["fairness"] == 0.5


def test_criticalities_come_in_their_order() -> None:
    summary = policy_summary(facts(), [run(frames("..", "map") + frames("x.", "cam"))])
    assert list(summary["on_time_by_criticality"].items()) == [
        ("critical", 0.5),
        ("background", 1.0),
    ]


@pytest.mark.parametrize(
    ("fates", "events", "recovery_s", "reason"),
    [
        ("." * 50, [], None, NO_EVENT),
        ("." * 20 + "x" * 10 + "." * 40, [(2 * SECOND, "it")], 1, ""),
        ("." * 20 + "x" * 30, [(2 * SECOND, "it")], None, NEVER),
    ],
)
def test_recovery_is_the_longest_or_there_is_a_reason(
    fates: str, events: list[tuple[int, str]], recovery_s: int | None, reason: str
) -> None:
    told = facts(events=events)
    records = frames(fates)
    summary = policy_summary(told, [run(records, events_ns=[at for at, _ in events])])
    assert summary["recovery_s"] == recovery_s
    assert summary["reason"] == "; ".join(filter(None, [NO_BOUND, reason]))


def test_nothing_captured_is_null_with_a_reason() -> None:
    summary = policy_summary(facts(), [run([])])
    assert summary["on_time"] is None
    assert "no frame was captured" in summary["reason"]


@pytest.fixture
def document() -> dict[str, Any]:
    runs = [run(frames("....")), run(frames("xxxx"))]
    return simulation_summary(
        facts(events=[(SECOND // 2, "it happens")]),
        {"fifo": policy_summary(facts(), runs), "slack": policy_summary(facts(), runs)},
    )


def test_the_document_follows_its_schema(document: dict[str, Any]) -> None:
    Draft202012Validator.check_schema(load_schema("simulation"))
    validate(document, "simulation")
    assert document["schema"] == "edgepipe.simulation/1"
    assert document["events"] == [{"at_s": 0.5, "what": "it happens"}]
    assert list(document["policies"]) == ["fifo", "slack"]


def test_later_versions_may_add_keys(document: dict[str, Any]) -> None:
    document["policies"]["fifo"]["energy_j"] = 3
    validate(document | {"more": 1}, "simulation")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"on_time": 1.5}, "1.5 is greater than the maximum"),
        ({"reason": ""}, "null without a reason"),
        ({"mk_violations": None}, "None is not of type 'integer'"),
    ],
)
def test_what_breaks_the_schema_is_refused(
    document: dict[str, Any], change: dict[str, Any], complaint: str
) -> None:
    document["policies"]["fifo"] |= change
    with pytest.raises(ValueError, match=complaint):
        validate(document, "simulation")


def test_the_page_about_the_document_is_the_one_that_the_schema_gives() -> None:
    page = (ROOT / "docs" / "simulation.md").read_text(encoding="utf-8")
    assert page == reference("simulation"), (
        "write it anew: python -m edgepipe.telemetry.summary_schema simulation"
    )
