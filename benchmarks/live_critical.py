"""A critical stream beside one that would use every core all the time.

Both run on the CPU. The critical stream (40 frames a second, 6 ms) is played alone and
beside a background stream that always has a job of 12 ms waiting. Jobs are never
interrupted, so the critical stream may have to wait for what has begun: its 99th
percentile may grow by a tenth and by the longest background job of the run.

With a deadline that leaves no room for a background job (16 ms), the scheduler starts
none that would be in the way: then what counts is that the critical frames are in time.

    python benchmarks/live_critical.py [--rounds 5] [--duration 10s] [--slots 1 2]
        [--work releasing]
"""

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from live import ours
from live.figures import percentile, shown, table
from live.work import BURNS, RealWork, check_slots

from edgepipe.configs.units import duration_ns
from edgepipe.scheduler.job import Criticality, Resource, Step, StreamSpec
from edgepipe.scheduler.policy import BY_NAME
from edgepipe.scheduler.scenario import Camera, Scenario, ServiceModel
from edgepipe.telemetry.clock import MonotonicClock
from edgepipe.telemetry.records import FrameRecord

MS = 1_000_000
CRITICAL_NS, BACKGROUND_NS = 6 * MS, 12 * MS
DEADLINES_NS = (60 * MS, 16 * MS)
TENTH = 1.1


@dataclass(frozen=True)
class Heard:
    """One run. Times are milliseconds."""

    on_time: float
    """Share of the critical stream's frames."""
    p50_ms: float
    p99_ms: float
    """Of the critical stream, capture to delivery."""
    longest_ms: float
    """Longest background job."""
    background: float
    """Share of the resource that the background stream had."""


def camera(
    name: str, rate: int, cost_ns: int, deadline_ns: int, criticality: Criticality
) -> Camera:
    """A stream of one step on the CPU; ``rate`` in frames in a thousand seconds."""
    spec = StreamSpec(
        name,
        (Step("work", "cpu", stateful=False, cost_ns=cost_ns),),
        criticality=criticality,
        deadline_ns=deadline_ns,
        period_ns=10**12 // rate,
    )
    return Camera(spec, (ServiceModel(cost_ns),), rate)


def beside(slots: int, deadline_ns: int, length_ns: int) -> Scenario:
    """Both streams; the background asks for one and a half times what there is."""
    rate = 1500 * slots * 10**9 // BACKGROUND_NS
    return Scenario(
        "beside",
        length_ns,
        (Resource("cpu", slots),),
        (
            camera("front", 40_000, CRITICAL_NS, deadline_ns, Criticality.CRITICAL),
            camera("map", rate, BACKGROUND_NS, 500 * MS, Criticality.BACKGROUND),
        ),
    )


def alone(scenario: Scenario) -> Scenario:
    """The critical stream without the other."""
    return replace(scenario, cameras=scenario.cameras[:1])


def heard(scenario: Scenario, records: Sequence[FrameRecord]) -> Heard:
    """What the records tell."""
    front = [record for record in records if record.stream == "front"]
    jobs_ms = [r.spans[0].service_ns / MS for r in records if r.stream == "map"]
    latencies_ms = [record.latency_ns / MS for record in front if record.delivered]
    slots_ms = scenario.resources[0].slots * scenario.duration_ns / MS
    return Heard(
        sum(record.fate == "completed" for record in front) / len(front),
        percentile(latencies_ms, 0.5),
        percentile(latencies_ms, 0.99),
        max(jobs_ms, default=0.0),
        sum(jobs_ms) / slots_ms,
    )


def play(scenario: Scenario, policy: str, kind: str, seed: int) -> Heard:
    """One run."""
    work, frames = RealWork(BURNS[kind]), ours.drawn(scenario, seed)
    clock, rules = MonotonicClock(), BY_NAME[policy]
    played = ours.play(scenario, rules, frames, work.perform, clock)
    return heard(scenario, [record for record in played.records if record.spans])


def row(
    slots: int, deadline_ns: int, rounds: int, length_ns: int, policy: str, kind: str
) -> list[str]:
    """Alone and beside, in turns."""
    scenario = beside(slots, deadline_ns, length_ns)
    check_slots(scenario.resources)
    apart: list[Heard] = []
    together: list[Heard] = []
    for number in range(rounds):
        apart.append(play(alone(scenario), policy, kind, number + 1))
        together.append(play(scenario, policy, kind, number + 1))
    pairs = list(zip(apart, together, strict=True))
    bounds_ms = [TENTH * one.p99_ms + two.longest_ms for one, two in pairs]
    kept = sum(
        two.p99_ms <= bound_ms
        for (_, two), bound_ms in zip(pairs, bounds_ms, strict=True)
    )
    return [
        str(slots),
        f"{deadline_ns / MS:.0f}",
        kind,
        shown(each.p50_ms for each in apart),
        shown(each.p99_ms for each in apart),
        shown(each.p50_ms for each in together),
        f"**{shown(each.p99_ms for each in together)}**",
        shown(each.longest_ms for each in together),
        f"{shown(bounds_ms)}, kept {kept} of {rounds}",
        shown((each.on_time for each in together), 1, 100),
        shown((each.background for each in together), 0, 100),
    ]


HEADER = (
    "slots",
    "deadline, ms",
    "CPU work",
    "p50 alone",
    "p99 alone",
    "p50 beside",
    "p99 beside",
    "longest background job",
    "bound of p99",
    "in time, %",
    "background's share, %",
)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--duration", default="10s")
    parser.add_argument("--slots", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--work", nargs="+", default=["releasing"], choices=list(BURNS))
    parser.add_argument("--policy", default="slack", choices=list(BY_NAME))
    args = parser.parse_args()
    length_ns = duration_ns(args.duration)
    print(f"load {os.getloadavg()[0]:.1f}")
    found = [
        row(slots, deadline_ns, args.rounds, length_ns, args.policy, kind)
        for kind in args.work
        for slots in args.slots
        for deadline_ns in DEADLINES_NS
    ]
    print(table(HEADER, found))


if __name__ == "__main__":
    main()
