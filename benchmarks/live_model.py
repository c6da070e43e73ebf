"""Live against simulated with a real model: files, decoder, network, tracker, sinks.

So many cameras play one clip at its own rate into the whole pipeline. Every span of the
live run is recorded; the simulator then plays the same arrivals with the service times
that were measured, in their order, under the same policy, and the frames on time are
compared. Policies and loads take turns in each round.

    python benchmarks/live_model.py [--cameras 5 10] [--rounds 3] [--duration 10s]
        [--clip sample:bikes] [--fps 25] [--deadline 100ms]
        [--policies slack leaky-newest-1 fifo]

What differs from a simulation of drawn times is only what the frames cost that the live
run gave up before it knew: the simulator takes measured times again, in their order.
"""

import argparse
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from live.figures import COLUMNS, Figures, figures, shown, table

from edgepipe.assemble import Pipeline
from edgepipe.commands.simulation import to_record
from edgepipe.configs import load
from edgepipe.configs.units import duration_ns
from edgepipe.pipeline.process import Housekeeping
from edgepipe.pipeline.runtime import StreamPlan
from edgepipe.scheduler.job import Resource
from edgepipe.scheduler.policy import BY_NAME
from edgepipe.scheduler.scenario import Camera, Scenario, ServiceModel
from edgepipe.scheduler.simulate import simulate
from edgepipe.telemetry.records import FrameRecord

TICK_S = 0.1
WARM_UP_NS = 1_000_000_000
POLICIES = ("slack", "leaky-newest-1", "fifo")


@dataclass(frozen=True)
class Lived:
    """What one live run left behind."""

    plans: Sequence[StreamPlan]
    resources: tuple[Resource, ...]
    records: Sequence[FrameRecord]
    """Of the frames captured from ``begins_ns`` on."""
    begins_ns: int


def config_of(args: argparse.Namespace, cameras: int, policy: str) -> list[str]:
    """What to change in the packaged configuration."""
    source = f"{{uri: '{args.clip}', loop: true}}"
    streams = ", ".join(
        f"{{id: c{n}, deadline: {args.deadline}, source: {source}}}"
        for n in range(cameras)
    )
    return [f"streams=[{streams}]", f"scheduler.policy={policy}", "sinks=[]"]


def live(overrides: Sequence[str], length_ns: int) -> Lived:
    """Run the pipeline as ``edgepipe run`` does."""
    records: list[FrameRecord] = []
    config = load.read("default", overrides).config
    with (
        tempfile.TemporaryDirectory() as folder,
        Pipeline(config, Path(folder), records.append) as pipeline,
    ):
        pipeline.warm_up()
        runtime = pipeline.runtime
        with Housekeeping(pipeline.clock) as keeper:
            runtime.start(WARM_UP_NS, length_ns)
            while not runtime.wait(TICK_S):
                keeper.tick(idle=not runtime.jobs_running)
            if stuck := runtime.stop():
                raise RuntimeError(f"stuck: {stuck}")
        begins_ns = runtime.measure_from_ns
        return Lived(
            pipeline.plans,
            tuple(Resource(name, n) for name, n in pipeline.resources.items()),
            [r for r in records if not r.warm_up],
            begins_ns,
        )


def scenario_of(lived: Lived, length_ns: int, fps: float) -> Scenario:
    """The same arrivals and service times for the simulator."""
    by_stream: dict[str, list[FrameRecord]] = defaultdict(list)
    for record in lived.records:
        by_stream[record.stream].append(record)
    cameras = [
        _camera(plan, by_stream[plan.spec.id], lived.begins_ns, fps)
        for plan in lived.plans
    ]
    return Scenario("recorded", length_ns, lived.resources, tuple(cameras))


def _camera(
    plan: StreamPlan, records: Sequence[FrameRecord], begins_ns: int, fps: float
) -> Camera:
    ordered = sorted(records, key=lambda record: record.sequence)
    service = tuple(
        ServiceModel(replay_ns=_service_ns([s.name for s in stages], ordered))
        for stages in plan.stages
    )
    rate = round(fps * 1000)
    phase_ns = max(0, ordered[0].capture_ns - begins_ns)
    spec = replace(plan.spec, deadline_ns=plan.deadline_ns)
    return Camera(spec, service, rate, phase_ns)


def _service_ns(
    stages: Sequence[str], records: Sequence[FrameRecord]
) -> tuple[int, ...]:
    """What a step took on each frame that went through all of it."""
    took: list[int] = []
    for record in records:
        spans = [span for span in record.spans if span.stage in stages]
        if len(spans) == len(stages):
            took.append(max(1, spans[-1].end_ns - spans[0].start_ns))
    return tuple(took) or (1,)


def simulated(scenario: Scenario, policy: str) -> Figures:
    """What the simulator says would have come of it."""
    records = simulate(scenario, BY_NAME[policy]).records
    return figures(scenario, [to_record(record) for record in records])


def compare(
    args: argparse.Namespace, cameras: int, policy: str
) -> tuple[Figures, Figures]:
    """One live run, and the simulation of it."""
    length_ns = duration_ns(args.duration)
    lived = live(config_of(args, cameras, policy), length_ns)
    scenario = scenario_of(lived, length_ns, args.fps)
    return (
        figures(scenario, lived.records, lived.begins_ns),
        simulated(scenario, policy),
    )


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cameras", type=int, nargs="+", default=[5, 10])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--duration", default="10s")
    parser.add_argument("--clip", default="sample:bikes")
    parser.add_argument("--fps", type=float, default=25.0, help="of the clip")
    parser.add_argument("--deadline", default="100ms")
    parser.add_argument("--policies", nargs="+", default=POLICIES, choices=BY_NAME)
    return parser.parse_args(arguments)


def main() -> None:
    """Measure and print a table for each number of cameras."""
    args = parsed()
    found: dict[tuple[int, str], list[tuple[Figures, Figures]]] = defaultdict(list)
    variants = [(n, policy) for n in args.cameras for policy in args.policies]
    for number in range(args.rounds):
        for place in range(len(variants)):
            cameras, policy = variants[(place + number) % len(variants)]
            found[cameras, policy].append(compare(args, cameras, policy))
        load_now = os.getloadavg()[0]
        print(f"round {number + 1}, load {load_now:.1f}", file=sys.stderr)
    for cameras in args.cameras:
        print(f"\n### {cameras} cameras\n")
        rows = [row(policy, found[cameras, policy]) for policy in args.policies]
        print(table(["", "live by simulated", "simulated, %", *COLUMNS], rows))


def row(policy: str, pairs: Sequence[tuple[Figures, Figures]]) -> list[str]:
    """One policy, all rounds."""
    lived = [pair[0] for pair in pairs]
    ratios = [a.on_time / max(1, b.on_time) for a, b in pairs]
    promised = [100 * b.on_time_share for _, b in pairs]
    return [
        policy,
        shown(ratios, 3),
        shown(promised),
        *(column(lived) for column in COLUMNS.values()),
    ]


if __name__ == "__main__":
    main()
