"""Which sensors a machine has, and which of them tell of all of it."""

from collections.abc import Callable, Sequence
from pathlib import Path

from edgepipe.telemetry.sensors.board import why_no_power
from edgepipe.telemetry.sensors.equipment import Equipment
from edgepipe.telemetry.sensors.jtop import find_jtop
from edgepipe.telemetry.sensors.kernel import find_board
from edgepipe.telemetry.sensors.look import Look
from edgepipe.telemetry.sensors.nvml import find_nvml
from edgepipe.telemetry.sensors.rapl import find_rapl
from edgepipe.telemetry.sensors.sensor import Sensor
from edgepipe.telemetry.sensors.tegrastats import find_tegrastats
from edgepipe.telemetry.sensors.totals import choose_totals
from edgepipe.telemetry.sensors.tree import Tree

NONE_WANTED = "no sensor is wanted: telemetry.sensors.kind is none"

_HERE = Path("/")


def find_sensors(kind: str, tree: Tree, now_ns: Callable[[], int]) -> list[Sensor]:
    """All sensors of a machine; the caller's to close.

    Args:
        kind: ``auto``: the kernel's files and NVML; ``none``; ``jtop`` or
            ``tegrastats``: these in place of the kernel's files.
        tree: Where the kernel's files are. A tree of another root says nothing of
            libraries and programs, and they are not asked.
        now_ns: The monotonic clock.
    """
    if kind == "none":
        return []
    return [*_by_name(kind, tree, now_ns), *(find_nvml(now_ns) if _here(tree) else ())]


def find_equipment(kind: str, tree: Tree, now_ns: Callable[[], int]) -> Equipment:
    """Find the sensors, look at each once, and choose what tells of the whole.

    Where ``auto`` finds no power, tegrastats is tried as a last resort. The arguments
    are those of :func:`find_sensors`.
    """
    if kind == "none":
        return Equipment(no_power=NONE_WANTED)
    found = _looked_at(find_sensors(kind, tree, now_ns), tree)
    if kind == "auto" and _here(tree) and not found.totals:
        more = find_tegrastats(now_ns)
        if more:
            return _looked_at([*found.sensors, *more], tree)
    return found


def _here(tree: Tree) -> bool:
    return tree.root == _HERE


def _by_name(kind: str, tree: Tree, now_ns: Callable[[], int]) -> Sequence[Sensor]:
    if kind == "jtop":
        return find_jtop(now_ns)
    if kind == "tegrastats":
        return find_tegrastats(now_ns)
    return [*find_board(tree, now_ns), *find_rapl(tree, now_ns)]


def _looked_at(sensors: Sequence[Sensor], tree: Tree) -> Equipment:
    seen = Look(sensors)
    silent = {each.channel for each in seen.readings if each.value is None}
    channels = [each.channel for each in seen.readings]
    totals, reason = choose_totals(channels, silent)
    if not any(each.scope for each in channels):
        reason = why_no_power(tree)
    # One that did not answer is left to its thread and never touched again.
    answering = [each for each in sensors if each not in seen.hung]
    hung = tuple(each.name for each in seen.hung)
    return Equipment(answering, totals, reason, hung)
