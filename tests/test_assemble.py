"""From a configuration to a pipeline: what is made of what."""

from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest

from edgepipe.assemble import Pipeline, stage_names
from edgepipe.configs import load
from edgepipe.configs.schema import POLICIES
from edgepipe.errors import InputError
from edgepipe.pipeline.frame import Frame
from edgepipe.pipeline.source import SourceInfo
from edgepipe.scheduler.job import Contract, Mode
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


def test_a_frame_that_only_follows_tracks_leaves_the_networks_steps_out(
    build: Build,
) -> None:
    with build("tracker.kind=none") as pipeline:
        runs = [step.runs_on_track_only for step in pipeline.plans[0].spec.steps]
    assert runs == [True, False, True]


def test_what_is_promised_for_a_stream_reaches_the_scheduler(build: Build) -> None:
    with build(
        "streams[0].weight=3",
        "streams[0].contract=9 of 10",
        "streams[0].mode=latest_only",
        "streams[0].max_rate=12.5",
        "streams[0].criticality=background",
        "streams[0].min_service=2s",
    ) as pipeline:
        spec = pipeline.plans[0].spec
    assert (spec.weight, spec.contract) == (3, Contract(9, 10))
    assert (spec.mode, spec.min_interval_ns) == (Mode.LATEST_ONLY, 80_000_000)
    assert spec.min_service_ns == 2_000_000_000


def test_what_is_not_said_of_a_stream_bounds_nothing(build: Build) -> None:
    with build() as pipeline:
        spec = pipeline.plans[0].spec
    assert (spec.weight, spec.contract, spec.mode) == (1, None, Mode.ALL)
    assert (spec.min_interval_ns, spec.min_service_ns) == (0, 0)


@pytest.mark.parametrize(("pace", "period_ns"), [("realtime", 40_000_000), ("fast", 0)])
def test_a_recording_comes_at_its_rate_only_when_it_is_played_at_it(
    build: Build, pace: str, period_ns: int
) -> None:
    scene = "streams[0].source.uri=synthetic:?frames=30&fps=25"
    with build(scene, f"streams[0].source.pace={pace}") as pipeline:
        assert pipeline.plans[0].spec.period_ns == period_ns


@pytest.mark.parametrize(("live", "deadline_ns"), [(True, 10**10), (False, 0)])
def test_only_stamps_that_come_from_outside_are_checked(
    build: Build, monkeypatch: pytest.MonkeyPatch, live: bool, deadline_ns: int
) -> None:
    info = SourceInfo("camera:", 320, 192, 30.0, "raw", live)
    monkeypatch.setattr(SyntheticSource, "info", info)
    with build() as pipeline:
        assert pipeline.plans[0].spec.deadline_ns == deadline_ns


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_brings_frames_through(build: Build, policy: str) -> None:
    sink = NullSink("mine")
    with build(f"scheduler.policy={policy}", sinks=[sink]) as pipeline:
        pipeline.runtime.start()
        assert pipeline.runtime.wait(30)
        assert pipeline.runtime.balanced
    assert sink.frames > 0


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
