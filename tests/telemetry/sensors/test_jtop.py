"""The adapter of jetson-stats: what it tells, and every way in which it fails."""

import importlib.util
from collections.abc import Iterator
from threading import Semaphore
from types import SimpleNamespace
from typing import Any

import pytest

from edgepipe.telemetry.sensors.jtop import STALE_NS, find_jtop, sensors_of
from edgepipe.telemetry.sensors.jtop_link import Link
from edgepipe.telemetry.sensors.jtop_values import values_of
from edgepipe.telemetry.sensors.reading import Kind, Quality, Reading, Scope
from edgepipe.telemetry.sensors.sensor import Pace, Sensor

from .fake_jtop import SAMPLES, STARTS, JtopException, Service
from .fake_time import FakeTime

LATE_NS = STALE_NS
RAILS = SAMPLES["orin-nano-super"]["power"]["rail"]


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    yield made
    made.let_go.set()


@pytest.fixture
def closing() -> Iterator[list[Sensor]]:
    """Sensors that are closed at the end."""
    found: list[Sensor] = []
    yield found
    for sensor in found:
        sensor.close()


def connected(service: Service, time: FakeTime) -> list[Sensor]:
    link = Link(lambda: service.jtop(interval=0.5), time, back_off_s=[0.0])
    return sensors_of(link, time, 10)


def readings(sensors: list[Sensor]) -> dict[str, Reading]:
    return {r.channel.key: r for sensor in sensors for r in sensor.read()}


def test_power_clocks_load_and_heat_come_in_base_units(
    service: Service, time: FakeTime, closing: list[Sensor]
) -> None:
    closing += find_jtop(time, service, 10)
    found = readings(closing)
    values = {key: reading.value for key, reading in found.items()}
    assert values == {
        "power.VDD_IN": 11.918,
        "power.VDD_CPU_GPU_CV": RAILS["VDD_CPU_GPU_CV"]["power"] / 1000,
        "power.VDD_SOC": RAILS["VDD_SOC"]["power"] / 1000,
        "clock.gpu": 1020e6,
        "load.gpu": 0.52,
        "clock.cpu0": 1728e6,
        "clock_measured.cpu0": 862e6,
        "clock.cpu1": 1728e6,
        "clock_measured.cpu1": 862e6,
        "clock.emc": 3199e6,
        "load.emc": 0.0,
        **{key: v for key, v in values.items() if key.startswith("temperature")},
    }
    assert found["power.VDD_IN"].channel.scope is Scope.MODULE_INPUT
    assert found["power.VDD_SOC"].channel.scope is Scope.RAIL
    assert [each.pace for each in closing] == [Pace.MEDIUM, Pace.SLOW]


def test_a_zone_that_is_off_has_no_temperature(
    service: Service, time: FakeTime, closing: list[Sensor]
) -> None:
    closing += find_jtop(time, service, 10)
    cv0 = readings(closing)["temperature.cv0"]
    assert (cv0.value, cv0.reason) == (None, "offline")


def power_of(told: Any) -> dict[str, float | None]:
    values, _ = values_of(SimpleNamespace(power=told))
    return {n: value for (kind, n), (value, _) in values.items() if kind is Kind.POWER}


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"VDD_IN": {"cur": 6140, "avg": 5510}, "VDD_SOC": {"cur": 1074, "avg": 1}},
         {"VDD_IN": 6.14, "VDD_SOC": 1.074}),
        (({"cur": 7214, "avg": 1}, {"VDD_SOC": {"cur": 1074, "avg": 1}}),
         {"VDD_SOC": 1.074}),
        ({"rail": {"VDD_SOC": {"power": 1074, "avg": 9}},
          "tot": {"power": 6140, "avg": 9, "name": "VDD_IN"}},
         {"VDD_SOC": 1.074, "VDD_IN": 6.14}),
        ({"rail": {"VDD_GPU": {"power": -392, "avg": 9}},
          "tot": {"power": 19780, "avg": 9, "name": "VIN"}},
         {"VDD_GPU": -0.392, "VIN": 19.78}),
        ({"rail": {"NC": {"power": 0}, "ucsi-source-psy-1": {"power": 5}}, "tot": {}},
         {}),
        ({"rail": {"CV": {"power": 5, "online": False}, "GPU": {"power": -256}}},
         {"CV": None, "GPU": None}),
        ({"rail": {"GPU": {"volt": 5}, "SOC": {"power": float("nan")}}},
         {"GPU": None, "SOC": None}),
        ({}, {}),
    ],
)  # fmt: skip
def test_each_shape_of_power_is_understood_and_no_sum_and_no_mean_is_used(
    told: Any, expected: dict[str, float | None]
) -> None:
    assert power_of(told) == expected


def test_a_total_without_a_name_counts_rails_twice_and_is_left_out() -> None:
    told = SAMPLES["agx-orin"]["power"]
    assert told["tot"]["power"] == 9027
    assert set(power_of(told)) == set(told["rail"])


def test_clocks_that_come_from_nvml_are_in_other_units() -> None:
    gpu = {"thor": {"status": {"load": 3}, "freq": {"cur": 1575, "min": 0}}}
    values, _ = values_of(SimpleNamespace(gpu=gpu))
    assert values[Kind.CLOCK, "gpu"].value == 1575e6


