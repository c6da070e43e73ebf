"""The clock that all times of a run are read from."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from edgepipe.telemetry.machine.finding import Area, Finding, Level, not_known
from edgepipe.telemetry.sensors.tree import Tree

GOOD = (
    "tsc",
    "kvm-clock",
    "arch_sys_counter",
    "hyperv_clocksource_tsc_page",
    "hyperv_clocksource",
    "timebase",
)
"""Read by the processor itself in some tens of nanoseconds."""
SLOW = ("hpet", "acpi_pm", "pit", "refined-jiffies", "jiffies")
"""Outside the processor, or no finer than the kernel's tick."""
COARSE_NS = 10_000
LOOKS = 2000

_found = partial(Finding, Area.TIME)


@dataclass(frozen=True, slots=True)
class Timing:
    """None where nobody tells."""

    source: str | None
    """What the kernel counts time with."""
    others: tuple[str, ...]
    """What it could take instead."""
    step_ns: int | None
    """The smallest difference between two reads that was seen."""


def smallest_step_ns(read_ns: Callable[[], int] = time.monotonic_ns) -> int | None:
    """The smallest difference other than 0 in so many reads; None: it stood still."""
    stamps = [read_ns() for _ in range(LOOKS)]
    steps = (b - a for a, b in pairwise(stamps))
    return min((step for step in steps if step > 0), default=None)


def examine_timing(tree: Tree, step_ns: int | None = None) -> Timing:
    """Read what there is."""
    folder = "sys/devices/system/clocksource/clocksource0"
    available = (tree.text(f"{folder}/available_clocksource") or "").split()
    source = tree.text(f"{folder}/current_clocksource") or None
    others = tuple(name for name in available if name != source)
    return Timing(source, others, step_ns)


def judge_timing(facts: Timing) -> Iterator[Finding]:
    """What the clock means for a run."""
    name = facts.source
    if name is None:
        yield not_known(Area.TIME, "clock source", "the kernel does not say")
    elif name in SLOW:
        yield _found(
            "clock source",
            Level.WARNING,
            f"{name}, which is slow or coarse",
            "every look at the clock costs a microsecond or more, or shows ticks:"
            " short times are wrong",
            _better(facts.others),
        )
    else:
        note = "" if name in GOOD else ", which is not known to be good or bad"
        yield _found("clock source", Level.NOTE if note else Level.OK, name + note)
    if facts.step_ns is not None:
        yield _step(facts.step_ns)


def _better(others: tuple[str, ...]) -> str:
    better = [name for name in GOOD if name in others]
    if not better:
        return (
            "the kernel gave up a better one at boot: see dmesg | grep -i clocksource"
        )
    return f"boot with clocksource={better[0]}"


def _step(step_ns: int) -> Finding:
    text = f"{step_ns} ns, the smallest step seen"
    if step_ns < COARSE_NS:
        return _found("resolution", Level.OK, text)
    costs = "times shorter than that are shown as none"
    return _found("resolution", Level.WARNING, text, costs)
