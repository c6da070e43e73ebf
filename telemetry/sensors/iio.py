"""The INA3221 of Jetson boards with JetPack 4, which is an iio device there.

Reading a file makes the chip measure, so power is read alone: its volts and amperes are
then of one conversion. ``in_powerN_trigger_input`` is 0 in this mode and not read.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from edgepipe.telemetry.sensors.devices import Device, Identity
from edgepipe.telemetry.sensors.gauges import Names
from edgepipe.telemetry.sensors.rails import PowerFile
from edgepipe.telemetry.sensors.reading import Channel, Kind
from edgepipe.telemetry.sensors.sensor import Sensor
from edgepipe.telemetry.sensors.supplies import Supply, supply_sensors
from edgepipe.telemetry.sensors.totals import scope_of
from edgepipe.telemetry.sensors.tree import Tree

_DRIVER = "sys/bus/i2c/drivers/ina3221x"
_FOLDER = "iio*device*"
_PER_WATT = 1000
_NO_LIMIT_MA = 32_760


def find_iio(
    tree: Tree, now_ns: Callable[[], int], names: Names | None = None
) -> list[Sensor]:
    """Sensors of all INA3221 of the driver that JetPack 4 has."""
    names = names or Names()
    return [
        sensor
        for path in tree.glob(f"{_DRIVER}/*/{_FOLDER}")
        for sensor in _sensors(_device(tree, path, now_ns), names)
    ]


def _device(tree: Tree, path: Path, now_ns: Callable[[], int]) -> Device:
    address = path.parent.name

    def search() -> Path | None:
        return next(iter(tree.glob(f"{_DRIVER}/{address}/{_FOLDER}")), None)

    return Device(tree, Identity("ina3221x", address), path, search, now_ns)


def _sensors(device: Device, names: Names) -> list[Sensor]:
    return supply_sensors(device, _supplies(device, names), names)


def _supplies(device: Device, names: Names) -> Iterator[Supply]:
    for i in (0, 1, 2):
        label = device.text(f"rail_name_{i}")
        if not label or label.upper() == "NC":
            continue
        channel = Channel(
            Kind.POWER,
            names.unique(Kind.POWER, label),
            str(device.identity),
            scope_of(label),
            tau_s=0.0,  # a fresh conversion for each read
            limits=_limits(device, i),
        )
        power = PowerFile(device.file(f"in_power{i}_input"), _PER_WATT)
        yield Supply(channel, power, f"in_voltage{i}_input", f"in_current{i}_input")


def _limits(device: Device, i: int) -> Mapping[str, float]:
    mv = device.number(f"in_voltage{i}_input")
    files = {"max": f"warn_current_limit_{i}", "crit": f"crit_current_limit_{i}"}
    limits = {name: device.number(file) or 0 for name, file in files.items()}
    return {
        name: ma * mv / 1e6
        for name, ma in limits.items()
        if mv and 0 < ma < _NO_LIMIT_MA
    }
