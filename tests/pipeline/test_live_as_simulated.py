"""Live and simulated agree to the nanosecond when only the time is taken away."""

from dataclasses import replace

import pytest
from live.chosen import CHOSEN, chosen

from edgepipe.commands.simulation import to_record
from edgepipe.scheduler.policy import BY_NAME
from edgepipe.scheduler.scenario import Scenario
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
@pytest.mark.parametrize("name", CHOSEN)
def test_the_runtime_does_what_the_simulator_promises(name: str, policy: str) -> None:
    rules = BY_NAME[policy]
    scenario = without_jitter(chosen(name, 3 * SECOND_NS))
    promised = simulate(scenario, rules, 1).records
    lived = live_through(scenario, rules).records
    assert comparable(lived) == comparable([to_record(frame) for frame in promised])
