"""What a machine has to be watched with."""

from collections.abc import Sequence
from dataclasses import dataclass

from edgepipe.telemetry.sensors.reading import Channel
from edgepipe.telemetry.sensors.sensor import Sensor
from edgepipe.telemetry.sensors.totals import Total


@dataclass(frozen=True, slots=True)
class Equipment:
    """The sensors of a machine, and which of them tell of all of it."""

    sensors: Sequence[Sensor] = ()
    """Owned by whoever was given this, to be closed."""
    totals: Sequence[Total] = ()
    """What tells of the whole device, the widest boundary first."""
    no_power: str = ""
    """Why there is no total, or none for the board; empty if all is well."""
    hung: Sequence[str] = ()
    """Sensors that did not answer when they were tried, and are left out."""

    @property
    def channels(self) -> list[Channel]:
        """Of all sensors, in their order."""
        return [channel for sensor in self.sensors for channel in sensor.channels]
