from collections.abc import Callable
from dataclasses import replace
from math import isclose
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.telemetry.records import FrameRecord, Span
from edgepipe.telemetry.run_statistics import RunStatistics
from edgepipe.telemetry.scheduling_metrics import (
    GroupMetrics,
    SchedulingMetrics,
    Terms,
    measure,
)
from edgepipe.telemetry.stats import distribution, distribution_of

MS = 1_000_000
START_NS = 5_000 * MS
"""Capture of frame 0 as ``make_frame`` has it."""

MakeFrame = Callable[..., FrameRecord]
FATES = [
    ("completed", ""),
    ("late", ""),
    ("dropped", "doomed"),
    ("dropped", "stride"),
    ("failed", "damaged"),
]


@st.composite
def traces(draw: st.DrawFn) -> list[FrameRecord]:
    """Frames of up to three streams, some of them worked on in batches."""
    records: list[FrameRecord] = []
    for stream in draw(st.sets(st.sampled_from(["a", "b", "c"]))):
        for sequence in range(draw(st.integers(1, 12))):
            fate, reason = draw(st.sampled_from(FATES))
            capture_ns = sequence * 33 * MS
            begin_ns = capture_ns + draw(st.sampled_from([0, 1, 5])) * MS
            end_ns = begin_ns + draw(st.sampled_from([3, 7])) * MS
            variant = draw(st.sampled_from(["full", "small"]))
            span = Span("infer", capture_ns, begin_ns, end_ns, "gpu", 0)
            records.append(
                FrameRecord(
                    stream, sequence, capture_ns, None, capture_ns + 50 * MS, fate,
                    reason, "infer", end_ns, False, variant, 1, 0, 0, (span,),
                )
            )  # fmt: skip
    return records


TERMS = Terms(
    criticality={"a": "critical", "b": "critical", "c": "background"},
    weights={"a": 4},
    values_permille={(stream, "small"): 850 for stream in "abc"},
    contracts={"a": (2, 3)},
    periods_ns=dict.fromkeys("abc", 33 * MS),
)


def metrics(records: list[FrameRecord]) -> SchedulingMetrics:
    return measure(records, TERMS, events_ns=[100 * MS], moves_ns=[5, 6])


def groups(found: SchedulingMetrics) -> list[GroupMetrics]:
    return [found.all, *found.by_criticality.values()]


def test_without_frames_nothing_is_claimed() -> None:
    found = measure([], TERMS, events_ns=[0])
    assert found.all.outcomes.captured == 0
    assert found.all.outcomes.on_time_share is None
    assert found.all.utility is None
    assert found.all.fairness is None
    assert found.all.goodput_fps is None
    assert found.all.latency.max is None
    assert found.all.longest_miss_run == 0
    assert found.all.recovery_s == found.response_ns == (None,)
    assert (found.by_criticality, found.by_stream, found.by_resource) == ({}, {}, {})


def test_one_frame_on_time_is_all_there_is(make_frame: MakeFrame) -> None:
    found = measure([make_frame(latency_ms=20)], Terms(periods_ns={"front": 40 * MS}))
    front = found.by_stream["front"]
    assert found.duration_ns == 20 * MS
    assert found.all.outcomes.on_time_share == found.all.utility == 1
    assert found.all.goodput_fps == 50
    assert found.all.fairness == 1
    assert front.latency.max == 20 * MS
    assert front.peak_age.n == 0
    assert front.peak_age.reason == "no result was replaced by a newer one"
    assert front.interval_error.reason == "fewer than two frames were delivered"
    assert front.contract_violations is None


def test_when_all_frames_are_dropped_only_misses_are_left(
    make_frame: MakeFrame,
) -> None:
    records = [make_frame(n, fate="dropped", reason="doomed") for n in range(4)]
    found = measure(records, Terms(contracts={"front": (1, 2)}), events_ns=[START_NS])
    front = found.by_stream["front"]
    assert front.outcomes.on_time_share == front.utility == 0
    assert front.outcomes.dropped == {"doomed": 4}
    assert front.latency.reason == "no frame was delivered"
    assert front.longest_miss_run == 4
    assert front.contract_violations == found.all.contract_violations == 3
    assert found.all.fairness is None
    assert found.response_ns == (None,)
    assert found.by_resource["cpu"].wasted_share == 1


