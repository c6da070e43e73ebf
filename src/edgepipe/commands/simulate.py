"""``edgepipe simulate``: policies compared on a scenario, in virtual time."""

import argparse
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgepipe.commands.arguments import given_duration_ns
from edgepipe.errors import ConfigError

if TYPE_CHECKING:
    from edgepipe.commands.simulation import Plan
    from edgepipe.configs.scenario_load import LoadedScenario
    from edgepipe.scheduler.policy import Policy
    from edgepipe.scheduler.scenario import Scenario
    from edgepipe.telemetry.records import FrameRecord
    from edgepipe.telemetry.run_folder import RunFolder

DEFAULT_SEEDS = (1, 2, 3, 4, 5)
DEFAULT_OUT = "runs"
_FLUSH_AFTER = 8192


def add_to(verbs: Any) -> None:
    """Add the verb to the command line."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "simulate", help="compare scheduling policies on a scenario, in virtual time"
    )
    parser.add_argument(
        "scenario",
        nargs="?",
        help="one of those that --list shows, or the path of a YAML file",
    )
    parser.add_argument(
        "--list", action="store_true", help="list the scenarios that ship"
    )
    parser.add_argument(
        "--policy",
        nargs="+",
        action="extend",
        default=[],
        metavar="P",
        help="which of those in docs/scheduling.md (default: the baselines and ours)",
    )
    parser.add_argument(
        "--seed",
        nargs="+",
        action="extend",
        type=int,
        default=[],
        metavar="N",
        help="which draws of the scenario (default: 1 2 3 4 5)",
    )
    parser.add_argument(
        "--duration", metavar="TIME", help="virtual time, instead of the scenario's"
    )
    parser.add_argument(
        "--json", action="store_true", help="print the summary as JSON on stdout"
    )
    folder = parser.add_mutually_exclusive_group()
    folder.add_argument(
        "--out",
        metavar="DIR",
        help=f"folder in which the run makes its own folder (default: {DEFAULT_OUT})",
    )
    folder.add_argument(
        "--no-folder", action="store_true", help="leave nothing but what is printed"
    )
    parser.add_argument(
        "--keep",
        metavar="P",
        help="the policy whose frames, of the first seed, go into the run's folder"
        " (default: the last one)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Compare; return the exit code."""
    if args.list:
        _list()
        return 0
    if args.scenario is None:
        text = "name a scenario; --list shows those that ship"
        if args.policy or args.seed:
            text += (
                "; it stands before --policy and --seed, which take all that follows"
            )
        raise ConfigError("", "", text)
    from edgepipe.configs import scenario_load

    loaded = scenario_load.read(args.scenario)
    plan = _plan(args, loaded)
    if args.no_folder:
        document, _ = _simulate(args, plan)
        return 0 if _print(args, document) else 1
    return _into_folder(args, plan, loaded)


def _list() -> None:
    from edgepipe.configs import scenario_load

    for name in scenario_load.packaged():
        print(f"{name:<20}{scenario_load.read(name).config.about}")


def _plan(args: argparse.Namespace, loaded: "LoadedScenario") -> "Plan":
    """What is asked for.

    Raises:
        ConfigError: Something of it does not exist.
    """
    from dataclasses import replace

    from edgepipe.commands.scenario import checked_scenario
    from edgepipe.commands.simulation import Plan

    scenario = checked_scenario(loaded.config, loaded.name, args.scenario)
    if args.duration is not None:
        scenario = replace(scenario, duration_ns=given_duration_ns(args.duration))
    policies = _policies(args.policy, scenario)
    names = [policy.name for policy in policies]
    keep = names[-1] if args.keep is None else args.keep
    if keep not in names:
        text = f"policy {keep!r} is not compared, only {', '.join(names)}"
        raise ConfigError("--keep", "", text)
    seeds = list(dict.fromkeys(args.seed)) or list(DEFAULT_SEEDS)
    return Plan(scenario, loaded.config.about, loaded.sha256, policies, seeds, keep)


def _policies(names: Sequence[str], scenario: "Scenario") -> "list[Policy]":
    from edgepipe.commands.simulation import usual_policies
    from edgepipe.scheduler.policy import BY_NAME

    for name in names:
        if name not in BY_NAME:
            text = f"no policy {name!r}, there are {', '.join(BY_NAME)}"
            raise ConfigError("--policy", "", text)
    chosen = [BY_NAME[name] for name in dict.fromkeys(names)]
    return chosen or usual_policies(scenario)


def _simulate(
    args: argparse.Namespace, plan: "Plan"
) -> "tuple[dict[str, Any], list[FrameRecord]]":
    """Run all of it, with a line of progress on a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from edgepipe.commands.simulation import compare

    columns = (BarColumn(bar_width=16), MofNCompleteColumn())
    hidden = args.json or sys.stderr is None or not sys.stderr.isatty()
    console = Console(stderr=True)
    with Progress(
        *columns,
        TextColumn("{task.description}"),
        console=console,
        disable=hidden,
        transient=True,
    ) as bar:
        task = bar.add_task("", total=len(plan.policies) * len(plan.seeds))
        done = -1

        def begun(policy: str, seed: int) -> None:
            nonlocal done
            done += 1
            bar.update(task, completed=done, description=f"{policy}, seed {seed}")

        return compare(plan, begun)


def _into_folder(
    args: argparse.Namespace, plan: "Plan", loaded: "LoadedScenario"
) -> int:
    """Simulate and leave a folder behind; return the exit code."""
    from edgepipe.commands.folder import make_folder
    from edgepipe.configs.effective import dump_yaml

    started = datetime.now().astimezone()
    chosen = args.out is not None
    folder = make_folder(
        Path(args.out if chosen else DEFAULT_OUT),
        "simulate",
        started,
        instead=None if chosen else "see --out",
    )
    try:
        folder.write_config(dump_yaml(loaded.effective))
        document, frames = _simulate(args, plan)
    except BaseException:  # re-raised: what was not finished leaves nothing behind
        folder.discard()
        raise
    written = _write(folder, document, frames)
    written &= _print(args, document)
    from edgepipe.commands.output import say

    say(f"run folder {folder.path}", as_json=args.json)
    return 0 if written else 1


def _write(
    folder: "RunFolder", document: dict[str, Any], frames: "Sequence[FrameRecord]"
) -> bool:
    """Write what the run leaves behind; return whether all of it could be written."""
    import logging

    from edgepipe.errors import EdgepipeError
    from edgepipe.telemetry.clock import MonotonicClock
    from edgepipe.telemetry.environment import collect_environment
    from edgepipe.telemetry.frame_log import FRAMES
    from edgepipe.telemetry.recorder import Recorder

    try:
        folder.write_summary(document)
        folder.write_environment(collect_environment(sys.argv, {}))
        recorder = Recorder(folder.frames, MonotonicClock(), FRAMES)
    except EdgepipeError as error:
        logging.getLogger("edgepipe").error("%s", error)
        return False
    for number, frame in enumerate(frames, 1):
        recorder.add(frame)
        if number % _FLUSH_AFTER == 0:
            recorder.flush()
    return recorder.close().lost == 0


def _print(args: argparse.Namespace, document: dict[str, Any]) -> bool:
    """Print the comparison; return whether whoever asked for JSON can have got it."""
    from edgepipe.commands.comparison import print_table
    from edgepipe.commands.output import print_json

    if args.json:
        return print_json(document)
    try:
        print_table(document)
    except BrokenPipeError:
        return True  # whoever reads has seen enough
    except OSError as error:
        import logging

        logging.getLogger("edgepipe").error("stdout: %s", error.strerror)
        return False
    return True
