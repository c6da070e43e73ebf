"""Arguments that several verbs share."""

import argparse
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgepipe.configs.load import LoadedConfig


def add_config_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--set``, which changes single values of a configuration."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change one value, for example streams[0].deadline=50ms; repeatable",
    )


def load_config(name_or_path: str, overrides: Sequence[str]) -> "LoadedConfig":
    """Read a configuration with the changes of the command line.

    Raises:
        ConfigError: It cannot be used.
    """
    from edgepipe.configs import load

    return load.read(name_or_path, overrides, os.environ)
