"""Power sensors that Linux shows as hwmon devices.

The kernel's rules (Documentation/hwmon/sysfs-interface): ``inN`` in mV, ``currN`` in
mA, ``powerN`` in microwatts. The INA3221 of Jetson boards has no power file: its power
is volts times amperes.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping

from edgepipe.telemetry.sensors.devices import Device, hwmon_devices
from edgepipe.telemetry.sensors.gauges import Names
from edgepipe.telemetry.sensors.rails import (
    MOST_MA,
    CheckedPower,
    PowerFile,
    Rail,
    VoltsTimesAmperes,
)
from edgepipe.telemetry.sensors.reading import Channel, Kind, Scope
from edgepipe.telemetry.sensors.sensor import Sensor
from edgepipe.telemetry.sensors.supplies import Supply, supply_sensors
from edgepipe.telemetry.sensors.totals import scope_of
from edgepipe.telemetry.sensors.tree import Tree

_PER_WATT = 1_000_000
_SHUNT_STEP_UV = 40
"""The INA3221's smallest step of the voltage over a shunt (TI SBOS576, 7.6.2)."""
_SHUNT_RANGE_UV = 163_800
"""And the largest voltage; a limit there is none."""
_NO_SHUNT_MA = 32_760
"""A limit that is none, where the shunt is not told."""
_BUS_RANGE_MV = 32_760
"""The highest voltage that its register can hold."""
_POWER = re.compile(r"power(\d+)_(input|average)$")
_CHARGER = re.compile(r"(ac\d*|acad|adp\d*)$|ucsi", re.I)
"""Names of chargers, whose figures were agreed upon and not measured."""
_BATTERY = re.compile(r"bat\d*$|.*battery", re.I)
_QUANTITY = re.compile(
    r"(power|curr(ent)?|volt(age)?|[vip](_?(?=in|out)))?[\s_]*", re.I
)
"""What a label says of the quantity and not of the rail: ``v``out1, ``curr`` +12v."""


def find_hwmon(
    tree: Tree, now_ns: Callable[[], int], names: Names | None = None
) -> list[Sensor]:
    """Sensors of all hwmon devices that tell power.

    Chargers are not among them, and what is also a power supply is read as that.
    """
    names = names or Names()
    return [
        sensor
        for device in hwmon_devices(tree, now_ns)
        if not _is_elsewhere(device)
        for sensor in supply_sensors(device, _supplies(tree, device, names), names)
    ]


def _is_elsewhere(device: Device) -> bool:
    if _CHARGER.match(device.identity.name):
        return True
    return "/power_supply/" in os.path.realpath(device.folder)


def _supplies(tree: Tree, device: Device, names: Names) -> Iterator[Supply]:
    if device.identity.name == "ina3221":
        return _ina3221(device, names)
    return _power_files(tree, device, names)


def _ina3221(device: Device, names: Names) -> Iterator[Supply]:
    """Rails 1 to 3; ``in4`` to ``in7`` and ``curr4`` are shunts and sums."""
    interval_ms = device.number("update_interval")
    for i in (1, 2, 3):
        label = device.text(f"in{i}_label")
        if not label or label.upper() == "NC" or device.number(f"in{i}_enable") == 0:
            continue
        volts, amperes = f"in{i}_input", f"curr{i}_input"
        channel = Channel(
            Kind.POWER,
            names.unique(Kind.POWER, label),
            str(device.identity),
            scope_of(label),
            # The chip adds an N-th of each difference, once in C*(BC+SC): that is a
            # filter of N*C*(BC+SC), the very number which the driver tells.
            tau_s=None if interval_ms is None else interval_ms / 1e3,
            step=_step_w(device, i),
            limits=_limits(device, i),
        )
        most = _BUS_RANGE_MV, _most_ma(device, i)
        rail = VoltsTimesAmperes(device.file(volts), device.file(amperes), *most)
        yield Supply(channel, rail, volts, amperes, *most)


def _most_ma(device: Device, i: int) -> int:
    """The current at which the shunt's voltage leaves the chip's range."""
    shunt_uohm = device.number(f"shunt{i}_resistor") or 0
    return _SHUNT_RANGE_UV * 1000 // shunt_uohm if shunt_uohm > 0 else MOST_MA


