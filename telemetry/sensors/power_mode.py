"""A Jetson's power mode: what nvpmodel has set, and what its table says about it.

A mode caps clocks and switches cores off; it is no cap of the power. Its numbers mean
something else on each board, so number and name belong together.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from edgepipe.telemetry.sensors.tree import Tree

_STATUS = "var/lib/nvpmodel/status"
_TABLE = "etc/nvpmodel.conf"
_MOST_BYTES = 1 << 18
_MODE = re.compile(r"^<\s*POWER_MODEL\s+ID=(\d{1,9})\s+NAME=(\S+)\s*>$")
_DEFAULT = re.compile(r"^<\s*PM_CONFIG\s+DEFAULT=(\d{1,9})\s*>$")
_CAP = re.compile(r"^(\w+)\s+MAX_FREQ\s+(-?\d{1,15})$")
_CORE = re.compile(r"^CPU_ONLINE\s+CORE_\d+\s+([01])$")


@dataclass(frozen=True, slots=True)
class Mode:
    """One mode of the table."""

    id: int
    name: str
    caps_hz: Mapping[str, int] = field(default_factory=dict[str, int])
    """Highest clocks, by the table's names: ``GPU``, ``EMC``, ``CPU_A78_0``; what is
    not capped is not in it."""
    cores: int | None = None
    """Cores that it leaves on; None: the table does not say."""


@dataclass(frozen=True, slots=True)
class PowerMode:
    """The mode that is set, and the one that is set at delivery."""

    current: Mode | None
    """None: not known."""
    default: Mode | None
    """None: the table names none."""
    fan_profile: str | None
    """``quiet``, ``cool``; None: not known."""
    reason: str = ""
    """Why the current mode is not known."""


def read_power_mode(tree: Tree) -> PowerMode | None:
    """What nvpmodel left behind; None on a machine that does not have it.

    Only its files are read: the program itself may hang on a busy board.
    """
    status, table = tree.text(_STATUS), _whole(tree, _TABLE)
    if status is None and not table:
        return None
    modes, default = _parse(table)
    number = re.search(r"pmode:(\d{1,9})\b", status or "")
    fan = re.search(r"fmode:(?:fanmode_)?(\w+)", status or "")
    current = None
    if number:
        current = modes.get(int(number[1]), Mode(int(number[1]), "not in the table"))
    return PowerMode(
        current,
        None if default is None else modes.get(default),
        fan[1] if fan else None,
        "" if current else f"/{_STATUS} names no mode",
    )


def _whole(tree: Tree, path: str) -> str:
    """A table is longer than the small files that a tree reads."""
    try:
        with (tree.root / path).open("rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _parse(table: str) -> tuple[dict[int, Mode], int | None]:
    """All modes, and the number of the default."""
    modes: dict[int, Mode] = {}
    default: int | None = None
    lines: list[str] = []
    for line in map(str.strip, reversed(table.splitlines())):
        if found := _MODE.match(line):
            modes[int(found[1])] = _mode(int(found[1]), found[2], lines)
        elif found := _DEFAULT.match(line):
            default = int(found[1])
        if line.startswith("<"):
            lines = []
        else:
            lines.append(line)
    return modes, default


def _mode(number: int, name: str, lines: list[str]) -> Mode:
    caps = [found for line in lines if (found := _CAP.match(line))]
    cores = [found[1] == "1" for line in lines if (found := _CORE.match(line))]
    return Mode(
        number,
        name,
        {cap[1]: _hz(cap[1], int(cap[2])) for cap in reversed(caps) if int(cap[2]) > 0},
        sum(cores) if cores else None,
    )


def _hz(part: str, number: int) -> int:
    """Processors' clocks are in kHz there, the others in Hz."""
    return number * 1000 if part.startswith("CPU") else number
