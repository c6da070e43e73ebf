"""Clocks of processors, GPUs and memory, and the load of a Jetson's GPU."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from edgepipe.telemetry.sensors.gauges import Gauge, GaugeSensor, Names
from edgepipe.telemetry.sensors.reading import Channel, Kind
from edgepipe.telemetry.sensors.sensor import Pace, Sensor
from edgepipe.telemetry.sensors.tree import Tree

_KHZ = 1000
_PERMILLE = 1000
_MOST_KHZ, _MOST_HZ = 10**8, 10**11
_MANY_POLICIES = 16
"""With more, CPU clocks are read once a second: some cost an interrupt each."""
_GPU_NODES = frozenset({"gpu", "ga10b", "gv11b", "gp10b", "gm20b"})
_NAMES = {"gpu-gpc-0": "gpu", "bwmgr": "emc"}
_COUNTS_CYCLES = re.compile("tegra|cppc_cpufreq")
"""Drivers whose ``cpuinfo_cur_freq`` is measured and not what they asked for."""
_GATED = "gated: the part is switched off (0 Hz)"
_GPU_FOLDERS = ("sys/devices/gpu.0", "sys/devices/platform/gpu.0")
"""Links to a Jetson's GPU, for kernels that show no devfreq device of it."""


class Policy(NamedTuple):
    """Processors that share a clock."""

    name: str
    """``cpu4``: the first of them."""
    folder: Path


class DevfreqDevice(NamedTuple):
    """A part, apart from processors, whose clock the kernel moves."""

    name: str
    """``gpu``, ``emc`` or its own."""
    folder: Path


def cpu_policies(tree: Tree) -> list[Policy]:
    """All of them, by number."""
    folders = tree.glob("sys/devices/system/cpu/cpufreq/policy[0-9]*")
    return [Policy(f"cpu{path.name.removeprefix('policy')}", path) for path in folders]


def devfreq_devices(tree: Tree) -> list[DevfreqDevice]:
    """All of them; a GPU is known by its node in the device tree or by its name."""
    return [
        DevfreqDevice(_devfreq_name(tree, path), path)
        for path in tree.glob("sys/class/devfreq/*")
    ]


def _devfreq_name(tree: Tree, path: Path) -> str:
    node = tree.text(path / "device/of_node/name")
    is_gpu = node in _GPU_NODES or path.name.rpartition(".")[2] in _GPU_NODES
    return "gpu" if is_gpu else _NAMES.get(path.name, path.name)


def find_clocks(
    tree: Tree, now_ns: Callable[[], int], names: Names | None = None
) -> list[Sensor]:
    """Sensors of processors' clocks, of other clocks, and of the GPU's load."""
    names = names or Names()
    policies = cpu_policies(tree)
    many = len(policies) > _MANY_POLICIES
    found: list[tuple[str, Pace, list[Gauge]]] = [
        (
            "CPU clocks",
            Pace.SLOW if many else Pace.MEDIUM,
            [gauge for each in policies for gauge in _cpu(tree, each, names)],
        ),
        (
            "CPU clocks, measured",
            # Where hardware holds a clock down, each of these leaves a kernel message.
            Pace.SLOW,
            [gauge for each in policies for gauge in _measured(tree, each, names)],
        ),
        (
            "devfreq clocks",
            Pace.MEDIUM,
            [
                gauge
                for device in devfreq_devices(tree)
                for gauge in _devfreq(tree, device, names)
            ],
        ),
        ("GPU load", Pace.MEDIUM, list(_load(tree, names))),
    ]
    return [
        GaugeSensor(name, pace, gauges, now_ns)
        for name, pace, gauges in found
        if gauges
    ]


def _cpu(tree: Tree, policy: Policy, names: Names) -> Iterator[Gauge]:
    limits = _named(
        min=tree.number(policy.folder / "cpuinfo_min_freq").value,
        max=tree.number(policy.folder / "cpuinfo_max_freq").value,
        scale=_KHZ,
    )
    for kind, file, zero in (
        (Kind.CLOCK, "scaling_cur_freq", _GATED),
        (Kind.CLOCK_FLOOR, "scaling_min_freq", "no floor is set"),
        (Kind.CLOCK_CEILING, "scaling_max_freq", "no ceiling is set"),
    ):
        channel = Channel(
            kind,
            names.unique(kind, policy.name),
            f"cpufreq {policy.folder.name}",
            limits=limits,
        )
        handle = tree.open(policy.folder / file)
        yield Gauge(channel, handle, _KHZ, 1, 0, _MOST_KHZ, {0: zero})


def _measured(tree: Tree, policy: Policy, names: Names) -> Iterator[Gauge]:
    """What the hardware counts, where the kernel has it and this user may read it."""
    path = policy.folder / "cpuinfo_cur_freq"
    driver = tree.text(policy.folder / "scaling_driver") or ""
    if not _COUNTS_CYCLES.match(driver) or tree.number(path).value is None:
        return
    kind = Kind.CLOCK_MEASURED
    name = names.unique(kind, policy.name)
    channel = Channel(kind, name, f"cpufreq {policy.folder.name}")
    yield Gauge(channel, tree.open(path), _KHZ, 1, 0, _MOST_KHZ, {0: _GATED})


def _devfreq(tree: Tree, device: DevfreqDevice, names: Names) -> Iterator[Gauge]:
    steps = (tree.text(device.folder / "available_frequencies") or "").split()
    hz = [int(step) for step in steps if step.isdecimal() and 0 < int(step) < _MOST_HZ]
    limits = _named(min=min(hz, default=None), max=max(hz, default=None))
    for kind, file, zero in (
        (Kind.CLOCK, "cur_freq", _GATED),
        (Kind.CLOCK_FLOOR, "min_freq", "no floor is set"),
        (Kind.CLOCK_CEILING, "max_freq", "no ceiling is set"),
    ):
        name = names.unique(kind, device.name)
        source = f"devfreq {device.folder.name}"
        channel = Channel(kind, name, source, limits=limits)
        handle = tree.open(device.folder / file)
        yield Gauge(channel, handle, 1, 1, 0, _MOST_HZ, {0: zero})


def _load(tree: Tree, names: Names) -> Iterator[Gauge]:
    """The share of the time in which the GPU worked, of which the file has permille."""
    folders = [
        each.folder / "device" for each in devfreq_devices(tree) if each.name == "gpu"
    ]
    folders += [tree.root / folder for folder in _GPU_FOLDERS]
    for folder in folders:
        path = folder / "load"
        if os.path.exists(path):
            name = names.unique(Kind.LOAD, "gpu")
            channel = Channel(Kind.LOAD, name, "nvgpu load", step=1 / _PERMILLE)
            yield Gauge(channel, tree.open(path), 1, _PERMILLE, 0, _PERMILLE)
            return


def _named(scale: int = 1, **numbers: int | None) -> Mapping[str, float]:
    return {name: float(number * scale) for name, number in numbers.items() if number}
