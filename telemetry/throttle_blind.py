"""Which causes cannot be seen on a machine, and why."""

from collections.abc import Mapping

from edgepipe.telemetry.sensors.reading import Kind
from edgepipe.telemetry.throttle_cause import Cause
from edgepipe.telemetry.throttle_facts import Facts, family
from edgepipe.telemetry.throttle_rules import cools

_COUNTER = {
    Cause.UNDER_VOLTAGE: "oc1",
    Cause.POWER_CAP: "oc2",
    Cause.OVER_CURRENT: "oc3",
}
_BY_DRIVER = {Cause.POWER_CAP: "power", Cause.THERMAL: "thermal"}


def blind_causes(facts: Facts) -> Mapping[Cause, str]:
    """Causes that no channel with a value could have shown so far, with the reason."""
    blind = {
        cause: _why(facts, Kind.EVENTS, f"no counter {counter}")
        for cause, counter in _COUNTER.items()
        if not _seen(facts, Kind.EVENTS, counter) and not _driver_tells(facts, cause)
    }
    if not _heat_is_seen(facts):
        blind[Cause.THERMAL] = _why(
            facts, Kind.COOLING, "no cooling device and no throttle counter"
        )
    if not any(kind is Kind.CLOCK_FLOOR for kind, _ in facts.seen):
        blind[Cause.CLOCK_FLOOR_LOST] = _why(
            facts, Kind.CLOCK_FLOOR, "no lowest allowed clock is told"
        )
    why = _why_load_is_blind(facts)
    if why:
        blind[Cause.UNKNOWN] = why
    return {cause: blind[cause] for cause in Cause if cause in blind}


def _why(facts: Facts, kind: Kind, nothing: str) -> str:
    said = facts.why_missing(kind)
    return f"{nothing}: {said}" if said else f"{nothing} on this machine"


def _seen(facts: Facts, kind: Kind, name: str) -> bool:
    return (kind, name) in facts.seen


def _driver_tells(facts: Facts, cause: Cause) -> bool:
    """Whether a GPU's driver would name this cause."""
    what = _BY_DRIVER.get(cause)
    return what is not None and any(
        kind is Kind.REASONS or (kind is Kind.THROTTLED and name.endswith(f"-{what}"))
        for kind, name in facts.seen
    )


def _heat_is_seen(facts: Facts) -> bool:
    devices = any(kind is Kind.COOLING and cools(name) for kind, name in facts.seen)
    counter = _seen(facts, Kind.EVENTS, "cpu-throttle")
    return devices or counter or _driver_tells(facts, Cause.THERMAL)


def _why_load_is_blind(facts: Facts) -> str:
    """Why a GPU's clock that is low under load would not be noticed; empty if it is."""
    clocks = {name for kind, name in facts.seen if kind is Kind.CLOCK}
    gpus = {name for name in clocks if family(name) == "gpu"}
    if not gpus:
        return _why(facts, Kind.CLOCK, "no clock of a GPU")
    if any(kind is Kind.LOAD and family(name) == "gpu" for kind, name in facts.seen):
        return ""
    return _why(facts, Kind.LOAD, "no load of the GPU")
