"""Batteries: what flows in or out of them. Never part of a total."""

from collections.abc import Callable
from pathlib import Path

from edgepipe.telemetry.sensors.gauges import Names
from edgepipe.telemetry.sensors.rails import Rail, RailSensor, Watts
from edgepipe.telemetry.sensors.reading import Channel, Kind, Scope
from edgepipe.telemetry.sensors.sensor import Pace, Sensor
from edgepipe.telemetry.sensors.tree import Handle, Tree, read_number

_MOST_UW = 10**12


class BatteryPower:
    """How much flows, in whichever direction: drivers do not agree on signs.

    Args:
        files: ``power_now`` (uW), or ``voltage_now`` (uV) and ``current_now`` (uA).
    """

    def __init__(self, *files: Handle) -> None:
        self._files = files

    def measure(self) -> Watts:
        """The magnitude of the power."""
        product = 1
        for file in self._files:
            count, reason = read_number(file)
            if count is None:
                return Watts(None, reason)
            if abs(count) > _MOST_UW:
                return Watts(None, f"{count} cannot be a measurement")
            product *= abs(count)
        return Watts(product / 1e6 ** len(self._files))

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()


def find_batteries(
    tree: Tree, now_ns: Callable[[], int], names: Names | None = None
) -> list[Sensor]:
    """One sensor of all batteries of the machine itself, not those of its mice."""
    names = names or Names()
    rails = [
        (_channel(path, names), rail)
        for path in tree.glob("sys/class/power_supply/*")
        if tree.text(path / "type") == "Battery"
        and tree.text(path / "scope") != "Device"
        and (rail := _power(tree, path)) is not None
    ]
    # A laptop's controller takes milliseconds for each.
    return [RailSensor("batteries", rails, now_ns, Pace.SLOW)] if rails else []


def _channel(path: Path, names: Names) -> Channel:
    name = names.unique(Kind.POWER, path.name)
    return Channel(Kind.POWER, name, "power supply", Scope.BATTERY)


def _power(tree: Tree, path: Path) -> Rail | None:
    if tree.text(path / "power_now") is not None:
        return BatteryPower(tree.open(path / "power_now"))
    if tree.text(path / "current_now") is not None:
        return BatteryPower(
            tree.open(path / "voltage_now"), tree.open(path / "current_now")
        )
    return None
