"""The comparison of policies as plain data: the keys of ``edgepipe.simulation/1``.

Counts are sums over the seeds, percentiles are of the frames of all seeds together, and
shares are means over the seeds unless their description in ``simulation_schema.json``
says otherwise.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from edgepipe.telemetry import scheduling_formulas as formulas
from edgepipe.telemetry.frame_columns import ResourceWork, StreamFrames
from edgepipe.telemetry.milliseconds import distribution_to_ms
from edgepipe.telemetry.scheduling_metrics import GroupMetrics, SchedulingMetrics
from edgepipe.telemetry.stats import distribution_of

NO_BOUND = "bound: computed by benchmarks only"
NO_EVENT = "recovery_s: nothing happens in this scenario"
NEVER = "recovery_s: not in every seed before the end"


@dataclass(frozen=True, slots=True)
class SimulationFacts:
    """What was simulated."""

    scenario: str
    about: str
    seeds: Sequence[int]
    duration_ns: int
    config_hash: str
    accelerators: Sequence[str]
    """Resources whose wasted time counts."""
    slots: Mapping[str, int]
    """By resource."""
    events: Sequence[tuple[int, str]]
    """What happens, in words, and when."""


@dataclass(frozen=True, slots=True)
class PolicyRun:
    """One simulation: one policy, one seed."""

    metrics: SchedulingMetrics
    frames: Mapping[str, StreamFrames]
    """By stream; their times begin at 0."""
    ended_ns: int
    moves: int
    """On the ladder."""
    redated: int
    """Frames whose stamp was put right."""
    alarms: Mapping[str, int]
    """By kind."""
    refused: Sequence[str]
    """Streams that were not admitted."""


def simulation_summary(
    facts: SimulationFacts, policies: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """The whole document, from what :func:`policy_summary` says of each policy."""
    return {
        "schema": "edgepipe.simulation/1",
        "scenario": facts.scenario,
        "about": facts.about,
        "seeds": list(facts.seeds),
        "duration_s": facts.duration_ns / 1e9,
        "config_hash": facts.config_hash,
        "events": [{"at_s": at / 1e9, "what": what} for at, what in facts.events],
        "policies": {name: dict(summary) for name, summary in policies.items()},
    }


def policy_summary(facts: SimulationFacts, runs: Sequence[PolicyRun]) -> dict[str, Any]:
    """How one policy fared; its runs come in the order of the seeds."""
    everything = [run.metrics.all for run in runs]
    shares = [group.outcomes.on_time_share for group in everything]
    known = [share for share in shares if share is not None]
    recovery_s, why = _recovery(facts, everything)
    values = {
        "on_time": _mean(shares),
        "on_time_range": [min(known, default=None), max(known, default=None)],
        "on_time_by_criticality": _by_criticality(runs),
        "utility": _mean([group.utility for group in everything]),
        "fairness": _lowest(_fairness(run) for run in runs),
        "wasted_share": _wasted(facts, runs),
    }
    reasons = [NO_BOUND, why]
    if not known:
        reasons.append("no frame was captured")
    elif None in values.values():
        reasons.append("fairness or wasted_share: no frame was on time, or no work")
    return {
        **values,
        "captured": sum(group.outcomes.captured for group in everything),
        "late": sum(group.outcomes.late for group in everything),
        "dropped": _counted(group.outcomes.dropped for group in everything),
        "failed": _counted(group.outcomes.failed for group in everything),
        "latency_ms": _latency(runs),
        "age_ms": _age(runs),
        "mk_violations": sum(group.contract_violations for group in everything),
        "max_consecutive_misses": max(g.longest_miss_run for g in everything),
        "ladder_moves": sum(run.moves for run in runs),
        "switches_per_minute": fmean(run.metrics.moves_per_minute or 0 for run in runs),
        "recovery_s": recovery_s,
        "utilisation": _utilisation(facts, runs),
        "redated": sum(run.redated for run in runs),
        "alarms": _counted(run.alarms for run in runs),
        "refused": sorted({stream for run in runs for stream in run.refused}),
        "bound": None,
        "bound_kind": None,
        "reason": "; ".join(reason for reason in reasons if reason),
    }


def _by_criticality(runs: Sequence[PolicyRun]) -> dict[str, float | None]:
    """On-time shares; a seed without frames of a criticality says nothing of it."""
    groups = [run.metrics.by_criticality for run in runs]
    return {
        name: _mean([g[name].outcomes.on_time_share for g in groups if name in g])
        for name in ("critical", "normal", "background")
        if any(name in group for group in groups)
    }


def _fairness(run: PolicyRun) -> float | None:
    """The lowest of all criticalities."""
    groups = run.metrics.by_criticality.values()
    return _lowest(group.fairness for group in groups)


def _wasted(facts: SimulationFacts, runs: Sequence[PolicyRun]) -> float | None:
    nothing = ResourceWork(0, 0.0)
    work = [
        run.metrics.by_resource.get(name, nothing)
        for run in runs
        for name in facts.accelerators
    ]
    busy_ns = sum(each.busy_ns for each in work)
    return min(1.0, sum(e.wasted_ns for e in work) / busy_ns) if busy_ns else None


def _utilisation(facts: SimulationFacts, runs: Sequence[PolicyRun]) -> dict[str, float]:
    """Share of its slots' time that each resource worked."""
    time_ns = sum(run.ended_ns for run in runs)
    busy_ns = Counter[str]()
    for run in runs:
        for name, work in run.metrics.by_resource.items():
            busy_ns[name] += work.busy_ns
    return {
        name: busy_ns[name] / (slots * time_ns) if time_ns else 0.0
        for name, slots in facts.slots.items()
    }


def _latency(runs: Sequence[PolicyRun]) -> dict[str, Any]:
    parts = [
        (frames.done_ns - frames.capture_ns)[frames.delivered]
        for run in runs
        for frames in run.frames.values()
    ]
    return _distribution_ms(parts, "no frame was delivered")


def _age(runs: Sequence[PolicyRun]) -> dict[str, Any]:
    parts = [
        formulas.peak_ages(
            frames.capture_ns[frames.delivered],
            frames.done_ns[frames.delivered],
            run.ended_ns,
        )
        for run in runs
        for frames in run.frames.values()
    ]
    return _distribution_ms(parts, "no result was replaced by a newer one")


def _distribution_ms(parts: list[formulas.Times], nothing: str) -> dict[str, Any]:
    values = np.concatenate([np.empty(0, np.int64), *parts])
    return distribution_to_ms(distribution_of(values, len(values), nothing))


def _recovery(
    facts: SimulationFacts, groups: Sequence[GroupMetrics]
) -> tuple[int | None, str]:
    """The longest recovery from any event in any seed, or why there is none."""
    if not facts.events:
        return None, NO_EVENT
    found = [seconds for group in groups for seconds in group.recovery_s]
    known = [seconds for seconds in found if seconds is not None]
    return (max(known), "") if len(known) == len(found) else (None, NEVER)


def _counted(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total = Counter[str]()
    for part in parts:
        total.update(part)
    return dict(sorted(total.items()))


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _lowest(values: Iterable[float | None]) -> float | None:
    return min((value for value in values if value is not None), default=None)
