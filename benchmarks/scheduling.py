"""Every shipped scenario under every policy: the tables of ``docs/scheduling.md``.

Each scenario is played with the same five draws for all policies, so that they see the
same frames. Shares are of the frames captured, means over the draws.
Bounds: ``benchmarks/clairvoyant.py``.

    python benchmarks/scheduling.py [--seeds 1 2 3 4 5] [--duration 60s] [--jobs 2]
        [--json out.json]
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgepipe.commands.scenario import load_scenario
from edgepipe.commands.simulation import Plan, compare, usual_policies
from edgepipe.configs.scenario_load import packaged
from edgepipe.configs.units import duration_ns
from edgepipe.scheduler.policy import BY_NAME

COLUMNS = (
    "fifo",
    "leaky-newest-1",
    "leaky-newest-2",
    "edf",
    "edf-drop",
    "edf-profile",
    "fixed-priority",
    "rate-monotonic",
    "freshest",
    "slack-unbatched",
    "slack",
    "slack+ladder",
)
DETAILED = ("leaky-newest-1", "edf-drop", "slack", "slack+ladder")


def play(name: str, policy: str, seeds: Sequence[int], duration: str | None) -> Any:
    """The summary of one policy in one scenario; None if it has nothing to do there."""
    scenario = load_scenario(name)
    if duration is not None:
        scenario = replace(scenario, duration_ns=duration_ns(duration))
    if BY_NAME[policy] not in usual_policies(scenario):
        return None
    plan = Plan(scenario, "", "", [BY_NAME[policy]], seeds, "")
    document, _ = compare(plan, lambda policy, seed: None)
    return document["policies"][policy]


def play_all(
    names: Sequence[str], seeds: Sequence[int], duration: str | None, jobs: int
) -> dict[str, dict[str, Any]]:
    """Summaries by scenario and policy."""
    asked = [(name, policy) for name in names for policy in COLUMNS]
    with ProcessPoolExecutor(jobs) as pool:
        waiting = [
            (name, policy, pool.submit(play, name, policy, seeds, duration))
            for name, policy in asked
        ]
        found: dict[str, dict[str, Any]] = {name: {} for name in names}
        for name, policy, future in waiting:
            found[name][policy] = future.result()
    return found


def percent(share: float | None) -> str:
    """A share for people."""
    return "" if share is None else f"{100 * share:.2f}".rstrip("0").rstrip(".")


def shares(summary: Mapping[str, Any] | None) -> str:
    """On-time share, by criticality where there are several."""
    if summary is None:
        return ""
    parts = summary["on_time_by_criticality"]
    return " / ".join(percent(share) for share in parts.values())


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--scenario", nargs="+", default=packaged())
    parser.add_argument("--duration")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    found = play_all(asked.scenario, asked.seeds, asked.duration, asked.jobs)
    if asked.json is not None:
        asked.json.write_text(json.dumps(found))
    print("| scenario | " + " | ".join(COLUMNS) + " |")
    print("| --- |" + " --- |" * len(COLUMNS))
    for name, policies in found.items():
        print(f"| {name} |", *(f"{shares(policies[p])} |" for p in COLUMNS))
    print()
    print(
        "| scenario | policy | on time | lowest | utility | (m,k) violations | "
        "longest run | age p99 ms | latency p99 ms | wasted | moves a minute |"
    )
    print("| --- | --- |" + " --- |" * 9)
    for name, policies in found.items():
        for policy in DETAILED:
            if (s := policies[policy]) is None:
                continue
            low = s["on_time_range"][0]
            print(
                f"| {name} | {policy} | {percent(s['on_time'])} | {percent(low)} | "
                f"{percent(s['utility'])} | {s['mk_violations']} | "
                f"{s['max_consecutive_misses']} | {s['age_ms']['p99']} | "
                f"{s['latency_ms']['p99']} | {percent(s['wasted_share'])} | "
                f"{s['switches_per_minute']} |"
            )


if __name__ == "__main__":
    main()
