"""``edgepipe model``: everything that is done with a model before it runs."""

import argparse
import importlib
from typing import Any

ACTIONS: tuple[str, ...] = (
    "bench",
    "inspect",
    "calibrate",
    "sensitivity",
    "eval",
    "build",
    "plan",
)
"""Each is a module ``edgepipe.commands.model_ACTION`` with ``add_to(subparsers)``."""


def add_to(verbs: Any) -> None:
    """Add the verb to the command line."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "model", help="inspect, calibrate, judge and build models"
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name in ACTIONS:
        importlib.import_module(f"edgepipe.commands.model_{name}").add_to(actions)
