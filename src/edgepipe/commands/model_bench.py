"""``edgepipe model bench``: how fast a network is, and how fast it could be."""

import argparse
from typing import TYPE_CHECKING, Any

from edgepipe.commands.output import print_json, say

if TYPE_CHECKING:
    from pathlib import Path

    from edgepipe.models.card import ModelCard, ModelFile
    from edgepipe.models.engine import AsyncEngine
    from edgepipe.models.operations import Operations
    from edgepipe.models.timing import Timing
    from edgepipe.telemetry.stats import Distribution

ROWS = {
    "latency": "Latency",
    "enqueue": "Enqueue Time",
    "h2d": "H2D Latency",
    "compute": "Compute Time",
    "d2h": "D2H Latency",
}
"""As trtexec calls them."""
SHOWN = {"p90": "90%", "p95": "95%", "p99": "99%"}


def add_to(actions: Any) -> None:
    """Add the action to ``edgepipe model``."""
    parser: argparse.ArgumentParser = actions.add_parser(
        "bench", help="time a network and compare it with what the machine can do"
    )
    parser.add_argument("card", help="a model that ships, a card, or an .onnx file")
    parser.add_argument(
        "--precision", help="which of the card's files (default: int8, else the first)"
    )
    parser.add_argument("--engine", default="auto", help="default: %(default)s")
    parser.add_argument("--batch", type=int, default=1, metavar="N", help="default: 1")
    parser.add_argument(
        "--threads", type=int, default=1, metavar="N", help="default: 1, as in a run"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=5.0,
        metavar="S",
        help="how long to measure; default: %(default)g",
    )
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Measure and print; return the exit code."""
    from edgepipe.cards import card_named
    from edgepipe.models.load import load_engine

    _require_sane(args)
    card, _ = card_named(args.card)
    precision = args.precision or _usual(card)
    engine = load_engine(
        card,
        precision,
        args.engine,
        requests=1,
        threads=args.threads,
        batch_max=args.batch,
    )
    try:
        facts = _facts(card, engine, args)
    finally:
        engine.close()
    if args.json:
        return int(not print_json(facts))
    _print(facts)
    return 0


def _require_sane(args: argparse.Namespace) -> None:
    from edgepipe.errors import ConfigError

    for name, value, low, high in (
        ("--batch", args.batch, 1, 256),
        ("--threads", args.threads, 1, 1024),
        ("--seconds", args.seconds, 0.01, 3600),
    ):
        if not low <= value <= high:
            raise ConfigError(name, "", f"expected {low} to {high}, got {value}")


def _usual(card: "ModelCard") -> str:
    there = [file.precision for file in card.files]
    return "int8" if "int8" in there else there[0]


def _facts(
    card: "ModelCard", engine: "AsyncEngine", args: argparse.Namespace
) -> dict[str, Any]:
    import numpy as np

    from edgepipe.models.ceiling import ceilings
    from edgepipe.models.load import LOADERS
    from edgepipe.models.operations import operations_of
    from edgepipe.models.self_check import probe_image
    from edgepipe.models.timing import measure
    from edgepipe.telemetry.clock import MonotonicClock

    def load(card: "ModelCard", file: "ModelFile") -> "AsyncEngine":
        return LOADERS[info.engine](card, file, 1, args.threads, "a bench", 1)

    clock, info = MonotonicClock(), engine.info
    images = np.repeat(probe_image(card.height, card.width), args.batch, axis=0)
    timing = measure(engine, images, round(args.seconds * 1e9), clock)
    path = next(file.path for file in card.files if file.precision == info.precision)
    return {
        "model": card.name,
        "file": str(path),
        "precision": info.precision,
        "executed_precision": info.executed_precision,
        "engine": info.engine,
        "version": info.version,
        "device": info.device,
        "chosen_because": info.chosen_because,
        "threads": info.threads_per_request,
        "batch": args.batch,
        "batching": info.batching,
        "runs": timing.runs,
        "images_per_s": timing.images_per_s,
        "rows_ms": {name: _row(part) for name, part in timing.parts.items()},
        "roofline": _roofline(
            operations_of(path, card),
            ceilings(load, info.precision, clock),
            timing,
            args.batch,
        ),
        "warnings": _warnings(path, info.precision, load),
    }


def _row(part: "Distribution") -> dict[str, Any]:
    """Milliseconds; null where there are none, with the reason."""

    def ms(value: float | None) -> float | None:
        return None if value is None else round(value / 1e6, 4)

    return {
        "min": ms(part.min),
        "max": ms(part.max),
        "mean": ms(part.mean),
        "median": ms(part.percentiles["p50"]),
        **{name: ms(part.percentiles[name]) for name in SHOWN},
        "reason": _missing(part),
    }


def _missing(part: "Distribution") -> str | None:
    """Why a row, or a part of one, is null."""
    few = [name for name in SHOWN if part.percentiles[name] is None]
    if not part.n:
        return part.reason
    return f"{part.n} runs are too few for {', '.join(few)}" if few else None


def _roofline(
    operations: "Operations | str",
    ceilings: dict[str, float | str],
    timing: "Timing",
    batch: int,
) -> dict[str, Any]:
    """The least time that the arithmetic takes, by the time that it took."""
    known = {name: rate for name, rate in ceilings.items() if isinstance(rate, float)}
    facts: dict[str, Any] = {
        "ceiling_gops": {name: round(rate / 1e9, 1) for name, rate in known.items()},
        "gop_per_image": None,
        "int8_share": None,
        "least_ms": None,
        "fraction": None,
        "reason": next((r for r in ceilings.values() if isinstance(r, str)), None),
    }
    if isinstance(operations, str):
        return facts | {"reason": operations}
    facts["gop_per_image"] = operations.total / 1e9
    facts["int8_share"] = operations.int8 / max(1, operations.total)
    if operations.uncounted:
        reason = f"{operations.uncounted} layers could not be counted"
        return facts | {"reason": reason}
    took_ns = timing.parts["compute"].percentiles["p50"]
    if len(known) < len(ceilings) or took_ns is None:
        return facts | {"reason": facts["reason"] or "too few runs for a median"}
    fastest = known.get("int8", known["fp32"])
    least_s = operations.int8 / fastest + operations.rest / known["fp32"]
    facts["least_ms"] = batch * least_s * 1e3
    facts["fraction"] = batch * least_s * 1e9 / took_ns
    if facts["fraction"] > 1:
        facts["reason"] = "more than 1: other work took from the ceiling; measure again"
    return facts


def _warnings(path: "Path", precision: str, load: Any) -> list[str]:
    from edgepipe.errors import EdgepipeError
    from edgepipe.models.saturation import saturates, wide_layers

    if precision != "int8":
        return []
    try:
        wide = wide_layers(path) if saturates(load) else ()
    except (EdgepipeError, ImportError) as error:
        return [f"whether sums of INT8 products are cut is not known: {error}"]
    if not wide:
        return []
    return [
        f"this processor adds two INT8 products in 16 bits and cuts there, and "
        f"{len(wide)} layers have weights of more than 7 bits ({wide[0]!r} is one): "
        f"quantise with 7 bits, or use precision fp32"
    ]


# --- text -----------------------------------------------------------------------------


def _print(facts: dict[str, Any]) -> None:
    lines = [
        f"model {facts['model']}, {facts['executed_precision']}, on {facts['engine']} "
        f"{facts['version']} ({facts['chosen_because']})",
        f"{facts['device']}, threads {facts['threads']}, batch {facts['batch']} "
        f"({facts['batching']}), {facts['runs']} runs",
        f"Throughput: {facts['images_per_s']:.1f} images/s",
        *(f"{name}: {_row_text(facts['rows_ms'][key])}" for key, name in ROWS.items()),
        *_roofline_text(facts["roofline"]),
        *(f"warning: {warning}" for warning in facts["warnings"]),
    ]
    for line in lines:
        say(line, as_json=False)


def _row_text(row: dict[str, Any]) -> str:
    if row["min"] is None:
        return f"not measured ({row['reason']})"
    figures = {name: row[name] for name in ("min", "max", "mean", "median")}
    figures |= {f"percentile({text})": row[name] for name, text in SHOWN.items()}
    text = ", ".join(
        f"{name} = {_ms(value)}" for name, value in figures.items() if value is not None
    )
    return f"{text} ({row['reason']})" if row["reason"] else text


def _ms(value: float) -> str:
    return f"{value:.4g} ms"


def _roofline_text(facts: dict[str, Any]) -> list[str]:
    ceiling = ", ".join(
        f"{name} {rate:.0f} GOP/s" for name, rate in facts["ceiling_gops"].items()
    )
    lines = [f"Ceiling: {ceiling or 'not measured'} (a large product in this engine)"]
    if facts["gop_per_image"] is not None:
        lines.append(
            f"Operations: {facts['gop_per_image']:.3f} GOP an image, "
            f"{facts['int8_share']:.0%} of them INT8"
        )
    if facts["fraction"] is None:
        return [*lines, f"Roofline fraction: not measured ({facts['reason']})"]
    least = _ms(facts["least_ms"])
    doubt = f"; {facts['reason']}" if facts["reason"] else ""
    figure = f"{facts['fraction']:.2f} (at best {least}{doubt})"
    return [*lines, f"Roofline fraction: {figure}"]
