from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from edgepipe.telemetry.frame_columns import by_resource, by_stream
from edgepipe.telemetry.records import FrameRecord, Span
from edgepipe.telemetry.run_statistics import RunStatistics

MakeFrame = Callable[..., FrameRecord]


def gpu(start_ns: int, end_ns: int, stage: str = "infer", worker: int = 0) -> Span:
    return Span(stage, start_ns, start_ns, end_ns, "gpu", worker)


def test_without_frames_there_are_no_streams_and_no_resources() -> None:
    assert by_stream([]) == {}
    assert by_resource([]) == {}


def test_a_frame_that_nobody_worked_on_used_no_resource(make_frame: MakeFrame) -> None:
    assert by_resource([make_frame(spans=())]) == {}


def test_frames_are_put_in_the_order_of_their_sequence_in_each_stream(
    make_frame: MakeFrame,
) -> None:
    frames = by_stream(
        [
            make_frame(1, stream="side", fate="late"),
            make_frame(2, stream="front", fate="dropped", reason="doomed"),
            make_frame(0, stream="front"),
            make_frame(1, stream="front", variant="small"),
        ]
    )
    assert list(frames) == ["front", "side"]
    front, side = frames["front"], frames["side"]
    assert front.on_time.tolist() == [True, True, False]
    assert front.capture_ns.tolist() == sorted(front.capture_ns)
    assert front.fates == {("completed", ""): 2, ("dropped", "doomed"): 1}
    assert front.variants == {"int8": 1, "small": 1}
    assert side.on_time.tolist() == [False]
    assert side.delivered.tolist() == [True]
    assert side.variants == {}


def test_time_spent_on_frames_that_were_not_on_time_is_wasted(
    make_frame: MakeFrame,
) -> None:
    work = by_resource(
        [
            make_frame(0, spans=(gpu(0, 10),)),
            make_frame(1, spans=(gpu(10, 30),), fate="late"),
            make_frame(2, spans=(gpu(30, 70),), fate="dropped", reason="expired"),
            make_frame(3, spans=(gpu(70, 80),), fate="failed", reason="bad_output"),
            make_frame(4, spans=(), fate="dropped", reason="doomed"),
        ]
    )["gpu"]
    assert (work.busy_ns, work.wasted_ns, work.wasted_share) == (80, 70, 0.875)


def test_the_frames_of_a_batch_share_its_time(make_frame: MakeFrame) -> None:
    batch = (gpu(0, 30),)
    work = by_resource(
        [
            make_frame(0, spans=batch, batch=3),
            make_frame(0, stream="side", spans=batch, batch=3, fate="late"),
            make_frame(1, spans=batch, batch=3),
            make_frame(2, spans=(gpu(30, 40),), batch=1),
        ]
    )["gpu"]
    assert (work.busy_ns, work.wasted_ns, work.wasted_share) == (40, 10, 0.25)


def test_jobs_side_by_side_on_two_workers_or_in_two_stages_are_no_batch(
    make_frame: MakeFrame,
) -> None:
    work = by_resource(
        [
            make_frame(0, spans=(gpu(0, 30),)),
            make_frame(1, spans=(gpu(0, 30, worker=1),)),
            make_frame(2, spans=(gpu(30, 30), gpu(30, 50))),  # the first took no time
        ]
    )["gpu"]
    assert work.busy_ns == 80


def test_a_resource_that_took_no_time_wasted_no_share(make_frame: MakeFrame) -> None:
    assert by_resource([make_frame(spans=(gpu(5, 5),))])["gpu"].wasted_share is None


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 50)), max_size=12))
def test_the_busy_time_is_the_one_that_a_live_run_counts(
    batches: list[tuple[int, int]],
) -> None:
    records: list[FrameRecord] = []
    now_ns = 0
    for size, took_ns in batches:
        span = gpu(now_ns, now_ns + took_ns)
        records += [
            FrameRecord(
                "front", len(records) + i, 0, None, 0, "completed", "", "infer",
                span.end_ns, False, "", size, 0, 0, (span,),
            )
            for i in range(size)
        ]  # fmt: skip
        now_ns += took_ns
    live = RunStatistics(capacity=100)
    for record in records:
        live.add(record)
    found = {name: work.busy_ns for name, work in by_resource(records).items()}
    assert found == live.busy_ns
