"""Does it do live what the simulator promises? And is that better than what others do?

Scenarios are played by the real runtime, with its threads and the real clock, and by
the simulator, with the same frames and service times. Beside it, in the same run: the
same runtime under FIFO and under leaky queues of one place, and a plain pipeline with a
thread for each stage and a bounded ``queue.Queue`` before each.

Accelerators (``gpu``, ``nvdec``, ``vic``) are timed waits that let go of the global
lock; steps on ``cpu`` burn the thread's CPU time, in native code that lets go of the
lock (``releasing``) or in bytecode that holds it (``holding``). Each round has its own
seed and plays all variants one after the other, in an order that turns. Ratios are
taken inside a round.

    python benchmarks/live_agreement.py [--scenarios overload ...] [--rounds 5]
        [--duration 10s] [--work releasing] [--variants slack ...] [--json out.json]
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from live import ours, plain
from live.chosen import CHOSEN, chosen
from live.figures import (
    COLUMNS,
    Figures,
    by_criticality,
    figures,
    percentile,
    shown,
    table,
)
from live.work import BURNS, RealWork, check_slots

from edgepipe.commands.simulation import to_record
from edgepipe.configs.units import duration_ns
from edgepipe.scheduler.policy import BY_NAME
from edgepipe.scheduler.scenario import Scenario
from edgepipe.scheduler.simulate import simulate
from edgepipe.telemetry.clock import MonotonicClock

OURS = ("slack", "slack-unbatched")
PLAIN_DEPTHS = {"plain-1": 1, "plain-4": 4}
"""The plain pipeline, by the length of its queues."""
VARIANTS = (*OURS, "fifo", "leaky-newest-1", *PLAIN_DEPTHS)


@dataclass
class Rounds:
    """Everything that was measured of one scenario, a figure for each round."""

    scenario: str
    live: dict[str, list[Figures]] = field(default_factory=dict[str, list[Figures]])
    simulated: dict[str, list[Figures]] = field(
        default_factory=dict[str, list[Figures]]
    )
    """Of the policies that the simulator knows."""
    accelerator_error_ns: list[int] = field(default_factory=list[int])
    cpu_error_ns: list[int] = field(default_factory=list[int])
    load: list[float] = field(default_factory=list[float])
    """The machine's load average before each round."""

    def ratios(self, variant: str) -> list[float]:
        """Frames on time, live by simulated, for each round."""
        pairs = zip(self.live[variant], self.simulated[variant], strict=True)
        return [live.on_time / promised.on_time for live, promised in pairs]


def simulated(scenario: Scenario, policy: str, seed: int) -> Figures:
    """What the simulator promises."""
    records = simulate(scenario, BY_NAME[policy], seed).records
    return figures(scenario, [to_record(record) for record in records])


def play(scenario: Scenario, variant: str, seed: int, work: RealWork) -> Figures:
    """Play it live, by one of our policies or by the plain pipeline."""
    frames, clock = ours.drawn(scenario, seed), MonotonicClock()
    if variant in PLAIN_DEPTHS:
        depth = PLAIN_DEPTHS[variant]
        played = plain.play(scenario, depth, frames, work.perform, clock)
    else:
        policy = BY_NAME[variant]
        played = ours.play(scenario, policy, frames, work.perform, clock)
    return figures(scenario, played.records, played.begins_ns, played.decisions)


def measure(
    scenario: Scenario, rounds: int, kind: str, variants: Sequence[str]
) -> Rounds:
    """All rounds of one scenario."""
    found = Rounds(scenario.name)
    for number in range(rounds):
        found.load.append(os.getloadavg()[0])
        for place in range(len(variants)):
            variant, seed = variants[(place + number) % len(variants)], number + 1
            work = RealWork(BURNS[kind])
            lived = play(scenario, variant, seed, work)
            found.live.setdefault(variant, []).append(lived)
            found.accelerator_error_ns.extend(work.accelerator_error_ns)
            found.cpu_error_ns.extend(work.cpu_error_ns)
            if variant not in PLAIN_DEPTHS:
                promised = simulated(scenario, variant, seed)
                found.simulated.setdefault(variant, []).append(promised)
        print(scenario.name, "round", number + 1, file=sys.stderr)
    return found


def report(found: Rounds) -> Iterator[str]:
    """One scenario as text and a table."""
    yield f"\n### {found.scenario}\n"
    (first, *_), *_ = found.live.values()
    several = (
        [*first.on_time_by_criticality] if len(first.on_time_by_criticality) > 1 else []
    )
    header = ["", "live by simulated", *(f"{name}, %" for name in several), *COLUMNS]
    yield table(header, [row(found, variant, several) for variant in found.live])
    for variant in found.live:
        if variant in OURS:
            yield decided(variant, found.live[variant])
    yield (
        f"{errors('accelerators', found.accelerator_error_ns)}, "
        f"{errors('CPU steps', found.cpu_error_ns)}; load {shown(found.load)}"
    )


def row(found: Rounds, variant: str, several: Sequence[str]) -> list[str]:
    """One variant, all rounds."""
    rounds = found.live[variant]
    ratio = "-"
    if variant in found.simulated:
        ratio = shown(found.ratios(variant), 3)
    shares = by_criticality(rounds)
    return [
        f"**{variant}**" if variant in OURS else variant,
        f"**{ratio}**" if variant in OURS else ratio,
        *(shares[name] for name in several),
        *(column(rounds) for column in COLUMNS.values()),
    ]


def decided(variant: str, rounds: Sequence[Figures]) -> str:
    """How long decisions took to be carried out."""
    taken_ms = [ms for each in rounds for ms in each.decision_ms]
    middle, high = percentile(taken_ms, 0.5), percentile(taken_ms, 0.99)
    return f"\n{variant}: from event to worker {middle:.3f} ms p50, {high:.2f} p99"


def errors(who: str, late_ns: Sequence[int]) -> str:
    """How late synthetic work ended."""
    late_ms = [ns / 1e6 for ns in late_ns]
    middle, high = percentile(late_ms, 0.5), percentile(late_ms, 0.99)
    return f"{who} ended {middle:.3f} ms late p50, {high:.2f} p99"


def for_json(value: object) -> object:
    """The same for JSON, whose keys are text: those of several parts are joined."""
    if isinstance(value, dict):
        return {
            ":".join(map(str, key)) if isinstance(key, tuple) else key: for_json(item)
            for key, item in value.items()
        }
    return (
        [for_json(item) for item in value] if isinstance(value, list | tuple) else value
    )


def main() -> None:
    """Measure and print tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenarios", nargs="+", default=CHOSEN)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--duration", default="10s")
    parser.add_argument("--work", default="releasing", choices=list(BURNS))
    parser.add_argument("--variants", nargs="+", default=VARIANTS, choices=VARIANTS)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    everything: list[Rounds] = []
    for name in args.scenarios:
        scenario = chosen(name, duration_ns(args.duration))
        check_slots(scenario.resources)
        found = measure(scenario, args.rounds, args.work, args.variants)
        everything.append(found)
        for line in report(found):
            print(line, flush=True)
    if args.json:
        args.json.write_text(
            json.dumps(for_json([asdict(each) for each in everything]))
        )


if __name__ == "__main__":
    main()
