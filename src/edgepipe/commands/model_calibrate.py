"""``edgepipe model calibrate``: how large a network's values are on a recording."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgepipe.commands.output import print_json, say
from edgepipe.errors import ConfigError

if TYPE_CHECKING:
    from edgepipe.models.quantise.table import CalibrationTable
    from edgepipe.quantisation import Quantisation

METHODS = ("mse", "percentile", "entropy", "minmax")
"""Of :mod:`edgepipe.models.quantise.ranges`; written out because looking would load
NumPy."""
IMAGES = 200


def add_to(actions: Any) -> None:
    """Add the action to ``edgepipe model``."""
    parser: argparse.ArgumentParser = actions.add_parser(
        "calibrate", help="find the ranges for INT8 on a recording"
    )
    add_calibration_options(parser)
    parser.add_argument(
        "--method", choices=METHODS, default=METHODS[0], help="default: %(default)s"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="the table (default: beside the INT8 file, NAME.calibration.json)",
    )
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    parser.set_defaults(run=run)


def add_calibration_options(parser: argparse.ArgumentParser) -> None:
    """Add the model, and the recordings to calibrate with."""
    parser.add_argument(
        "model", help="a model card, an .onnx file with its card, or one that ships"
    )
    parser.add_argument(
        "--source",
        action="append",
        required=True,
        metavar="URI",
        help="a recording of what the network will see; repeatable",
    )
    parser.add_argument(
        "--images",
        type=int,
        default=IMAGES,
        metavar="N",
        help="frames to take of all recordings together (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Calibrate; return the exit code."""
    from edgepipe.commands.bar import Steps
    from edgepipe.quantisation import int8_path

    work, card_path = open_quantisation(args)
    out = args.out
    if out is None:
        out = table_path(int8_path(work.card, card_path))
    with Steps("calibrating", enabled=not args.json) as bar:
        table = work.calibrate(
            args.method, out, progress=bar, say=lambda line: warn(line)
        )
    if args.json:
        return int(not print_json(_document(table, out)))
    say(
        f"{out}: {len(table.ranges)} ranges by {table.key.method} of"
        f" {table.key.images} frames ({table.source})",
        as_json=False,
    )
    return 0


def open_quantisation(args: argparse.Namespace) -> "tuple[Quantisation, Path]":
    """The network and the images that the arguments name, and the card's path.

    Raises:
        EdgepipeError: Something of it cannot be used.
    """
    from edgepipe.cards import card_named
    from edgepipe.quantisation import Quantisation
    from edgepipe.samples import spread
    from edgepipe.stages.native_threads import keep_opencv_single_threaded

    if args.images < len(args.source):
        raise ConfigError(
            "--images", "", f"expected {len(args.source)} or more, got {args.images}"
        )
    keep_opencv_single_threaded()
    card, path = card_named(args.model)
    samples = spread(card, args.source, args.images)
    return Quantisation(card, samples, ", ".join(args.source)), path


def table_path(int8: Path) -> Path:
    """Where the calibration of an INT8 file lies."""
    return int8.with_suffix(".calibration.json")


def warn(line: str) -> None:
    """Tell something that a person should know, on stderr."""
    import sys

    print(f"edgepipe: {line}", file=sys.stderr)


def _document(table: "CalibrationTable", path: Path) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "table": str(path),
        "key": asdict(table.key),
        "source": table.source,
        "ranges": dict(sorted(table.ranges.items())),
    }
