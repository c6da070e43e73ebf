"""From a configuration to a pipeline: what is made of what."""

from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest

from edgepipe.assemble import Pipeline, stage_names
from edgepipe.configs import load
from edgepipe.configs.schema import POLICIES
from edgepipe.errors import InputError
from edgepipe.models.engine import Engine
from edgepipe.pipeline.frame import Frame, Picture
from edgepipe.pipeline.source import SourceInfo
from edgepipe.scheduler.job import Contract, Mode
from edgepipe.stages.infer import Infer
from edgepipe.stages.sinks.null import NullSink
from edgepipe.stages.sources.synthetic import SyntheticSource
from edgepipe.stages.track import IouTracker
from edgepipe.telemetry.records import FrameRecord

Build = Callable[..., Pipeline]
LADDER = "scheduler.ladder=[{stride: 2}, {track_only: 2}]"

TWO = (
    "streams=[{id: a, source: {uri: 'synthetic:'}},"
    " {id: b, source: {uri: 'synthetic:'}}]"
)


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


def test_without_a_ladder_there_is_one_rung_and_the_policy_has_no_use_for_more(
    build: Build,
) -> None:
    with build() as pipeline:
        spec = pipeline.plans[0].spec
        assert [rung.name for rung in spec.ladder] == ["full"]
        assert (spec.steps[1].batch_max, spec.steps[1].batch_key) == (1, "")
        assert pipeline.policy.name == "slack"


def test_a_ladder_reaches_the_scheduler_with_what_it_costs(build: Build) -> None:
    with build(
        "model.precision=fp32",
        "model.variants=[{name: small, precision: int8}]",
        "scheduler.ladder=[{stride: 2}, {variant: small, value: 0.85},"
        " {track_only: 2}]",
    ) as pipeline:
        ladder = pipeline.plans[0].spec.ladder
        assert pipeline.policy.name == "slack+ladder"
    assert [(rung.stride, rung.infer_every) for rung in ladder] == [
        (1, 1),
        (2, 1),
        (2, 1),
        (2, 2),
    ]
    assert [rung.value_permille for rung in ladder] == [1000, 1000, 850, 850]
    decode, infer, deliver = zip(*(rung.cost_permille for rung in ladder), strict=True)
    assert {*decode, *deliver} == {1000}
    full, strided, small, smallest = infer
    assert (full, strided) == (1000, 1000)
    assert small == smallest != 1000


def test_rungs_that_run_one_variant_learn_from_each_other_within_a_stream(
    build: Build,
) -> None:
    variant = "model.variants=[{name: small, precision: fp32}]"
    with build(TWO, variant, "scheduler.ladder=[{variant: small}]") as pipeline:
        keys = [plan.spec.steps[1].batch_key for plan in pipeline.plans]
    assert keys == ["scene-tiny of a", "scene-tiny of b"]


def test_what_serves_the_network_is_one_job_where_its_input_depends_on_the_rung(
    build: Build,
) -> None:
    variant = "model.variants=[{name: small, precision: fp32}]"
    ladder = "scheduler.ladder=[{variant: small}]"
    with build("scheduler.fuse=false", variant, ladder) as pipeline:
        assert steps_of(pipeline) == ["decode", "convert+infer", "track", "deliver"]


def test_batches_are_of_all_streams_and_bring_a_measured_curve(build: Build) -> None:
    ladder = "scheduler.ladder=[{batch_max: 3}]"
    with build(TWO, "model.batch_max=2", ladder) as pipeline:
        first, second = (plan.spec.steps[1] for plan in pipeline.plans)
        limits = [rung.batch_max for rung in pipeline.plans[0].spec.ladder]
        assert pipeline.engine.info.batch_max == 3
    assert first == second
    assert (first.batch_key, first.batch_max) == ("scene-tiny int8 full", 3)
    assert first.batch_curve[0] == 1000
    assert len(first.batch_curve) == 3
    assert limits == [2, 3]


def test_frames_of_several_streams_go_through_the_network_together(
    build: Build,
) -> None:
    with build(TWO, "model.batch_max=2") as pipeline:
        frames: list[Frame] = []
        for plan in pipeline.plans:
            decode, convert = plan.stages[0][0], plan.stages[1][0]
            assert plan.source.next_arrival() is not None
            frame = decode.process(Frame(plan.spec.id, 0, 0, 10**9), 0)
            frames.append(convert.process(frame, 0))
        infer, same = (plan.stages[1][1] for plan in pipeline.plans)
        assert infer is same
        assert isinstance(infer, Infer)
        answers = infer.process_batch(frames, 0)
    assert [(a.stream, a.batch) for a in answers if isinstance(a, Frame)] == [
        ("a", 2),
        ("b", 2),
    ]


