from collections.abc import Mapping

import pytest

from edgepipe.telemetry.machine.finding import Finding, Level
from edgepipe.telemetry.machine.heat import examine_heat, judge_heat
from edgepipe.telemetry.machine.probe import Measured
from edgepipe.telemetry.sensors.reading import Channel, Kind, Reading

from .conftest import OneOf

TRIPS = {"passive": 99.0, "critical": 104.5}


def reading(
    kind: Kind,
    name: str,
    value: float | None,
    limits: Mapping[str, float] | None = None,
) -> Reading:
    channel = Channel(kind, name, "x", limits=limits or {})
    return Reading(channel, value, 0, "" if value is not None else "gated")


def judged(*readings: Reading, before: tuple[Reading, ...] = ()) -> list[Finding]:
    return [*judge_heat(examine_heat(Measured(readings, before), None))]


@pytest.mark.parametrize(
    ("celsius", "level"),
    [(40.0, Level.OK), (94.0, Level.OK), (94.5, Level.WARNING), (101.0, Level.WARNING)],
)
def test_five_degrees_below_the_trip_are_too_hot(
    celsius: float, level: Level, one_of: OneOf
) -> None:
    zone = reading(Kind.TEMPERATURE, "cpu-thermal", celsius, TRIPS)
    found = one_of(judged(zone), "temperature")
    assert found.level is level
    assert f"{celsius:.1f} C, throttled at 99" in found.found


def test_the_zone_nearest_to_its_trip_is_named(one_of: OneOf) -> None:
    zones = [
        reading(Kind.TEMPERATURE, "a", 97.0, TRIPS),
        reading(Kind.TEMPERATURE, "b", 85.0, {"passive": 84.0}),
        reading(Kind.TEMPERATURE, "no trip", 120.0),
    ]
    found = one_of(judged(*zones), "temperature")
    assert found.found == "b 85.0 C, throttled at 84"


def test_gated_zones_are_left_out_and_no_zone_is_not_known(one_of: OneOf) -> None:
    found = one_of(judged(reading(Kind.TEMPERATURE, "cv0", None, TRIPS)), "temperature")
    assert (found.known, found.level) == (False, Level.NOTE)


def test_a_cooling_device_that_is_turned_up_is_throttling_but_a_fan_is_not(
    one_of: OneOf,
) -> None:
    fan = reading(Kind.COOLING, "pwm-fan", 3, {"max": 3})
    alert = reading(Kind.COOLING, "gpu-throttle-alert", 1, {"max": 1})
    assert one_of(judged(fan), "throttling").level is Level.OK
    found = one_of(judged(fan, alert), "throttling")
    assert found.speaks_against_a_bench
    assert found.found == "now: gpu-throttle-alert 1 of 1"


def test_events_of_the_past_are_noted_and_events_now_are_a_warning(
    one_of: OneOf,
) -> None:
    past = [reading(Kind.EVENTS, "oc1", 0), reading(Kind.EVENTS, "oc3", 12)]
    noted = one_of(judged(*past, before=(*past,)), "events")
    assert (noted.level, noted.found) == (
        Level.NOTE,
        "since the start oc3 12, none of it now",
    )
    rising = reading(Kind.EVENTS, "oc3", 15)
    found = one_of(judged(past[0], rising, before=(*past,)), "events")
    assert found.speaks_against_a_bench
    assert found.found == "oc3 rises now; since the start oc3 15"
    none = one_of(judged(past[0]), "events")
    assert (none.level, none.found) == (Level.OK, "none since the start (oc1)")


def test_one_look_does_not_claim_that_nothing_happens_now(one_of: OneOf) -> None:
    found = one_of(judged(reading(Kind.EVENTS, "oc3", 12)), "events")
    assert found.found == "since the start oc3 12"


def test_a_counter_that_went_back_is_not_rising(one_of: OneOf) -> None:
    now, before = reading(Kind.EVENTS, "oc3", 2), reading(Kind.EVENTS, "oc3", 90)
    assert one_of(judged(now, before=(before,)), "events").level is Level.NOTE


def test_a_quiet_fan_is_noted(one_of: OneOf) -> None:
    measured = Measured([reading(Kind.FAN, "pwmfan", 0.23)])
    quiet = one_of(judge_heat(examine_heat(measured, "quiet")), "fan")
    assert (quiet.level, quiet.found) == (Level.NOTE, "pwmfan 23 %, profile quiet")
    assert one_of(judge_heat(examine_heat(measured, "cool")), "fan").level is Level.OK
