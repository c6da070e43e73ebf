"""``edgepipe model build``: from an FP32 file to INT8 that has passed its gate."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgepipe.commands.model_calibrate import (
    METHODS,
    add_calibration_options,
    open_quantisation,
    table_path,
    warn,
)
from edgepipe.commands.output import print_json, say
from edgepipe.errors import ConfigError, ModelError

if TYPE_CHECKING:
    from edgepipe.building import Builder, Built, Recipe
    from edgepipe.models.card import ModelCard
    from edgepipe.quantisation import Quantisation

MAX_DROP = 0.5
FRAMES = 150


def add_to(actions: Any) -> None:
    """Add the action to ``edgepipe model``."""
    parser: argparse.ArgumentParser = actions.add_parser(
        "build", help="make an INT8 file that has passed its accuracy gate"
    )
    add_calibration_options(parser)
    parser.add_argument(
        "--judge",
        metavar="URI",
        help="the recording to judge with, best another one (default: the first"
        " --source)",
    )
    parser.add_argument(
        "--labels",
        metavar="FILE",
        help="of the judged recording; without, the agreement with FP32 is judged",
    )
    parser.add_argument(
        "--max-drop",
        type=float,
        default=MAX_DROP,
        metavar="POINTS",
        help="most that may be lost, with 95 %% confidence (default: %(default)s)",
    )
    parser.add_argument(
        "--method",
        choices=("auto", *METHODS),
        default="auto",
        help="of calibration; auto: the one that loses least",
    )
    parser.add_argument(
        "--every", type=int, default=1, metavar="N", help="judge each N-th frame"
    )
    parser.add_argument(
        "--frames",
        type=int,
        default=FRAMES,
        metavar="N",
        help="frames on which choices of layers are tried (default: %(default)s)",
    )
    parser.add_argument(
        "--weight-bits",
        choices=("auto", "7", "8"),
        default="auto",
        help="auto: 7 where this processor overflows with 8",
    )
    parser.add_argument(
        "--keep",
        action="append",
        default=[],
        metavar="LAYER",
        help="a layer that stays in FP32 in any case; repeatable",
    )
    parser.add_argument(
        "--per-tensor",
        action="store_true",
        help="one scale for all weights of a layer, as some accelerators ask for",
    )
    parser.add_argument(
        "--engine",
        choices=("auto", "openvino", "onnxruntime"),
        default="auto",
        help="default: what a run would take",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="the INT8 file, in the card's folder"
    )
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Build; return 0 if the file passes its gate, 1 if it does not."""
    from edgepipe.building import Builder
    from edgepipe.quantisation import int8_path
    from edgepipe.samples import spread

    _require_own(args.model)
    work, card_path = open_quantisation(args)
    recipe = _recipe(args, work)
    path = args.out if args.out is not None else int8_path(work.card, card_path)
    inside = _inside(path, card_path)
    if path.suffix != ".onnx" or path.resolve() == work.file.path.resolve():
        text = f"expected a new file that ends with .onnx, got {path}"
        raise ConfigError("--out", "", text)
    _require_writable(path.parent, card_path.parent)
    samples = list(spread(work.card, [recipe.source], args.frames, between=True))
    with _Bars(enabled=not args.json) as bars:
        builder = Builder(
            work,
            samples,
            recipe,
            tables=table_path(path),
            step=bars.begin,
            say=lambda line: say(line, as_json=args.json),
        )
        built = builder.build(path)
    passed = _passed_before(work.card)
    if built.gate.passed or passed is None:
        _keep(built, card_path, inside)
    else:
        warn(f"{passed}: has passed its gate and stays; what was built is not kept")
    return _told(built, builder, args)


def _require_own(model: str) -> None:
    """Leave what ships as it is: it lies among the installed packages.

    Raises:
        ConfigError: The model is one that ships.
    """
    from edgepipe.models import zoo

    if model in zoo.names():
        folder = zoo.card_path(model).parent
        problem = f"{model} ships with edgepipe: copy {folder} and name the card there"
        raise ConfigError("", "", problem)


def _recipe(args: argparse.Namespace, work: "Quantisation") -> "Recipe":
    from edgepipe.building import Recipe
    from edgepipe.commands.model_eval import check_numbers
    from edgepipe.quantisation import Scheme
    from edgepipe.truth import truth_of

    check_numbers(args)
    source = args.judge if args.judge is not None else args.source[0]
    return Recipe(
        methods=METHODS if args.method == "auto" else (args.method,),
        max_drop=args.max_drop,
        scheme=Scheme(_weight_bits(args), not args.per_tensor),
        engine=args.engine,
        source=source,
        labels=truth_of(source, args.labels, work.card),
        every=args.every,
        keep=_keep_of(args, work),
    )


