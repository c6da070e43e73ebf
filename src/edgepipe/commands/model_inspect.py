"""``edgepipe model inspect``: what a model file is, and the card that follows."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgepipe.commands.output import print_json
from edgepipe.errors import ConfigError, EngineError, ModelError

if TYPE_CHECKING:
    from edgepipe.models.inspect.examine import Examination
    from edgepipe.models.inspect.propose import Item

_ROW = "{:<12} {}".format


def add_to(actions: Any) -> None:
    """Add the action to ``edgepipe model``."""
    parser: argparse.ArgumentParser = actions.add_parser(
        "inspect", help="say what an ONNX file is and propose a card for it"
    )
    parser.add_argument("model", type=Path, help="an ONNX file")
    parser.add_argument(
        "--write", type=Path, metavar="CARD", help="write the card to this file"
    )
    parser.add_argument(
        "--force", action="store_true", help="write over a card that is there"
    )
    parser.add_argument(
        "--json", action="store_true", help="print everything as JSON on stdout"
    )
    from edgepipe.commands.model_answers import add_answers

    add_answers(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Look at a file; return 1 if a card was written that lacks something.

    Raises:
        EdgepipeError: It is no model, edgepipe cannot feed it, or an answer is wrong.
    """
    from edgepipe.commands.model_answers import given_answers

    try:
        from edgepipe.models.inspect.examine import examine
        from edgepipe.models.inspect.propose import propose, unknown
    except ImportError as error:
        raise EngineError(
            f"onnx cannot be imported ({error}): pip install 'edgepipe[models]'"
        ) from error
    answers = given_answers(args)
    found = examine(args.model, answers)
    items = propose(found, answers)
    if args.json:
        if not print_json(_document(found, items)):
            return 1
    else:
        _print(found, items)
    if found.obstacles:
        raise ModelError(f"{args.model}: {'; '.join(found.obstacles)}")
    missing = unknown(items)
    if args.write is None:
        return 0
    said = _write(args, items, complete=not missing)
    if not args.json:
        print(said)
    return int(bool(missing))


def _document(found: "Examination", items: Sequence["Item"]) -> dict[str, Any]:
    facts = found.facts
    return {
        "schema": "edgepipe.model-inspection/1",
        "file": str(facts.path),
        "size_bytes": facts.size_bytes,
        "producer": facts.header.producer,
        "ir_version": facts.header.ir_version,
        "opsets": dict(facts.header.opsets),
        "inputs": [asdict(each) for each in facts.inputs],
        "outputs": [
            {
                "name": each.name,
                "dtype": each.dtype,
                "declared": declared.shape,
                "shape": each.shape,
            }
            for each in found.outputs
            for declared in facts.outputs
            if declared.name == each.name
        ],
        "operators": dict(facts.operators),
        "foreign_operators": list(facts.foreign),
        "parameters": facts.work.parameters,
        "macs": facts.work.macs,
        "layers_not_counted": facts.work.uncounted,
        "quantised": facts.quantised,
        "external_data": list(facts.header.external),
        "metadata": dict(facts.header.metadata),
        "tried": {"height": found.tried[0], "width": found.tried[1]},
        "not_run_because": found.not_run,
        "obstacles": list(found.obstacles),
        "remarks": list(found.verdict.remarks),
        "card": [
            {
                "key": item.key,
                "value": item.value,
                "origin": item.origin.value,
                "note": item.note,
            }
            for item in items
        ],
        "complete": all(item.origin.name != "UNKNOWN" for item in items),
    }


def _print(found: "Examination", items: Sequence["Item"]) -> None:
    for name, text in _lines(found):
        print(_ROW(name, text))
    print()
    print("proposed card")
    for item in items:
        note = f": {item.note}" if item.note else ""
        if item.value is None:
            print(f"  {item.key:<20} {item.origin.value}{note}")
        else:
            from edgepipe.configs.card_text import scalar

            text = scalar(item.value)
            shown = text if len(text) <= 48 else f"{text[:45]}..."
            print(f"  {item.key:<20} {shown}  ({item.origin.value}{note})")


