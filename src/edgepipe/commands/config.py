"""``edgepipe config``: check, show and describe configurations."""

import argparse
import json
from typing import Any

from edgepipe.commands.arguments import (
    add_config_options,
    chosen_config,
    load_config,
)


def add_to(verbs: Any) -> None:
    """Add the verb to the command line."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "config", help="check, show or describe a configuration"
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    check = actions.add_parser("check", help="say what is wrong with a configuration")
    show = actions.add_parser("show", help="print the effective configuration")
    schema = actions.add_parser("schema", help="print the JSON Schema")
    for each, run in ((check, _check), (show, _show)):
        add_config_options(each)
        each.set_defaults(run=run)
    schema.set_defaults(run=_schema)


def _check(args: argparse.Namespace) -> int:
    loaded = load_config(chosen_config(args), args.set)
    print(f"{loaded.origin}: ok ({loaded.sha256[:12]})")
    return 0


def _show(args: argparse.Namespace) -> int:
    from edgepipe.configs.effective import dump_yaml

    text = dump_yaml(load_config(chosen_config(args), args.set).effective)
    print(text, end="", flush=True)
    return 0


def _schema(args: argparse.Namespace) -> int:
    del args
    from edgepipe.configs.json_schema import json_schema

    print(json.dumps(json_schema(), indent=2), flush=True)
    return 0
