"""Readings of a small imagined board, for tests of throttling."""

from collections.abc import Mapping

from edgepipe.telemetry.sensors.reading import (
    Channel,
    Kind,
    Reading,
    no_reading,
)
from edgepipe.telemetry.throttle import ThrottleJudge
from edgepipe.telemetry.throttle_cause import Cause

S = 1_000_000_000
MHZ = 1_000_000

LIMITS: Mapping[tuple[Kind, str], Mapping[str, float]] = {
    (Kind.TEMPERATURE, "tj"): {"passive": 99.0, "critical": 104.5},
    (Kind.CLOCK, "gpu"): {"min": 306e6, "max": 1020e6},
    (Kind.CLOCK_CEILING, "gpu"): {"min": 306e6, "max": 1020e6},
    (Kind.CLOCK, "gpu0"): {"max": 1980e6},
    (Kind.CLOCK_CEILING, "cpu0"): {"min": 115e6, "max": 1728e6},
    (Kind.CLOCK_CEILING, "cpu4"): {"min": 115e6, "max": 1728e6},
}

_SHORT = {
    "temp": Kind.TEMPERATURE,
    "clock": Kind.CLOCK,
    "floor": Kind.CLOCK_FLOOR,
    "ceiling": Kind.CLOCK_CEILING,
    "measured": Kind.CLOCK_MEASURED,
    "load": Kind.LOAD,
    "cooling": Kind.COOLING,
    "events": Kind.EVENTS,
    "throttled": Kind.THROTTLED,
    "reasons": Kind.REASONS,
}

BUSY: Mapping[str, float | None] = {
    "temp.tj": 78.0,
    "cooling.gpu-throttle-alert": 0,
    "cooling.pwm-fan": 2,
    "clock.gpu": 1020 * MHZ,
    "ceiling.gpu": 1020 * MHZ,
    "load.gpu": 0.99,
    "events.oc1": 0,
    "events.oc2": 0,
    "events.oc3": 0,
}
"""A board at full clock with all the work it can do, and nothing wrong."""


def sweep(
    at_s: float, values: Mapping[str, float | None], why: str = "permission denied"
) -> list[Reading]:
    """Readings by short names, ``cooling.pwm-fan``; None is one without a value."""
    return [reading(at_s, name, value, why) for name, value in values.items()]


def reading(at_s: float, short: str, value: float | None, why: str) -> Reading:
    word, name = short.split(".", 1)
    kind = _SHORT[word]
    channel = Channel(kind, name, "test", limits=LIMITS.get((kind, name), {}))
    if value is None:
        return no_reading(channel, round(at_s * S), why)
    return Reading(channel, value, round(at_s * S))


def judge_of(*sweeps: tuple[float, Mapping[str, float | None]]) -> ThrottleJudge:
    """One that has taken these, each with its time in seconds."""
    judge = ThrottleJudge()
    for at_s, values in sweeps:
        judge.take(sweep(at_s, values), round(at_s * S))
    return judge


def held(judge: ThrottleJudge) -> dict[Cause, float]:
    """Seconds of every cause, so far."""
    return {each.cause: each.seconds for each in judge.totals}
