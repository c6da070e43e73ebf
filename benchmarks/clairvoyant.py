"""Upper bounds on what any scheduler could achieve, for the scenarios that ship.

What the bounds assume and why they hold is told in ``benchmarks/bounds``. For each
scenario, seed and kind of rules the least of the bounds that were asked for counts;
shares are of the frames captured, utility is worth by the worth of all frames at full
quality. ``ladder`` beside ``full`` is with all rungs of the streams' ladders.

    python benchmarks/clairvoyant.py --scenario overload --seeds 1 2 3 4 5
    python benchmarks/clairvoyant.py --kind batch-aware --duration 10s --json

``flow`` takes 3 to 10 s for a minute of four cameras, ``starts`` minutes (with batches
and a bucket of 4 ms), ``exact`` needs OR-Tools and is meant for a few seconds.
"""

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from bounds.exact import available, exact_bound
from bounds.flow import flow_bound
from bounds.problem import Problem, Worth, problem
from bounds.program import whole
from bounds.starts import scarce_resources, starts_bound

from edgepipe.commands.scenario import load_scenario
from edgepipe.configs.scenario_load import packaged
from edgepipe.configs.units import duration_ns
from edgepipe.scheduler.job import FULL, Criticality
from edgepipe.scheduler.scenario import Scenario
from edgepipe.scheduler.workload import TraceFrame, trace

KINDS = ("unbatched", "batch-aware")
METHODS = ("flow", "starts", "exact")
RUNGS = ("full", "ladder")


@dataclass(frozen=True)
class Effort:
    """How hard to try."""

    methods: Sequence[str] = ("flow", "starts")
    window_ns: int = 10 * 10**9
    """How much of the trace is solved at once by ``flow``."""
    bucket_ns: int = 4 * 10**6
    """Size of the buckets of ``starts``."""


@dataclass(frozen=True)
class Bound:
    """What no scheduler can exceed on one trace."""

    bound_kind: str
    rungs: str
    """``full``: the best quality only; ``ladder``: any rung."""
    captured: int
    on_time: float
    on_time_by_criticality: dict[str, float]
    """As if nobody else had to be served."""
    utility: float
    methods: dict[str, dict[str, int]]
    """Worth by each method, for what is counted."""
    seconds: float
    """What it took to find out."""


def worths(posed: Problem, effort: Effort) -> dict[str, int]:
    """Upper bounds on the worth of what is completed, by method."""
    found = {}
    if "flow" in effort.methods:
        found["flow"] = whole(flow_bound(posed, effort.window_ns))
    if "starts" in effort.methods and (scarce := scarce_resources(posed)):
        found["starts"] = whole(starts_bound(posed, scarce, effort.bucket_ns))
    if "exact" in effort.methods and available() and posed.kind == "unbatched":
        found["exact"] = exact_bound(posed).bound
    return {name: min(worth, posed.total) for name, worth in found.items()}


def bound(
    scenario: Scenario,
    frames: Sequence[TraceFrame],
    kind: str,
    *,
    ladder: bool = False,
    effort: Effort,
) -> Bound:
    """The least of the bounds of one kind on one trace."""
    began = time.perf_counter()
    batched = kind == "batch-aware"

    def pose(worth: Worth, only: Criticality | None = None) -> Problem:
        return problem(
            scenario, frames, worth, batched=batched, ladder=ladder, only=only
        )

    posed = pose(Worth.ON_TIME)
    on_time = worths(posed, effort)
    share = min(on_time.values()) / posed.captured
    weights = {frame.weight for frame in frames}
    if ladder or len(weights) > 1:
        valued = pose(Worth.UTILITY)
        utility = worths(valued, effort)
        utility_share = min(utility.values()) / valued.total
    else:
        utility, utility_share = on_time, share
    classes = {camera.spec.criticality for camera in scenario.cameras}
    quick = replace(effort, methods=("flow",))
    by_class = {}
    for criticality in sorted(classes, key=lambda c: c.band):
        alone = pose(Worth.ON_TIME, criticality) if len(classes) > 1 else posed
        worth = min(worths(alone, quick).values()) if alone is not posed else None
        by_class[criticality.value] = share if worth is None else worth / alone.captured
    return Bound(
        kind,
        "ladder" if ladder else "full",
        posed.captured,
        share,
        by_class,
        utility_share,
        {"on_time": on_time, "utility": utility},
        time.perf_counter() - began,
    )


