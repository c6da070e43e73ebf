"""Temperatures, and the devices with which the kernel cools."""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from edgepipe.telemetry.sensors.devices import Device, hwmon_devices
from edgepipe.telemetry.sensors.gauges import Gauge, GaugeSensor, Names
from edgepipe.telemetry.sensors.reading import Channel, Kind
from edgepipe.telemetry.sensors.sensor import Pace, Sensor
from edgepipe.telemetry.sensors.tree import Handle, Tree

_PER_DEGREE = 1000
_LOWEST_MC, _HIGHEST_MC = -100_000, 300_000
"""Outside of this it is a sign for "none": -256 C, -274 C, 2^31."""
_TRIPS = frozenset({"passive", "critical", "hot"})
_CONSTANTS = frozenset({"PMIC-Die"})
_CONSTANT = "a constant that the driver gives, not a measurement"
_PROCESSORS = {
    "coretemp": re.compile("Package id"),
    "k10temp": re.compile(""),
    "zenpower": re.compile(""),
}
"""hwmon drivers of processors, and which of their labels are of the whole."""
_INPUT = re.compile(r"temp(\d+)_input")
_FANS = re.compile(r"(pwm|gpio)?-?fan", re.IGNORECASE)
_NOT_IN_USE = {-1: "not in use"}


def find_thermal(
    tree: Tree, now_ns: Callable[[], int], names: Names | None = None
) -> list[Sensor]:
    """A slow sensor of temperatures and one of what the kernel does against them."""
    names = names or Names()
    cooling, fans = _cooling(tree, names)
    found: list[tuple[str, Pace, list[Gauge]]] = [
        (
            "temperatures",
            Pace.SLOW,
            [*_zones(tree, names), *_hwmon(tree, now_ns, names)],
        ),
        ("cooling devices", Pace.MEDIUM, cooling),
        ("fan levels", Pace.SLOW, fans),
    ]
    return [
        GaugeSensor(name, pace, gauges, now_ns)
        for name, pace, gauges in found
        if gauges
    ]


def _zones(tree: Tree, names: Names) -> Iterator[Gauge]:
    for path in tree.glob("sys/class/thermal/thermal_zone[0-9]*"):
        kind = tree.text(path / "type")
        if kind:
            channel = Channel(
                Kind.TEMPERATURE,
                names.unique(Kind.TEMPERATURE, kind),
                path.name,
                step=1 / _PER_DEGREE,
                limits=_trips(tree, path),
            )
            doubt = _CONSTANT if kind in _CONSTANTS else ""
            yield _celsius(channel, tree.open(path / "temp"), doubt)


def _celsius(channel: Channel, handle: Handle, doubt: str = "") -> Gauge:
    return Gauge(channel, handle, 1, _PER_DEGREE, _LOWEST_MC, _HIGHEST_MC, doubt=doubt)


def _trips(tree: Tree, path: Path) -> Mapping[str, float]:
    """The lowest trip point of each type; where fans start is none of the limits."""
    limits: dict[str, float] = {}
    for trip in tree.glob(f"{path.relative_to(tree.root)}/trip_point_*_type"):
        kind = tree.text(trip)
        mc = tree.number(trip.with_name(f"{trip.name.removesuffix('type')}temp")).value
        if kind in _TRIPS and mc is not None and 0 < mc <= _HIGHEST_MC:
            celsius = mc / _PER_DEGREE
            limits[kind] = min(limits.get(kind, celsius), celsius)
    return limits


def _hwmon(tree: Tree, now_ns: Callable[[], int], names: Names) -> Iterator[Gauge]:
    """Temperatures of x86 processors that no zone tells."""
    zones = tree.glob("sys/class/thermal/thermal_zone[0-9]*/type")
    told = {"coretemp"} if "x86_pkg_temp" in map(tree.text, zones) else set[str]()
    for device in hwmon_devices(tree, now_ns):
        wanted = _PROCESSORS.get(device.identity.name)
        if wanted and device.identity.name not in told:
            yield from _processor(device, wanted, names)


def _processor(
    device: Device, wanted: re.Pattern[str], names: Names
) -> Iterator[Gauge]:
    files = [_INPUT.fullmatch(file) for file in device.files()]
    for i in sorted(int(found[1]) for found in files if found):
        label = device.text(f"temp{i}_label") or device.identity.name
        if wanted.match(label):
            channel = Channel(
                Kind.TEMPERATURE,
                names.unique(Kind.TEMPERATURE, label),
                str(device.identity),
                limits=_hwmon_limits(device, i),
            )
            yield _celsius(channel, device.file(f"temp{i}_input"))


def _hwmon_limits(device: Device, i: int) -> Mapping[str, float]:
    files = {"hot": f"temp{i}_max", "critical": f"temp{i}_crit"}
    limits = {name: device.number(file) or 0 for name, file in files.items()}
    return {
        name: mc / _PER_DEGREE for name, mc in limits.items() if 0 < mc <= _HIGHEST_MC
    }


def _cooling(tree: Tree, names: Names) -> tuple[list[Gauge], list[Gauge]]:
    """What holds parts down, and apart from it the fans, which do not."""
    cooling: list[Gauge] = []
    fans: list[Gauge] = []
    for path in tree.glob("sys/class/thermal/cooling_device[0-9]*"):
        kind = tree.text(path / "type")
        most = tree.number(path / "max_state").value
        handle = tree.open(path / "cur_state")
        if kind and _FANS.fullmatch(kind):
            fans.append(_fan(names.unique(Kind.FAN, kind), path.name, handle, most))
        elif kind:
            name = names.unique(Kind.COOLING, kind)
            limits = {} if most is None else {"max": float(most)}
            channel = Channel(Kind.COOLING, name, path.name, limits=limits)
            cooling.append(Gauge(channel, handle, lowest=-1, meanings=_NOT_IN_USE))
    return cooling, fans


def _fan(name: str, source: str, handle: Handle, most: int | None) -> Gauge:
    """A share of the highest level; levels of which none is known are no share."""
    if not most or most < 0:
        return Gauge(Channel(Kind.FAN, name, source), handle, highest=0)
    return Gauge(Channel(Kind.FAN, name, source), handle, 1, most, 0, most)
