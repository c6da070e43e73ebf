"""How much memory there is, and whether others press for it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from edgepipe.telemetry.machine.files import value_of
from edgepipe.telemetry.machine.finding import Area, Finding, Level, not_known
from edgepipe.telemetry.machine.groups import memory_limit_bytes
from edgepipe.telemetry.sensors.tree import Tree

LOW_BYTES = 1 << 30
TOO_LOW_BYTES = 256 << 20
"""With less a run is likely to be killed."""
PRESSED_PERCENT = 1.0
"""Share of the last ten seconds in which somebody waited for memory."""

_found = partial(Finding, Area.MEMORY)
_unknown = partial(not_known, Area.MEMORY)


@dataclass(frozen=True, slots=True)
class Memory:
    """In bytes; None where the kernel does not tell."""

    total_bytes: int | None
    available_bytes: int | None
    swap_bytes: int | None
    swap_used_bytes: int | None
    limit_bytes: int | None
    """None: no control group sets a limit."""
    pressure_percent: float | None
    """Share of the last ten seconds in which some task waited for memory."""
    oom_adjustment: int | None
    """-1000 to 1000: the higher, the sooner the kernel kills this process."""
    huge_pages: str | None
    """``always``, ``madvise`` or ``never``."""


def examine_memory(tree: Tree) -> Memory:
    """Read what there is."""
    info = tree.text("proc/meminfo")
    swap, free = _bytes(info, "SwapTotal"), _bytes(info, "SwapFree")
    some = re.search(r"some avg10=(\d{1,3}\.\d+)", _text(tree, "proc/pressure/memory"))
    pages = re.search(
        r"\[(\w+)\]", _text(tree, "sys/kernel/mm/transparent_hugepage/enabled")
    )
    return Memory(
        _bytes(info, "MemTotal"),
        _bytes(info, "MemAvailable"),
        swap,
        None if swap is None or free is None else swap - free,
        memory_limit_bytes(tree),
        float(some[1]) if some else None,
        tree.number("proc/self/oom_score_adj").value,
        pages[1] if pages else None,
    )


def _text(tree: Tree, path: str) -> str:
    return tree.text(path) or ""


def _bytes(info: str | None, key: str) -> int | None:
    kib = value_of(info, key)
    return None if kib is None else kib * 1024


def judge_memory(facts: Memory) -> Iterator[Finding]:
    """What the memory means for a run."""
    yield _available(facts)
    if facts.limit_bytes is not None and facts.limit_bytes < (facts.total_bytes or 0):
        yield _found(
            "limit",
            Level.NOTE,
            f"a control group grants {size(facts.limit_bytes)}",
            "whoever needs more is killed, even when the machine has more",
        )
    if facts.swap_used_bytes:
        yield _swap(facts.swap_used_bytes, facts.swap_bytes or 0)
    yield _pressure(facts.pressure_percent)
    if facts.oom_adjustment is not None and facts.oom_adjustment > 0:
        yield _found(
            "killing",
            Level.NOTE,
            f"oom_score_adj is {facts.oom_adjustment}",
            "edgepipe is killed before others when memory runs out",
        )
    if facts.huge_pages == "always":
        yield _found(*_HUGE_PAGES)


_HUGE_PAGES = (
    "huge pages",
    Level.NOTE,
    "transparent huge pages are made for everybody (always)",
    "the kernel may stop a thread while it puts memory together",
    "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
)


def _swap(used: int, total: int) -> Finding:
    return _found(
        "swap",
        Level.NOTE,
        f"{size(used)} of {size(total)} in use",
        "what was swapped out comes back page by page: single frames wait for it",
        "end what is not needed, then: sudo swapoff -a && sudo swapon -a",
    )


def _available(facts: Memory) -> Finding:
    free, total = facts.available_bytes, facts.total_bytes
    if free is None or total is None:
        return _unknown("available", "the kernel does not tell")
    text = f"{size(free)} of {size(total)}"
    if free < TOO_LOW_BYTES:
        costs = "a run is likely to be killed while its network is loaded"
        return _found("available", Level.PROBLEM, text, costs, "end other programs")
    if free < LOW_BYTES:
        costs = "pages are thrown out and read again while frames wait"
        return _found("available", Level.WARNING, text, costs, "end other programs")
    return _found("available", Level.OK, text)


def _pressure(percent: float | None) -> Finding:
    if percent is None:
        return _unknown("pressure", "the kernel shows none (PSI)")
    text = f"somebody waited for it in {percent:g} % of the last 10 s"
    if not percent:
        return _found("pressure", Level.OK, "nobody waited for it in the last 10 s")
    if percent < PRESSED_PERCENT:
        return _found("pressure", Level.OK, text)
    return _found(
        "pressure",
        Level.WARNING,
        text,
        "threads stand still while memory is found for them",
        "end other programs",
    )


def size(n: int) -> str:
    """Bytes for people: ``512 MiB``, ``7.4 GiB``."""
    if n < 1 << 30:
        return f"{n / (1 << 20):.0f} MiB"
    return f"{n / (1 << 30):.1f} GiB"
