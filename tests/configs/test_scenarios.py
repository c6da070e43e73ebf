from pathlib import Path

import pytest

from edgepipe.commands.scenario import load_scenario, to_scenario
from edgepipe.configs import scenario_load, scenario_reference
from edgepipe.configs.effective import dump_yaml
from edgepipe.errors import ConfigError, ConfigErrors
from edgepipe.scheduler.fates import Reason
from edgepipe.scheduler.job import (
    FULL,
    Contract,
    Criticality,
    Mode,
    Overflow,
    Resource,
    Rung,
)
from edgepipe.scheduler.policy import BY_NAME
from edgepipe.scheduler.scenario import (
    Camera,
    ClockStep,
    Failure,
    Pause,
    Phases,
    Scenario,
    ServiceModel,
    Slow,
    Stall,
    StampError,
    Surge,
)
from edgepipe.scheduler.simulate import simulate

MS = 1_000_000
SECOND = 1000 * MS

NAMES = [
    "bimodal",
    "clock-step",
    "crowd-surge",
    "mixed-criticality",
    "mode-change",
    "overload",
    "quad-background",
    "quad-background-4",
    "quad-background-8",
    "quad-nominal",
    "stall-burst",
    "sync-six",
    "thermal",
]

SMALLEST = """\
version: 1
about: one camera
resources:
  - {name: gpu}
streams:
  - id: cam
    fps: 30
    deadline: 50ms
    steps:
      - {name: detect, resource: gpu, time: 6ms}
"""

RICH = """\
version: 1
about: everything
duration: 10s
resources:
  - {name: gpu, slots: 2, planned: false}
  - {name: cpu}
streams:
  - id: cam
    count: 3
    fps: 29.97
    deadline: 50ms
    criticality: critical
    weight: 4
    contract: 9 of 10
    on_miss: deliver_late
    queue: {capacity: 4, overflow: block, steps: 2}
    max_in_flight: 5
    credits: true
    mode: latest_only
    max_rate: 20
    offset: 1ms
    phase_spread: 2ms
    jitter: 100us
    starts: 1s
    ends: 9s
    ladder:
      - {name: full}
      - {name: small, value: 0.85, cost: 0.45, stride: 2, infer_every: 3,
         track_only_value: 0.5, batch_max: 2}
    steps:
      - {name: decode, resource: cpu, replay: [3ms, 5ms], stateful: true}
      - name: detect
        resource: gpu
        time: 6ms
        budget: 7ms
        spread: 0.05
        network: true
        segments: 2
        batch: {max: 3, each: 0.5}
        slow: {chance: 0.08, factor: 4}
        phases: {length: 150ms, chance: 0.1, factor: 2}
surges:
  - {step: detect, from: 2s, to: 3s, factor: 1.5}
stalls:
  - {stream: cam-1, at: 2s, length: 500ms}
stamps:
  - {stream: cam-1, from: 4s, to: 5s, behind: 5s}
  - {stream: cam-2, from: 4s, to: 5s, ahead: 3s}
failures:
  - {stream: cam-0, step: detect, chance: 0.01, sequences: [3, 5], reason: bad_output}
clocks:
  - {resource: gpu, at: 6s, clock: 0.5, reported_after: null}
pauses:
  - {resource: cpu, from: 7s, to: 8s}
"""


def read(text: str) -> Scenario:
    return to_scenario(scenario_load.parse(text, "test.yaml").config, "test")


def complaints(text: str) -> list[str]:
    with pytest.raises(ConfigErrors) as caught:
        scenario_load.parse(text, "f.yaml")
    return str(caught.value).split("\n")


def only(text: str) -> Camera:
    (camera,) = read(text).cameras
    return camera


def test_these_scenarios_ship() -> None:
    assert scenario_load.packaged() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_scenario_that_ships_can_be_played_and_says_what_it_is(name: str) -> None:
    scenario = load_scenario(name)
    assert scenario.name == name
    assert len(scenario.cameras) >= 4
    assert 0 < len(scenario_load.read(name).config.about) <= 68


@pytest.mark.parametrize("name", NAMES)
def test_the_effective_scenario_reads_back_to_the_same(name: str) -> None:
    loaded = scenario_load.read(name)
    again = scenario_load.parse(dump_yaml(loaded.effective), f"{name}.yaml")
    assert (again.config, again.sha256) == (loaded.config, loaded.sha256)


