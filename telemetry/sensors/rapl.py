"""Energy counters of x86 processors, which Linux shows under ``/sys/class/powercap``.

A package contains its cores and its uncore; memory is beside it; psys is all of the
board. So ``package-0`` and ``dram-0`` may be added up, and ``core-0`` is only a part.

A counter wraps (typically after 262 kJ: 22 minutes at 200 W). Read it at least four
times in the shortest time that a turn can take, 65 s for such a package at 1000 W; any
pace of a sampler does. An interval as long as a whole such turn is a gap, and is said.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from edgepipe.telemetry.sensors.counting import GrowingCounter
from edgepipe.telemetry.sensors.reading import (
    Channel,
    Kind,
    Quality,
    Reading,
    Scope,
    no_reading,
)
from edgepipe.telemetry.sensors.sensor import Pace, Sensor
from edgepipe.telemetry.sensors.tree import Number, Tree, read_number

_PER_JOULE = 1_000_000
_ZONES = "sys/class/powercap/*rapl*:*"
_REMEDY = (
    "permission denied: only root may read it; until the next boot this helps: "
    "sudo chmod a+r /sys/class/powercap/*rapl*/energy_uj"
)
_HIDDEN = "hidden: the kernel has it and this container does not show it"
_STILL_NS = 2_000_000_000
"""A counter moves each millisecond; what stands so long does not measure."""
_SCOPES = {
    "package": (Scope.CPU_PACKAGE, 1000.0),
    "psys": (Scope.SYSTEM_INPUT, 2000.0),
    "dram": (Scope.MEMORY, 300.0),
}
"""By the first word of a zone's name: what it covers, and more watts than it takes."""
_PART = (Scope.RAIL, 1000.0)


class _Zone:
    """One counter."""

    def __init__(self, tree: Tree, path: Path, name: str, hidden: bool) -> None:
        word = name.partition("-")[0]
        scope, most_w = _SCOPES.get(word, _PART)
        self.channel = Channel(Kind.ENERGY, name, f"RAPL {path.name}", scope, 0.0)
        self.control_type = _control_type(path)
        self._handle = tree.open(path / "energy_uj")
        wraps_at = tree.number(path / "max_energy_range_uj").value or 0
        self._counter = GrowingCounter(
            _PER_JOULE, wraps_at if wraps_at > 0 else None, most_w
        )
        self._may_rest = word == "uncore"  # graphics, switched off when not used
        self._hidden = hidden
        self._last = -1
        self._moved_ns = 0

    def count(self) -> Number:
        """What the file shows now."""
        number = read_number(self._handle)
        if number.value is None:
            denied = "permission" in number.reason
            return Number(None, _REMEDY if denied else self._why(number.reason))
        if number.value <= 0:
            return Number(None, "it has never counted anything: not measured")
        return number

    def _why(self, reason: str) -> str:
        return _HIDDEN if self._hidden else reason

    def read(self, now_ns: Callable[[], int]) -> Reading:
        before_ns = now_ns()
        count = self.count()
        at_ns = (before_ns + now_ns()) // 2
        if count.value is None:
            return no_reading(self.channel, at_ns, count.reason)
        total, doubt = self._counter.take(count.value, at_ns)
        if self._stands(count.value, at_ns):
            return no_reading(self.channel, at_ns, "it stands still: not measured")
        quality = Quality.DOUBTFUL if doubt else Quality.GOOD
        return Reading(self.channel, total / _PER_JOULE, at_ns, doubt, quality)

    def _stands(self, count: int, at_ns: int) -> bool:
        if count != self._last:
            self._last, self._moved_ns = count, at_ns
        return not self._may_rest and at_ns - self._moved_ns >= _STILL_NS

    def close(self) -> None:
        self._handle.close()


class RaplSensor:
    """All energy counters of the processors, read together."""

    name = "RAPL"

    def __init__(self, zones: list[_Zone], now_ns: Callable[[], int]) -> None:
        self._zones = zones
        self._now_ns = now_ns
        self.channels = tuple(zone.channel for zone in zones)
        readable = any(zone.count().value is not None for zone in zones)
        # That nobody may read it need not be told at each sweep.
        self.pace = Pace.FAST if readable else Pace.SLOW

    def read(self) -> list[Reading]:
        """What each has counted, in joules; readings only grow."""
        return [zone.read(self._now_ns) for zone in self._zones]

    def close(self) -> None:
        """Close the files."""
        for zone in self._zones:
            zone.close()


def find_rapl(tree: Tree, now_ns: Callable[[], int]) -> list[Sensor]:
    """The energy counters, or nothing where there are none.

    Counters that only root may read are there and say what helps. ``enabled`` is not
    looked at: it switches a zone's power limits, and the counter runs all the same.
    """
    best: dict[str, _Zone] = {}
    for path in sorted(tree.glob(_ZONES), key=_is_copy):
        zone = _zone(tree, path, best)
        # One package may be there twice, through registers and through memory.
        other = best.get(zone.channel.name)
        if other is None or _better(zone, other):
            best[zone.channel.name] = zone
    return [RaplSensor(list(best.values()), now_ns)] if best else []


def _is_copy(path: Path) -> bool:
    return "mmio" in path.name


def _better(zone: _Zone, other: _Zone) -> bool:
    return zone.count().value is not None and other.count().value is None


def _zone(tree: Tree, path: Path, others: Mapping[str, _Zone]) -> _Zone:
    told = _channel_name(tree, path)
    name = told or _by_number(path)
    other = others.get(name)
    if other is not None and other.control_type == _control_type(path):
        name += f"-{_numbers(path)}"  # such as psys of a second socket: no copy
    return _Zone(tree, path, name, hidden=told is None)


def _control_type(path: Path) -> str:
    """``intel-rapl``, ``intel-rapl-mmio``."""
    return path.name.partition(":")[0]


def _channel_name(tree: Tree, path: Path) -> str | None:
    """``package-0``, ``core-0``, ``psys``; None if it cannot be read."""
    name = tree.text(path / "name")
    parent = _parent(path)
    if not name or parent is None:
        return name or None
    above = tree.text(parent / "name") or _by_number(parent)
    return f"{name}-{above.removeprefix('package-')}"


def _parent(path: Path) -> Path | None:
    """Of ``intel-rapl:0:2`` that is ``intel-rapl:0``, also in a flat folder."""
    above, _, _ = path.name.rpartition(":")
    return path.with_name(above) if ":" in above else None


def _by_number(path: Path) -> str:
    numbers = _numbers(path)
    return f"part-{numbers}" if "-" in numbers else f"package-{numbers}"


def _numbers(path: Path) -> str:
    return path.name.partition(":")[2].replace(":", "-")
