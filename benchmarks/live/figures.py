"""What one run of a scenario achieved, and many of them as a table."""

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from edgepipe.commands.simulation import terms_of
from edgepipe.scheduler.scenario import Scenario
from edgepipe.telemetry import scheduling_metrics
from edgepipe.telemetry.records import FrameRecord
from edgepipe.telemetry.stats import Distribution
from live.decisions import Decisions, latencies_ns

NS_PER_MS = 1e6
Spread = tuple[float, float, float]
"""Median, least and most of the rounds."""


@dataclass(frozen=True)
class Figures:
    """One run. Shares are of the frames captured, times are milliseconds."""

    captured: int
    on_time: int
    on_time_by_criticality: Mapping[str, float]
    utility: float
    p50_ms: float | None
    """Capture to delivery, of the delivered frames; as are the next two."""
    p99_ms: float | None
    max_ms: float | None
    age_p50_ms: float | None
    """Age of the newest result just before each next one."""
    misses: Mapping[str, int]
    """Frames that were not on time, by reason, or ``late``."""
    decision_ms: Sequence[float] = ()
    """For each start, from the event to the worker that began."""

    @property
    def on_time_share(self) -> float:
        """Of the frames captured."""
        return self.on_time / self.captured


def figures(
    scenario: Scenario,
    records: Sequence[FrameRecord],
    begins_ns: int = 0,
    decisions: Decisions | None = None,
) -> Figures:
    """Work them out from the records of a run, live or simulated."""
    found = scheduling_metrics.measure(records, terms_of(scenario), from_ns=begins_ns)
    everything, outcomes = found.all, found.all.outcomes
    misses = Counter(outcomes.dropped) + Counter(outcomes.failed)
    misses["late"] += outcomes.late
    steps = {c.spec.id: [s.name for s in c.spec.steps] for c in scenario.cameras}
    taken_ns = latencies_ns(decisions, records, steps) if decisions else ()
    return Figures(
        outcomes.captured,
        outcomes.on_time,
        {
            name: group.outcomes.on_time / group.outcomes.captured
            for name, group in found.by_criticality.items()
        },
        everything.utility or 0.0,
        in_ms(everything.latency, "p50"),
        in_ms(everything.latency, "p99"),
        in_ms(everything.latency, "max"),
        in_ms(everything.peak_age, "p50"),
        +misses,
        [ns / NS_PER_MS for ns in taken_ns],
    )


def in_ms(distribution: Distribution, what: str) -> float | None:
    """A percentile, or ``max``; None where it cannot be told."""
    ns = distribution.max if what == "max" else distribution.percentiles[what]
    return None if ns is None else ns / NS_PER_MS


def spread(values: Iterable[float]) -> Spread:
    """Median and range."""
    known = list(values)
    return statistics.median(known), min(known), max(known)


def percentile(values: Sequence[float], share: float) -> float:
    """Nearest rank; 0 of nothing."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def shown(values: Iterable[float | None], digits: int = 1, scale: float = 1) -> str:
    """``median [least, most]``, or a dash where there is nothing."""
    known = [value * scale for value in values if value is not None]
    if not known:
        return "-"
    middle, least, most = spread(known)
    return f"{middle:.{digits}f} [{least:.{digits}f}, {most:.{digits}f}]"


def reasons(rounds: Sequence[Figures]) -> str:
    """Misses by reason, means over the rounds, most frequent first."""
    total: Counter[str] = Counter()
    for each in rounds:
        total.update(each.misses)
    means = [f"{why} {n / len(rounds):.0f}" for why, n in total.most_common() if n]
    return ", ".join(means) or "none"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


Column = Callable[[Sequence[Figures]], str]
COLUMNS: Mapping[str, Column] = {
    "on time, %": lambda rounds: shown((r.on_time_share for r in rounds), 1, 100),
    "utility": lambda rounds: shown((r.utility for r in rounds), 3),
    "p50, ms": lambda rounds: shown(r.p50_ms for r in rounds),
    "p99, ms": lambda rounds: shown(r.p99_ms for r in rounds),
    "oldest, ms": lambda rounds: shown(r.max_ms for r in rounds),
    "peak age p50, ms": lambda rounds: shown(r.age_p50_ms for r in rounds),
    "misses a round": reasons,
}


def by_criticality(rounds: Sequence[Figures]) -> dict[str, str]:
    """The shares on time of each criticality, in per cent."""
    return {
        name: shown((r.on_time_by_criticality[name] for r in rounds), 1, 100)
        for name in rounds[0].on_time_by_criticality
    }
