from collections.abc import Callable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgepipe.telemetry.records import FrameRecord, Span
from edgepipe.telemetry.run_statistics import LatencyParts, RunStatistics

MS = 1_000_000

MakeFrame = Callable[..., FrameRecord]


def gathered(*frames: FrameRecord) -> RunStatistics:
    statistics = RunStatistics(capacity=1000)
    for frame in frames:
        statistics.add(frame)
    return statistics


def test_every_frame_is_counted_once_under_its_fate_and_reason(
    make_frame: MakeFrame,
) -> None:
    stream = gathered(
        make_frame(0),
        make_frame(1, fate="late"),
        make_frame(2, fate="dropped", reason="stale"),
        make_frame(3, fate="dropped", reason="stale"),
        make_frame(4, fate="failed", reason="damaged"),
    ).stream("front")
    assert stream.fates == {
        "completed": 1,
        "late": 1,
        "dropped:stale": 2,
        "failed:damaged": 1,
    }
    assert stream.delivered == 2


def test_a_frame_that_was_not_delivered_has_no_latency(make_frame: MakeFrame) -> None:
    statistics = gathered(
        make_frame(0, latency_ms=10), make_frame(1, fate="dropped", reason="doomed")
    )
    stream = statistics.stream("front")
    assert stream.latency.values().tolist() == [10 * MS]
    assert stream.parts.n == 1
    assert statistics.stages["infer"].service.total == 2  # its work was real


def test_warm_up_frames_are_in_no_statistic_but_their_own(
    make_frame: MakeFrame,
) -> None:
    statistics = gathered(
        make_frame(0, latency_ms=400, warm_up=True),
        make_frame(1, fate="dropped", reason="stale", warm_up=True),
        make_frame(2, latency_ms=20),
    )
    stream = statistics.stream("front")
    assert stream.fates == {"completed": 1}
    assert stream.warm_up_fates == {"completed": 1, "dropped:stale": 1}
    assert stream.latency.values().tolist() == [20 * MS]
    assert statistics.warm_up_latency.values().tolist() == [400 * MS]
    assert statistics.stages["decode"].service.total == 1
    assert statistics.busy_ns["cpu"] == sum(s.service_ns for s in make_frame().spans)


def test_peak_age_is_the_age_of_a_result_just_before_the_next_replaces_it(
    make_frame: MakeFrame,
) -> None:
    stream = gathered(
        make_frame(0, latency_ms=20, period_ms=40),
        make_frame(1, latency_ms=30, period_ms=40),
        make_frame(3, latency_ms=20, period_ms=40),
    ).stream("front")
    assert stream.peak_age.values().tolist() == [70 * MS, 100 * MS]
    assert stream.intervals.values().tolist() == [50 * MS, 70 * MS]


def test_an_older_frame_delivered_after_a_newer_one_does_not_make_the_result_older(
    make_frame: MakeFrame,
) -> None:
    stream = gathered(
        make_frame(1, latency_ms=10),
        make_frame(0, latency_ms=60),
        make_frame(2, latency_ms=20),
    ).stream("front")
    assert stream.peak_age.values().tolist() == [20 * MS, 60 * MS]


def test_streams_are_kept_apart_and_stages_are_shared(make_frame: MakeFrame) -> None:
    statistics = gathered(make_frame(0), make_frame(0, stream="rear", truncated=2))
    assert list(statistics.streams) == ["front", "rear"]
    assert statistics.stream("front").truncated == 0
    assert statistics.stream("rear").truncated == 2
    assert statistics.stages["decode"].queue.total == 2
    assert statistics.delivered == 2


def test_variants_are_counted_by_name(make_frame: MakeFrame) -> None:
    stream = gathered(
        make_frame(0), make_frame(1, variant="small"), make_frame(2, variant="")
    ).stream("front")
    assert stream.variants == {"int8": 1, "small": 1}


def test_a_batch_occupies_its_resource_once(make_frame: MakeFrame) -> None:
    spans = (Span("infer", 0, 100, 150, "gpu", 0),)
    after = (Span("infer", 0, 150, 160, "gpu", 0),)
    statistics = gathered(
        make_frame(0, batch=2, spans=spans),
        make_frame(1, batch=2, spans=spans),
        make_frame(2, batch=1, spans=after),
    )
    assert statistics.busy_ns == {"gpu": 60}
    assert statistics.stages["infer"].service.values().tolist() == [50, 50, 10]


def test_a_stage_names_every_resource_that_it_ran_on(make_frame: MakeFrame) -> None:
    statistics = gathered(
        make_frame(0, spans=(Span("infer", 0, 1, 2, "dla0", 0),)),
        make_frame(1, spans=(Span("infer", 0, 1, 2, "gpu", 0),)),
    )
    assert statistics.stages["infer"].resources == {"dla0", "gpu"}


times = st.lists(st.integers(0, 10**9), min_size=3, max_size=3).map(sorted)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from("abc"), times), max_size=8), times)
def test_the_parts_of_the_latency_always_add_up_to_it(
    make_frame: MakeFrame, spans: list[tuple[str, list[int]]], whole: list[int]
) -> None:
    parts = LatencyParts()
    record = make_frame(
        capture_ns=whole[0],
        done_ns=whole[2],
        spans=tuple(Span(stage, a, b, c, "cpu", 0) for stage, (a, b, c) in spans),
    )
    parts.add(record)
    parts.add(record)
    stages = sum(parts.queue_ns.values()) + sum(parts.service_ns.values())
    assert parts.capture_ns + stages + parts.other_ns == parts.total_ns
    assert parts.total_ns == 2 * record.latency_ns


def test_a_frame_that_met_no_stage_has_only_other_time(make_frame: MakeFrame) -> None:
    parts = LatencyParts()
    parts.add(make_frame(0, latency_ms=5, spans=()))
    assert (parts.capture_ns, parts.other_ns) == (0, 5 * MS)