def test_the_smallest_scenario_has_sensible_defaults() -> None:
    scenario = read(SMALLEST)
    (camera,) = scenario.cameras
    spec = camera.spec
    assert scenario.duration_ns == 60 * SECOND
    assert scenario.resources == (Resource("gpu", 1, planned=True),)
    assert (spec.id, spec.period_ns, spec.deadline_ns) == ("cam", 33_333_333, 50 * MS)
    assert (spec.ladder, spec.contract, spec.criticality) == (
        (FULL,),
        None,
        Criticality.NORMAL,
    )
    assert (camera.frame_rate, camera.jitter_ns) == (30_000, 300_000)
    assert camera.service == (ServiceModel(6 * MS),)
    assert spec.steps[0].cost_ns == 6 * MS


def test_every_key_of_a_stream_reaches_the_simulator() -> None:
    scenario = read(RICH)
    spec = scenario.cameras[1].spec
    assert [camera.spec.id for camera in scenario.cameras] == [
        "cam-0",
        "cam-1",
        "cam-2",
    ]
    assert (spec.criticality, spec.weight, spec.contract) == (
        Criticality.CRITICAL,
        4,
        Contract(9, 10),
    )
    assert (spec.queue_capacity, spec.overflow, spec.queued_steps) == (
        4,
        Overflow.BLOCK,
        2,
    )
    assert (spec.max_in_flight, spec.credits, spec.mode) == (5, True, Mode.LATEST_ONLY)
    assert spec.min_interval_ns == 50 * MS
    assert spec.ladder[1] == Rung("small", 850, (1000, 450, 450), 2, 3, 500, 2)
    assert spec.ladder[0].cost_permille == (1000, 1000, 1000)


def test_every_key_of_a_step_reaches_the_simulator() -> None:
    camera = read(RICH).cameras[0]
    decode, *pieces = camera.spec.steps
    assert (decode.stateful, decode.cost_ns, decode.runs_on_track_only) == (
        True,
        4 * MS,
        True,
    )
    assert [piece.name for piece in pieces] == ["detect[1/2]", "detect[2/2]"]
    assert {piece.cost_ns for piece in pieces} == {3_500_000}
    assert {piece.batch_curve for piece in pieces} == {(1000, 1500, 2000)}
    assert {piece.batch_max for piece in pieces} == {3}
    assert not any(piece.runs_on_track_only for piece in pieces)
    measured, *models = camera.service
    assert measured.replay_ns == (3 * MS, 5 * MS)
    assert (
        models
        == [
            ServiceModel(
                3 * MS,
                sigma_permille=50,
                slow=Slow(80, 4000),
                phases=Phases(150 * MS, 100, 2000),
                surges=(Surge(2 * SECOND, 3 * SECOND, 1500),),
            )
        ]
        * 2
    )


def test_every_mishap_reaches_the_stream_or_the_resource_it_names() -> None:
    scenario = read(RICH)
    first, second, third = scenario.cameras
    assert second.stalls == (Stall(2 * SECOND, 2500 * MS),)
    assert second.stamp_errors == (StampError(4 * SECOND, 5 * SECOND, -5 * SECOND),)
    assert third.stamp_errors == (StampError(4 * SECOND, 5 * SECOND, 3 * SECOND),)
    # The step breaks in the last of its pieces.
    assert first.failures == (Failure(2, Reason.BAD_OUTPUT, 10, frozenset([3, 5])),)
    assert (first.stalls, second.failures) == ((), ())
    assert scenario.clock_steps == (ClockStep(6 * SECOND, "gpu", 500, None),)
    assert scenario.pauses == (Pause("cpu", 7 * SECOND, 8 * SECOND),)


