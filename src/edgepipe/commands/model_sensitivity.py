"""``edgepipe model sensitivity``: which layers INT8 hurts."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgepipe.commands.model_calibrate import (
    METHODS,
    add_calibration_options,
    open_quantisation,
    warn,
)
from edgepipe.commands.output import print_json, say

if TYPE_CHECKING:
    from edgepipe.models.quantise.sensitivity import Effect
    from edgepipe.quantisation import Quantisation
    from edgepipe.trials import Trial, Trials

FRAMES = 32
SHOWN = 15
CALIBRATION = "sensitivity.calibration.json"


def add_to(actions: Any) -> None:
    """Add the action to ``edgepipe model``."""
    parser: argparse.ArgumentParser = actions.add_parser(
        "sensitivity", help="rank layers by what INT8 costs there"
    )
    add_calibration_options(parser)
    parser.add_argument("--method", choices=METHODS, default=METHODS[0])
    parser.add_argument(
        "--frames",
        type=int,
        default=FRAMES,
        metavar="N",
        help="frames to judge with, other ones than those of --images (default:"
        " %(default)s)",
    )
    parser.add_argument(
        "--engine",
        choices=("auto", "openvino", "onnxruntime"),
        default="auto",
        help="default: what a run would take",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="where sensitivity.json and sensitivity.svg go (default: beside the card;"
        " of a model that ships: here)",
    )
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Rank, draw, print; return the exit code."""
    from edgepipe.commands.bar import Steps
    from edgepipe.models.quantise.sensitivity import effects
    from edgepipe.trials import Trials

    work, card_path = open_quantisation(args)
    folder = _folder(args.out, card_path)
    # Not the INT8 file's own table: that says what the file was made from.
    folder.mkdir(parents=True, exist_ok=True)
    table = work.calibrate(args.method, folder / CALIBRATION, say=warn)
    images = judged_images(work, args)
    names = [layer.name for layer in work.layers if layer.weights]
    with Trials(work, table, images, engine=args.engine) as trials:
        with Steps("layers", enabled=not args.json) as bar:
            ranked = effects(names, trials.drop_of, lambda n: bar(n, len(names)))
        curve = trade_off(trials, [effect.layer for effect in ranked])
        facts = {
            "model": work.card.name,
            "method": args.method,
            "frames": len(images),
            "objects": trials.objects,
            "fp32_ms": round(trials.fp32_ms, 3),
            "layers": [_effect(effect) for effect in ranked],
            "curve": [_point(kept, trial) for kept, trial in curve],
        }
    _write(folder, facts)
    if args.json:
        return int(not print_json(facts))
    _print(facts)
    say(f"{folder}/sensitivity.json and sensitivity.svg", as_json=False)
    return 0


def _folder(out: Path | None, card_path: Path) -> Path:
    """Where results go: never among the files of the installation by themselves."""
    from edgepipe.models import zoo

    if out is not None:
        return out
    shipped = (zoo.card_path(name).resolve() for name in zoo.names())
    return Path() if card_path.resolve() in shipped else card_path.parent


def judged_images(work: "Quantisation", args: argparse.Namespace) -> list[Any]:
    """Frames between those that it was calibrated with.

    Raises:
        EdgepipeError: The recordings cannot be read, or have no usable frame.
    """
    from edgepipe.errors import ConfigError, ModelError
    from edgepipe.samples import spread

    if args.frames < len(args.source):
        raise ConfigError(
            "--frames", "", f"expected {len(args.source)} or more, got {args.frames}"
        )
    samples = spread(work.card, args.source, args.frames, between=True)
    images = [sample.image for sample in samples]
    if not images:
        raise ModelError(f"{work.source}: no usable frame to judge with")
    return images


def trade_off(trials: "Trials", order: list[str]) -> "list[tuple[int, Trial]]":
    """What keeping 0, 1, 2, 4, 8 ... and all layers of the order costs and takes."""
    counts = [0]
    while counts[-1] < len(order):
        counts.append(min(max(1, 2 * counts[-1]), len(order)))
    return [(count, trials.of(frozenset(order[:count]))) for count in counts]


def _effect(effect: "Effect") -> dict[str, Any]:
    return {"layer": effect.layer, "drop": round(effect.drop, 3)}


def _point(kept: int, trial: "Trial") -> dict[str, Any]:
    # NaN is no number for JSON: an engine that refused took no time.
    ms = round(trial.ms, 3) if trial.ms == trial.ms else None
    return {"kept": kept, "drop": round(trial.drop, 3), "ms": ms}


def _write(folder: Path, facts: dict[str, Any]) -> None:
    from edgepipe.models.quantise.plot import trade_off_svg
    from edgepipe.models.quantise.table import replace_file

    text = json.dumps(facts, indent=1)
    replace_file(folder / "sensitivity.json", text.encode() + b"\n")
    points = [(point["kept"], point["drop"]) for point in facts["curve"]]
    drawn = trade_off_svg(facts["model"], points, len(facts["layers"]))
    replace_file(folder / "sensitivity.svg", drawn.encode())


def _print(facts: dict[str, Any]) -> None:
    layers, curve = facts["layers"], facts["curve"]
    print(
        f"{facts['model']}: {len(layers)} layers, {facts['objects']} objects of FP32 in"
        f" {facts['frames']} frames\n"
    )
    print(f"{'drop':>8}  layer, INT8 alone")
    for each in layers[:SHOWN]:
        print(f"{each['drop']:8.2f}  {each['layer']}")
    if len(layers) > SHOWN:
        print(f"{'':8}  and {len(layers) - SHOWN} that cost less")
    print(f"\n{'in FP32':>8} {'drop':>8} {'CPU ms':>8}")
    for point in curve:
        ms = "refused" if point["ms"] is None else f"{point['ms']:.2f}"
        print(f"{point['kept']:8} {point['drop']:8.2f} {ms:>8}")
    print(f"{'FP32':>8} {0:8.2f} {facts['fp32_ms']:8.2f}\n")