def _step_w(device: Device, i: int) -> float | None:
    """One step of the current at the voltage of this moment."""
    shunt_uohm, mv = device.number(f"shunt{i}_resistor"), device.number(f"in{i}_input")
    if not shunt_uohm or shunt_uohm < 0 or not mv:
        return None
    return _SHUNT_STEP_UV / shunt_uohm * abs(mv) / 1e3


def _limits(device: Device, i: int) -> Mapping[str, float]:
    mv = device.number(f"in{i}_input")
    most_ma = _most_ma(device, i)
    none_ma = _NO_SHUNT_MA if most_ma == MOST_MA else most_ma
    limits = {name: device.number(f"curr{i}_{name}") or 0 for name in ("max", "crit")}
    return {
        name: ma * mv / 1e6 for name, ma in limits.items() if mv and 0 < ma < none_ma
    }


def _power_files(tree: Tree, device: Device, names: Names) -> Iterator[Supply]:
    files = device.files()
    numbers = {int(match[1]) for file in files if (match := _POWER.match(file))}
    for i in sorted(numbers):
        if device.number(f"power{i}_enable") == 0:
            continue
        momentary = f"power{i}_input" in files
        file = f"power{i}_input" if momentary else f"power{i}_average"
        power = PowerFile(device.file(file), _PER_WATT)
        volts, amperes = _pair(device, files, i)
        rail: Rail = power
        if volts and amperes:
            product = VoltsTimesAmperes(device.file(volts), device.file(amperes))
            rail = CheckedPower(power, product)
        yield Supply(_channel(tree, device, i, names), rail, volts, amperes)


def _channel(tree: Tree, device: Device, i: int, names: Names) -> Channel:
    name, scope = _name_and_scope(tree, device, i)
    limits = {
        which: microwatts / _PER_WATT
        for which in ("max", "crit", "cap")
        if (microwatts := device.number(f"power{i}_{which}") or 0) > 0
    }
    name = names.unique(Kind.POWER, name)
    return Channel(Kind.POWER, name, str(device.identity), scope, limits=limits)


def _name_and_scope(tree: Tree, device: Device, i: int) -> tuple[str, Scope]:
    driver = device.identity.name
    if driver == "amdgpu":
        # Its label, PPT, names no rail. One with a second voltage is part of a
        # processor, and its figure covers the cores as well.
        apart = "in1_input" not in device.files()
        return driver, Scope.GPU_BOARD if apart else Scope.RAIL
    label = device.text(f"power{i}_label")
    if _BATTERY.match(driver):
        return label or driver, Scope.BATTERY
    if driver in {"ina238", "ina237"}:
        label = label or device.text("in1_label") or _input_of_thor(tree)
    return label or driver, scope_of(label or "")


def _input_of_thor(tree: Tree) -> str | None:
    compatible = tree.text("proc/device-tree/compatible") or ""
    return "VIN" if "nvidia,tegra264" in compatible else None


def _pair(device: Device, files: frozenset[str], i: int) -> tuple[str, str]:
    """The voltage and the current that belong to a power, where that is certain."""
    if device.identity.name == "amdgpu":
        return "", ""
    label = device.text(f"power{i}_label")
    return (
        _partner(device, files, "in", i, label),
        _partner(device, files, "curr", i, label),
    )


def _partner(
    device: Device, files: frozenset[str], quantity: str, i: int, label: str | None
) -> str:
    labels = {
        file.removesuffix("_label"): _rail_in(device.text(file) or "")
        for file in files
        if re.fullmatch(rf"{quantity}\d+_label", file)
    }
    same = [
        name for name, other in labels.items() if label and _rail_in(label) == other
    ]
    if len(same) != 1:
        own = f"{quantity}{i}"
        same = [own] if not label or own not in labels else []
    partner = f"{same[0]}_input" if same else ""
    return partner if partner in files else ""


def _rail_in(label: str) -> str:
    return _QUANTITY.sub("", label, count=1).lower()
