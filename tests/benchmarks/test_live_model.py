"""What was measured of a live run is what the simulator is given."""

from pathlib import Path

import live_model

from edgepipe.assemble import Pipeline
from edgepipe.configs import load
from edgepipe.scheduler.job import Resource
from edgepipe.telemetry.records import FrameRecord

SECOND_NS = 10**9


def lived(folder: Path, frames: int) -> live_model.Lived:
    """A run of the small model as fast as it goes."""
    records: list[FrameRecord] = []
    changes = [
        f"streams[0].source.uri=synthetic:?frames={frames}",
        "streams[0].source.loop=false",
        "streams[0].source.pace=fast",
        "streams[0].queue.overflow=block",
        "streams[0].deadline=10s",
    ]
    config = load.read("synthetic", changes).config
    with Pipeline(config, folder, records.append) as pipeline:
        pipeline.runtime.start()
        assert pipeline.runtime.wait(60)
        begins_ns = pipeline.runtime.measure_from_ns
        return live_model.Lived(
            pipeline.plans, (Resource("cpu", 2),), records, begins_ns
        )


def test_each_step_takes_what_its_stages_took_on_each_frame(tmp_path: Path) -> None:
    run = lived(tmp_path, 12)
    scenario = live_model.scenario_of(run, SECOND_NS, 25.0)
    (camera,) = scenario.cameras
    names = [[stage.name for stage in group] for group in run.plans[0].stages]
    assert [len(model.replay_ns) for model in camera.service] == [12] * len(names)
    first = min(run.records, key=lambda record: record.sequence)
    for group, model in zip(names, camera.service, strict=True):
        spans = [span for span in first.spans if span.stage in group]
        assert model.replay_ns[0] == spans[-1].end_ns - spans[0].start_ns
    assert camera.spec.deadline_ns == 10 * SECOND_NS
    assert (camera.frame_rate, scenario.duration_ns) == (25_000, SECOND_NS)


def test_the_simulator_plays_it_to_the_end(tmp_path: Path) -> None:
    scenario = live_model.scenario_of(lived(tmp_path, 12), SECOND_NS, 25.0)
    found = live_model.simulated(scenario, "slack")
    assert found.captured in (24, 25)
    assert found.on_time == found.captured


def test_frames_that_were_given_up_tell_nothing_of_later_steps(tmp_path: Path) -> None:
    run = lived(tmp_path, 6)
    cut = [
        record._replace(spans=record.spans[:1]) if record.sequence == 2 else record
        for record in run.records
    ]
    changed = live_model.Lived(run.plans, run.resources, cut, run.begins_ns)
    (camera,) = live_model.scenario_of(changed, SECOND_NS, 25.0).cameras
    assert [len(model.replay_ns) for model in camera.service] == [6, 5, 5]
