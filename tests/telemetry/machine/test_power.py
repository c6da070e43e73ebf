from threading import Event

import pytest

from edgepipe.telemetry.machine.finding import Level
from edgepipe.telemetry.machine.power import examine_power, judge_power
from edgepipe.telemetry.machine.probe import Measured
from edgepipe.telemetry.sensors.look import Look
from edgepipe.telemetry.sensors.reading import Channel, Kind, Reading, Scope
from edgepipe.telemetry.sensors.sensor import Pace
from edgepipe.telemetry.sensors.totals import Total

from .conftest import OneOf

INPUT = Channel(Kind.POWER, "VDD_IN", "ina3221 1-0040", Scope.MODULE_INPUT)
SOC = Channel(Kind.POWER, "VDD_SOC", "ina3221 1-0040", Scope.RAIL)
PACKAGE = Channel(Kind.ENERGY, "package-0", "RAPL", Scope.CPU_PACKAGE)


BROKEN = Channel(Kind.POWER, "broken", "x", Scope.RAIL)


def test_each_channel_is_told_with_its_value_and_the_total_with_its_rule(
    one_of: OneOf,
) -> None:
    total = Total(Scope.MODULE_INPUT, (INPUT,), "VDD_IN, the module's input")
    measured = Measured([Reading(INPUT, 4.745, 0), Reading(SOC, 1.234, 0)], (), [total])
    found = [*judge_power(examine_power(measured, ""))]
    assert {each.level for each in found} == {Level.OK}
    assert one_of(found, "total").found == "VDD_IN, the module's input (module_input)"
    channels = "ina3221 1-0040: VDD_IN 4.75 W, VDD_SOC 1.23 W"
    assert one_of(found, "channels").found == channels


def test_parts_without_a_total_give_no_joules_per_frame(one_of: OneOf) -> None:
    measured = Measured([Reading(SOC, 1.2, 0)], no_total="only parts of it")
    found = one_of(judge_power(examine_power(measured, "a box")), "total")
    assert found.found == "none: only parts of it"
    assert (found.level, "null" in found.costs) == (Level.NOTE, True)


def test_a_total_that_is_silent_is_a_warning(one_of: OneOf) -> None:
    total = Total(Scope.MODULE_INPUT, (INPUT,), "VDD_IN, the module's input")
    silent = Reading(INPUT, None, 0, "gated")
    measured = Measured(
        [silent, Reading(SOC, 1.2, 0)], totals=[total], no_total="VDD_IN gives no value"
    )
    found = one_of(judge_power(examine_power(measured, "")), "total")
    assert found.level is Level.WARNING
    assert found.costs == "VDD_IN gives no value: joules per frame will be null"


def test_a_counter_of_energy_is_no_power(one_of: OneOf) -> None:
    measured = Measured([Reading(PACKAGE, 12345.0, 0)])
    found = one_of(judge_power(examine_power(measured, "")), "channels")
    assert found.found == "RAPL: package-0"


def test_what_may_not_be_read_is_a_warning_that_speaks_against_no_bench(
    one_of: OneOf,
) -> None:
    measured = Measured([Reading(PACKAGE, None, 0, "permission denied")])
    found = one_of(judge_power(examine_power(measured, "")), "unreadable")
    assert found.found == "package-0: permission denied"
    assert "joules per frame will be null" in found.costs
    assert found.remedy
    assert (found.level, found.speaks_against_a_bench) == (Level.WARNING, False)


def test_without_any_sensor_the_reason_is_told(one_of: OneOf) -> None:
    found = one_of(judge_power(examine_power(Measured(), "a virtual machine")), "power")
    assert found.found == "not known: a virtual machine"
    assert found.costs == "power is not measured: joules per frame will be null"


class _Sensor:
    """Answers at once, or when the event is set."""

    pace = Pace.FAST

    def __init__(self, channel: Channel, goes_on: Event | None = None) -> None:
        self.name = channel.name
        self.channels = [channel]
        self._goes_on = goes_on
        self.reads = 0

    def read(self) -> list[Reading]:
        if self._goes_on is not None:
            self._goes_on.wait()
        self.reads += 1
        if self.channels == [BROKEN]:
            raise ZeroDivisionError
        return [Reading(channel, 1.0, 0) for channel in self.channels]

    def close(self) -> None:
        pass


def test_a_sensor_that_hangs_costs_no_other_one(one_of: OneOf) -> None:
    goes_on = Event()
    sensors = [_Sensor(INPUT, goes_on), _Sensor(SOC), _Sensor(PACKAGE)]
    try:
        seen = Look(sensors, wait_s=0.05)
    finally:
        goes_on.set()
    assert [each.channel for each in seen.readings] == [SOC, PACKAGE]
    assert seen.hung == sensors[:1]
    facts = examine_power(Measured(seen.readings, hung=["VDD_IN"]), "")
    assert one_of(judge_power(facts), "hanging").level is Level.WARNING


def test_a_sensor_that_answers_too_late_is_not_followed_by_others() -> None:
    goes_on = Event()
    last = _Sensor(PACKAGE)
    seen = Look([_Sensor(INPUT, goes_on), _Sensor(SOC), last], wait_s=0.05)
    goes_on.set()
    assert last.reads == 1
    assert len(seen.readings) == 2


def test_a_sensor_with_a_bug_costs_its_own_channels_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen = Look([_Sensor(BROKEN), _Sensor(SOC)])
    assert [each.channel for each in seen.readings] == [SOC]
    assert seen.hung == []
    assert "sensor broken: this is a bug" in caplog.text
