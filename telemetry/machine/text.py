"""What was found out about a machine, for people: 80 columns, worst things marked."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from textwrap import wrap

from edgepipe.telemetry.machine.finding import Area, Finding, Level
from edgepipe.telemetry.machine.verdict import Fitness

WIDTH = 80
MARKS = {Level.OK: " ", Level.NOTE: "-", Level.WARNING: "!", Level.PROBLEM: "X"}
_INDENT = 18


def render_machine(found: Sequence[Finding], fit: Fitness) -> str:
    """All findings by area, then the verdict."""
    lines: list[str] = []
    for area, those in groupby(found, lambda each: each.area):
        lines += ["", *_area(area, those)]
    return "\n".join([*lines[1:], "", *_verdict(fit), ""])


def _area(area: Area, found: Iterator[Finding]) -> Iterator[str]:
    yield area.value
    for each in found:
        head = f"{MARKS[each.level]} {each.subject}".ljust(_INDENT - 1) + " "
        yield from _filled(each.found, head)
        if each.costs:
            yield from _filled(each.costs, " " * _INDENT + "so: ")
        if each.remedy:
            yield from _filled(each.remedy, " " * _INDENT + "do: ")


def _filled(text: str, head: str) -> list[str]:
    return wrap(
        text,
        WIDTH,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_on_hyphens=False,
    )


def _verdict(fit: Fitness) -> Iterator[str]:
    if fit.is_fit:
        yield "fit for a bench: nothing that was found speaks against it"
    else:
        yield "NOT fit for a bench: figures measured now are not to be trusted"
        yield from _filled(", ".join(fit.against), "because of: ")
    if fit.unknown:
        yield from _filled(", ".join(fit.unknown), "not known:  ")
