"""``edgepipe run``: the pipeline of a configuration, until its sources end."""

import argparse
from typing import Any

from edgepipe.commands.arguments import (
    add_config_options,
    chosen_config,
    load_config,
)


def add_to(verbs: Any) -> None:
    """Add the verb to the command line."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "run", help="run a pipeline until its sources end or it is told to stop"
    )
    add_config_options(parser)
    parser.add_argument(
        "--json", action="store_true", help="print the summary as JSON on stdout"
    )
    parser.add_argument(
        "--service",
        action="store_true",
        help="exit with 78 instead of 2 on a wrong configuration, for systemd",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run until the end; return the exit code."""
    from edgepipe.commands.session import Request, run_session

    loaded = load_config(chosen_config(args), args.set)
    run = loaded.config.run
    request = Request(
        "run", loaded, run.warm_up_ns or 0, run.duration_ns, args.json, args.signals
    )
    return run_session(request)
