"""``edgepipe model plan``: a plan for NVIDIA's GPUs from a network's ONNX file."""

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgepipe.commands.output import print_json, say

if TYPE_CHECKING:
    from edgepipe.models.card import ModelCard
    from edgepipe.models.shape_profile import ShapeProfile
    from edgepipe.models.tensorrt.build import BuildOptions
    from edgepipe.models.tensorrt.cache import Found, PlanCache
    from edgepipe.models.tensorrt.plan import PlanFacts

MIB = 1 << 20


def add_to(actions: Any) -> None:
    """Add the action to ``edgepipe model``."""
    parser: argparse.ArgumentParser = actions.add_parser(
        "plan", help="build a TensorRT plan beside a model, or check the one there is"
    )
    parser.add_argument("card", help="a model that ships, a card, or an .onnx file")
    parser.add_argument(
        "--precision", help="which of the card's files (default: int8, else the first)"
    )
    parser.add_argument(
        "--batch-max", type=int, default=1, metavar="N", help="default: 1"
    )
    parser.add_argument(
        "--dla", type=int, metavar="CORE", help="run on this accelerator of a board"
    )
    parser.add_argument(
        "--allow-gpu-fallback",
        action="store_true",
        help="let the GPU run what the accelerator cannot; otherwise that is an error",
    )
    parser.add_argument(
        "--target",
        action="append",
        default=[],
        metavar="SM",
        help="build with TensorRT for RTX for this compute capability, for example 86;"
        " repeatable; needs no GPU",
    )
    parser.add_argument(
        "--workspace", type=int, metavar="MIB", help="most scratch memory of a layer"
    )
    parser.add_argument(
        "--timing-cache",
        type=Path,
        metavar="FILE",
        help="times of kernels, read and written: the next build is faster",
    )
    parser.add_argument(
        "--if-needed",
        action="store_true",
        help="build only where the plan that is there does not fit",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="build nothing: say whether the plan that is there fits",
    )
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Build or check, and print; return the exit code."""
    from edgepipe.cards import card_named
    from edgepipe.models.tensorrt.build import build_plan, wanted
    from edgepipe.models.tensorrt.cache import PlanCache
    from edgepipe.models.tensorrt.host import Gpu, gpu
    from edgepipe.models.tensorrt.library import import_tensorrt

    card, _ = card_named(args.card)
    model = _file(card, args.precision)
    options = _options(card, model, args)
    trt, found_gpu = import_tensorrt(options.library), gpu()
    here = found_gpu if isinstance(found_gpu, Gpu) else None
    cache = PlanCache(model, _rebuild(args))
    begun_s = time.monotonic()

    def build() -> "tuple[bytes, PlanFacts]":
        return build_plan(trt, model, options, here, warn)

    if args.check or args.if_needed:
        facts_here = wanted(trt, model, options, here)
        found = cache.find_or_build(facts_here, build, rebuild=not args.check)
    else:
        found = cache.store(*build())
    facts = _facts(found, time.monotonic() - begun_s, cache)
    if args.json:
        return int(not print_json(facts))
    _print(facts)
    return 0


def warn(line: str) -> None:
    """Say what the library warns of, apart from what was asked for."""
    say(f"warning: {line}", as_json=True)


def _file(card: "ModelCard", precision: str | None) -> Path:
    from edgepipe.errors import ModelError

    by_precision = {file.precision: file.path for file in card.files}
    usual = "int8" if "int8" in by_precision else next(iter(by_precision))
    path = by_precision.get(precision or usual)
    if path is None:
        there = ", ".join(by_precision)
        raise ModelError(
            f"model {card.name!r} has no {precision!r} file (the card lists: {there})"
        )
    return path


def _options(
    card: "ModelCard", model: Path, args: argparse.Namespace
) -> "BuildOptions":
    from edgepipe.errors import ConfigError
    from edgepipe.models.tensorrt.build import BuildOptions
    from edgepipe.models.tensorrt.library import RTX, TENSORRT

    for name, value in (
        ("--batch-max", args.batch_max),
        ("--workspace", args.workspace),
    ):
        if value is not None and value < 1:
            raise ConfigError(name, "", f"expected 1 or more, got {value}")
    return BuildOptions(
        library=RTX if args.target else TENSORRT,
        profiles=_profiles(card, model, args.batch_max),
        dla_core=args.dla,
        allow_gpu_fallback=args.allow_gpu_fallback,
        workspace_bytes=None if args.workspace is None else args.workspace * MIB,
        timing_cache=args.timing_cache,
        targets=tuple(args.target),
    )


def _profiles(
    card: "ModelCard", model: Path, batch_max: int
) -> "tuple[ShapeProfile, ...]":
    """The range of the input, where it is free or more than one image is asked for.

    Height and width are the card's; of other inputs it says nothing, and a free one is
    refused when the plan is built.
    """
    from edgepipe.models.shape_profile import ShapeProfile
    from edgepipe.models.tensorrt.prepare import inputs_of

    shape = inputs_of(model).get(card.input_name, ())
    if batch_max == 1 and all(isinstance(size, int) for size in shape):
        return ()
    least, most = card.input_shape(), card.input_shape(batch_max)
    return (ShapeProfile(card.input_name, least, most, most),)


def _rebuild(args: argparse.Namespace) -> str:
    """The command that builds the plan that was asked for."""
    words = ["edgepipe model plan", args.card]
    words += [
        f"--{name.replace('_', '-')} {value}"
        for name in ("precision", "dla", "workspace", "timing_cache")
        if (value := getattr(args, name)) is not None
    ]
    if args.batch_max != 1:
        words.append(f"--batch-max {args.batch_max}")
    if args.allow_gpu_fallback:
        words.append("--allow-gpu-fallback")
    words += [f"--target {target}" for target in args.target]
    return " ".join(words)


def _facts(found: "Found", took_s: float, cache: "PlanCache") -> dict[str, Any]:
    from edgepipe.models.tensorrt.plan import record

    return {
        "plan": str(found.path),
        "record": str(cache.record),
        "plan_bytes": found.path.stat().st_size,
        "built": found.built,
        "built_s": round(took_s, 2) if found.built else None,
        "warning": found.warning or None,
        **record(found.facts),
    }


def _print(facts: dict[str, Any]) -> None:
    sm = ", ".join(facts["sm"])
    lines = [
        f"{facts['plan']} ({facts['plan_bytes'] / MIB:.1f} MiB"
        + (f", built in {facts['built_s']:.1f} s)" if facts["built"] else ")"),
        f"{facts['precision']}, {facts['library']} {facts['trt']}, compute capability"
        f" {sm}" + (f" ({facts['device']})" if facts["device"] else ""),
    ]
    if facts["dla"] is not None:
        names = ", ".join(facts["dla"]["names"])
        lines.append(facts["dla"]["label"] + (f": {names}" if names else ""))
    if facts["warning"]:
        lines.append(f"warning: {facts['warning']}")
    for line in lines:
        say(line, as_json=False)
