"""A camera that is lost costs the others nothing, and does not hold up a stop."""

from edgepipe.pipeline.pace import Pace
from edgepipe.pipeline.runtime import Runtime, StreamPlan
from edgepipe.pipeline.source import Source, SourceInfo
from edgepipe.scheduler.core import Scheduler
from edgepipe.scheduler.job import Overflow, Step, StreamSpec
from edgepipe.stages.sources.life import Patience
from edgepipe.stages.sources.live import LiveSource
from edgepipe.telemetry.clock import MonotonicClock
from edgepipe.telemetry.records import FrameRecord
from tests.stages.sources.scripted_camera import Silence

from .scripted import CPU, Do, ScriptedSource, nothing


def plan(name: str, source: Source) -> StreamPlan:
    spec = StreamSpec(
        name, (Step("a", "cpu", True),), overflow=Overflow.BLOCK, credits=True
    )
    return StreamPlan(spec, source, ((Do("a", nothing),),), 10**12, Pace.FAST)


def test_three_streams_go_on_while_the_fourth_has_no_camera() -> None:
    info = SourceInfo("test://x", 0, 0, None, "", live=True)
    camera = LiveSource(Silence(), info, Patience(retry_min_ns=10**6))
    plans = [plan(f"s{n}", ScriptedSource(50)) for n in range(3)]
    plans.append(plan("dead", camera))
    records: list[FrameRecord] = []
    runtime = Runtime(
        plans,
        Scheduler([each.spec for each in plans], CPU),
        CPU,
        MonotonicClock(),
        records.append,
    )
    runtime.start()
    while len(runtime.source_records()) < 3 or len(records) < 150:
        assert not runtime.wait(0.01)  # the camera is still waited for
    assert {record.fate for record in records} == {"completed"}
    assert runtime.source_statuses["dead"].state in ("connecting", "backing off")
    assert runtime.source_statuses.keys() == {"dead"}
    assert runtime.stop() == []
    events = runtime.source_events
    assert events["dead", "backing off"] >= 1
    (ended,) = (each for each in runtime.source_records() if each.stream == "dead")
    assert ended.state == "stopped"
    camera.close()
