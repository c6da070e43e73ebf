"""Live and simulated agree to the nanosecond when only the time is taken away."""

from dataclasses import replace

import pytest
from live.chosen import CHOSEN, chosen

from edgepipe.commands.simulation import to_record
from edgepipe.scheduler.policy import BY_NAME
from edgepipe.scheduler.scenario import ClockStep, Scenario
from edgepipe.scheduler.simulate import simulate
from edgepipe.telemetry.records import FrameRecord

from .virtual_time import live_through

SECOND_NS = 10**9


def comparable(records: list[FrameRecord]) -> dict[tuple[str, int], FrameRecord]:
    """By frame, without what a simulator cannot know: which worker it was."""
    return {
        (record.stream, record.sequence): record._replace(
            pts_ns=None,
            spans=tuple(span._replace(worker=0) for span in record.spans),
        )
        for record in records
    }


def without_jitter(scenario: Scenario) -> Scenario:
    """A source learns from its first frame when it began: that one must be punctual."""
    cameras = tuple(replace(camera, jitter_ns=0) for camera in scenario.cameras)
    return replace(scenario, cameras=cameras)


@pytest.mark.parametrize(
    "policy", ["slack-unbatched", "slack", "slack+ladder", "fifo", "leaky-newest-1"]
)
@pytest.mark.parametrize("name", [*CHOSEN, "quad-background"])
def test_the_runtime_does_what_the_simulator_promises(name: str, policy: str) -> None:
    rules = BY_NAME[policy]
    scenario = without_jitter(chosen(name, 3 * SECOND_NS))
    promised = simulate(scenario, rules, 1).records
    lived = live_through(scenario, rules).records
    assert comparable(lived) == comparable([to_record(frame) for frame in promised])


def throttled(scenario: Scenario) -> Scenario:
    """The accelerator has 45 % of its clock from second 1 on, in second 3 all of it."""
    return replace(
        scenario,
        clock_steps=(
            ClockStep(1 * SECOND_NS, "gpu", 450, reported_after_ns=100_000_000),
            ClockStep(3 * SECOND_NS, "gpu", 1000),
        ),
    )


@pytest.mark.parametrize("policy", ["slack", "slack+ladder"])
@pytest.mark.parametrize("name", ["quad-nominal", "mixed-criticality"])
def test_a_machine_that_becomes_slower_is_met_as_in_the_simulator(
    name: str, policy: str
) -> None:
    scenario = throttled(without_jitter(chosen(name, 5 * SECOND_NS)))
    promised = simulate(scenario, BY_NAME[policy], 1)
    lived = live_through(scenario, BY_NAME[policy])
    assert comparable(lived.records) == comparable(
        [to_record(frame) for frame in promised.records]
    )
    moves = [(at_ns, move.stream, move.rung) for at_ns, move in promised.moves]
    found = [(m.at_ns, m.stream, m.rung) for m in lived.stand.runtime.rung_moves]
    assert found == [move for move in moves if move[0] <= promised.ended_ns]
    assert bool(found) == (policy == "slack+ladder")
