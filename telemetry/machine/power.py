"""What can be measured of power and energy, and what it covers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from edgepipe.telemetry.machine.finding import Area, Finding, Level, not_known
from edgepipe.telemetry.machine.probe import Measured
from edgepipe.telemetry.sensors.reading import Kind, Reading

NO_POWER = "joules per frame will be null"

_found = partial(Finding, Area.POWER)


@dataclass(frozen=True, slots=True)
class Supply:
    """One power or energy channel as it answered."""

    name: str
    kind: str
    source: str
    scope: str
    watts: float | None
    """Now; None for counters of energy, and where it was not measured."""
    reason: str
    """Why it gives no value; empty if it does."""


@dataclass(frozen=True, slots=True)
class Power:
    """Every channel of power and energy, and which of them tell of the whole."""

    supplies: tuple[Supply, ...]
    totals: tuple[tuple[str, str, str], ...]
    """Scope, names of the channels, and the rule by which they were chosen."""
    hung: tuple[str, ...]
    no_total: str
    """Why there is no total; empty if there is one."""


def examine_power(measured: Measured, no_sensor: str) -> Power:
    """Sort what was measured.

    Args:
        measured: What the sensors said.
        no_sensor: Why there may be no sensor at all; empty if nobody knows.
    """
    supplies = tuple(_supply(each) for each in measured.of(Kind.POWER, Kind.ENERGY))
    return Power(
        supplies,
        tuple(
            (
                total.scope.value,
                " + ".join(channel.name for channel in total.channels),
                total.rule,
            )
            for total in measured.totals
        ),
        tuple(measured.hung),
        (measured.no_total if supplies else no_sensor) or measured.no_total,
    )


def _supply(reading: Reading) -> Supply:
    channel = reading.channel
    return Supply(
        channel.name,
        channel.kind.value,
        channel.source,
        channel.scope.value if channel.scope else "",
        reading.value if channel.kind is Kind.POWER else None,
        reading.reason if reading.value is None else "",
    )


def judge_power(facts: Power) -> Iterator[Finding]:
    """What can be measured, and what the lack of it costs."""
    good = [each for each in facts.supplies if not each.reason]
    dumb = [each for each in facts.supplies if each.reason]
    if good:
        yield _total(facts)
        yield _found("channels", Level.OK, _grouped(good))
    elif not dumb:
        why = facts.no_total or "no sensor of power or energy was found"
        yield not_known(Area.POWER, "power", why, f"power is not measured: {NO_POWER}")
    if dumb:
        yield _unreadable(dumb, alone=not good)
    if facts.hung:
        yield _found(
            "hanging",
            Level.WARNING,
            f"no answer from {', '.join(facts.hung)}",
            "what it measures is missing in a run as well",
        )


def _total(facts: Power) -> Finding:
    """The widest comes first: joules per frame are told of it."""
    if facts.totals:
        told = "; ".join(f"{rule} ({scope})" for scope, _, rule in facts.totals)
        if not facts.no_total:
            return _found("total", Level.OK, told)
        costs = f"{facts.no_total}: {NO_POWER}"
        return _found("total", Level.WARNING, told, costs)
    why = facts.no_total or "no channel covers the whole machine"
    costs = f"only parts are told: {NO_POWER}"
    return _found("total", Level.NOTE, f"none: {why}", costs)


def _grouped(supplies: Sequence[Supply]) -> str:
    by_source: dict[str, list[str]] = {}
    for each in supplies:
        value = "" if each.watts is None else f" {each.watts:.2f} W"
        by_source.setdefault(each.source, []).append(each.name + value)
    return "; ".join(f"{source}: {', '.join(n)}" for source, n in by_source.items())


def _unreadable(supplies: Sequence[Supply], *, alone: bool) -> Finding:
    names = ", ".join(each.name for each in supplies)
    reasons = "; ".join(dict.fromkeys(each.reason for each in supplies))
    costs = f"power is not measured: {NO_POWER}" if alone else "it is left out"
    rapl = any("rapl" in each.source.lower() for each in supplies)
    refused = rapl and "permission" in reasons
    return _found(
        "unreadable",
        Level.WARNING,
        f"{names}: {reasons}",
        costs,
        "a rule that lasts: docs/device.md" if refused else "",
    )
