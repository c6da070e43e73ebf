"""Every policy, simulated under a bound's own rules, stays below it."""

import json
from dataclasses import replace

import clairvoyant
import pytest
from bounds.hindsight import hindsight
from bounds.problem import problem
from clairvoyant import KINDS, RUNGS, Bound, Effort, bound

from edgepipe.commands.scenario import load_scenario
from edgepipe.commands.simulation import terms_of, to_record
from edgepipe.scheduler.outcome import SimulatedFrame
from edgepipe.scheduler.policy import BY_NAME, Policy
from edgepipe.scheduler.scenario import Scenario
from edgepipe.scheduler.simulate import simulate
from edgepipe.scheduler.workload import trace
from edgepipe.telemetry.records import FrameRecord
from edgepipe.telemetry.scheduling_metrics import GroupMetrics, measure

SECOND_NS = 10**9
FLOW = Effort(("flow",))


def shortened(name: str, duration_ns: int = SECOND_NS) -> Scenario:
    """The beginning of a scenario, with its changes of the clock moved into it."""
    scenario = load_scenario(name)
    clocks = tuple(
        replace(step, at_ns=(number + 1) * duration_ns // 3)
        for number, step in enumerate(scenario.clock_steps)
    )
    return replace(scenario, duration_ns=duration_ns, clock_steps=clocks)


def play(scenario: Scenario, policy: Policy) -> GroupMetrics:
    """What the policy achieves with seed 1."""
    records: list[FrameRecord] = []

    def keep(frame: SimulatedFrame) -> None:
        records.append(to_record(frame))

    simulate(scenario, policy, 1, keep)
    return measure(records, terms_of(scenario)).all


def bounds(scenario: Scenario, effort: Effort = FLOW) -> dict[tuple[bool, bool], Bound]:
    """By whether batches, and whether cheaper rungs, are allowed."""
    frames = trace(scenario, 1)
    return {
        (kind == "batch-aware", ladder): bound(
            scenario, frames, kind, ladder=ladder, effort=effort
        )
        for kind in KINDS
        for ladder in (False, True)
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "bimodal",
        "mixed-criticality",
        "overload",
        "quad-background",
        "sync-six",
        "thermal",
    ],
)
def test_no_policy_beats_the_bound_of_its_rules(name: str) -> None:
    scenario = shortened(name)
    least = bounds(scenario)
    for policy in BY_NAME.values():
        achieved = play(scenario, policy)
        limit = least[policy.batch, policy.ladder]
        share = achieved.outcomes.on_time_share
        assert share is not None, policy.name
        assert achieved.utility is not None, policy.name
        assert share <= limit.on_time + 1e-9, policy.name
        assert achieved.utility <= limit.utility + 1e-9, policy.name


@pytest.mark.slow
def test_the_bound_by_starts_holds_for_policies_in_overload() -> None:
    scenario = shortened("overload", SECOND_NS // 2)
    least = bounds(scenario, Effort(("starts",), bucket_ns=8 * 10**6))
    for policy in BY_NAME.values():
        share = play(scenario, policy).outcomes.on_time_share
        assert share is not None
        assert share <= least[policy.batch, policy.ladder].on_time + 1e-9, policy.name


@pytest.mark.slow
def test_what_hindsight_finds_is_close_below_the_bound() -> None:
    scenario = shortened("overload")
    for batched in (False, True):
        posed = problem(scenario, trace(scenario, 1), batched=batched)
        found = hindsight(posed, "gpu")
        least = min(clairvoyant.worths(posed, Effort(("flow", "starts"))).values())
        assert 0.93 * least <= found <= least


def test_more_freedom_never_lowers_a_bound() -> None:
    least = bounds(shortened("bimodal"))
    assert least[False, False].on_time <= least[True, False].on_time
    assert least[False, False].on_time <= least[False, True].on_time
    assert least[False, True].utility <= least[True, True].utility


def test_the_table_names_scenario_kind_and_method(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = "clairvoyant --scenario overload --seeds 1 --duration 1s --methods flow"
    monkeypatch.setattr("sys.argv", command.split())
    clairvoyant.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == clairvoyant.HEADER
    assert [line.split(" | ")[:4] for line in lines[2:]] == [
        ["| overload", kind, rungs, "1"] for kind in KINDS for rungs in RUNGS
    ]


def test_the_json_document_has_each_seeds_bounds_by_method(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = (
        "clairvoyant --scenario quad-nominal --seeds 1 2 --duration 500ms"
        " --kind unbatched --methods flow --json"
    )
    monkeypatch.setattr("sys.argv", command.split())
    clairvoyant.main()
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "edgepipe.bounds/1"
    (of_scenario,) = document["bounds"]
    assert list(of_scenario["seeds"]) == ["1", "2"]
    full = of_scenario["seeds"]["1"][0]
    assert (full["bound_kind"], full["rungs"]) == ("unbatched", "full")
    assert full["on_time"] == full["utility"] == 1.0
    assert full["methods"]["on_time"] == {"flow": full["captured"]}
