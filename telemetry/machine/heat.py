"""Whether heat or current hold the machine back now, or did since it started."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from edgepipe.telemetry.machine.finding import Area, Finding, Level, not_known
from edgepipe.telemetry.machine.probe import Measured
from edgepipe.telemetry.sensors.board import Board
from edgepipe.telemetry.sensors.reading import Kind, Quality, Reading
from edgepipe.telemetry.throttle_blind import blind_causes
from edgepipe.telemetry.throttle_cause import Cause
from edgepipe.telemetry.throttle_facts import Facts
from edgepipe.telemetry.throttle_rules import findings as causes_of

NEAR_C = 5.0
"""So close to where it is throttled a zone is called hot."""
_BY_HARDWARE = (
    Cause.THERMAL,
    Cause.UNDER_VOLTAGE,
    Cause.POWER_CAP,
    Cause.OVER_CURRENT,
)

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
    """Here the machine switches itself off, or a processor slows itself down."""

    @property
    def trip(self) -> tuple[float, str] | None:
        """Where something happens first, and what; None: nobody says."""
        if self.passive is not None:
            return self.passive, "throttled at"
        return None if self.critical is None else (self.critical, "critical at")

    @property
    def margin(self) -> float:
        """How far it is from there; infinite where nobody says."""
        return math.inf if self.trip is None else self.trip[0] - self.celsius


@dataclass(frozen=True, slots=True)
class Throttled:
    """Something that holds a clock down now."""

    cause: str
    part: str
    readings: str
    """What it was told by."""


@dataclass(frozen=True, slots=True)
class Heat:
    """What the sensors say; only what could be read."""

    zones: tuple[Zone, ...]
    throttled: tuple[Throttled, ...]
    unseen: tuple[str, ...]
    """Causes of throttling that nothing on this machine would show."""
    events: tuple[tuple[str, float], ...]
    """Counters of throttling events, since the machine was started."""
    fans: tuple[tuple[str, float], ...]
    """Name and share of full speed."""
    fan_profile: str | None
    fan_rpm: int | None


def examine_heat(measured: Measured, board: Board) -> Heat:
    """Sort what was measured; a counter that rises between two looks is now."""
    facts = Facts()
    facts.take(measured.before)
    facts.take(measured.readings)
    now_ns = max((each.at_ns for each in measured.readings), default=0)
    blind = blind_causes(facts)
    return Heat(
        zones=tuple(
            Zone(r.channel.name, value, *map(r.channel.limits.get, _TRIPS))
            for r, value in _known(measured.of(Kind.TEMPERATURE))
        ),
        throttled=tuple(
            Throttled(found.cause.value, found.part, found.text)
            for found in causes_of(facts, now_ns).values()
            if found.cause.throttles and found.sure
        ),
        unseen=tuple(cause.value for cause in _BY_HARDWARE if cause in blind),
        events=tuple(
            (r.channel.name, value) for r, value in _known(measured.of(Kind.EVENTS))
        ),
        fans=tuple(
            (r.channel.name, value) for r, value in _known(measured.of(Kind.FAN))
        ),
        fan_profile=board.fan_profile,
        fan_rpm=board.fan_rpm,
    )


_TRIPS = ("passive", "critical")


def _known(readings: Sequence[Reading]) -> Iterator[tuple[Reading, float]]:
    for reading in readings:
        if reading.value is not None and reading.quality is Quality.GOOD:
            yield reading, reading.value


def judge_heat(facts: Heat) -> Iterator[Finding]:
    """What the heat means for a run."""
    yield _temperature(facts.zones)
    yield _throttling(facts)
    if any(count for _, count in facts.events):
        yield _events(facts.events)
    yield from _fan(facts)


def _temperature(zones: Sequence[Zone]) -> Finding:
    if not zones:
        return _unknown("temperature", "no zone gives a value", _UNSEEN)
    nearest = min(zones, key=lambda zone: zone.margin)
    if nearest.margin >= NEAR_C:
        hottest = max(zones, key=lambda zone: zone.celsius)
        return _found("temperature", Level.OK, f"hottest {_told(hottest)}")
    return _found(
        "temperature",
        Level.WARNING,
        _told(nearest),
        "clocks are held down now or soon: figures are those of a hot machine",
        "let it cool down, better its cooling, or choose a smaller power mode",
    )


def _told(zone: Zone) -> str:
    trip = "" if zone.trip is None else f", {zone.trip[1]} {zone.trip[0]:g}"
    return f"{zone.name} {zone.celsius:.1f} C{trip}"


_UNSEEN = "figures of a hot machine would not be told from those of a cool one"


def _throttling(facts: Heat) -> Finding:
    if facts.throttled:
        return _found(
            "throttling",
            Level.WARNING,
            "now: "
            + "; ".join(
                f"{each.part} {_words(each.cause)} ({each.readings})"
                for each in facts.throttled
            ),
            "clocks are held down: stages take longer than they could",
            "let it cool down, better its cooling or supply, or choose a smaller"
            " power mode",
        )
    unseen = ", ".join(map(_words, facts.unseen))
    if len(facts.unseen) == len(_BY_HARDWARE):
        why = f"nothing here shows {unseen}"
        return _unknown("throttling", why, "low clocks in a run would not be explained")
    text = "none now" + (f"; not shown here: {unseen}" if unseen else "")
    return _found("throttling", Level.OK, text)


def _words(cause: str) -> str:
    return cause.replace("_", " ")


def _events(events: Sequence[tuple[str, float]]) -> Finding:
    counted = ", ".join(f"{name} {count:.0f}" for name, count in events if count)
    return _found(
        "events",
        Level.NOTE,
        f"since the machine was started: {counted}",
        "it has been throttled before; a run counts anew what happens in it",
    )


def _fan(facts: Heat) -> Iterator[Finding]:
    told = [f"{name} {100 * share:.0f} %" for name, share in facts.fans]
    told += [] if facts.fan_rpm is None else [f"{facts.fan_rpm} rpm"]
    told += [f"profile {facts.fan_profile}"] if facts.fan_profile else []
    if told and facts.fan_profile != "quiet":
        yield _found("fan", Level.OK, ", ".join(told))
    elif told:
        yield _found(
            "fan",
            Level.NOTE,
            ", ".join(told),
            "the board gets hotter before it turns: long runs are throttled sooner",
            "profile cool of nvfancontrol: /etc/nvfancontrol.conf",
        )
