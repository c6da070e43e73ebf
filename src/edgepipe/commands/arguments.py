"""Arguments that several verbs share."""

import argparse
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgepipe.errors import ConfigError

if TYPE_CHECKING:
    from edgepipe.configs.load import LoadedConfig


PACKAGED = "default, demo, synthetic, throughput"
"""Configurations that ship; written out because looking would load the YAML reader."""


def add_config_options(parser: argparse.ArgumentParser) -> None:
    """Add the configuration, by place or as ``-c``, and ``--set``, which changes it."""
    what = f"path of a YAML file, or one that ships: {PACKAGED}"
    parser.add_argument("config", nargs="?", help=what)
    parser.add_argument("-c", "--config", dest="option", metavar="CONFIG", help=what)
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change one value, for example streams[0].deadline=50ms; repeatable",
    )


def given_config(args: argparse.Namespace) -> str | None:
    """The configuration that was named, None if none was.

    Raises:
        ConfigError: Two were.
    """
    if args.config and args.option:
        problem = f"two configurations given: {args.config} and {args.option}"
        raise ConfigError("", "", problem)
    name: str | None = args.config or args.option
    return name


def chosen_config(args: argparse.Namespace) -> str:
    """The configuration that was named.

    Raises:
        ConfigError: None was, or two.
    """
    name = given_config(args)
    if name is None:
        problem = f"name a configuration: a YAML file, or one of {PACKAGED}"
        raise ConfigError("", "", problem)
    return name


def given_duration_ns(text: str) -> int:
    """What ``--duration`` says.

    Raises:
        ConfigError: That is no time, or none at all.
    """
    from edgepipe.configs.units import UnitError, duration_ns

    try:
        given_ns = duration_ns(text)
    except UnitError as error:
        raise ConfigError("--duration", "", f"{text!r}: {error}") from error
    if not given_ns:
        raise ConfigError("--duration", "", "it must be longer than nothing")
    return given_ns


def load_config(name_or_path: str, overrides: Sequence[str]) -> "LoadedConfig":
    """Read a configuration with the changes of the command line.

    Raises:
        ConfigError: It cannot be used.
    """
    from edgepipe.configs import load

    return load.read(name_or_path, overrides, os.environ)
