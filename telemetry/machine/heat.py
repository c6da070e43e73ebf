"""Whether heat or current hold the machine back now, or did since it started."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from edgepipe.telemetry.machine.finding import Area, Finding, Level, not_known
from edgepipe.telemetry.machine.probe import Measured
from edgepipe.telemetry.sensors.reading import Kind, Reading

NEAR_C = 5.0
"""So close to where it is throttled a zone is called hot."""
FAN = "fan"

_found = partial(Finding, Area.HEAT)
_unknown = partial(not_known, Area.HEAT)


@dataclass(frozen=True, slots=True)
class Zone:
    """One temperature and where something happens, in degrees Celsius."""

    name: str
    celsius: float
    passive: float | None
    """From here on clocks are held down."""
    critical: float | None
    """Here the machine switches itself off."""


@dataclass(frozen=True, slots=True)
class Cooling:
    """One thing that cools, and how far it is turned up."""

    name: str
    state: float
    most: float | None


@dataclass(frozen=True, slots=True)
class Events:
    """One counter of throttling events."""

    name: str
    since_start: float
    now: float | None
    """More of them since a moment ago; None: nobody looked twice."""


@dataclass(frozen=True, slots=True)
class Heat:
    """What the sensors say; only what could be read."""

    zones: tuple[Zone, ...]
    cooling: tuple[Cooling, ...]
    events: tuple[Events, ...]
    fans: tuple[tuple[str, float], ...]
    """Share of full speed, or whatever share the fan's channel tells."""
    fan_mode: str | None


def examine_heat(measured: Measured, fan_mode: str | None) -> Heat:
    """Sort what was measured."""
    before = {
        r.channel.name: r.value
        for r in measured.before
        if r.channel.kind is Kind.EVENTS
    }
    return Heat(
        zones=tuple(
            Zone(r.channel.name, value, *map(r.channel.limits.get, _TRIPS))
            for r, value in _known(measured.of(Kind.TEMPERATURE))
        ),
        cooling=tuple(
            Cooling(r.channel.name, value, r.channel.limits.get("max"))
            for r, value in _known(measured.of(Kind.COOLING))
        ),
        events=tuple(
            Events(r.channel.name, value, _since(value, before.get(r.channel.name)))
            for r, value in _known(measured.of(Kind.EVENTS))
        ),
        fans=tuple(
            (r.channel.name, value) for r, value in _known(measured.of(Kind.FAN))
        ),
        fan_mode=fan_mode,
    )


_TRIPS = ("passive", "critical")


def _known(readings: Sequence[Reading]) -> Iterator[tuple[Reading, float]]:
    for reading in readings:
        if reading.value is not None:
            yield reading, reading.value


def _since(now: float, before: float | None) -> float | None:
    return None if before is None else max(0.0, now - before)


def judge_heat(facts: Heat) -> Iterator[Finding]:
    """What the heat means for a run."""
    yield _temperature(facts.zones)
    if facts.cooling:
        yield _throttled(facts.cooling)
    if any(each.since_start for each in facts.events):
        yield _events(facts.events)
    elif facts.events:
        names = " ".join(each.name for each in facts.events)
        yield _found("events", Level.OK, f"none since the start ({names})")
    yield from _fan(facts)


def _temperature(zones: Sequence[Zone]) -> Finding:
    if not zones:
        return _unknown("temperature", "no zone gives a value", _UNSEEN)
    hottest = max(zones, key=lambda zone: zone.celsius)
    near = [
        z for z in zones if z.passive is not None and z.celsius > z.passive - NEAR_C
    ]
    if not near:
        trip = "" if hottest.passive is None else f", throttled at {hottest.passive:g}"
        text = f"hottest {hottest.name} {hottest.celsius:.1f} C{trip}"
        return _found("temperature", Level.OK, text)
    worst = max(near, key=lambda zone: zone.celsius - (zone.passive or 0))
    return _found(
        "temperature",
        Level.WARNING,
        f"{worst.name} {worst.celsius:.1f} C, throttled at {worst.passive:g}",
        "clocks are held down now or soon: figures are those of a hot machine",
        "let it cool down, better its cooling, or choose a smaller power mode",
    )


_UNSEEN = "throttling by heat would not be noticed"


def _throttled(cooling: Sequence[Cooling]) -> Finding:
    active = [c for c in cooling if c.state > 0 and FAN not in c.name]
    if not active:
        return _found("throttling", Level.OK, "no cooling device holds a clock down")
    return _found(
        "throttling",
        Level.WARNING,
        "now: " + ", ".join(_turned_up(each) for each in active),
        "clocks are held down by heat: stages take longer than they could",
        "let it cool down, or better its cooling",
    )


def _turned_up(each: Cooling) -> str:
    most = "" if each.most is None else f" of {each.most:g}"
    return f"{each.name} {each.state:g}{most}"


def _events(events: Sequence[Events]) -> Finding:
    rising = [each for each in events if each.now]
    watched = all(each.now is not None for each in events)
    counted = ", ".join(
        f"{each.name} {each.since_start:.0f}" for each in events if each.since_start
    )
    if rising:
        names = " ".join(each.name for each in rising)
        return _found(
            "events",
            Level.WARNING,
            f"{names} rises now; since the start {counted}",
            "the hardware cuts clocks for moments that no clock reading shows",
            "a stronger supply, a smaller power mode, or better cooling",
        )
    return _found(
        "events",
        Level.NOTE,
        f"since the start {counted}{', none of it now' if watched else ''}",
        "it has been throttled before: a run counts anew what happens in it",
    )


def _fan(facts: Heat) -> Iterator[Finding]:
    driven = [f"{name} {100 * share:.0f} %" for name, share in facts.fans]
    mode = [f"profile {facts.fan_mode}"] if facts.fan_mode else []
    if not driven and not mode:
        return
    text = ", ".join([*driven, *mode])
    if facts.fan_mode != "quiet":
        yield _found("fan", Level.OK, text)
        return
    yield _found(
        "fan",
        Level.NOTE,
        text,
        "it lets the board get hotter before it turns: long runs are throttled sooner",
        "FAN_DEFAULT_PROFILE cool in /etc/nvfancontrol.conf",
    )
