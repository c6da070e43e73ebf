"""Branches: streams that live on the decoded frames of another one."""

from collections.abc import Sequence

import pytest

from edgepipe.pipeline.frame import Frame
from edgepipe.pipeline.pace import Pace
from edgepipe.pipeline.runtime import Runtime, StreamPlan
from edgepipe.pipeline.stage import FrameError, Stage
from edgepipe.scheduler.core import Scheduler
from edgepipe.scheduler.fates import Reason
from edgepipe.scheduler.job import Overflow, Resource, Step, StreamSpec
from edgepipe.telemetry.clock import ManualClock
from edgepipe.telemetry.records import FrameRecord

from .scripted import MS, PERIOD_NS, PICTURE, Do, ScriptedSource, nothing


def decode(frame: Frame, worker: int) -> Frame:
    if frame.sequence == 3:
        raise FrameError(Reason.DAMAGED, "no picture")
    return frame.with_changes(picture=PICTURE)


def plan(
    name: str,
    source: ScriptedSource,
    stages: Sequence[Stage],
    deadline_ns: int,
    branch_of: str | None = None,
) -> StreamPlan:
    spec = StreamSpec(
        name,
        tuple(Step(stage.name, "cpu", stateful=True) for stage in stages),
        queue_capacity=8 if branch_of else 1,
        overflow=Overflow.DROP_OLDEST if branch_of else Overflow.BLOCK,
        max_in_flight=8 if branch_of else 1,
        credits=branch_of is None,
    )
    steps = tuple((stage,) for stage in stages)
    return StreamPlan(spec, source, steps, deadline_ns, Pace.REALTIME, branch_of)


def play(
    *branches: tuple[str, Stage, int], frames: int = 6, warm_up_ns: int = 0
) -> tuple[Runtime, list[FrameRecord]]:
    source, records = ScriptedSource(frames), list[FrameRecord]()
    first = [Do("decode", decode), Do("infer", nothing)]
    plans = [plan("front", source, first, 10_000 * MS)]
    for name, stage, deadline_ns in branches:
        plans.append(plan(name, source, [stage], deadline_ns, "front"))
    resources = [Resource("cpu", 2)]
    core = Scheduler([each.spec for each in plans], resources)
    runtime = Runtime(plans, core, resources, ManualClock(1_000), records.append)
    runtime.start(warm_up_ns)
    assert runtime.wait(10)
    assert runtime.balanced
    assert runtime.irregularities() == []
    assert runtime.stop(5) == []
    return runtime, records


def of(records: list[FrameRecord], stream: str) -> list[FrameRecord]:
    mine = [record for record in records if record.stream == stream]
    return sorted(mine, key=lambda record: record.sequence)


def test_a_branch_gets_every_decoded_frame_with_its_picture_and_own_deadline() -> None:
    seen: list[Frame] = []
    look = Do("look", lambda frame, _: seen.append(frame))
    runtime, records = play(("closely", look, 20_000 * MS))
    branch = of(records, "closely")
    assert [record.sequence for record in branch] == [0, 1, 2, 4, 5]
    assert [r.capture_ns for r in branch] == [
        r.capture_ns for r in of(records, "front") if r.sequence != 3
    ]
    assert {r.deadline_ns - r.capture_ns for r in branch} == {20_000 * MS}
    assert all(frame.picture is PICTURE for frame in seen)
    assert [frame.gap for frame in seen] == [0, 0, 0, 1, 0]
    assert runtime.account("closely").completed == 5
    assert runtime.account("front").completed == 5


def test_decoding_is_in_the_books_of_the_stream_and_not_in_those_of_a_branch() -> None:
    _, records = play(("closely", Do("look", nothing), 20_000 * MS))
    stages = {span.stage for record in of(records, "closely") for span in record.spans}
    assert stages == {"look"}


def test_a_branch_that_breaks_costs_its_stream_and_its_siblings_nothing() -> None:
    def fail(frame: Frame, worker: int) -> Frame:
        raise ValueError("a bug in a stage")

    runtime, _ = play(
        ("broken", Do("broken", fail), 20_000 * MS),
        ("whole", Do("look", nothing), 20_000 * MS),
    )
    assert runtime.account("broken").failed == {"stage_error": 5}
    assert runtime.account("whole").completed == 5
    assert runtime.account("front").completed == 5


def test_a_branch_ends_with_its_stream() -> None:
    runtime, _ = play(("closely", Do("look", nothing), 20_000 * MS))
    ends = {end.stream: (end.uri, end.state) for end in runtime.source_records()}
    assert ends == {"front": ("test:", "ended"), "closely": ("test:", "ended")}


def test_frames_of_the_warm_up_are_that_in_a_branch_too() -> None:
    runtime, _ = play(
        ("closely", Do("look", nothing), 20_000 * MS), warm_up_ns=2 * PERIOD_NS
    )
    assert runtime.account("closely", warm_up=True).captured == 2
    assert runtime.account("closely").captured == 3


def test_a_branch_takes_no_picture_that_its_stream_did_not_make() -> None:
    runtime, records = play(("closely", Do("look", nothing), 20_000 * MS), frames=4)
    assert runtime.account("front").dropped == {"damaged": 1}
    assert runtime.account("closely").captured == 3
    assert {record.reason for record in of(records, "closely")} == {""}


def test_frames_of_a_branch_must_come_in_order() -> None:
    source = ScriptedSource(1)
    step = Step("decode", "cpu", stateful=False)
    steps: tuple[tuple[Stage, ...], ...] = ((Do("decode", decode),),)
    plans = [
        StreamPlan(StreamSpec("front", (step,)), source, steps, MS, Pace.FAST),
        plan("closely", source, [Do("look", nothing)], MS, "front"),
    ]
    resources = [Resource("cpu")]
    core = Scheduler([each.spec for each in plans], resources)
    with pytest.raises(ValueError, match="whose first step is stateless"):
        Runtime(plans, core, resources, ManualClock(), lambda record: None)
