"""Who else uses the processors at this moment: two looks at the kernel's counters."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from edgepipe.telemetry.sensors.tree import Tree

MOST_PROCESSES = 4096
"""Of a machine with more the rest is not looked at one by one."""
SHOWN = 3
LEAST_CPUS = 0.02
"""Processes that use less are not named: it is one tick of the kernel's clock."""


class Process(NamedTuple):
    """One process and its processor time so far."""

    name: str
    ticks: int


class Snapshot(NamedTuple):
    """The kernel's counters at one moment, in its ticks."""

    busy: int
    """Processor time of everybody, all processors together."""
    steal: int
    """Time in which a virtual processor wanted to run and the host ran others."""
    total: int
    """All time there was, idle time included."""
    own: int
    """Processor time of this process."""
    processes: Mapping[int, Process]
    """The others, by number."""


class User(NamedTuple):
    """A process that uses processors."""

    pid: int
    name: str
    cpus: float
    """How many processors it kept busy: 0.5 is half of one."""


@dataclass(frozen=True, slots=True)
class Activity:
    """What happened between two snapshots."""

    others_cpus: float
    """Processors that others than this process kept busy, together."""
    stolen_cpus: float
    """Virtual processors' time that the host gave to others."""
    top: tuple[User, ...]
    """Who used most of it, the busiest first."""
    balances_interrupts: bool = False
    """Whether irqbalance is among them, busy or not."""


def take_snapshot(tree: Tree) -> Snapshot | None:
    """Look once; None when the kernel shows no counters.

    Takes about 20 us for each process that there is.
    """
    first, _, _ = (tree.text("proc/stat") or "").partition("\n")
    words = first.split()
    if len(words) < 9 or words[0] != "cpu":
        return None
    try:
        user, nice, system, idle, wait, irq, soft, steal = map(int, words[1:9])
    except ValueError:
        return None
    busy = user + nice + system + irq + soft
    me = _process(tree, "self")
    return Snapshot(
        busy,
        steal,
        busy + idle + wait + steal,
        me[1].ticks if me else 0,
        _others(tree, me[0] if me else None),
    )


def _others(tree: Tree, own: int | None) -> dict[int, Process]:
    found: dict[int, Process] = {}
    for path in tree.glob("proc/[0-9]*")[:MOST_PROCESSES]:
        one = _process(tree, path.name)
        if one is not None and one[0] != own:
            found[one[0]] = one[1]
    return found


def _process(tree: Tree, name: str) -> tuple[int, Process] | None:
    """Number and counters of one process; None when it has ended meanwhile."""
    text = tree.text(f"proc/{name}/stat") or ""
    # The name stands in brackets and may hold brackets and blanks itself.
    head, _, rest = text.rpartition(")")
    pid, _, called = head.partition(" (")
    words = rest.split()
    try:
        ticks = int(words[11]) + int(words[12])
        return int(pid), Process(called, ticks)
    except (ValueError, IndexError):
        return None


def activity_between(
    before: Snapshot, after: Snapshot, processors: int
) -> Activity | None:
    """What others did between two looks; None when no time has passed.

    Args:
        before: The first look.
        after: The second one.
        processors: How many the counters cover.
    """
    ticks = (after.total - before.total) / max(processors, 1)
    if ticks <= 0:
        return None
    own = max(0, after.own - before.own)
    used = [
        User(pid, process.name, (process.ticks - before.processes[pid].ticks) / ticks)
        for pid, process in after.processes.items()
        if pid in before.processes
    ]
    top = sorted((u for u in used if u.cpus >= LEAST_CPUS), key=lambda u: -u.cpus)
    return Activity(
        max(0.0, (after.busy - before.busy - own) / ticks),
        max(0.0, (after.steal - before.steal) / ticks),
        tuple(top[:SHOWN]),
        any(process.name == "irqbalance" for process in after.processes.values()),
    )