def test_shares_are_of_the_frames_captured_and_the_misses_are_told_apart(
    make_frame: MakeFrame,
) -> None:
    outcomes = measure(
        [
            make_frame(0),
            make_frame(1, fate="late"),
            make_frame(2, fate="dropped", reason="stride"),
            make_frame(3, fate="dropped", reason="overflow"),
            make_frame(4, fate="failed", reason="hung"),
        ]
    ).all.outcomes
    assert outcomes.on_time_share == 0.2
    assert (outcomes.captured, outcomes.on_time, outcomes.late) == (5, 1, 1)
    assert outcomes.dropped == {"overflow": 1, "stride": 1}
    assert outcomes.failed == {"hung": 1}


def test_frames_of_the_warm_up_are_left_out(make_frame: MakeFrame) -> None:
    late = make_frame(0, fate="late", warm_up=True)
    assert measure([late, make_frame(1)]) == measure([make_frame(1)])


def test_utility_weighs_frames_by_stream_and_variant(make_frame: MakeFrame) -> None:
    records = [
        make_frame(0, stream="a", variant="full"),
        make_frame(1, stream="a", variant="small"),
        make_frame(2, stream="a", fate="late", variant="full"),
        make_frame(0, stream="b", variant="small"),
    ]
    found = measure(records, TERMS)
    # Stream a: 4 of weight for each of three frames; b: 1.
    assert found.all.utility == (4 * 1000 + 4 * 850 + 850) / (13 * 1000)
    assert found.by_stream["a"].utility == (1000 + 850) / 3000
    assert found.by_stream["b"].utility == 0.85


def test_streams_are_summed_up_by_criticality(make_frame: MakeFrame) -> None:
    records = [
        make_frame(0, stream="a"),
        make_frame(0, stream="b", fate="dropped", reason="doomed"),
        make_frame(0, stream="c", latency_ms=30),
        make_frame(0, stream="unnamed"),
    ]
    found = measure(records, TERMS)
    assert list(found.by_criticality) == ["background", "critical"]
    critical = found.by_criticality["critical"]
    assert critical.streams == ("a", "b")
    assert critical.outcomes.on_time_share == 0.5
    assert critical.fairness == 0.5
    assert critical.longest_miss_run == 1
    assert found.by_criticality["background"].latency.max == 30 * MS
    assert found.all.outcomes.captured == 4


def test_recovery_is_looked_for_in_each_criticality(make_frame: MakeFrame) -> None:
    def fate(stream: str, n: int) -> str:
        return "late" if stream == "c" and n < 25 else "completed"

    records = [
        make_frame(n, stream=s, fate=fate(s, n)) for s in "ac" for n in range(125)
    ]
    found = measure(
        records, TERMS, events_ns=[START_NS], until_ns=START_NS + 5_000 * MS
    )
    assert found.by_criticality["critical"].recovery_s == (0,)
    assert found.by_criticality["background"].recovery_s == (1,)
    assert found.all.recovery_s == (1,)


def test_the_response_is_that_of_the_slowest_stream_with_a_promise(
    make_frame: MakeFrame,
) -> None:
    def fate(stream: str, n: int) -> str:
        return "late" if n < {"a": 2, "b": 3, "c": 9}[stream] else "completed"

    records = [
        make_frame(n, stream=s, fate=fate(s, n)) for s in "abc" for n in range(9)
    ]
    terms = Terms(contracts={"a": (3, 3), "b": (3, 3), "gone": (1, 1)})
    event_ns = START_NS + 1
    assert measure(records, terms, events_ns=[event_ns]).response_ns == (120 * MS - 1,)
    never = replace(terms, contracts={"a": (3, 3), "c": (1, 3)})
    assert measure(records, never, events_ns=[event_ns]).response_ns == (None,)


