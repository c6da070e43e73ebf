"""On-time share against offered load: every policy beside the clairvoyant bounds.

Four cameras at 30 frames a second, a deadline of 50 ms, and the stages of the scenario
``overload``: decode 3 ms (two slots), resize 1 ms, detect (one slot), post 2 ms (two
slots). The mean time of detect is set so that the accelerator is asked for U times
what it can do one frame at a time; its spread is 5 %, a batch of b takes 0.4 + 0.6 b
times as long as one frame. All policies see the same frames.

Shares are of the frames captured, means over the seeds. *Bound* is the least of the
bounds in ``benchmarks/bounds`` under the same rules (alone, or in batches): no
scheduler can do better, even if it knows the future. *Hindsight* is a schedule that is
known to exist. *Run* is the longest run of frames of one camera that were not on time,
the worst of all seeds.

    python benchmarks/load_curve.py [--duration 30s] [--seeds 1 2 3 4 5] [--jobs 2]
        [--bounds bounds.json]
"""

import argparse
import json
import statistics
from collections.abc import Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bounds.hindsight import hindsight
from bounds.problem import problem
from clairvoyant import Effort, worths

from edgepipe.commands.scenario import load_scenario
from edgepipe.commands.simulation import terms_of, to_record
from edgepipe.configs.units import duration_ns
from edgepipe.scheduler.outcome import SimulatedFrame
from edgepipe.scheduler.policy import BY_NAME
from edgepipe.scheduler.scenario import Camera, Scenario
from edgepipe.scheduler.simulate import simulate
from edgepipe.scheduler.workload import trace
from edgepipe.telemetry.records import FrameRecord
from edgepipe.telemetry.scheduling_metrics import measure

LOADS_PERMILLE = (
    500,
    700,
    900,
    950,
    1000,
    1050,
    1200,
    1400,
    1600,
    2000,
    3000,
    4000,
)
SCARCE, STEP = "gpu", "detect"
BASE = "overload"
HONEST = "leaky-newest-1"
"""The baseline over which gains are stated: FIFO loses to everybody in overload."""
ALONE, BATCHED, LADDER = "slack-unbatched", "slack", "slack+ladder"


@dataclass(frozen=True)
class Achieved:
    """One policy on one load and seed."""

    on_time: float
    utility: float
    longest_miss_run: int


@dataclass(frozen=True)
class Limits:
    """What can be said of a load and seed without any policy; shares by bound_kind."""

    load_permille: int
    seed: int
    bounds: dict[str, float]
    hindsight: dict[str, float]
    """A schedule that exists."""


@dataclass(frozen=True)
class Point:
    """One load and seed. Shares are of the frames captured."""

    limits: Limits
    policies: dict[str, Achieved]


def loaded(load_permille: int, duration: str) -> Scenario:
    """The scenario with the scarce step as long as the load asks for."""
    base = load_scenario(BASE)
    fps = sum(camera.frame_rate for camera in base.cameras)  # in thousand seconds
    mean_ns = load_permille * 10**9 // fps

    def slower(camera: Camera) -> Camera:
        steps, service = list(camera.spec.steps), list(camera.service)
        number = [step.name for step in steps].index(STEP)
        steps[number] = replace(steps[number], cost_ns=mean_ns)
        service[number] = replace(service[number], mean_ns=mean_ns)
        spec = replace(camera.spec, steps=tuple(steps))
        return replace(camera, spec=spec, service=tuple(service))

    cameras = tuple(slower(camera) for camera in base.cameras)
    return replace(base, cameras=cameras, duration_ns=duration_ns(duration))


def achieved(scenario: Scenario, policy: str, seed: int) -> Achieved:
    """Simulate one policy."""
    records: list[FrameRecord] = []

    def keep(frame: SimulatedFrame) -> None:
        records.append(to_record(frame))

    simulate(scenario, BY_NAME[policy], seed, keep)
    found = measure(records, terms_of(scenario)).all
    return Achieved(
        found.outcomes.on_time / found.outcomes.captured,
        found.utility or 0.0,
        found.longest_miss_run,
    )


def limits(load_permille: int, seed: int, duration: str, bucket: str) -> Limits:
    """The bounds of one load and seed."""
    scenario = loaded(load_permille, duration)
    frames = trace(scenario, seed)
    bounds, possible = {}, {}
    for batched in (False, True):
        posed = problem(scenario, frames, batched=batched)
        least = min(worths(posed, Effort(("flow",))).values())
        best = hindsight(posed, SCARCE)
        if least > best:  # the cheap bound does not settle it
            effort = Effort(("starts",), bucket_ns=duration_ns(bucket))
            least = min(least, *worths(posed, effort).values())
        bounds[posed.kind] = least / posed.captured
        possible[posed.kind] = best / posed.captured
    return Limits(load_permille, seed, bounds, possible)


def point(limits: Limits, duration: str, policies: Sequence[str]) -> Point:
    """What the policies make of one load and seed."""
    scenario = loaded(limits.load_permille, duration)
    return Point(limits, {p: achieved(scenario, p, limits.seed) for p in policies})


