"""The channels of one rail, however its driver shows them."""

from collections.abc import Iterable
from dataclasses import dataclass

from edgepipe.telemetry.sensors.devices import Device
from edgepipe.telemetry.sensors.gauges import Gauge, GaugeSensor, Names
from edgepipe.telemetry.sensors.rails import MOST_MA, MOST_MV, Rail, RailSensor
from edgepipe.telemetry.sensors.reading import Channel, Kind
from edgepipe.telemetry.sensors.sensor import Pace, Sensor

_PER_UNIT = 1000


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
    """A fast sensor of the device's powers and a slow one of its volts and amperes."""
    found = list(supplies)
    if not found:
        return []
    title = str(device.identity)
    rails = [(supply.channel, supply.rail) for supply in found]
    gauges = [gauge for supply in found for gauge in _gauges(device, supply, names)]
    sensors: list[Sensor] = [RailSensor(title, rails, device.now_ns)]
    if gauges:
        sensors.append(GaugeSensor(f"{title} volts", Pace.SLOW, gauges, device.now_ns))
    return sensors


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