def test_what_old_releases_tell_of_the_gpu_is_read_and_a_clock_of_0_is_none() -> None:
    old, _ = values_of(SimpleNamespace(gpu={"val": 34, "frq": 1_300_500}))
    assert old[Kind.CLOCK, "gpu"].value == 1_300_500_000
    off, _ = values_of(SimpleNamespace(gpu={"gpu": {"status": {}, "freq": {"cur": 0}}}))
    assert off[Kind.CLOCK, "gpu"] == (None, "switched off")
    assert off[Kind.LOAD, "gpu"].value is None


@pytest.mark.parametrize("failure", STARTS)
def test_a_connection_that_fails_is_one_line_and_no_sensor(
    failure: str,
    service: Service,
    time: FakeTime,
    caplog: pytest.LogCaptureFixture,
) -> None:
    service.start = STARTS[failure]
    assert find_jtop(time, service, 10) == []
    (said,) = caplog.records
    assert "\n" not in said.getMessage()
    assert said.getMessage().startswith("jtop is not used: jtop: ")
    assert service.closed == service.connections == 1


def test_a_connection_that_hangs_costs_one_thread_and_its_time(
    service: Service, time: FakeTime, caplog: pytest.LogCaptureFixture
) -> None:
    service.hangs = True
    assert find_jtop(time, service, 0.05) == []
    assert [r.getMessage() for r in caplog.records] == [
        "jtop is not used: jtop does not answer"
    ]
    assert service.connections == 1


def test_without_the_library_the_remedy_is_named(
    time: FakeTime, caplog: pytest.LogCaptureFixture
) -> None:
    if importlib.util.find_spec("jtop") is not None:
        pytest.skip("jetson-stats is installed")
    assert find_jtop(time) == []
    (said,) = caplog.records
    assert "pip install 'edgepipe[jetson]'" in said.getMessage()


def test_a_service_that_dies_is_stale_and_is_connected_to_again(
    service: Service, time: FakeTime, closing: list[Sensor]
) -> None:
    closing += connected(service, time)

    def die() -> bool:
        raise JtopException("Lost connection with jtop server")

    service.ok, service.start = die, STARTS["no socket"]
    time.until(lambda: service.connections > 1)
    assert readings(closing)["power.VDD_IN"].value == 11.918
    time.ns += LATE_NS
    gone = readings(closing)
    assert {(r.value, r.quality) for r in gone.values()} == {(None, Quality.STALE)}
    assert gone["power.VDD_IN"].reason == (
        "jtop: The jtop.service is not active. Please run: sudo jtop --install-service"
    )
    service.ok, service.start = lambda: True, None
    service.updates += 1
    time.until(lambda: readings(closing)["power.VDD_IN"].value == 11.918)


def test_updates_that_stall_end_the_connection_and_are_told(
    service: Service, time: FakeTime, closing: list[Sensor]
) -> None:
    closing += connected(service, time)
    service.ok = lambda: False
    time.until(lambda: service.closed > 0)
    time.ns += LATE_NS
    stale = readings(closing)["power.VDD_IN"]
    assert stale.reason == "jtop sends no updates any more"


@pytest.mark.parametrize("has_uptime", [True, False])
def test_a_service_that_is_frozen_is_found_by_age_though_it_says_ok(
    has_uptime: bool, service: Service, time: FakeTime, closing: list[Sensor]
) -> None:
    service.has_uptime = has_uptime
    looks = Semaphore(0)

    def ok() -> bool:
        looks.release()
        return True

    service.ok = ok
    closing += connected(service, time)
    for _ in range(3):
        assert looks.acquire(timeout=10)
    time.ns += LATE_NS
    frozen = readings(closing)["power.VDD_IN"]
    assert (frozen.value, frozen.quality) == (None, Quality.STALE)
    assert frozen.reason == "jtop is frozen: it sends the same again and again"
    service.updates += 1
    service.told["power"] = {"rail": {}, "tot": {"power": 5, "name": "VDD_IN"}}
    time.until(lambda: readings(closing)["power.VDD_IN"].value == 0.005)


def test_a_part_that_raises_costs_the_others_nothing(
    service: Service, time: FakeTime, closing: list[Sensor]
) -> None:
    closing += connected(service, time)
    service.told["cpu"] = KeyError("idle")
    service.updates += 1
    time.until(lambda: readings(closing)["clock.cpu0"].value is None)
    found = readings(closing)
    assert found["clock.cpu0"].reason == "KeyError 'idle'"
    assert found["power.VDD_IN"].value == 11.918


def test_a_machine_of_which_nothing_is_told_has_no_sensor(
    service: Service, time: FakeTime, caplog: pytest.LogCaptureFixture
) -> None:
    service.told = {"power": {}}
    service.ok = iter([True, False, False]).__next__
    assert connected(service, time) == []
    assert "jtop" in caplog.records[0].getMessage()


def test_the_connection_is_closed_with_the_last_sensor(
    service: Service, time: FakeTime
) -> None:
    sensors = find_jtop(time, service, 10)
    for sensor in sensors:
        sensor.close()
        sensor.close()
    assert service.closed == 1
