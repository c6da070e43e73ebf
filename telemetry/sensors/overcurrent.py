"""Counters of the events in which hardware held the clocks down by itself."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from edgepipe.telemetry.sensors.devices import hwmon_devices
from edgepipe.telemetry.sensors.gauges import Gauge, GaugeSensor, Names
from edgepipe.telemetry.sensors.reading import Channel, Kind, Reading, no_reading
from edgepipe.telemetry.sensors.sensor import Pace, Sensor
from edgepipe.telemetry.sensors.tree import Handle, Tree, read_number

_DRIVER = "soctherm_oc"
_COUNTERS = (1, 2, 3)
_CPUS = "sys/devices/system/cpu/cpu[0-9]*"


def find_overcurrent(
    tree: Tree, now_ns: Callable[[], int], names: Names | None = None
) -> list[Sensor]:
    """Event counters of Orin and Thor, and those of Intel's processors.

    They count from the start of the machine. A counter that goes back is told as it is.
    """
    names = names or Names()
    return [*_soctherm(tree, now_ns, names), *_thermal_throttle(tree, now_ns)]


def _soctherm(tree: Tree, now_ns: Callable[[], int], names: Names) -> list[Sensor]:
    """``oc1``: input voltage too low; ``oc2``: mean, ``oc3``: momentary current."""
    gauges = [
        Gauge(
            Channel(
                Kind.EVENTS,
                names.unique(Kind.EVENTS, f"oc{i}"),
                str(device.identity),
                step=1.0,
            ),
            device.file(f"oc{i}_event_cnt"),
            highest=2**64,
        )
        for device in hwmon_devices(tree, now_ns)
        if device.identity.name == _DRIVER
        for i in _COUNTERS
        if f"oc{i}_event_cnt" in device.files()
    ]
    title = "over-current events"
    return [GaugeSensor(title, Pace.SLOW, gauges, now_ns)] if gauges else []


class ThrottleCounters:
    """Adds up the counters of Intel's processors, each core and each package once.

    Args:
        handles: Closed with the sensor.
        now_ns: The monotonic clock.
    """

    name = "processor throttle events"
    pace = Pace.SLOW

    def __init__(self, handles: Sequence[Handle], now_ns: Callable[[], int]) -> None:
        channel = Channel(Kind.EVENTS, "cpu-throttle", "thermal_throttle", step=1.0)
        self.channels = (channel,)
        self._handles = tuple(handles)
        self._now_ns = now_ns

    def read(self) -> list[Reading]:
        """The sum; without one counter there is none, for it would seem to go back."""
        channel = self.channels[0]
        before_ns = self._now_ns()
        numbers = [read_number(handle) for handle in self._handles]
        at_ns = (before_ns + self._now_ns()) // 2
        failed = [number.reason for number in numbers if number.value is None]
        if failed:
            return [no_reading(channel, at_ns, failed[0])]
        counts = [number.value or 0 for number in numbers]
        if min(counts) < 0:
            reason = f"{min(counts)} cannot be a measurement"
            return [no_reading(channel, at_ns, reason)]
        return [Reading(channel, float(sum(counts)), at_ns)]

    def close(self) -> None:
        """Close the files."""
        for handle in self._handles:
            handle.close()


def _thermal_throttle(tree: Tree, now_ns: Callable[[], int]) -> list[Sensor]:
    files: dict[tuple[str, ...], Path] = {}
    for cpu in tree.glob(_CPUS):
        package = tree.text(cpu / "topology/physical_package_id") or ""
        core = tree.text(cpu / "topology/core_id") or cpu.name
        counters = cpu / "thermal_throttle"
        # Threads of a core and cores of a package show the same counter.
        for key, path in (
            ((package, core), counters / "core_throttle_count"),
            ((package,), counters / "package_throttle_count"),
        ):
            if key not in files and os.path.exists(path):
                files[key] = path
    handles = [tree.open(path) for path in files.values()]
    return [ThrottleCounters(handles, now_ns)] if handles else []
