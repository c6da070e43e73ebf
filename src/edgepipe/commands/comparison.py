"""The table that ``edgepipe simulate`` prints."""

from collections.abc import Iterator, Mapping
from typing import IO, Any

from rich.console import Console
from rich.table import Table

from edgepipe.telemetry.figures import MISSING, figure

WIDTH = 130
"""Where the output is no terminal whose width could be asked for."""


def print_table(document: Mapping[str, Any], file: IO[str] | None = None) -> None:
    """Print the comparison: one line for each policy, with what was simulated above.

    ``file`` is standard output by default.
    """
    console = Console(file=file, highlight=False)
    if not console.is_terminal:
        console = Console(file=file, width=WIDTH, highlight=False, no_color=True)
    for line in _head(document):
        console.print(line, markup=False)
    console.print(_table(document))


def _head(document: Mapping[str, Any]) -> Iterator[str]:
    seeds = ", ".join(map(str, document["seeds"]))
    yield (
        f"{document['scenario']}: {document['about']}; {document['duration_s']:g} s of"
        f" virtual time, seeds {seeds}"
    )
    yield "shares in %, times in ms, recovery in s; counts are sums over the seeds"
    for event in document["events"]:
        yield f"  {event['at_s']:g} s  {event['what']}"


def _table(document: Mapping[str, Any]) -> Table:
    policies: Mapping[str, Mapping[str, Any]] = document["policies"]
    classes = list(next(iter(policies.values()))["on_time_by_criticality"])
    by_class = classes if len(classes) > 1 else []
    table = Table(box=None, pad_edge=False)
    table.add_column("policy", no_wrap=True)
    heads = ["on time", "lowest", *by_class, "utility", "(m,k)", "run", "p50", "p99"]
    for head in [*heads, "max", "age p99", "wasted", "moves", "recovery"]:
        table.add_column(head, justify="right")
    for name, summary in policies.items():
        table.add_row(name, *_cells(summary, by_class))
    return table


def _cells(summary: Mapping[str, Any], by_class: list[str]) -> Iterator[str]:
    yield _percent(summary["on_time"])
    yield _percent(summary["on_time_range"][0])
    for name in by_class:
        yield _percent(summary["on_time_by_criticality"].get(name))
    yield _percent(summary["utility"])
    yield str(summary["mk_violations"])
    yield str(summary["max_consecutive_misses"])
    for key in ("p50", "p99", "max"):
        yield figure(summary["latency_ms"][key])
    yield figure(summary["age_ms"]["p99"])
    yield _percent(summary["wasted_share"])
    yield str(summary["ladder_moves"])
    yield figure(summary["recovery_s"])


def _percent(share: float | None) -> str:
    """Two decimals; only what is whole shows as 100."""
    if share is None:
        return MISSING
    return f"{100 * share:.2f}" if share in (0, 1) else f"{_inside(100 * share):.2f}"


def _inside(percent: float) -> float:
    return min(99.99, max(0.01, percent))
