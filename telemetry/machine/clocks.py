"""Whether the clocks stay what they are while a run is measured."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from edgepipe.telemetry.machine.finding import Area, Finding, Level, not_known
from edgepipe.telemetry.machine.nvpmodel_service import is_undone_by_systemd
from edgepipe.telemetry.machine.probe import Measured
from edgepipe.telemetry.sensors.board import Board
from edgepipe.telemetry.sensors.power_mode import Mode, PowerMode
from edgepipe.telemetry.sensors.reading import Kind, Reading
from edgepipe.telemetry.sensors.tree import Tree
from edgepipe.telemetry.throttle_facts import family
from edgepipe.telemetry.throttle_rules import SAME

MAY_CHANGE = "clocks may change under the run: latencies of two runs do not compare"

_MOST_NAMES = 4

_found = partial(Finding, Area.CLOCKS)
_unknown = partial(not_known, Area.CLOCKS)


@dataclass(frozen=True, slots=True)
class ClockRange:
    """Within what one clock may move, in hertz; None where nobody tells."""

    name: str
    floor_hz: float | None
    ceiling_hz: float | None
    most_hz: float | None
    """What the hardware can do."""

    @property
    def is_pinned(self) -> bool | None:
        """Whether there is nowhere to go; None: not known."""
        if self.floor_hz is None or self.ceiling_hz is None:
            return None
        return self.floor_hz >= SAME * self.ceiling_hz > 0

    @property
    def is_held_down(self) -> bool:
        """Whether the ceiling is lower than the hardware's."""
        if self.ceiling_hz is None or self.most_hz is None:
            return False
        return 0 < self.ceiling_hz < SAME * self.most_hz


@dataclass(frozen=True, slots=True)
class Clocks:
    """What decides about the clocks of this machine."""

    ranges: tuple[ClockRange, ...]
    governors: Mapping[str, str]
    """Who moves each clock; empty: none is shown."""
    boost: bool | None
    """Whether a processor may go beyond what it can hold for ever; None: not shown."""
    on_battery: bool | None
    """Whether a battery feeds the machine; None: it has none."""
    mode: PowerMode | None
    """None: no such thing on this machine."""
    mode_comes_back: bool | None
    """Whether a change of systemd's target undoes pinned clocks."""
    by_jetson_clocks: bool
    """Whether this is a board whose clocks ``jetson_clocks`` pins."""


def examine_clocks(tree: Tree, measured: Measured, board: Board) -> Clocks:
    """Read what there is; ranges come from the sensors."""
    return Clocks(
        _ranges(measured),
        board.governors,
        _boost(tree),
        _on_battery(tree),
        board.power_mode,
        is_undone_by_systemd(tree),
        board.is_jetson,
    )


def _ranges(measured: Measured) -> tuple[ClockRange, ...]:
    """Of processors and GPUs; other clocks follow them."""
    floors = {r.channel.name: r for r in measured.of(Kind.CLOCK_FLOOR)}
    ceilings = {r.channel.name: r for r in measured.of(Kind.CLOCK_CEILING)}
    return tuple(
        ClockRange(
            name,
            _bound(floors.get(name), "min"),
            _bound(ceilings.get(name), "max"),
            (ceilings.get(name) or floors[name]).channel.limits.get("max"),
        )
        for name in dict.fromkeys([*floors, *ceilings])
        if family(name)
    )


def _bound(reading: Reading | None, end: str) -> float | None:
    """What is set, else the hardware's own end; None when it cannot be read."""
    if reading is None:
        return None
    unset = reading.value is None and reading.reason.endswith("is set")
    return reading.channel.limits.get(end) if unset else reading.value


def _boost(tree: Tree) -> bool | None:
    off = tree.number("sys/devices/system/cpu/intel_pstate/no_turbo").value
    if off is not None:
        return off == 0
    on = tree.number("sys/devices/system/cpu/cpufreq/boost").value
    return None if on is None else on > 0


def _on_battery(tree: Tree) -> bool | None:
    supplies = tree.glob("sys/class/power_supply/*")
    batteries = [path for path in supplies if tree.text(path / "type") == "Battery"]
    # Those of mice and pens have a scope of their own.
    own = [path for path in batteries if tree.text(path / "scope") != "Device"]
    states = [tree.text(path / "status") for path in own]
    return "Discharging" in states if own else None


