"""What is known about a machine's clocks and limits at one moment."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from edgepipe.telemetry.sensors.reading import Kind, Reading

HOLD_NS = 3_000_000_000
"""For how long a reading speaks when no other follows; sensors are read each second."""

RELEVANT = frozenset(
    {
        Kind.TEMPERATURE,
        Kind.CLOCK,
        Kind.CLOCK_FLOOR,
        Kind.CLOCK_CEILING,
        Kind.CLOCK_MEASURED,
        Kind.LOAD,
        Kind.COOLING,
        Kind.EVENTS,
        Kind.THROTTLED,
        Kind.REASONS,
    }
)
_COUNTERS = frozenset({Kind.EVENTS, Kind.THROTTLED})

_FAMILY = re.compile(r"(cpu|gpu)\d*")


def family(name: str) -> str:
    """``cpu`` or ``gpu`` for a clock of one of these, empty for others."""
    found = _FAMILY.fullmatch(name)
    return found[1] if found else ""


class Rise(NamedTuple):
    """By how much a counter has grown since it was read before."""

    kind: Kind
    name: str
    by: float


@dataclass(slots=True)
class _Counter:
    last: float
    began: float
    """Its value before it began to rise."""
    rising: bool = False


class Facts:
    """The newest reading of every channel, and what the run began with."""

    def __init__(self, hold_ns: int = HOLD_NS) -> None:
        self.hold_ns = hold_ns
        self._readings: dict[Kind, dict[str, Reading]] = {}
        self._first: dict[tuple[Kind, str], float] = {}
        self._counters: dict[tuple[Kind, str], _Counter] = {}
        self.changed = False
        """Whether the last readings told anything but temperatures and what
        processors' clocks do, which change all the time and decide nothing alone."""
        self.seen: set[tuple[Kind, str]] = set()
        """Channels that ever had a value."""

    def take(self, readings: Iterable[Reading]) -> list[Rise]:
        """Take in readings of a sweep, in any order.

        Returns:
            Counters that have grown. The first reading of one is where it begins, and
            so is one that is lower than before: the machine or a driver was restarted.
        """
        rises: list[Rise] = []
        self.changed = False
        for reading in sorted(readings, key=lambda each: each.at_ns):
            kind, name = reading.channel.kind, reading.channel.name
            before = self._readings.setdefault(kind, {}).get(name)
            self._readings[kind][name] = reading
            if before is None or before.value != reading.value:
                self.changed |= not _restless(kind, name)
            if kind in _COUNTERS:
                rises += self._count(reading)
            if reading.value is not None:
                self.seen.add((kind, name))
                self._first.setdefault((kind, name), reading.value)
        return rises

    def _count(self, reading: Reading) -> Sequence[Rise]:
        key, value = (reading.channel.kind, reading.channel.name), reading.value
        counter = self._counters.get(key)
        if value is None or counter is None:
            if value is not None:
                self._counters[key] = _Counter(value, value)
            elif counter is not None:
                counter.rising = False
            return ()
        by = value - counter.last
        self.changed |= counter.rising != (by > 0)
        if by > 0 and not counter.rising:
            counter.began = counter.last
        counter.rising = by > 0
        counter.last = value
        return (Rise(*key, by),) if by > 0 else ()

    def reading(self, kind: Kind, name: str, now_ns: int) -> Reading | None:
        """The newest one that still speaks, with or without a value."""
        found = self._readings.get(kind, {}).get(name)
        if found is None or now_ns >= found.at_ns + self.hold_ns:
            return None
        return found

    def value(self, kind: Kind, name: str, now_ns: int) -> float | None:
        """Its value; None: there is none at this time."""
        found = self.reading(kind, name, now_ns)
        return None if found is None else found.value

    def all(self, kind: Kind, now_ns: int) -> Iterator[tuple[str, Reading, float]]:
        """All readings of a kind that have a value now, by name."""
        for name in sorted(self._readings.get(kind, {})):
            found = self.reading(kind, name, now_ns)
            if found is not None and found.value is not None:
                yield name, found, found.value

    def names(self, kind: Kind) -> list[str]:
        """All channels of a kind, with or without values."""
        return sorted(self._readings.get(kind, {}))

    def first(self, kind: Kind, name: str) -> float | None:
        """The value that the run began with."""
        return self._first.get((kind, name))

    def allowed(self, name: str, now_ns: int) -> float | None:
        """The highest clock that a part may have now; None: not known.

        The ceiling, or the highest there is where nobody tells a ceiling.
        """
        if name in self._readings.get(Kind.CLOCK_CEILING, {}):
            return self.value(Kind.CLOCK_CEILING, name, now_ns)
        clock = self._readings.get(Kind.CLOCK, {}).get(name)
        return None if clock is None else clock.channel.limits.get("max")

    def allowed_first(self, name: str) -> float | None:
        """The same when the run began."""
        if name in self._readings.get(Kind.CLOCK_CEILING, {}):
            return self.first(Kind.CLOCK_CEILING, name)
        return self.allowed(name, 0)

    def rising(self, kind: Kind, name: str) -> tuple[float, float] | None:
        """From which to which value a counter has risen; None if it did not of late."""
        counter = self._counters.get((kind, name))
        return (counter.began, counter.last) if counter and counter.rising else None

    def why_missing(self, kind: Kind) -> str:
        """What the readings of a kind say that never had a value; empty: none exist."""
        reasons = [each.reason for each in self._readings.get(kind, {}).values()]
        return next((reason for reason in reasons if reason), "")

    def load(self, part: str, now_ns: int) -> float | None:
        """The load of a part, 0 to 1; None when it is not told."""
        own = self.value(Kind.LOAD, part, now_ns)
        # Thor shows its clock through devfreq and its load through NVML.
        return self.value(Kind.LOAD, "gpu0", now_ns) if _lent(own, part) else own


def _restless(kind: Kind, name: str) -> bool:
    return kind is Kind.TEMPERATURE or (kind is Kind.CLOCK and family(name) == "cpu")


def _lent(own: float | None, part: str) -> bool:
    return own is None and part == "gpu"
