"""``edgepipe simulate``: what is printed, what is left behind, and the exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest

from edgepipe.cli import main
from edgepipe.commands.scenario import load_scenario
from edgepipe.commands.simulation import happenings, terms_of, usual_policies
from edgepipe.configs import scenario_load
from edgepipe.scheduler.policy import BY_NAME
from edgepipe.telemetry.frame_log import read_frames
from edgepipe.telemetry.summary_schema import validate

SHORT = ["simulate", "overload", "--duration", "2s", "--seed", "1", "2"]


def simulated(
    capsys: pytest.CaptureFixture[str], *words: str, scenario: str = "overload"
) -> dict[str, Any]:
    """The JSON of a short simulation that leaves no folder."""
    asked = ["simulate", scenario, "--duration", "2s", "--seed", "1"]
    assert main([*asked, "--json", "--no-folder", *words]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    document: dict[str, Any] = json.loads(out)
    validate(document, "simulation")
    return document


def test_a_simulation_compares_policies_as_json(
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = simulated(capsys, "--policy", "fifo", "slack", "--policy", "edf")
    assert (document["scenario"], document["seeds"]) == ("overload", [1])
    assert document["duration_s"] == 2
    assert list(document["policies"]) == ["fifo", "slack", "edf"]
    fifo, slack = document["policies"]["fifo"], document["policies"]["slack"]
    assert fifo["captured"] == slack["captured"] == 240
    assert fifo["on_time"] < 0.1 < 0.6 < slack["on_time"]
    assert sum(slack["dropped"].values()) == 240 * (1 - slack["on_time"])
    assert slack["bound"] is None
    assert slack["wasted_share"] < fifo["wasted_share"]


def test_the_same_simulation_gives_the_same_document(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("--policy", "slack+ladder")
    assert simulated(capsys, *words) == simulated(capsys, *words)


@pytest.mark.parametrize(
    ("scenario", "has_ladder"), [("quad-nominal", True), ("sync-six", False)]
)
def test_without_a_choice_all_that_make_sense_are_compared(
    scenario: str, has_ladder: bool
) -> None:
    names = [policy.name for policy in usual_policies(load_scenario(scenario))]
    assert {"fifo", "leaky-newest-1", "edf", "edf-drop", "slack"} < {*names}
    assert ("slack+ladder" in names) is has_ladder
    baselines = [name for name, policy in BY_NAME.items() if not policy.plan]
    assert names[: len(baselines)] == baselines


def test_the_table_has_a_line_for_each_policy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*SHORT, "--policy", "edf", "slack", "--out", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].startswith("overload: four cameras, 138 % of the accelerator; 2 s")
    assert lines[2].split()[:3] == ["policy", "on", "time"]
    assert [line.split()[0] for line in lines[3:5]] == ["edf", "slack"]
    assert lines[5] == f"run folder {next(tmp_path.iterdir())}"
    assert err == ""
    assert max(map(len, lines[:5])) <= 130


def test_classes_have_columns_where_there_are_several(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["simulate", "quad-background", "--duration", "2s", "--seed", "1"]
    assert main([*words, "--policy", "slack", "--no-folder"]) == 0
    head = capsys.readouterr().out.splitlines()[2]
    assert "critical" in head
    assert "background" in head
    assert "normal" not in head


def test_a_simulation_leaves_a_folder_like_every_run(tmp_path: Path) -> None:
    words = ["--policy", "fifo", "edf", "--keep", "fifo", "--out", str(tmp_path)]
    assert main([*SHORT, *words]) == 0
    (folder,) = tmp_path.iterdir()
    assert folder.name.endswith("-simulate")
    assert sorted(path.name for path in folder.iterdir()) == [
        "config.yaml",
        "environment.json",
        "frames.arrow",
        "summary.json",
    ]
    summary = json.loads((folder / "summary.json").read_text())
    validate(summary, "simulation")
    log = read_frames(folder / "frames.arrow")
    records = list(log.records())
    assert log.warning == ""
    # The first seed of the policy that was named.
    assert len(records) == summary["policies"]["fifo"]["captured"] / 2 == 240
    assert {record.reason for record in records} == {"", "expired"}
    assert records[0].spans[2].stage == "detect"


def test_the_scenario_that_is_kept_can_be_simulated_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*SHORT, "--policy", "edf", "--out", str(tmp_path)]) == 0
    capsys.readouterr()
    (folder,) = tmp_path.iterdir()
    kept = scenario_load.read(str(folder / "config.yaml"))
    assert kept.sha256 == scenario_load.read("overload").sha256


def test_a_file_of_one_s_own_is_simulated_by_its_path(
    tmp_path: Path, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text((root / "configs/scenarios/overload.yaml").read_text())
    document = simulated(capsys, "--policy", "edf", scenario=str(path))
    assert document["scenario"] == "mine"


def test_the_scenarios_that_ship_are_listed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["simulate", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == scenario_load.packaged()
    assert max(map(len, lines)) <= 88


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "name a scenario; --list shows those that ship"),
        (["--policy", "edf", "overload"], "it stands before --policy and --seed"),
        (["nominal"], "the packaged scenarios are bimodal, clock-step"),
        (["overload", "--policy", "lifo"], "no policy 'lifo', there are fifo, leaky"),
        (["overload", "--policy", "edf", "--keep", "fifo"], "only edf"),
        (["overload", "--duration", "10"], "--duration: '10'"),
        (["overload", "--duration", "0s"], "longer than nothing"),
        (["overload", "--out", "/dev/null"], "cannot make a run folder there"),
    ],
)
def test_a_mistake_is_one_line_and_exits_with_2(
    words: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert problem in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("words", [["--seed", "x"], ["--out", "a", "--no-folder"]])
def test_wrong_usage_exits_with_2(words: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["simulate", "overload", *words])
    assert caught.value.code == 2


def test_what_is_broken_off_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise SystemExit(130)

    monkeypatch.setattr("edgepipe.commands.simulation.simulate", interrupted)
    with pytest.raises(SystemExit):
        main([*SHORT, "--out", str(tmp_path)])
    assert list(tmp_path.iterdir()) == []


def test_what_happens_in_a_scenario_is_told_in_words() -> None:
    def told(name: str) -> list[str]:
        found = happenings(load_scenario(name))
        return [f"{at_ns / 1e9:g} s: {what}" for at_ns, what in found]

    names = ("thermal", "stall-burst", "mode-change", "crowd-surge")
    assert {name: told(name) for name in names} == {
        "thermal": ["120 s: clock of gpu at 0.5", "180 s: clock of gpu at 1"],
        "stall-burst": [
            "21 s: cam-1 catches up after 1s",
            "41.5 s: cam-2 catches up after 1500ms",
        ],
        "mode-change": [
            *(f"20 s: extra-{n} is added" for n in range(3)),
            *(f"40 s: extra-{n} ends" for n in range(3)),
        ],
        "crowd-surge": [
            "24 s: detect takes its usual time again",
            "24 s: post takes its usual time again",
            "42 s: detect takes its usual time again",
            "42 s: post takes its usual time again",
        ],
    }


def test_the_terms_of_a_scenario_are_those_of_its_streams() -> None:
    terms = terms_of(load_scenario("mixed-criticality"))
    assert terms.criticality == {
        "front": "critical",
        "side-0": "normal",
        "side-1": "normal",
        "map": "background",
    }
    assert terms.contracts == {"front": (19, 20)}
    assert (terms.weights["front"], terms.weights["map"]) == (4, 1)
    assert terms.values_permille["map", "small"] == 850
    assert terms.periods_ns["map"] == 100_000_000


def test_rungs_that_fit_no_step_are_a_mistake_and_no_crash(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(
        "version: 1\nabout: a network and nothing else\nduration: 1s\n"
        "resources: [{name: gpu}]\nstreams:\n  - id: a\n    fps: 30\n"
        "    deadline: 50ms\n"
        "    steps: [{name: net, resource: gpu, time: 5ms, network: true}]\n"
        "    ladder: [{name: full}, {name: coast, infer_every: 2}]\n"
    )
    assert main(["simulate", str(path), "--no-folder"]) == 2
    error = capsys.readouterr().err
    assert "own.yaml" in error
    assert "a track-only frame has no step" in error