def judge_clocks(facts: Clocks) -> Iterator[Finding]:
    """What the clocks mean for a run."""
    if facts.mode is not None:
        yield _mode(facts.mode)
    if facts.governors:
        yield _found("governor", Level.OK, _grouped(facts.governors))
    yield _pinned(facts)
    held = [each for each in facts.ranges if each.is_held_down]
    if held:
        yield _held_down(held, facts.mode)
    if facts.on_battery:
        yield _found(*_BATTERY)
    if facts.boost:
        yield _found(*_BOOST)
    if facts.mode_comes_back:
        yield _found(*_SERVICE)


_BATTERY = (
    "supply",
    Level.WARNING,
    "a battery feeds the machine",
    "clocks are held lower to save it, the more the emptier it is",
    "plug it in",
)
_BOOST = (
    "boost",
    Level.NOTE,
    "on",
    "how fast a processor is depends on its heat and on how many work",
    "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo, or"
    " echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost",
)
_SERVICE = (
    "nvpmodel",
    Level.NOTE,
    "its service runs again when systemd changes its target",
    "pinned clocks are lost then, in the middle of a run",
    "RemainAfterExit=yes in a drop-in of nvpmodel.service (docs/device.md)",
)


def _held_down(ranges: Sequence[ClockRange], mode: PowerMode | None) -> Finding:
    caps = {
        each.name: f"{hz(each.ceiling_hz)} of {hz(each.most_hz)}" for each in ranges
    }
    return _found(
        "caps",
        Level.NOTE,
        f"held below what they can: {_grouped(caps)}",
        "figures stand for this setting only",
        "sudo nvpmodel -m <id> chooses another power mode" if mode else "",
    )


def _mode(mode: PowerMode) -> Finding:
    if mode.current is None:
        return _unknown("power mode", mode.reason)
    text = f"{mode.current.name} ({mode.current.id}){_caps(mode.current)}"
    if mode.default == mode.current:
        return _found("power mode", Level.OK, f"{text}, the default")
    default = mode.default
    text += f"; the default is {default.name} ({default.id})" if default else ""
    return _found("power mode", Level.OK, text)


def _caps(mode: Mode) -> str:
    """What the mode's table holds down, if it does."""
    caps = [f"{part} {hz(most)}" for part, most in mode.caps_hz.items()]
    return f", which caps {', '.join(caps)}" if caps else ""


def _pinned(facts: Clocks) -> Finding:
    known = [each for each in facts.ranges if each.is_pinned is not None]
    if not known:
        why = "the kernel shows no range of any clock"
        return _unknown("pinned", why, "a change of clocks would not be noticed")
    loose = [each for each in known if not each.is_pinned]
    if not loose:
        return _found("pinned", Level.OK, f"yes: {_list(known)}")
    text = f"no: {_list(loose)}"
    if all(facts.governors.get(each.name) == "performance" for each in loose):
        return _found("pinned", Level.NOTE, f"{text}, governor performance")
    remedy = (
        "sudo jetson_clocks"
        if facts.by_jetson_clocks
        else "sudo cpupower frequency-set -g performance"
    )
    return _found("pinned", Level.WARNING, text, MAY_CHANGE, remedy)


def _list(ranges: Sequence[ClockRange]) -> str:
    def span(each: ClockRange) -> str:
        low, high = hz(each.floor_hz), hz(each.ceiling_hz)
        return high if low == high else f"{low} to {high}"

    return _grouped({each.name: span(each) for each in ranges})


def _grouped(values: Mapping[str, str]) -> str:
    """``cpu0 cpu4 schedutil; gpu performance``."""
    names: dict[str, list[str]] = {}
    for name, value in values.items():
        names.setdefault(value, []).append(name)
    return "; ".join(f"{_few(those)} {value}" for value, those in names.items())


def _few(names: Sequence[str]) -> str:
    """All names, or of many the first and the last: a server has hundreds."""
    if len(names) <= _MOST_NAMES:
        return " ".join(names)
    return f"{names[0]}..{names[-1]} ({len(names)})"


def hz(value: float | None) -> str:
    """A clock for people: ``918 MHz``."""
    return "?" if value is None else f"{value / 1e6:.5g} MHz"