def _lines(found: "Examination") -> list[tuple[str, str]]:
    facts = found.facts
    opsets = ", ".join(f"{k} {v}" for k, v in facts.header.opsets.items())
    most = list(facts.operators.items())
    operators = ", ".join(f"{n} {op}" for op, n in most[:8])
    if len(most) > 8:
        operators += f" and {len(most) - 8} other kinds"
    lines = [
        ("file", f"{facts.path}, {facts.size_bytes:,} bytes"),
        ("producer", f"{facts.header.producer}, IR {facts.header.ir_version}"),
        ("opsets", opsets),
    ]
    lines += [("input", _shown(x.name, x.dtype, x.shape)) for x in facts.inputs]
    lines += [("output", _shown(x.name, x.dtype, x.shape)) for x in found.outputs]
    macs = f"{facts.work.macs / 1e6:,.1f} M multiply-accumulates"
    if facts.work.uncounted:
        macs = f"at least {macs} ({facts.work.uncounted} layers of unknown shape)"
    lines += [
        ("operators", operators),
        ("size", f"{facts.work.parameters:,} parameters, {macs}"),
        ("quantised", facts.quantised or "no"),
    ]
    lines += [("external", place) for place in facts.header.external]
    for key, value in facts.header.metadata.items():
        line = " ".join(value.split())
        lines.append(("metadata", f"{key}: {line[:60]}{'...' if line[60:] else ''}"))
    high, wide = found.tried
    ran = f"one image of {wide}x{high}; the outputs' shapes are of this size"
    lines.append(
        ("run with", ran if not found.not_run else f"nothing: {found.not_run}")
    )
    lines += [("!", text) for text in found.verdict.remarks]
    return lines


def _shown(name: str, dtype: str, shape: Sequence[object] | None) -> str:
    if shape is None:
        return f"{name}: {dtype}, of unknown shape"
    sizes = " x ".join("?" if size is None else str(size) for size in shape)
    return f"{name}: {dtype}, {sizes or 'one number'}"


def _write(args: argparse.Namespace, items: Sequence["Item"], *, complete: bool) -> str:
    """Write the card; prove a complete one with a grey image; say what was done."""
    from edgepipe.configs.card_text import Line, write_card_text

    card: Path = args.write
    inside = _inside(args.model, card)
    if card.exists() and not args.force:
        raise ConfigError("--write", "", f"{card} is there: --force writes over it")
    precision = next(item.value for item in items if item.key == "precision")
    lines = [
        Line(item.key, item.value, f"{item.origin.value}{_note(item)}")
        for item in items
    ]
    text = write_card_text(lines, inside, precision)
    scratch = card.with_name(f".{card.name}.part")
    try:
        scratch.write_text(text, encoding="utf-8")
        engine = _prove(scratch, precision) if complete else None
        scratch.replace(card)
    except OSError as error:
        raise ModelError(f"{card}: cannot write the card: {error.strerror}") from error
    finally:
        scratch.unlink(missing_ok=True)
    if engine is None:
        return f"{card} written; it is refused until what is not known is filled in"
    return (
        f"{card} written; a grey image went through the network and its head ({engine})"
    )


def _note(item: "Item") -> str:
    return f": {item.note}" if item.note else ""


def _inside(model: Path, card: Path) -> str:
    """The model's path as its card names it."""
    folder = card.resolve().parent
    try:
        return model.resolve().relative_to(folder).as_posix()
    except ValueError as error:
        raise ConfigError(
            "--write",
            "",
            f"{card} does not lie in {model}'s folder or above: a card"
            f" and its files move together",
        ) from error


def _prove(card: Path, precision: str) -> str:
    """Load the card's model as ``run`` would; the engine that took it.

    Raises:
        EdgepipeError: It does not fit.
    """
    from edgepipe.configs.model_card import read_card
    from edgepipe.models.load import load_engine

    read, _ = read_card(card)
    engine = load_engine(read, precision, requests=1, threads=1)
    try:
        return f"{engine.info.engine} {engine.info.version}"
    finally:
        engine.close()
