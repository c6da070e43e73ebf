"""The channels of one rail, however its driver shows them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from edgepipe.telemetry.sensors.devices import Device
from edgepipe.telemetry.sensors.gauges import Gauge, GaugeSensor, Names
from edgepipe.telemetry.sensors.rails import MOST_MA, MOST_MV, Rail, RailSensor
from edgepipe.telemetry.sensors.reading import Channel, Kind
from edgepipe.telemetry.sensors.sensor import Pace, Sensor

_PER_UNIT = 1000
_FAST_NS, _MEDIUM_NS = 5_000_000, 25_000_000
"""A quarter of the time between two sweeps at 47 Hz, and between two at 9.4 Hz."""


@dataclass(frozen=True, slots=True)
class Supply:
    """A rail with the file names of its volts (mV) and amperes (mA), if it has them."""

    channel: Channel
    """Of its power."""
    rail: Rail
    volts: str = ""
    amperes: str = ""
    most_mv: int = MOST_MV
    most_ma: int = MOST_MA
    """More than this the sensor cannot measure."""


def supply_sensors(
    device: Device, supplies: Iterable[Supply], names: Names
) -> list[Sensor]:
    """A sensor of the device's powers and a slow one of its volts and amperes.

    The powers are read twice, to see how often they can be read.
    """
    found = list(supplies)
    if not found:
        return []
    title = str(device.identity)
    rails = [(supply.channel, supply.rail) for supply in found]
    gauges = [gauge for supply in found for gauge in _gauges(device, supply, names)]
    fast = RailSensor(title, rails, device.now_ns)
    fast.pace = pace_for(_time_of(fast, device.now_ns))
    sensors: list[Sensor] = [fast]
    if gauges:
        sensors.append(GaugeSensor(f"{title} volts", Pace.SLOW, gauges, device.now_ns))
    return sensors


def pace_for(read_ns: int) -> Pace:
    """How often powers are worth reading that take so long.

    Some are behind a controller that needs a hundredth of a second and more for each:
    at every sweep they would make the others late.
    """
    if read_ns <= _FAST_NS:
        return Pace.FAST
    return Pace.MEDIUM if read_ns <= _MEDIUM_NS else Pace.SLOW


def _time_of(sensor: Sensor, now_ns: Callable[[], int]) -> int:
    """The shorter of two readings: other work on the machine may prolong one."""
    times_ns: list[int] = []
    for _ in range(2):
        before_ns = now_ns()
        sensor.read()
        times_ns.append(now_ns() - before_ns)
    return min(times_ns)


def _gauges(device: Device, supply: Supply, names: Names) -> Iterable[Gauge]:
    for kind, file, most in (
        (Kind.VOLTAGE, supply.volts, supply.most_mv),
        (Kind.CURRENT, supply.amperes, supply.most_ma),
    ):
        if file:
            name = names.unique(kind, supply.channel.name)
            channel = Channel(kind, name, supply.channel.source)
            handle = device.file(file)
            yield Gauge(channel, handle, 1, _PER_UNIT, -most, most)