def test_where_batches_are_allowed_every_frame_still_comes_through(
    build: Build,
) -> None:
    scene = "source: {uri: 'synthetic:?frames=20', pace: fast}, deadline: 60s"
    queue = "queue: {overflow: block}"
    streams = ", ".join(f"{{id: {name}, {scene}, {queue}}}" for name in "abcd")
    records: list[FrameRecord] = []
    with build(
        f"streams=[{streams}]", "model.batch_max=4", on_record=records.append
    ) as pipeline:
        pipeline.runtime.start()
        assert pipeline.runtime.wait(60)
    assert {record.fate for record in records} == {"completed"}
    assert len(records) == 80


def test_a_variant_that_gains_nothing_is_warned_of(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    def times(engine: Engine, *args: object) -> tuple[int, ...]:
        return (2_000_000,) if engine.info.precision == "int8" else (3_000_000,)

    monkeypatch.setattr("edgepipe.networks.batch_times_ns", times)
    variant = "model.variants=[{name: small, precision: fp32}]"
    with build(variant, "scheduler.ladder=[{variant: small}]") as pipeline:
        assert pipeline.warnings() == [
            "variant 'small' takes 3.0 ms for a frame and the model itself 2.0: no rung"
            " gains by it"
        ]
        assert pipeline.plans[0].spec.ladder[1].cost_permille == (1000, 1500, 1000)


@pytest.mark.parametrize(
    ("fps", "deadline", "said"),
    [
        (8, "100ms", ["bikes: no frame can be in time: one comes 125 ms old at least"]),
        (8, "126ms", []),
        (25, "100ms", []),
    ],
)
def test_a_deadline_that_no_frame_of_a_camera_can_meet_is_warned_of(
    build: Build,
    monkeypatch: pytest.MonkeyPatch,
    fps: int,
    deadline: str,
    said: list[str],
) -> None:
    info = SourceInfo("rtsp:", 0, 0, fps, "h264", live=True, held_ns=10**9 // fps)
    monkeypatch.setattr(SyntheticSource, "info", info)
    with build(f"streams[0].deadline={deadline}", "streams[0].id=bikes") as pipeline:
        assert [text.split(", because")[0] for text in pipeline.warnings()] == said


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_brings_frames_through(build: Build, policy: str) -> None:
    sink = NullSink("mine")
    ladder = [LADDER] if policy == "slack+ladder" else []
    with build(f"scheduler.policy={policy}", *ladder, sinks=[sink]) as pipeline:
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


BRANCH = (
    "streams[0].branches=[{id: closely, variant: precise, deadline: 20s,"
    " criticality: background, queue: {capacity: 8}}]"
)
PRECISE = "model.variants=[{name: precise, precision: fp32}]"


def test_a_branch_is_a_stream_without_decoding(build: Build) -> None:
    with build(BRANCH, PRECISE) as pipeline:
        stream, branch = pipeline.plans
    assert (stream.branch_of, branch.branch_of) == (None, "synthetic")
    assert [step.name for step in branch.spec.steps] == [
        "convert+infer",
        "track+deliver",
    ]
    assert (branch.spec.id, branch.deadline_ns) == ("closely", 20 * 10**9)
    assert (stream.spec.credits, branch.spec.credits) == (True, False)
    assert (stream.spec.queued_steps, branch.spec.queued_steps) == (2, 1)


def test_one_decode_feeds_two_networks_that_find_the_same_objects(
    build: Build,
) -> None:
    frames: list[Frame] = []
    decoded: list[int] = []

    class Keeping(NullSink):
        def write(self, frame: Frame, now_ns: int) -> None:
            frames.append(frame)

    with build(
        BRANCH, PRECISE, "scheduler.max_in_flight=8", sinks=[Keeping("mine")]
    ) as pipeline:
        source = pipeline.plans[0].source
        decode = source.decode

        def counted(index: int) -> Picture:
            decoded.append(index)
            return decode(index)

        source.decode = counted  # type: ignore[method-assign]
        pipeline.runtime.start()
        assert pipeline.runtime.wait(60)
        accounts = [pipeline.runtime.account(name) for name in ("synthetic", "closely")]
    assert decoded == list(range(30))
    assert [account.captured for account in accounts] == [30, 30]
    by_key = {(frame.stream, frame.sequence): frame for frame in frames}
    pairs = [
        (by_key["synthetic", n], by_key["closely", n])
        for n in range(30)
        if ("closely", n) in by_key and ("synthetic", n) in by_key
    ]
    assert pairs
    for fast, precise in pairs:
        assert fast.picture is precise.picture
        assert fast.capture_ns == precise.capture_ns
        assert (fast.variant, precise.variant) == ("int8", "precise")


def test_a_branch_may_have_rungs_of_the_common_ladder(build: Build) -> None:
    ladder = "scheduler.ladder=[{stride: 2}]"
    with build(BRANCH, PRECISE, ladder) as pipeline:
        stream, branch = pipeline.plans
    assert [rung.stride for rung in branch.spec.ladder] == [1, 2]
    # Its own network is its full quality.
    assert {rung.cost_permille for rung in branch.spec.ladder} == {(1000, 1000)}
    assert stream.spec.ladder[0].cost_permille == (1000, 1000, 1000)