def has_ladder(scenario: Scenario) -> bool:
    """Whether any stream can be worked on in a cheaper way."""
    return any(camera.spec.ladder != (FULL,) for camera in scenario.cameras)


def bounds_of(
    name: str,
    seed: int,
    kinds: Sequence[str],
    rungs: Sequence[str],
    duration: str | None,
    effort: Effort,
) -> list[Bound]:
    """All bounds of one scenario and seed."""
    scenario = load_scenario(name)
    if duration is not None:
        scenario = replace(scenario, duration_ns=duration_ns(duration))
    frames = trace(scenario, seed)
    found: list[Bound] = []
    for kind in kinds:
        for which in rungs:
            if which == "ladder" and not has_ladder(scenario):
                continue
            settled = [known for known in found if _settles(known, kind, which)]
            if settled:
                found.append(replace(settled[0], bound_kind=kind, rungs=which))
                continue
            ladder = which == "ladder"
            found.append(bound(scenario, frames, kind, ladder=ladder, effort=effort))
    return found


def _settles(known: Bound, kind: str, rungs: str) -> bool:
    """Whether no bound with more freedom can say more: it would also allow all."""
    return (
        known.on_time == known.utility == 1.0
        and KINDS.index(known.bound_kind) <= KINDS.index(kind)
        and RUNGS.index(known.rungs) <= RUNGS.index(rungs)
    )


HEADER = "| scenario | kind | rungs | seeds | on time % | utility % | by | s |"


def line(name: str, found: Sequence[Bound]) -> str:
    """Means over the seeds, with the range of the share."""
    shares = [100 * bound.on_time for bound in found]
    utility = statistics.fmean(100 * bound.utility for bound in found)
    tightest = {
        min(bound.methods["utility"].items(), key=lambda item: item[1])[0]
        for bound in found
    }
    cells = (
        name,
        found[0].bound_kind,
        found[0].rungs,
        str(len(found)),
        f"{statistics.fmean(shares):.2f} [{min(shares):.2f}, {max(shares):.2f}]",
        f"{utility:.2f}",
        ", ".join(sorted(tightest)),
        f"{statistics.fmean(bound.seconds for bound in found):.0f}",
    )
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Compute and print a table, or one JSON object."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scenario", nargs="+", default=list(packaged()))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5])
    parser.add_argument("--kind", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--rungs", nargs="+", choices=RUNGS, default=list(RUNGS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS[:2])
    parser.add_argument("--duration", help="of the trace, instead of the scenario's")
    parser.add_argument("--window", default="10s", help="solved at once by flow")
    parser.add_argument("--bucket", default="4ms", help="of starts")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    effort = Effort(args.methods, duration_ns(args.window), duration_ns(args.bucket))
    results = []
    if not args.json:
        print(HEADER)
        print("| --- " * (HEADER.count("|") - 1) + "|")
    for name in args.scenario:
        by_seed = {
            seed: bounds_of(name, seed, args.kind, args.rungs, args.duration, effort)
            for seed in args.seeds
        }
        results.append(
            {
                "scenario": name,
                "duration": args.duration,
                "seeds": {
                    seed: [asdict(found) for found in bounds]
                    for seed, bounds in by_seed.items()
                },
            }
        )
        if not args.json:
            for found in zip(*by_seed.values(), strict=True):
                print(line(name, found), flush=True)
    if args.json:
        print(json.dumps({"schema": "edgepipe.bounds/1", "bounds": results}, indent=1))


if __name__ == "__main__":
    main()
