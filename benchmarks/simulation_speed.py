"""How fast the simulator plays, and what a decision of the scheduler costs.

Two measurements on one core of this machine, medians over the rounds:

- the whole: four cameras at 30 frames a second through four stages, in virtual time
  against real time, and how much of the real time the scheduler takes;
- the scheduler alone: the time of each ``handle``, split by what it had to do. A
  decision is an event after which a job starts or a frame is given up on a planned
  resource; "overload" are those of a load that sheds.

    python benchmarks/simulation_speed.py [--duration 10m] [--rounds 3]
"""

import argparse
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from time import perf_counter_ns

from edgepipe.commands.scenario import load_scenario
from edgepipe.configs.units import duration_ns
from edgepipe.scheduler.core import Scheduler
from edgepipe.scheduler.events import Action, Event, Grant, Leave, Start
from edgepipe.scheduler.job import Resource, StreamSpec
from edgepipe.scheduler.policy import BY_NAME, Policy
from edgepipe.scheduler.scenario import Scenario
from edgepipe.scheduler.simulate import simulate

SECOND_NS = 10**9


@dataclass
class Timed:
    """A scheduler with a stopwatch around it."""

    core: Scheduler
    planned: set[str]
    other_ns: list[int] = field(default_factory=list[int])
    """Events without a decision on a planned resource."""
    decision_ns: list[int] = field(default_factory=list[int])

    def initial_grants(self) -> list[Grant]:
        """The scheduler's."""
        return self.core.initial_grants()

    def handle(self, now_ns: int, event: Event) -> list[Action]:
        """The scheduler's answer; how long it took is kept."""
        begun = perf_counter_ns()
        actions = self.core.handle(now_ns, event)
        taken_ns = perf_counter_ns() - begun
        for action in actions:
            if isinstance(action, Leave) and action.evidence is not None:
                break
            if isinstance(action, Start) and action.jobs[0].resource in self.planned:
                break
        else:
            self.other_ns.append(taken_ns)
            return actions
        self.decision_ns.append(taken_ns)
        return actions


def timed(scenario: Scenario, policy: Policy) -> tuple[int, Timed]:
    """Play it with a stopwatch; returns the number of events and the stopwatch."""
    watches: list[Timed] = []

    def make(
        specs: list[StreamSpec], resources: tuple[Resource, ...], policy: Policy
    ) -> Timed:
        # Only the scarce one: what stands behind it is planned, too, but never full.
        watches.append(Timed(Scheduler(specs, resources, policy), {"gpu"}))
        return watches[0]

    outcome = simulate(scenario, policy, 1, lambda _: None, make_core=make)
    return outcome.events, watches[0]


def speed(length_ns: int, rounds: int) -> Iterator[str]:
    """The whole: with and without a stopwatch, in turns."""
    yield f"{'':<34}{'x real time':>12}{'us/event':>10}{'outside':>9}{'1 h in s':>10}"
    for name, policy in (
        ("quad-nominal", "fifo"),
        ("quad-nominal", "slack"),
        ("overload", "slack"),
        ("overload", "slack+ladder"),
    ):
        scenario = replace(load_scenario(name), duration_ns=length_ns)
        whole_ns: list[float] = []
        core_ns: list[float] = []
        events = 1
        for _ in range(rounds):
            begun = perf_counter_ns()
            simulate(scenario, BY_NAME[policy], 1, lambda _: None)
            whole_ns.append(perf_counter_ns() - begun)
            events, watch = timed(scenario, BY_NAME[policy])
            core_ns.append(sum(watch.other_ns) + sum(watch.decision_ns))
        typical_ns = statistics.median(whole_ns)
        outside_ns = typical_ns - statistics.median(core_ns)
        yield (
            f"{f'{name}, {policy}':<34}{length_ns / typical_ns:>12.0f}"
            f"{typical_ns / events / 1e3:>10.2f}{outside_ns / events / 1e3:>9.2f}"
            f"{3600 * typical_ns / length_ns:>10.1f}"
        )


def crowd(count: int, scenario: Scenario) -> Scenario:
    """The scenario with so many streams in the place of its own, as much load."""
    cameras = scenario.cameras
    slower = [
        replace(
            cameras[n % len(cameras)],
            spec=replace(cameras[n % len(cameras)].spec, id=f"cam-{n}"),
            frame_rate=cameras[0].frame_rate * len(cameras) // count,
            phase_ns=n * cameras[0].period_ns // len(cameras),
        )
        for n in range(count)
    ]
    return replace(scenario, cameras=tuple(slower))


def decisions(length_ns: int) -> Iterator[str]:
    """The scheduler alone, in microseconds."""
    yield f"{'handle(), us':<34}{'n':>10}{'p50':>8}{'p99':>8}{'max':>9}"
    for name, streams in (("quad-nominal", 4), ("overload", 4), ("overload", 16)):
        scenario = replace(load_scenario(name), duration_ns=length_ns)
        if streams != len(scenario.cameras):
            scenario = crowd(streams, scenario)
        _, watch = timed(scenario, BY_NAME["slack"])
        for what, samples in (
            ("no decision", watch.other_ns),
            ("decision", watch.decision_ns),
        ):
            ordered = sorted(samples)
            yield (
                f"{f'{name}, {streams} streams, {what}':<34}{len(ordered):>10}"
                f"{statistics.median(ordered) / 1e3:>8.1f}"
                f"{ordered[len(ordered) * 99 // 100] / 1e3:>8.1f}"
                f"{ordered[-1] / 1e3:>9.1f}"
            )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--duration", default="10m", help="virtual time of each run")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    length_ns = duration_ns(args.duration)
    for line in speed(length_ns, args.rounds):
        print(line)
    for line in decisions(min(length_ns, 60 * SECOND_NS)):
        print(line)


if __name__ == "__main__":
    main()
