"""How much of its full clock a part can have now."""

from collections.abc import Set

from edgepipe.telemetry.sensors.reading import Kind
from edgepipe.telemetry.throttle_cause import Cause
from edgepipe.telemetry.throttle_facts import Facts, family
from edgepipe.telemetry.throttle_rules import DIVIDED, HIGH_LOAD

WHOLE = 1000
HYSTERESIS = 50
"""Smaller changes are not told, in thousandths."""

_DIVIDED_READINGS = 2
"""An over-current event halves a clock for a millisecond. One reading that met it says
nothing of the seconds around it; two in a row do."""


class Ceilings:
    """The share of the full clock for every part, from what the run began with."""

    def __init__(self) -> None:
        self._told: dict[str, int] = {}
        self._slowed: dict[str, float] = {}
        self._divided: dict[str, tuple[int, int]] = {}

    def permille(self, part: str) -> int | None:
        """The share in thousandths; None: no ceiling was ever read."""
        return self._told.get(part)

    def take(self, facts: Facts, active: Set[tuple[Cause, str]], now_ns: int) -> None:
        """Look again, after a sweep; ``active`` is what holds, by cause and part."""
        shares: dict[str, list[float]] = {"cpu": [], "gpu": []}
        names = {*facts.names(Kind.CLOCK_CEILING), *facts.names(Kind.CLOCK)}
        for name in sorted(names):
            kin = family(name)
            share = self._share(facts, active, name, now_ns) if kin else None
            if share is not None:
                shares[kin].append(share)
                self._tell(name, share)
        if shares["cpu"]:
            self._tell("cpu", sum(shares["cpu"]) / len(shares["cpu"]))
        if shares["gpu"]:
            self._tell("gpu", min(shares["gpu"]))

    def _tell(self, part: str, share: float) -> None:
        permille = round(share * WHOLE)
        if abs(permille - self._told.get(part, -WHOLE)) >= HYSTERESIS:
            self._told[part] = permille

    def _share(
        self,
        facts: Facts,
        active: Set[tuple[Cause, str]],
        name: str,
        now_ns: int,
    ) -> float | None:
        first = facts.allowed_first(name)
        allowed = facts.allowed(name, now_ns)
        if not first or allowed is None:
            return None
        slowed = self._slowed_to(facts, active, name, now_ns)
        share = min(allowed, slowed or allowed) / first
        return share * self._divider(facts, name, now_ns)

    def _slowed_to(
        self,
        facts: Facts,
        active: Set[tuple[Cause, str]],
        name: str,
        now_ns: int,
    ) -> float | None:
        """The clock that a throttled part reaches under load, as seen last."""
        if not _is_slowed(active, name):
            self._slowed.pop(name, None)
            return None
        clock = facts.value(Kind.CLOCK, name, now_ns)
        if clock and _is_busy(facts, name, now_ns):
            self._slowed[name] = clock
        return self._slowed.get(name)

    def _divider(self, facts: Facts, name: str, now_ns: int) -> float:
        """The share of the lowest clock that the hardware leaves, if that lasts."""
        measured = facts.reading(Kind.CLOCK_MEASURED, name, now_ns)
        floor = facts.value(Kind.CLOCK_FLOOR, name, now_ns)
        if measured is None or not measured.value or not floor:
            return 1.0
        at_ns, seen = self._divided.get(name, (0, 0))
        if measured.value >= DIVIDED * floor:
            self._divided.pop(name, None)
            return 1.0
        if measured.at_ns != at_ns:
            seen += 1
            self._divided[name] = measured.at_ns, seen
        return measured.value / floor if seen >= _DIVIDED_READINGS else 1.0


def _is_slowed(active: Set[tuple[Cause, str]], name: str) -> bool:
    """Whether something that lasts holds this part's clock down."""
    parts = {name, family(name)}
    return any(part in parts and cause in _LASTING for cause, part in active)


_LASTING = frozenset({Cause.THERMAL, Cause.POWER_CAP, Cause.UNKNOWN})


def _is_busy(facts: Facts, name: str, now_ns: int) -> bool:
    """Whether the clock is one under load, and not that of a part with little to do."""
    load = facts.load(name, now_ns)
    if load is not None:
        return load >= HIGH_LOAD
    reasons = facts.value(Kind.REASONS, name, now_ns)
    return reasons is not None and not int(reasons) & 1
