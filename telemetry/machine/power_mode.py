"""The power mode of a Jetson board, and whether its pinned clocks would last."""

import re
from dataclasses import dataclass
from typing import NamedTuple

from edgepipe.telemetry.machine.files import whole
from edgepipe.telemetry.sensors.tree import Tree

_UNIT = "nvpmodel.service"
_PLACES = ("etc/systemd/system", "run/systemd/system", "usr/lib/systemd/system")


@dataclass(frozen=True, slots=True)
class PowerMode:
    """Which mode nvpmodel has set; None where it does not tell."""

    number: int | None
    name: str | None
    """By ``/etc/nvpmodel.conf``; the numbers differ from board to board."""
    default: str | None
    """Name of the mode that is taken when nobody chooses."""
    is_default: bool | None
    fan: str | None
    """What the fan is told: ``quiet``, ``cool``."""
    reason: str = ""
    """Why the mode is not known."""


class _Modes(NamedTuple):
    names: dict[int, str]
    default: int | None


def examine_power_mode(tree: Tree) -> PowerMode | None:
    """Read what there is; None on a machine that has no such modes."""
    modes = _modes(whole(tree, "etc/nvpmodel.conf"))
    status = tree.text("var/lib/nvpmodel/status")
    if status is None and not modes.names:
        return None
    default = None if modes.default is None else modes.names.get(modes.default)
    found = re.search(r"pmode:(\d{1,6})", status or "")
    fan = re.search(r"fmode:(?:fanmode_)?(\w+)", status or "")
    fan_mode = fan[1] if fan else None
    if found is None:
        reason = "/var/lib/nvpmodel/status does not say"
        return PowerMode(None, None, default, None, fan_mode, reason)
    number = int(found[1])
    is_default = None if modes.default is None else number == modes.default
    return PowerMode(number, modes.names.get(number), default, is_default, fan_mode)


def _modes(text: str) -> _Modes:
    named = re.findall(r"^<\s*POWER_MODEL\s+ID=(\d{1,6})\s+NAME=(\S+)\s*>", text, re.M)
    default = re.search(r"^<\s*PM_CONFIG\s+DEFAULT=(\d{1,6})\s*>", text, re.M)
    return _Modes(
        {int(number): name for number, name in named},
        int(default[1]) if default else None,
    )


def is_undone_by_systemd(tree: Tree) -> bool | None:
    """Whether ``systemctl isolate`` sets the mode again and so loses pinned clocks.

    The service runs once and is then forgotten, unless ``RemainAfterExit`` is set.
    None when there is no such service.
    """
    units = [text for place in _PLACES if (text := tree.text(f"{place}/{_UNIT}"))]
    if not units:
        return None
    # The first place wins; drop-ins of all places are added to it.
    texts = [units[0]] + [
        tree.text(path.relative_to(tree.root).as_posix()) or ""
        for place in reversed(_PLACES)
        for path in tree.glob(f"{place}/{_UNIT}.d/*.conf")
    ]
    said = re.findall(r"^\s*RemainAfterExit\s*=\s*(\w+)", "\n".join(texts), re.M)
    return not (said and said[-1].lower() in ("yes", "true", "1", "on"))
