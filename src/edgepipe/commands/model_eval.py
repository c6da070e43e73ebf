"""``edgepipe model eval``: what INT8 costs in accuracy, and the gate."""

import argparse
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgepipe.commands.output import print_json, say
from edgepipe.errors import ConfigError

if TYPE_CHECKING:
    from edgepipe.judges import Found
    from edgepipe.models.card import ModelCard
    from edgepipe.models.evaluate.agreement import Boxes
    from edgepipe.models.gate import GateResult
    from edgepipe.samples import Sample
    from edgepipe.truth import FrameTruth

MAX_DROP = 0.5
"""As in :mod:`edgepipe.evaluation`; written out because looking would load NumPy."""
ENGINES = ("auto", "openvino", "onnxruntime", "torch", "torch-cuda")
"""As `model.engine` of the configuration."""
MOST_CLASSES = 8
"""In the printed table; the record has all."""


def add_to(actions: Any) -> None:
    """Add the action to ``edgepipe model``."""
    parser: argparse.ArgumentParser = actions.add_parser(
        "eval", help="compare INT8 with FP32 on a recording, and write the gate"
    )
    parser.add_argument(
        "model", help="a model card, an .onnx file with its card, or one that ships"
    )
    parser.add_argument(
        "--source", required=True, metavar="URI", help="a recording of what it will see"
    )
    parser.add_argument(
        "--labels",
        metavar="FILE",
        help="COCO .json, MOTChallenge .txt or a folder in YOLO's form; without, the"
        " agreement with FP32 is judged",
    )
    parser.add_argument(
        "--max-drop",
        type=float,
        default=MAX_DROP,
        metavar="POINTS",
        help="most that the drop may be, with 95 %% confidence (default: %(default)s)",
    )
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        default="auto",
        help="default: what a run would take",
    )
    parser.add_argument(
        "--every", type=int, default=1, metavar="N", help="only each N-th frame"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="at most N frames")
    parser.add_argument(
        "--seed", type=int, default=0, help="of the bootstrap (default: 0)"
    )
    parser.add_argument(
        "--write", action="store_true", help="write the gate beside the INT8 file"
    )
    parser.add_argument(
        "--results",
        type=Path,
        metavar="FILE",
        help="write what INT8 found, as COCO's results (.json)",
    )
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Judge; return 0 if INT8 passes and 1 if it does not."""
    from edgepipe.cards import card_named
    from edgepipe.commands.bar import Steps
    from edgepipe.evaluation import judge
    from edgepipe.models.gate import gate_path, write_gate
    from edgepipe.models.quantise.table import replace_file
    from edgepipe.stages.native_threads import keep_opencv_single_threaded
    from edgepipe.truth import truth_of

    check_numbers(args)
    keep_opencv_single_threaded()
    card, _ = card_named(args.model)
    labels = truth_of(args.source, args.labels, card)
    results: list[dict[str, Any]] = []
    with Steps("judging", enabled=not args.json) as bar:
        result = judge(
            card,
            args.source,
            labels=labels,
            max_drop=args.max_drop,
            engine=args.engine,
            every=args.every,
            limit=args.limit,
            seed=args.seed,
            progress=bar,
            found=_collector(results, card, labels) if args.results else None,
        )
    printed = _print(result, as_json=args.json)
    if args.results:
        replace_file(args.results, json.dumps(results).encode())
        say(f"written  {args.results}", as_json=args.json)
    if args.write:
        file = next(each for each in card.files if each.precision == "int8")
        path = gate_path(file.path)
        write_gate(path, result)
        say(f"written  {path}", as_json=args.json)
    return int(not (result.passed and printed))


def _collector(
    results: list[dict[str, Any]], card: "ModelCard", labels: "FrameTruth | None"
) -> "Found":
    """Adds what is found to results in COCO's form, with the labels' own numbers."""
    from edgepipe.models.evaluate.labels_coco import results_of

    classes = list(range(1, len(card.class_names) + 1))
    if labels is not None:
        classes = labels.category_ids()

    def found(sample: "Sample", boxes: "Boxes") -> None:
        image = sample.sequence + 1 if labels is None else labels.image_id(sample)
        results.extend(results_of(image, boxes, classes))

    return found


def lines_of(result: "GateResult") -> list[str]:
    """What a person reads: the answer, the figures, the classes."""
    answer = "passed" if result.passed else f"NOT PASSED: {result.reason}"
    lines = [
        f"{result.model} INT8 {answer}",
        f"FP32     {result.fp32:.2f} points: {result.metric}",
        f"INT8     {result.int8:.2f}",
        f"drop     {result.drop:.2f}, with 95 % confidence at most {result.upper:.2f}"
        f" (allowed: {result.allowed:g})",
        f"against  {result.reference}",
        f"seen     {result.objects} objects in {result.frames} frames of"
        f" {result.source}; blocks of {result.block}",
        f"engine   {result.engine} {result.engine_version.partition('-')[0]} on"
        f" {result.device}",
    ]
    shown = [*result.classes.items()][:MOST_CLASSES]
    lines += [
        f"  {name:<14} {each.objects:>6} objects {each.fp32:6.1f} -> {each.int8:5.1f}"
        for name, each in shown
    ]
    if left := len(result.classes) - len(shown):
        lines.append(f"  and {left} more")
    return lines + [f"note     {note}" for note in result.notes]


def _print(result: "GateResult", *, as_json: bool) -> bool:
    if as_json:
        return print_json(result.document())
    say("\n".join(lines_of(result)), as_json=False)
    return True


def check_numbers(args: argparse.Namespace) -> None:
    """Refuse what no evaluation can be.

    Raises:
        ConfigError: A number is out of its range.
    """
    for name in ("every", "limit", "frames"):
        value = getattr(args, name, None)
        if value is not None and value < 1:
            raise ConfigError(f"--{name}", "", f"expected 1 or more, got {value}")
    if not (math.isfinite(args.max_drop) and 0 < args.max_drop <= 100):
        text = f"expected more than 0 and at most 100 points, got {args.max_drop:g}"
        raise ConfigError("--max-drop", "", text)
    if getattr(args, "seed", 0) < 0:
        raise ConfigError("--seed", "", f"expected 0 or more, got {args.seed}")
