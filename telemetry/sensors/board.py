"""What machine this is, how it is set, and why it cannot measure its power."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from edgepipe.telemetry.environment import machine_facts
from edgepipe.telemetry.sensors.clocks import cpu_policies, devfreq_devices
from edgepipe.telemetry.sensors.power_mode import PowerMode, read_power_mode
from edgepipe.telemetry.sensors.tree import Tree

_RELEASE = re.compile(r"#\s*R(\d{1,4})\s*\(release\),\s*REVISION:\s*([\d.]{1,20})")
_JETPACK = {32: "4", 34: "5", 35: "5", 36: "6", 38: "7", 39: "7"}
"""The major version of JetPack by that of L4T."""
_JETPACK_MINOR: Mapping[tuple[int, ...], str] = {
    (38, 2): "7.0",
    (38, 4): "7.1",
    (39, 2): "7.2",
}
_SUPER = (36, 4, 3)
"""From here on to the end of R36.4 it is JetPack 6.2."""


@dataclass(frozen=True, slots=True)
class Board:
    """Facts that do not change while a program runs, or should not.

    None is "not known" or "there is none" everywhere.
    """

    model: str | None
    """``NVIDIA Jetson AGX Orin Developer Kit``, or a PC's product name."""
    soc: str | None
    """``tegra234``; from the device tree."""
    l4t: str | None
    """``36.4.4``; a container may not show it."""
    jetpack: str | None
    """``6.2``, or the major version alone where L4T's does not tell more."""
    power_mode: PowerMode | None
    pinned: bool | None
    """Whether floor and ceiling of all CPU clocks and of the GPU's are equal, as
    ``jetson_clocks`` makes them. The memory's clock is not looked at: only root may."""
    moving: tuple[str, ...]
    """The clocks that are not pinned: ``cpu0``, ``gpu``."""
    governors: Mapping[str, str]
    """By clock: ``{"cpu0": "schedutil", "gpu": "nvhost_podgov"}``."""
    fan_profile: str | None
    """``quiet``."""
    fan_rpm: int | None
    """Measured once."""
    virtual_machine: str
    """What gives a virtual machine away; empty for none."""
    container: str
    """What gives a container away; empty for none."""

    @property
    def is_jetson(self) -> bool:
        """Whether it is one of NVIDIA's boards."""
        return (self.soc or "").startswith("tegra") or "Jetson" in (self.model or "")


def identify(tree: Tree) -> Board:
    """The facts of a machine. Nothing is asked but files, and nothing is changed."""
    hints = machine_facts(tree.root)
    l4t = _l4t(tree)
    mode = read_power_mode(tree)
    pins = _pins(tree)
    return Board(
        model=hints["product"]["value"],
        soc=_soc(tree),
        l4t=".".join(map(str, l4t)) if l4t else None,
        jetpack=_jetpack(l4t) if l4t else None,
        power_mode=mode,
        pinned=_all_pinned(pins.values()),
        moving=tuple(name for name, pinned in pins.items() if pinned is False),
        governors=_governors(tree),
        fan_profile=(mode.fan_profile if mode else None)
        or tree.text("sys/devices/pwm-fan/fan_profile"),
        fan_rpm=_fan_rpm(tree),
        virtual_machine=_hint(hints["virtual_machine_hint"]),
        container=_hint(hints["container_hint"]),
    )


def _hint(text: str) -> str:
    return "" if text == "none" else text


def _soc(tree: Tree) -> str | None:
    """The most general of what the machine says it is compatible with."""
    compatible = (tree.text("proc/device-tree/compatible") or "").split("\0")
    return compatible[-1].rpartition(",")[2] or None


def _l4t(tree: Tree) -> tuple[int, ...] | None:
    found = _RELEASE.match(tree.text("etc/nv_tegra_release") or "")
    if not found:
        return None
    return (int(found[1]), *(int(part) for part in found[2].split(".") if part))


def _jetpack(l4t: tuple[int, ...]) -> str | None:
    if l4t[:2] == _SUPER[:2] and l4t >= _SUPER:
        return "6.2"
    return _JETPACK_MINOR.get(l4t[:2]) or _JETPACK.get(l4t[0])


def _pins(tree: Tree) -> dict[str, bool | None]:
    """For each clock whether it cannot move; None: cannot be read."""
    bounds = [
        (policy.name, policy.folder / "scaling_min_freq", "scaling_max_freq")
        for policy in cpu_policies(tree)
    ]
    bounds += [
        (device.name, device.folder / "min_freq", "max_freq")
        for device in devfreq_devices(tree)
        if device.name == "gpu"
    ]
    pins: dict[str, bool | None] = {}
    for name, low, high in bounds:
        floor, ceiling = tree.number(low), tree.number(low.with_name(high))
        known = floor.value is not None and ceiling.value is not None
        pins[name] = floor.value == ceiling.value if known else None
    return pins


def _all_pinned(pins: Collection[bool | None]) -> bool | None:
    if not pins:
        return None
    if False in pins:
        return False
    return None if None in pins else True


def _governors(tree: Tree) -> Mapping[str, str]:
    files = {
        policy.name: policy.folder / "scaling_governor" for policy in cpu_policies(tree)
    }
    files |= {
        device.name: device.folder / "governor" for device in devfreq_devices(tree)
    }
    return {name: text for name, path in files.items() if (text := tree.text(path))}


def _fan_rpm(tree: Tree) -> int | None:
    old = tree.number("sys/devices/pwm-fan/rpm_measured").value
    for path in tree.glob("sys/class/hwmon/hwmon*"):
        if tree.text(path / "name") == "pwm_tach":
            return tree.number(path / "rpm").value
    return old


def why_no_power(tree: Tree) -> str:
    """For people: why nothing on this machine measures power.

    To be asked where no sensor of power or energy gives a value.
    """
    board = identify(tree)
    if why := _unreadable_rapl(tree):
        return f"no power sensor: {why}"
    if board.virtual_machine:
        return f"no power sensor: this is a virtual machine ({board.virtual_machine})"
    if board.is_jetson:
        return f"no power sensor: {_no_rails(tree, board)}"
    if board.container:
        return (
            f"no power sensor: none is shown in this container ({board.container});"
            " the host may have one"
        )
    if board.soc:
        return f"no power sensor: the kernel shows none on this {board.soc}"
    return (
        "no power sensor: the kernel shows no energy counter (RAPL)"
        " and no power in hwmon; try: sudo modprobe intel_rapl_msr"
    )


def _unreadable_rapl(tree: Tree) -> str:
    for path in tree.glob("sys/class/powercap/*rapl*:*"):
        number = tree.number(path / "energy_uj")
        if "permission" in number.reason:
            return (
                "only root may read the processor's energy counter (RAPL); try:"
                " sudo chmod a+r /sys/class/powercap/*rapl*/energy_uj"
            )
    return ""


def _no_rails(tree: Tree, board: Board) -> str:
    if "Nano 2GB" in (board.model or ""):
        return "the Jetson Nano 2GB has no INA3221"
    chips = tree.glob("sys/bus/i2c/drivers/ina3221*/[0-9]*")
    if chips:
        return f"the rails of the INA3221 at {chips[0].name} cannot be read"
    return "the driver of the INA3221 is not loaded; see: lsmod | grep ina3221"
