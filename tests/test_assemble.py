"""From a configuration to a pipeline: what is made of what."""

from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest

from edgepipe.assemble import Pipeline, stage_names
from edgepipe.configs import load
from edgepipe.errors import InputError
from edgepipe.pipeline.frame import Frame
from edgepipe.stages.sinks.null import NullSink
from edgepipe.stages.sources.synthetic import SyntheticSource
from edgepipe.stages.track import IouTracker

Build = Callable[..., Pipeline]


@pytest.fixture
def build(tmp_path: Path) -> Build:
    def build(*changes: str, **options: object) -> Pipeline:
        scene = "streams[0].source.uri=synthetic:?frames=30"
        fast = [
            "streams[0].source.pace=fast",
            "streams[0].source.loop=false",
            "streams[0].queue.overflow=block",
            "streams[0].deadline=10s",
        ]
        loaded = load.read("synthetic", [scene, *fast, *changes])
        return Pipeline(loaded.config, tmp_path, **options)  # type: ignore[arg-type]

    return build


def steps_of(pipeline: Pipeline) -> list[str]:
    return [step.name for step in pipeline.plans[0].spec.steps]


def test_neighbours_that_agree_on_place_and_order_run_as_one_step(build: Build) -> None:
    with build() as pipeline:
        assert steps_of(pipeline) == ["decode", "convert+infer", "track+deliver"]


def test_each_stage_is_a_step_of_its_own_where_fusing_is_off(build: Build) -> None:
    with build("scheduler.fuse=false") as pipeline:
        assert steps_of(pipeline) == stage_names(pipeline.config)


def test_without_a_tracker_there_is_no_track_stage(build: Build) -> None:
    with build("tracker.kind=none") as pipeline:
        assert steps_of(pipeline) == ["decode", "convert+infer", "deliver"]
        assert "track" not in stage_names(pipeline.config)


def test_a_program_gets_its_results_through_a_sink_of_its_own(build: Build) -> None:
    sink = NullSink("mine")
    with build(sinks=[sink]) as pipeline:
        pipeline.warm_up()
        pipeline.runtime.start()
        assert pipeline.runtime.wait(30)
    assert sink.frames == 30


def test_what_was_opened_is_closed_when_something_later_fails(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []
    source = "edgepipe.stages.sources.synthetic.SyntheticSource.close"

    def close(self: SyntheticSource) -> None:
        closed.append("scene")

    monkeypatch.setattr(source, close)
    second = "streams=[{id: a, source: {uri: 'synthetic:'}}, {id: b, source: {uri: x}}]"
    with pytest.raises(InputError):
        build(second)
    assert closed == ["scene"]


def test_closing_twice_is_fine(build: Build) -> None:
    pipeline = build()
    pipeline.close()
    pipeline.close()


def test_a_stage_that_hangs_is_named_and_the_sinks_are_finished_all_the_same(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, go_on, closed = Event(), Event(), Event()

    def hang(self: IouTracker, frame: Frame, worker: int) -> Frame:
        inside.set()
        go_on.wait(30)
        return frame

    class Closing(NullSink):
        def close(self) -> None:
            closed.set()

    monkeypatch.setattr(IouTracker, "process", hang)
    with build("run.stop_within=1s", sinks=[Closing("mine")]) as pipeline:
        pipeline.runtime.start()
        assert inside.wait(30)
    assert closed.is_set()
    (stuck,) = pipeline.runtime.stop()
    assert stuck.startswith("edgepipe-cpu-")
    assert pipeline.runtime.balanced
    go_on.set()