def _keep_of(args: argparse.Namespace, work: "Quantisation") -> frozenset[str]:
    """The layers that were named.

    Raises:
        ConfigError: There is no such layer.
    """
    known = {layer.name for layer in work.layers}
    for name in args.keep:
        if name not in known:
            problem = (
                f"no layer {name!r} that could be INT8; edgepipe model sensitivity"
            )
            raise ConfigError("--keep", "", f"{problem} lists them")
    return frozenset(args.keep)


def _weight_bits(args: argparse.Namespace) -> int:
    """7 where the engine cuts sums of 8-bit products on this processor."""
    if args.weight_bits != "auto":
        return int(args.weight_bits)
    from edgepipe.models.load import AUTO, ENGINES, LOADERS
    from edgepipe.models.saturation import saturates

    load = LOADERS[ENGINES[0] if args.engine == AUTO else args.engine]
    cuts = saturates(lambda card, file: load(card, file, 1, 1, "to see sums", 1))
    return 7 if cuts else 8


def _inside(path: Path, card: Path) -> str:
    """The file relative to its card; a card and its files move together.

    Raises:
        ConfigError: It lies elsewhere.
    """
    folder = card.parent.resolve()
    if not path.resolve().is_relative_to(folder):
        raise ConfigError("--out", "", f"expected a file in {folder}, got {path}")
    return path.resolve().relative_to(folder).as_posix()


def _require_writable(*folders: Path) -> None:
    """Refuse at the start what could not be kept in the end.

    Raises:
        ModelError: Names the folder.
    """
    for folder in folders:
        if not folder.is_dir():
            raise ModelError(f"{folder}: no such folder")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise ModelError(f"{folder}: nothing can be written into this folder")


def _passed_before(card: "ModelCard") -> Path | None:
    """The INT8 file that the card lists, if it may run."""
    from edgepipe.models.gate import check_gate
    from edgepipe.models.identity import sha256_of

    for each in card.files:
        if (
            each.precision == "int8"
            and each.path.exists()
            and each.sha256 in (None, sha256_of(each.path))
            and not check_gate(card, each, card.name).problem
        ):
            return each.path
    return None


def _keep(built: "Built", card_path: Path, inside: str) -> None:
    """The file, the gate beside it, and the file on the card.

    Whatever stops this between two of them leaves what ``run`` refuses: the gate and
    the card hold for one file each.
    """
    from edgepipe.configs.card_files import with_file
    from edgepipe.models.gate import gate_path, write_gate
    from edgepipe.models.quantise.table import replace_file

    replace_file(built.file.path, built.content)
    write_gate(gate_path(built.file.path), built.gate)
    sha256 = built.file.sha256 or ""
    text = with_file(card_path, "int8", inside, sha256)
    replace_file(card_path, text.encode())


def _told(built: "Built", builder: "Builder", args: argparse.Namespace) -> int:
    from edgepipe.commands.model_eval import lines_of

    failed = int(not built.gate.passed)
    if args.json:
        document = {
            "file": str(built.file.path),
            "sha256": built.file.sha256,
            "method": built.table.key.method,
            "kept_in_fp32": sorted(built.kept),
            "layers": len(builder.work.layers),
            "tried": [
                {"kept": len(point.kept), "expected_upper": round(point.drop, 3)}
                for point in builder.points
                if point.drop < float("inf")
            ],
            "gate": built.gate.document(),
        }
        return failed if print_json(document) else 1
    say("\n" + "\n".join(lines_of(built.gate)), as_json=False)
    layers = [layer for layer in builder.work.layers if layer.weights]
    say(
        f"file     {built.file.path}, {len(layers) - len(built.kept)} of {len(layers)}"
        f" layers INT8, ranges by {built.table.key.method}",
        as_json=False,
    )
    if built.kept:
        say(f"in FP32  {', '.join(sorted(built.kept))}", as_json=False)
    return failed


class _Bars:
    """One progress bar after the other."""

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled
        self._open: Any = None

    def __enter__(self) -> "_Bars":
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def begin(self, what: str) -> Callable[[int, int], None]:
        """End the bar before and begin another."""
        from edgepipe.commands.bar import Steps

        self._close()
        self._open = Steps(what, enabled=self._enabled)
        self._open.__enter__()
        return self._open  # type: ignore[no-any-return]

    def _close(self) -> None:
        if self._open is not None:
            self._open.__exit__(None, None, None)
            self._open = None
