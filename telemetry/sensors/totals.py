"""Which channels tell what the whole device takes in, and under which name."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from edgepipe.telemetry.sensors.reading import Channel, Kind, Scope


@dataclass(frozen=True, slots=True)
class Total:
    """One figure for a whole: a single channel, or channels that are added up."""

    scope: Scope
    channels: tuple[Channel, ...]
    """All of one kind, power or energy."""
    rule: str
    """How it is known, for people: ``VDD_IN, the module's input``."""


class Totals(NamedTuple):
    """The figures for wholes, the widest first."""

    found: tuple[Total, ...]
    reason: str
    """Why there is none, or none for the board, or which is silent; empty: all well."""


_INPUTS: Mapping[str, tuple[Scope, str]] = {
    "VIN": (Scope.SYSTEM_INPUT, "the board's input"),
    "VDD_MUX": (Scope.SYSTEM_INPUT, "the carrier board's input"),
    "VDD_IN": (Scope.MODULE_INPUT, "the module's input"),
    "POM_5V_IN": (Scope.MODULE_INPUT, "the 5 V input"),
}
"""Rails through which everything goes that goes into a Jetson."""


class _Sum(NamedTuple):
    board: str
    rails: tuple[str, ...]
    """Together all that goes in."""
    parts: tuple[str, ...] = ()
    """Rails that are fed from one of those: to add them would count them twice."""


_SUMS = (
    _Sum(
        "AGX Orin",
        ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"),
        ("VDDQ_VDD2_1V8AO",),
    ),
    _Sum("AGX Xavier", ("GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V")),
)
"""Boards without a sensor at their input. A name that stands alone, such as ``GPU``,
means something only together with the others."""
_WIDEST_FIRST = (
    Scope.SYSTEM_INPUT,
    Scope.MODULE_INPUT,
    Scope.RAIL_SUM,
    Scope.GPU_BOARD,
    Scope.CPU_PACKAGE,
    Scope.MEMORY,
)
_ADDED = {
    Scope.GPU_BOARD: "GPU boards",
    Scope.CPU_PACKAGE: "processor packages",
    Scope.MEMORY: "memory",
}
"""Scopes that come once for each device and may be added up."""


def scope_of(rail: str) -> Scope:
    """What a rail of this name covers."""
    return _INPUTS[rail][0] if rail in _INPUTS else Scope.RAIL


def choose_totals(
    channels: Sequence[Channel], silent: Collection[Channel] = ()
) -> Totals:
    """The figures that stand for a whole.

    Rails are parts of the input they are fed from, so where a sensor sees the input,
    that is the total, also if it gives no value at the moment: a sum of rails is
    something else and never takes its place.

    Args:
        channels: All of a machine; only power and energy matter.
        silent: Channels that gave no value when they were tried. Among two that tell
            the same, as a GPU's energy and its power do, the other one is taken.
    """
    power = [each for each in channels if each.kind in (Kind.POWER, Kind.ENERGY)]
    inputs = _inputs(power, silent)
    sums, why_no_sum = ((), "") if inputs else _sum(power)
    found = [*inputs, *sums, *_devices(power, silent)]
    found.sort(key=lambda total: _WIDEST_FIRST.index(total.scope))
    return Totals(tuple(found), _reason(power, found, why_no_sum, silent))


def _inputs(power: Sequence[Channel], silent: Collection[Channel]) -> list[Total]:
    totals: list[Total] = []
    for scope in (Scope.SYSTEM_INPUT, Scope.MODULE_INPUT):
        those = [each for each in power if each.scope is scope]
        if those:
            best = min(those, key=lambda channel: _rank(channel, silent))
            what = _INPUTS.get(best.name, ("", "the whole board"))[1]
            totals.append(Total(scope, (best,), f"{best.name}, {what}"))
    return totals


def _rank(channel: Channel, silent: Collection[Channel]) -> tuple[bool, bool]:
    """Measured before silent, a counter of energy before a power."""
    return channel in silent, channel.kind is not Kind.ENERGY


def _sum(power: Sequence[Channel]) -> tuple[tuple[Total, ...], str]:
    rails = {each.name: each for each in power if each.scope is Scope.RAIL}
    for board, names, parts in _SUMS:
        missing = [name for name in names if name not in rails]
        if not missing:
            rule = f"{board}: the sum of {_listed(names)}"
            fed = [name for name in parts if name in rails]
            rule += f"; {_listed(fed)} is part of it" if fed else ""
            total = Total(Scope.RAIL_SUM, tuple(rails[name] for name in names), rule)
            return (total,), ""
        # One rail in common is chance: the Thor has a VIN_SYS_5V0 too.
        if len(names) - len(missing) > 1:
            return (), f"{board}: no sum without {_listed(missing)}"
    return (), ""


def _devices(power: Sequence[Channel], silent: Collection[Channel]) -> list[Total]:
    totals: list[Total] = []
    for scope, what in _ADDED.items():
        those = _one_kind([each for each in power if each.scope is scope], silent)
        if those:
            names = _listed([each.name for each in those])
            plus = f"{what}, " if len(those) == 1 else f"{what}, the sum of "
            totals.append(Total(scope, tuple(those), plus + names))
    return totals


def _one_kind(
    channels: Sequence[Channel], silent: Collection[Channel]
) -> list[Channel]:
    """Each device once: by its energy if every one tells it, else by its power."""
    names = {each.name for each in channels}
    kinds = [
        [each for each in channels if each.kind is kind and each not in silent]
        for kind in (Kind.ENERGY, Kind.POWER)
    ]
    complete = [those for those in kinds if {each.name for each in those} == names]
    if complete:
        return complete[0]
    # Not one kind tells all: then those that are there and silent count as well.
    whole = [
        [each for each in channels if each.kind is kind]
        for kind in (Kind.ENERGY, Kind.POWER)
    ]
    return max(whole, key=len)


def _reason(
    power: Sequence[Channel],
    found: Sequence[Total],
    why_no_sum: str,
    silent: Collection[Channel],
) -> str:
    mute = [each.name for total in found for each in total.channels if each in silent]
    if mute:
        return f"{_listed(mute)} gives no value, and nothing else takes its place"
    if why_no_sum:
        return why_no_sum
    rails = [each.name for each in power if each.scope is Scope.RAIL]
    if not found and rails:
        return f"no sensor at the input: {_listed(rails)} are only parts of it"
    return "" if found else "nothing measures power"


def _listed(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
