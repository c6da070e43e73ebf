"""One simulation after the other, summed up: what ``edgepipe simulate`` runs."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgepipe.configs.units import format_duration
from edgepipe.scheduler.events import Refused
from edgepipe.scheduler.outcome import TRACK_ONLY, Outcome, SimulatedFrame
from edgepipe.scheduler.policy import BY_NAME, Policy
from edgepipe.scheduler.scenario import Camera, Scenario
from edgepipe.scheduler.simulate import simulate
from edgepipe.telemetry.frame_columns import by_stream
from edgepipe.telemetry.records import FrameRecord, Span
from edgepipe.telemetry.scheduling_metrics import Terms, measure
from edgepipe.telemetry.simulation_summary import (
    PolicyRun,
    SimulationFacts,
    policy_summary,
    simulation_summary,
)

LADDER = "slack+ladder"
COMPARED = ("slack-unbatched", "slack", LADDER)
"""Ours, after the baselines; the rest of them are for ablations."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to simulate, and whose frames to hand out."""

    scenario: Scenario
    about: str
    config_hash: str
    policies: Sequence[Policy]
    seeds: Sequence[int]
    keep: str
    """The policy whose frames of the first seed are kept."""


def usual_policies(scenario: Scenario) -> list[Policy]:
    """The baselines and ours; with a ladder only where there is one."""
    has_ladder = any(len(camera.spec.ladder) > 1 for camera in scenario.cameras)
    return [
        policy
        for name, policy in BY_NAME.items()
        if not policy.plan or (name in COMPARED and (has_ladder or name != LADDER))
    ]


def compare(
    plan: Plan, begun: Callable[[str, int], None]
) -> tuple[dict[str, Any], list[FrameRecord]]:
    """Simulate every policy with every seed.

    Args:
        plan: What to do.
        begun: Called with the policy and the seed before each simulation.

    Returns:
        The document ``edgepipe.simulation/1``, and the frames that the plan keeps.
    """
    facts = _facts(plan)
    terms = terms_of(plan.scenario)
    summaries: dict[str, Mapping[str, Any]] = {}
    kept: list[FrameRecord] = []
    for policy in plan.policies:
        runs: list[PolicyRun] = []
        for seed in plan.seeds:
            begun(policy.name, seed)
            outcome, records = _simulate(plan.scenario, policy, seed)
            runs.append(_run(facts, terms, outcome, records))
            if policy.name == plan.keep and seed == plan.seeds[0]:
                kept = records
        summaries[policy.name] = policy_summary(facts, runs)
    return simulation_summary(facts, summaries), kept


def _simulate(
    scenario: Scenario, policy: Policy, seed: int
) -> tuple[Outcome, list[FrameRecord]]:
    records: list[FrameRecord] = []

    def on_record(frame: SimulatedFrame) -> None:
        records.append(to_record(frame))

    return simulate(scenario, policy, seed, on_record), records


def to_record(frame: SimulatedFrame) -> FrameRecord:
    """The record that telemetry knows."""
    spans = tuple(Span(*span) for span in frame.spans)
    return FrameRecord._make(frame)._replace(spans=spans)


def terms_of(scenario: Scenario) -> Terms:
    """What the scenario promises for its streams."""
    specs = [camera.spec for camera in scenario.cameras]
    return Terms(
        criticality={spec.id: spec.criticality.value for spec in specs},
        weights={spec.id: spec.weight for spec in specs},
        values_permille={
            (spec.id, rung.name): rung.value_permille
            for spec in specs
            for rung in spec.ladder
        }
        | {
            # One variant for all rungs: the least that such a frame can be worth.
            (spec.id, TRACK_ONLY): min(r.track_only_value_permille for r in spec.ladder)
            for spec in specs
        },
        contracts={
            spec.id: (spec.contract.m, spec.contract.k)
            for spec in specs
            if spec.contract is not None
        },
        periods_ns={camera.spec.id: camera.period_ns for camera in scenario.cameras},
    )


def _run(
    facts: SimulationFacts,
    terms: Terms,
    outcome: Outcome,
    records: Sequence[FrameRecord],
) -> PolicyRun:
    metrics = measure(
        records,
        terms,
        from_ns=0,
        until_ns=outcome.ended_ns,
        events_ns=[at_ns for at_ns, _ in facts.events],
        moves_ns=[at_ns for at_ns, _ in outcome.moves],
    )
    return PolicyRun(
        metrics,
        by_stream(records),
        outcome.ended_ns,
        len(outcome.moves),
        outcome.redated,
        Counter(alarm.kind.value for _, alarm in outcome.alarms),
        [answer.stream for _, answer in outcome.answers if isinstance(answer, Refused)],
    )


def _facts(plan: Plan) -> SimulationFacts:
    scenario = plan.scenario
    accelerators = {
        step.resource
        for camera in scenario.cameras
        for step in camera.spec.steps
        if not step.runs_on_track_only
    }
    planned = [each.name for each in scenario.resources if each.planned]
    return SimulationFacts(
        scenario.name,
        plan.about,
        plan.seeds,
        scenario.duration_ns,
        plan.config_hash,
        # Without a network: whatever is scarce.
        sorted(accelerators) or planned,
        {resource.name: resource.slots for resource in scenario.resources},
        [each for each in happenings(scenario) if each[0] < scenario.duration_ns],
    )


def happenings(scenario: Scenario) -> list[tuple[int, str]]:
    """What happens, and when: moments after which the streams have to recover."""
    found = [
        (change.at_ns, f"clock of {change.resource} at {change.permille / 1000:g}")
        for change in scenario.clock_steps
    ]
    found += [(p.end_ns, f"{p.resource} goes on") for p in scenario.pauses]
    for camera in scenario.cameras:
        found += _of_camera(camera)
    return sorted(set(found))


def _of_camera(camera: Camera) -> Iterator[tuple[int, str]]:
    name = camera.spec.id
    if camera.starts_ns:
        yield camera.starts_ns, f"{name} is added"
    if camera.ends_ns is not None:
        yield camera.ends_ns, f"{name} ends"
    for stall in camera.stalls:
        length = format_duration(stall.end_ns - stall.start_ns)
        yield stall.end_ns, f"{name} catches up after {length}"
    for error in camera.stamp_errors:
        yield error.start_ns, f"stamps of {name} are off by {error.offset_ns / 1e9:g} s"
        yield error.end_ns, f"stamps of {name} are right again"
    for step, model in zip(camera.spec.steps, camera.service, strict=True):
        for surge in model.surges:
            yield surge.end_ns, f"{step.name} takes its usual time again"
