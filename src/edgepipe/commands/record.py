"""``edgepipe record``: camera streams into MCAP, as they came."""

import argparse
from typing import Any

from edgepipe.errors import ConfigError

DEFAULT_KEEP_FREE = "256MiB"


def add_to(verbs: Any) -> None:
    """Add the verb to the command line."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "record", help="record sources as MCAP, without decoding where possible"
    )
    parser.add_argument(
        "source",
        nargs="+",
        metavar="CONFIG|SOURCE",
        help="a configuration (.yaml) whose streams are recorded, or sources: a file, a"
        " folder, v4l2:, rtsp:, synthetic: and so on",
    )
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="DIR|FILE.mcap",
        help="a folder for a ring of files, or one file, which must not exist yet",
    )
    parser.add_argument("--duration", metavar="TIME", help="stop after this time")
    parser.add_argument(
        "--max-size",
        metavar="SIZE",
        help="such as 10GB: in a folder the oldest files are deleted to stay below it,"
        " a single file ends there",
    )
    parser.add_argument(
        "--keep-free",
        metavar="SIZE",
        default=DEFAULT_KEEP_FREE,
        help="of the disk, for others; the oldest files of the folder make room, and"
        f" without any the recording ends (default: {DEFAULT_KEEP_FREE})",
    )
    parser.add_argument(
        "--raw",
        choices=("jpeg", "raw"),
        default="jpeg",
        help="how pictures are kept that come without compression (default: jpeg)",
    )
    parser.add_argument(
        "--json", action="store_true", help="print what was recorded as JSON on stdout"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Record until the end; return the exit code."""
    from edgepipe.commands.recording import Order, record
    from edgepipe.configs.units import UnitError, duration_ns, size_bytes

    def read(option: str, text: str | None, convert: Any) -> int | None:
        try:
            return None if text is None else convert(text)
        except UnitError as error:
            raise ConfigError(option, "", f"{error}, got {text!r}") from error

    return record(
        Order(
            sources=args.source,
            output=args.output,
            duration_ns=read("--duration", args.duration, duration_ns),
            most_bytes=read("--max-size", args.max_size, size_bytes),
            keep_free=read("--keep-free", args.keep_free, size_bytes) or 0,
            raw=args.raw == "raw",
            as_json=args.json,
            signals=args.signals,
        )
    )
