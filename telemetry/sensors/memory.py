"""Memory that programs can still have, and what the GPU has mapped."""

import re
from collections.abc import Callable

from edgepipe.telemetry.sensors.reading import Channel, Kind, Reading, no_reading
from edgepipe.telemetry.sensors.sensor import Pace, Sensor
from edgepipe.telemetry.sensors.tree import Handle, Tree, why

_FILE = "proc/meminfo"
_KIB = 1024
_LINES = {"available": "MemAvailable", "total": "MemTotal", "nvmap": "NvMapMemUsed"}
_LINE = re.compile(rb"^(\w+):\s*(\d{1,15}) kB", re.MULTILINE)


class MemorySensor:
    """A few lines of ``/proc/meminfo``, in bytes.

    Args:
        handle: The file; closed with the sensor.
        names: The channels: ``available``, ``total``, ``nvmap``.
        now_ns: The monotonic clock.
    """

    name = "memory"
    pace = Pace.SLOW

    def __init__(
        self, handle: Handle, names: tuple[str, ...], now_ns: Callable[[], int]
    ) -> None:
        self.channels = tuple(
            Channel(Kind.MEMORY, name, "meminfo", step=float(_KIB)) for name in names
        )
        self._handle = handle
        self._now_ns = now_ns

    def read(self) -> list[Reading]:
        """One reading for each channel, all of one moment."""
        before_ns = self._now_ns()
        kib, reason = self._lines()
        at_ns = (before_ns + self._now_ns()) // 2
        readings: list[Reading] = []
        for channel in self.channels:
            line = _LINES[channel.name]
            if line in kib:
                value = float(kib[line] * _KIB)
                readings.append(Reading(channel, value, at_ns))
            else:
                why_not = reason or f"no line {line} in meminfo"
                readings.append(no_reading(channel, at_ns, why_not))
        return readings

    def _lines(self) -> tuple[dict[str, int], str]:
        try:
            data = self._handle.read()
        except OSError as error:
            return {}, why(error)
        return {name.decode(): int(kib) for name, kib in _LINE.findall(data)}, ""

    def close(self) -> None:
        """Close the file."""
        self._handle.close()


def find_memory(tree: Tree, now_ns: Callable[[], int]) -> list[Sensor]:
    """The sensor, or nothing where there is no such file."""
    text = tree.text(_FILE)
    if not text:
        return []
    names = tuple(name for name, line in _LINES.items() if f"{line}:" in text)
    return [MemorySensor(tree.open(_FILE), names, now_ns)] if names else []
