"""How fast a Jetson's fan is driven."""

import os
from collections.abc import Callable, Iterator

from edgepipe.telemetry.sensors.devices import hwmon_devices
from edgepipe.telemetry.sensors.gauges import Gauge, GaugeSensor, Names
from edgepipe.telemetry.sensors.reading import Channel, Kind
from edgepipe.telemetry.sensors.sensor import Pace, Sensor
from edgepipe.telemetry.sensors.tree import Handle, Tree

_FULL = 255
"""The kernel's pwm counts go from 0 to this."""
_OLD = "sys/devices/pwm-fan/cur_pwm"
"""Where JetPack 4 shows it."""


def find_fan(
    tree: Tree, now_ns: Callable[[], int], names: Names | None = None
) -> list[Sensor]:
    """A sensor of all fans that the board drives."""
    names = names or Names()
    gauges = [
        Gauge(
            Channel(Kind.FAN, names.unique(Kind.FAN, "pwmfan"), source, step=1 / _FULL),
            handle,
            divisor=_FULL,
            highest=_FULL,
        )
        for source, handle in _fans(tree, now_ns)
    ]
    return [GaugeSensor("fan", Pace.SLOW, gauges, now_ns)] if gauges else []


def _fans(tree: Tree, now_ns: Callable[[], int]) -> Iterator[tuple[str, Handle]]:
    if os.path.exists(tree.root / _OLD):
        yield "pwm-fan", tree.open(_OLD)
    for device in hwmon_devices(tree, now_ns):
        if device.identity.name == "pwmfan":
            yield str(device.identity), device.file("pwm1")
