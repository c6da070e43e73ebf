from collections.abc import Mapping
from dataclasses import replace

import pytest

from edgepipe.telemetry.machine.finding import Finding, Level
from edgepipe.telemetry.machine.heat import examine_heat, judge_heat
from edgepipe.telemetry.machine.probe import Measured
from edgepipe.telemetry.sensors.reading import Channel, Kind, Quality, Reading

from .conftest import BOARD, OneOf

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
    return [*judge_heat(examine_heat(Measured(readings, before), BOARD))]


@pytest.mark.parametrize(
    ("celsius", "level"),
    [(40.0, Level.OK), (94.0, Level.OK), (94.1, Level.WARNING), (101.0, Level.WARNING)],
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


def test_a_processor_that_names_only_its_critical_temperature_is_near_that(
    one_of: OneOf,
) -> None:
    zone = reading(Kind.TEMPERATURE, "Package id 0", 97.0, {"critical": 100.0})
    found = one_of(judged(zone), "temperature")
    assert (found.level, found.found) == (
        Level.WARNING,
        "Package id 0 97.0 C, critical at 100",
    )


def test_gated_zones_are_left_out_and_no_zone_is_not_known(one_of: OneOf) -> None:
    found = one_of(judged(reading(Kind.TEMPERATURE, "cv0", None, TRIPS)), "temperature")
    assert (found.known, found.level) == (False, Level.NOTE)


def test_a_temperature_that_is_doubtful_is_none(one_of: OneOf) -> None:
    zone = reading(Kind.TEMPERATURE, "PMIC-Die", 100.0, TRIPS)
    found = judged(zone._replace(quality=Quality.DOUBTFUL, reason="constant"))
    assert not one_of(found, "temperature").known


def test_a_cooling_device_that_is_turned_up_is_throttling(one_of: OneOf) -> None:
    alert = reading(Kind.COOLING, "gpu-throttle-alert", 1, {"max": 1})
    found = one_of(judged(alert), "throttling")
    assert found.speaks_against_a_bench
    assert found.found == "now: gpu thermal (gpu-throttle-alert=1)"
    rest = one_of(judged(alert._replace(value=0.0)), "throttling")
    assert (rest.level, rest.known) == (Level.OK, True)
    assert (
        rest.found == "none now; not shown here: under voltage, power cap, over current"
    )


def test_a_driver_that_names_a_power_cap_is_believed(one_of: OneOf) -> None:
    found = one_of(judged(reading(Kind.REASONS, "gpu0", 0x4)), "throttling")
    assert found.found == "now: gpu0 power cap (gpu0: power cap of the driver (0x4))"
    idle = one_of(judged(reading(Kind.REASONS, "gpu0", 0x1)), "throttling")
    assert idle.level is Level.OK


def test_events_of_the_past_are_noted_and_events_now_are_throttling(
    one_of: OneOf,
) -> None:
    past = reading(Kind.EVENTS, "oc3", 12)
    noted = judged(past, before=(past,))
    assert one_of(noted, "events").level is Level.NOTE
    assert one_of(noted, "events").found == "since the machine was started: oc3 12"
    assert one_of(noted, "throttling").level is Level.OK
    rising = past._replace(value=15.0, at_ns=500_000_000)
    found = one_of(judged(rising, before=(past,)), "throttling")
    assert found.speaks_against_a_bench
    assert found.found == "now: board over current (oc3 12 to 15)"


def test_a_counter_that_went_back_is_not_rising(one_of: OneOf) -> None:
    now, before = reading(Kind.EVENTS, "oc3", 2), reading(Kind.EVENTS, "oc3", 90)
    found = judged(now._replace(at_ns=500_000_000), before=(before,))
    assert one_of(found, "throttling").level is Level.OK


def test_without_events_none_are_told() -> None:
    found = judged(reading(Kind.EVENTS, "oc1", 0))
    assert "events" not in {each.subject for each in found}


def test_where_nothing_would_show_throttling_it_is_not_known(one_of: OneOf) -> None:
    found = one_of(judged(), "throttling")
    assert (found.known, found.level) == (False, Level.NOTE)


def test_a_quiet_fan_is_noted(one_of: OneOf) -> None:
    measured = Measured([reading(Kind.FAN, "pwmfan", 0.23)])
    board = replace(BOARD, fan_profile="quiet", fan_rpm=1786)
    quiet = one_of(judge_heat(examine_heat(measured, board)), "fan")
    assert (quiet.level, quiet.found) == (
        Level.NOTE,
        "pwmfan 23 %, 1786 rpm, profile quiet",
    )
    cool = replace(BOARD, fan_profile="cool")
    assert one_of(judge_heat(examine_heat(measured, cool)), "fan").level is Level.OK