def test_moves_are_counted_over_the_measured_time(make_frame: MakeFrame) -> None:
    found = measure(
        [make_frame()], from_ns=0, until_ns=120_000 * MS, moves_ns=[1, 2, 90_000 * MS]
    )
    assert (found.moves_per_minute, found.most_moves_in_a_minute) == (1.5, 2)


@pytest.mark.parametrize("contract", [(0, 1), (3, 2)])
def test_a_promise_that_means_nothing_is_refused(contract: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="contract of 'front': needs 1 <= m <= k"):
        Terms(contracts={"front": contract})


@given(traces())
def test_every_share_lies_between_nothing_and_all(records: list[FrameRecord]) -> None:
    found = metrics(records)
    for group in groups(found):
        shares = [group.outcomes.on_time_share, group.utility, group.fairness]
        assert all(share is None or 0 <= share <= 1 for share in shares)
        outcomes = group.outcomes
        lost = sum(outcomes.dropped.values()) + sum(outcomes.failed.values())
        assert outcomes.captured == outcomes.on_time + outcomes.late + lost
    for work in found.by_resource.values():
        assert work.wasted_share is None or 0 <= work.wasted_share <= 1


@given(traces(), st.randoms(use_true_random=False))
def test_the_order_of_the_records_changes_nothing(
    records: list[FrameRecord], random: Random
) -> None:
    shuffled = records.copy()
    random.shuffle(shuffled)
    assert metrics(shuffled) == metrics(records)


@given(traces())
def test_a_trace_beside_its_own_copy_has_the_same_shares(
    records: list[FrameRecord],
) -> None:
    twins = [
        record._replace(
            stream=f"{record.stream}'",
            spans=tuple(span._replace(worker=1) for span in record.spans),
        )
        for record in records
    ]
    once, twice = measure(records), measure(records + twins)
    assert twice.all.outcomes.captured == 2 * once.all.outcomes.captured
    assert twice.all.outcomes.on_time_share == once.all.outcomes.on_time_share
    assert twice.all.utility == once.all.utility
    assert twice.all.latency.max == once.all.latency.max
    assert twice.all.longest_miss_run == once.all.longest_miss_run
    assert isclose(twice.all.fairness or 0, once.all.fairness or 0)
    for name, work in once.by_resource.items():
        assert twice.by_resource[name].busy_ns == 2 * work.busy_ns
        assert isclose(twice.by_resource[name].wasted_ns, 2 * work.wasted_ns)


@given(traces(), st.integers(-(2**40), 2**40))
def test_moving_a_trace_in_time_changes_nothing(
    records: list[FrameRecord], by_ns: int
) -> None:
    moved = [
        record._replace(
            capture_ns=record.capture_ns + by_ns,
            done_ns=record.done_ns + by_ns,
            spans=tuple(
                span._replace(
                    start_ns=span.start_ns + by_ns, end_ns=span.end_ns + by_ns
                )
                for span in record.spans
            ),
        )
        for record in records
    ]
    there = measure(moved, TERMS, events_ns=[100 * MS + by_ns])
    assert there == measure(records, TERMS, events_ns=[100 * MS])


@given(traces())
def test_the_same_frames_give_a_live_run_the_same_figures(
    records: list[FrameRecord],
) -> None:
    live = RunStatistics(capacity=100)
    for record in sorted(records, key=lambda record: record.done_ns):
        live.add(record)
    until_ns = max((record.done_ns for record in records), default=0)
    for name, stream in measure(records).by_stream.items():
        figures = live.streams[name]
        ages = figures.peak_age.values().tolist()
        if (figures.last_done_ns or until_ns) < until_ns:
            ages.append(until_ns - (figures.newest_capture_ns or 0))
        peak_age = distribution_of(np.array(ages, np.int64), len(ages), "")
        assert stream.outcomes.on_time == figures.fates["completed"]
        assert stream.latency.mean == distribution(figures.latency, "").mean
        assert replace(stream.peak_age, reason="") == replace(peak_age, reason="")