def all_limits(
    pool: Executor, args: argparse.Namespace, keep: Path | None
) -> list[Limits]:
    """The bounds of all loads and seeds, those in the file taken from there."""
    known: dict[str, Limits] = {}
    if keep is not None and keep.exists():
        found = json.loads(keep.read_text(encoding="utf-8"))
        known = {name: Limits(**fields) for name, fields in found.items()}

    def name(load: int, seed: int) -> str:
        return f"{load} {seed} {args.duration} {args.bucket}"

    wanted = [(load, seed) for load in args.loads for seed in args.seeds]
    waiting = {
        pool.submit(limits, load, seed, args.duration, args.bucket): name(load, seed)
        for load, seed in wanted
        if name(load, seed) not in known
    }
    for future in as_completed(waiting):
        known[waiting[future]] = future.result()
        if keep is not None:
            fields = {name: asdict(limit) for name, limit in sorted(known.items())}
            keep.write_text(json.dumps(fields, indent=1), encoding="utf-8")
    return [known[name(load, seed)] for load, seed in wanted]


def percent(values: Sequence[float], digits: int = 1) -> str:
    """A mean in percent."""
    return f"{100 * statistics.fmean(values):.{digits}f}"


def grouped(points: Sequence[Point]) -> dict[int, list[Point]]:
    """By load."""
    found: dict[int, list[Point]] = {}
    for point in sorted(points, key=lambda point: point.limits.load_permille):
        found.setdefault(point.limits.load_permille, []).append(point)
    return found


def policy_table(points: Sequence[Point]) -> str:
    """On-time share of every policy."""
    names = list(points[0].policies)
    lines = [_row(["U", *names]), "| --- " * (len(names) + 1) + "|"]
    for load, here in grouped(points).items():
        shares = [percent([p.policies[name].on_time for p in here]) for name in names]
        lines.append(_row([f"{load / 1000:.2f}", *shares]))
    return "\n".join(lines)


def bound_table(points: Sequence[Point], ours: str, kind: str) -> str:
    """One of ours beside the bound of its rules."""
    header = ["U", "bound", "hindsight", ours, "of the bound", "run", f"over {HONEST}"]
    lines = [_row(header), "| --- " * len(header) + "|"]
    for load, here in grouped(points).items():
        shares = [p.policies[ours].on_time for p in here]
        parts = [p.policies[ours].on_time / p.limits.bounds[kind] for p in here]
        gains = [p.policies[ours].on_time - p.policies[HONEST].on_time for p in here]
        cells = [
            f"{load / 1000:.2f}",
            percent([p.limits.bounds[kind] for p in here]),
            percent([p.limits.hindsight[kind] for p in here]),
            f"**{percent(shares)}**",
            percent(parts),
            str(max(p.policies[ours].longest_miss_run for p in here)),
            f"{100 * statistics.fmean(gains):+.1f}",
        ]
        lines.append(_row(cells))
    return "\n".join(lines)


def ladder_table(points: Sequence[Point]) -> str:
    """What the ladder makes of it: more frames on time, of less value each."""
    header = ["U", "on time", "utility", "run"]
    lines = [_row(header), "| --- " * len(header) + "|"]
    for load, here in grouped(points).items():
        found = [p.policies[LADDER] for p in here]
        cells = [
            f"{load / 1000:.2f}",
            percent([a.on_time for a in found], 2),
            percent([a.utility for a in found]),
            str(max(a.longest_miss_run for a in found)),
        ]
        lines.append(_row(cells))
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Simulate, bound, and print the tables or one JSON object."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--duration", default="30s")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5])
    parser.add_argument(
        "--loads", nargs="+", type=int, default=LOADS_PERMILLE, metavar="PERMILLE"
    )
    parser.add_argument("--policy", nargs="+", default=list(BY_NAME))
    parser.add_argument("--bucket", default="4ms", help="of the bound by starts")
    parser.add_argument(
        "--bounds",
        type=Path,
        metavar="FILE",
        help="keep the bounds here, which take longest and depend on no policy",
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    policies = list(dict.fromkeys([*args.policy, HONEST, ALONE, BATCHED, LADDER]))
    with ProcessPoolExecutor(args.jobs) as pool:
        waiting = [
            pool.submit(point, found, args.duration, policies)
            for found in all_limits(pool, args, args.bounds)
        ]
        points = [future.result() for future in waiting]
    if args.json:
        found = [asdict(point) for point in points]
        print(
            json.dumps({"schema": "edgepipe.load_curve/1", "points": found}, indent=1)
        )
        return
    print("On-time share, percent\n")
    print(policy_table(points))
    print("\nOne frame at a time\n")
    print(bound_table(points, ALONE, "unbatched"))
    print("\nIn batches\n")
    print(bound_table(points, BATCHED, "batch-aware"))
    print("\nWith the ladder\n")
    print(ladder_table(points))


if __name__ == "__main__":
    main()