def test_equal_streams_take_turns_unless_they_are_in_sync() -> None:
    def phases(more: str) -> list[int]:
        text = SMALLEST.replace("    fps: 30\n", f"    fps: 50\n    count: 4\n{more}")
        return [camera.phase_ns // MS for camera in read(text).cameras]

    assert phases("") == [0, 5, 10, 15]
    assert phases("    offset: 2ms\n") == [2, 7, 12, 17]
    assert phases("    in_sync: true\n") == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("fps: 30", "fps: 30\n    fsp: 1", "f.yaml:8:5: streams[0].fsp: unknown key"),
        ("deadline: 50ms", "deadline: 50", "expected a duration"),
        ("resource: gpu", "resource: dla", "no resource 'dla' here, there are gpu"),
        (", time: 6ms", "", "f.yaml:10:9: streams[0].steps[0]: expected one of time"),
        ("time: 6ms", "time: 6ms, replay: [3ms]", "expected one of time and replay"),
        ("time: 6ms", "replay: [3]", "expected a list of at most 4000 values"),
        (
            "time: 6ms",
            "time: 6ms, stateful: true, batch: {max: 2}",
            "steps[0].batch: a stateful step cannot run as a batch",
        ),
        ("fps: 30", "fps: 30\n    contract: 11 of 10", "expected a promise"),
        ("fps: 30", "fps: 30\n    jitter: 34ms", "less than the time between"),
        (
            "fps: 30",
            "fps: 30\n    starts: 2s\n    ends: 1s",
            "ends: it must come",
        ),
        ("fps: 30", "fps: 30\n    queue: {steps: 2}", "there are only 1 steps"),
        ("fps: 30", "fps: 30\n    min_service: 1s", "this one is normal"),
        (
            "{name: gpu}",
            "{name: gpu}\n  - {name: gpu}",
            "f.yaml:5:12: resources[1]",
        ),
    ],
)
def test_a_mistake_is_told_with_its_place(old: str, new: str, problem: str) -> None:
    (line,) = complaints(SMALLEST.replace(old, new))
    assert problem in line


@pytest.mark.parametrize(
    ("mishap", "problem"),
    [
        ("stalls: [{stream: cab, at: 1s, length: 1s}]", "no stream 'cab' here"),
        ("clocks: [{resource: dla, at: 1s, clock: 1}]", "no resource 'dla' here"),
        ("pauses: [{resource: gpu, from: 2s, to: 1s}]", "pauses[0].to: it must come"),
        ("surges: [{step: post, from: 1s, to: 2s, factor: 2}]", "no step 'post' here"),
        ("failures: [{stream: cam, step: post}]", "no step 'post' here"),
        ("stamps: [{stream: cam, from: 1s, to: 2s}]", "one of ahead and behind"),
    ],
)
def test_a_mishap_must_happen_to_something_that_is_there(
    mishap: str, problem: str
) -> None:
    (line,) = complaints(SMALLEST + mishap + "\n")
    assert line.startswith("f.yaml:11:")
    assert problem in line


def test_all_mistakes_are_told_in_one_run() -> None:
    text = SMALLEST.replace("fps: 30", "fps: fast").replace("6ms", "6")
    assert len(complaints(text)) == 2
    assert len(complaints("")) == 1


def test_a_name_given_twice_is_found_also_among_counted_streams() -> None:
    twice = SMALLEST.replace("fps: 30", "fps: 30\n    count: 2")
    more = twice[twice.index("  - id") :].replace("id: cam", "id: cam-1")
    (line,) = complaints(twice + more.replace("    count: 2\n", ""))
    assert "'cam-1' is given twice" in line


def test_a_file_of_one_s_own_is_as_good(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(SMALLEST)
    assert load_scenario(str(path)).name == "mine"


def test_a_scenario_that_is_not_there_is_answered_with_those_that_are() -> None:
    with pytest.raises(ConfigError, match="the packaged scenarios are bimodal, clock"):
        load_scenario("overlaod")
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: no such file"):
        load_scenario("nowhere.yaml")


def test_what_is_written_as_null_is_as_if_left_out() -> None:
    text = RICH
    for key in ("slow", "phases", "batch"):
        line = next(line for line in text.splitlines() if f"{key}: {{" in line)
        text = text.replace(line, f"        {key}: null")
    camera = read(text).cameras[0]
    assert (camera.service[1].slow, camera.spec.steps[1].batch_max) == (None, 1)


def test_the_page_about_scenarios_is_the_one_that_the_schema_gives(root: Path) -> None:
    page = (root / "docs/scenarios.md").read_text(encoding="utf-8")
    assert page == scenario_reference.document(), (
        "write it anew: python -m edgepipe.configs.scenario_reference"
    )


def test_the_scenario_of_the_page_can_be_played() -> None:
    scenario = read(scenario_reference.EXAMPLE)
    outcome = simulate(scenario, BY_NAME["slack+ladder"])
    assert outcome.captured == len(outcome.records) == 1800
