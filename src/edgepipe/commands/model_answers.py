"""Options by which a user says what a model file does not."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from edgepipe.errors import ConfigError

if TYPE_CHECKING:
    from edgepipe.models.inspect.answers import Answers

T = TypeVar("T")


def add_answers(parser: argparse.ArgumentParser) -> None:
    """Add an option for each key of the card that can be answered."""
    group = parser.add_argument_group("what the file does not say")
    for option, metavar, text in _OPTIONS:
        group.add_argument(f"--{option}", metavar=metavar, help=text)
    group.add_argument("--layout", choices=("nchw", "nhwc"))
    group.add_argument("--color", choices=("rgb", "bgr"))
    group.add_argument("--align", choices=("center", "top_left", "stretch"))
    group.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="head.KEY=VALUE",
        help="an option of the head, for example head.normalized=true; repeatable",
    )


_OPTIONS = (
    ("name", "NAME", "what to call the model"),
    ("head", "KIND", "what reads the outputs (docs/models.md lists them)"),
    ("outputs", "A,B", "names of the outputs in the head's order"),
    ("size", "WxH", "of the input, where the file leaves it free"),
    ("names", "FILE", "names of the classes, one a line"),
    ("mean", "A,B,C", "subtracted from each channel, on the scale 0..255"),
    ("std", "A,B,C", "each channel is divided by it afterwards"),
    ("pad", "A,B,C", "colour of what the image leaves free"),
    ("score", "N", "lowest score of a detection"),
    ("iou", "N", "overlap above which the weaker of two detections is removed"),
    ("licence", "TEXT", "terms of the weights"),
    ("provenance", "TEXT", "where the file came from"),
)


def given_answers(args: argparse.Namespace) -> "Answers":
    """What was said.

    Raises:
        ConfigError: A value cannot be read; the message names its option.
    """
    from edgepipe.models.inspect.answers import Answers

    names, file = _names(args)
    return Answers(
        name=args.name,
        head=args.head,
        outputs=tuple(args.outputs.split(",")) if args.outputs else (),
        head_options=dict(_head_option(text) for text in args.set),
        size=_read("size", args.size, _size),
        layout=args.layout,
        color=args.color,
        mean=_read("mean", args.mean, _three),
        std=_read("std", args.std, _three),
        align=args.align,
        pad_value=_read("pad", args.pad, _three_whole),
        class_names=names,
        class_file=file,
        score_threshold=_read("score", args.score, _share),
        iou_threshold=_read("iou", args.iou, _share),
        licence=args.licence,
        provenance=args.provenance,
    )


def _read(option: str, text: str | None, read: Callable[[str], T]) -> T | None:
    if text is None:
        return None
    try:
        return read(text)
    except ValueError as error:
        raise ConfigError(f"--{option}", "", f"{error}, got {text!r}") from error


def _size(text: str) -> tuple[int, int]:
    """Height and width of "640x480", which is width x height."""
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() for part in parts):
        raise ValueError("expected WIDTHxHEIGHT in pixels")
    width, height = (int(part) for part in parts)
    if not all(8 <= side <= 8192 for side in (width, height)):
        raise ValueError("expected sides from 8 to 8192 pixels")
    return height, width


def _three(text: str) -> tuple[float, float, float]:
    """Three numbers; one stands for all three."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if len(values) == 1:
        values *= 3
    if len(values) != 3:
        raise ValueError("expected one number or three with commas between them")
    return values[0], values[1], values[2]


def _three_whole(text: str) -> tuple[int, int, int]:
    values = _three(text)
    if any(value != int(value) or not 0 <= value <= 255 for value in values):
        raise ValueError("expected whole numbers from 0 to 255")
    return int(values[0]), int(values[1]), int(values[2])


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ValueError("expected a number from 0 to 1")
    return value


def _names(args: argparse.Namespace) -> tuple[tuple[str, ...], str | None]:
    """The names of a file, and the file as the card can name it."""
    if args.names is None:
        return (), None
    from edgepipe.configs import class_names

    path = Path(args.names)
    names, warnings = class_names.read(path)
    for text in warnings:
        print(f"edgepipe: {text}", file=sys.stderr)
    folder = (args.write or args.model).resolve().parent
    if path.resolve().is_relative_to(folder):
        return names, path.resolve().relative_to(folder).as_posix()
    return names, None


def _head_option(text: str) -> tuple[str, object]:
    """``head.KEY=VALUE`` with a value as YAML has it."""
    import yaml

    key, equals, value = text.partition("=")
    section, dot, name = key.strip().partition(".")
    if not (equals and dot and section == "head" and name):
        raise ConfigError("--set", "", f"expected head.KEY=VALUE, got {text!r}")
    try:
        return name, yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise ConfigError("--set", "", f"{text!r} is no YAML") from error
