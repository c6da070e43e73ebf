"""The load curve poses the load it names and puts the right figures side by side."""

import argparse
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import load_curve
import pytest
from load_curve import ALONE, BATCHED, HONEST, LADDER, Achieved, Limits, Point

from edgepipe.scheduler.workload import trace


def test_a_load_asks_for_its_multiple_of_the_accelerator() -> None:
    scenario = load_curve.loaded(1400, "10s")
    frames = trace(scenario, 1)
    asked_ns = sum(frame.cost_ns[0][2] for frame in frames)
    assert asked_ns / scenario.duration_ns == pytest.approx(1.4, rel=0.01)
    step = scenario.cameras[0].spec.steps[2]
    assert (step.name, step.cost_ns) == ("detect", 1400 * 10**9 // 120_000)


@pytest.mark.slow
def test_bounds_are_above_what_is_known_to_be_possible() -> None:
    here = load_curve.limits(1600, 1, "1s", "8ms")
    assert here.bounds["unbatched"] >= here.hindsight["unbatched"] > 0.5
    assert here.bounds["batch-aware"] >= here.hindsight["batch-aware"]
    assert here.bounds["batch-aware"] > here.bounds["unbatched"]
    found = load_curve.point(here, "1s", [ALONE, BATCHED]).policies
    assert 0.5 < found[ALONE].on_time <= here.bounds["unbatched"]
    assert found[BATCHED].on_time <= here.bounds["batch-aware"]


def test_bounds_that_are_kept_are_not_computed_again(tmp_path: Path) -> None:
    known = Limits(1400, 1, {"unbatched": 0.1}, {"unbatched": 0.1})
    keep = tmp_path / "bounds.json"
    keep.write_text(json.dumps({"1400 1 1s 4ms": asdict(known)}), encoding="utf-8")
    args = argparse.Namespace(loads=[1400], seeds=[1], duration="1s", bucket="4ms")
    with ThreadPoolExecutor(1) as pool:
        assert load_curve.all_limits(pool, args, keep) == [known]


def test_bounds_that_were_computed_are_kept(tmp_path: Path) -> None:
    keep = tmp_path / "bounds.json"
    args = argparse.Namespace(loads=[500], seeds=[1], duration="200ms", bucket="4ms")
    with ThreadPoolExecutor(1) as pool:
        (found,) = load_curve.all_limits(pool, args, keep)
    assert json.loads(keep.read_text(encoding="utf-8")) == {
        "500 1 200ms 4ms": asdict(found)
    }


def points() -> list[Point]:
    """Two seeds of one load, made up."""
    policies = {
        HONEST: Achieved(0.6, 0.6, 9),
        ALONE: Achieved(0.7, 0.7, 2),
        BATCHED: Achieved(0.8, 0.8, 1),
        LADDER: Achieved(1.0, 0.9, 0),
    }
    worse = policies | {ALONE: Achieved(0.6, 0.6, 5)}
    bounds = {"unbatched": 0.8, "batch-aware": 0.8}
    return [
        Point(Limits(1400, seed, bounds, bounds), achieved)
        for seed, achieved in ((1, policies), (2, worse))
    ]


def test_shares_are_means_and_the_longest_run_is_the_worst() -> None:
    *_, line = load_curve.bound_table(points(), ALONE, "unbatched").splitlines()
    assert line == "| 1.40 | 80.0 | 80.0 | **65.0** | 81.2 | 5 | +5.0 |"


def test_every_policy_has_its_column_and_the_ladder_its_utility() -> None:
    header, _, line = load_curve.policy_table(points()).splitlines()
    assert header.split(" | ")[1] == HONEST
    assert line == "| 1.40 | 60.0 | 65.0 | 80.0 | 100.0 |"
    assert "| 1.40 | 100.00 | 90.0 | 0 |" in load_curve.ladder_table(points())
