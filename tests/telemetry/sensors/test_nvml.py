"""NVIDIA's GPUs, through libraries that answer as certain machines do."""

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from edgepipe.telemetry.sensors.nvml import GpuUser, find_nvml, other_gpu_users
from edgepipe.telemetry.sensors.reading import Quality, Reading, Scope
from edgepipe.telemetry.sensors.sensor import Pace, Sensor

from .fake_nvml import (
    LIBRARY_MISSING,
    LOST,
    NOT_READY,
    NOT_SUPPORTED,
    UNINITIALIZED,
    UNKNOWN,
    FakeNvml,
    Refusal,
)
from .fake_time import FakeTime

S = 1_000_000_000


def found(library: FakeNvml, now_ns: FakeTime | None = None) -> list[Sensor]:
    return find_nvml(now_ns or FakeTime(), library)


def readings(sensors: list[Sensor]) -> dict[str, Reading]:
    return {r.channel.key: r for sensor in sensors for r in sensor.read()}


def values(sensors: list[Sensor]) -> dict[str, float | None]:
    return {key: reading.value for key, reading in readings(sensors).items()}


def test_a_server_gives_everything_in_base_units() -> None:
    assert values(found(FakeNvml())) == {
        "energy.gpu0": 5000.0,
        "power.gpu0": 120.0,
        "clock.gpu0": 1980e6,
        "clock.gpu0-memory": 3201e6,
        "load.gpu0": 0.37,
        "reasons.gpu0": 1,
        "temperature.gpu0": 41.0,
        "throttled.gpu0-power": 1.5,
        "throttled.gpu0-thermal": 0.0,
    }


def test_power_and_energy_are_of_the_board_and_limits_come_along() -> None:
    channels = {c.key: c for s in found(FakeNvml()) for c in s.channels}
    assert channels["energy.gpu0"].scope is Scope.GPU_BOARD
    assert channels["power.gpu0"].scope is Scope.GPU_BOARD
    assert channels["power.gpu0"].limits == {"max": 700.0}
    assert channels["clock.gpu0"].limits == {"max": 1980e6}
    assert channels["temperature.gpu0"].limits == {"passive": 89, "critical": 92}
    assert channels["clock.gpu0"].scope is None


def test_energy_and_power_are_read_as_often_as_they_change() -> None:
    paces = {s.pace: [c.kind.value for c in s.channels] for s in found(FakeNvml())}
    assert paces == {
        Pace.MEDIUM: ["energy", "power", "clock", "clock", "load", "reasons"],
        Pace.SLOW: ["temperature", "throttled", "throttled"],
    }


@pytest.mark.parametrize(
    ("machine", "tau_s", "source"),
    [
        ("server", 0.5, "NVML 0, mean of 1 s"),
        ("averaging", 0.5, "NVML 0, mean of 1 s"),
        ("ga100", 0.0, "NVML 0"),
        ("old driver", 0.0, "NVML 0"),
        ("slices", 0.5, "NVML 0, mean of 1 s, all MIG slices together"),
    ],
)
def test_how_power_is_smoothed_depends_on_the_call_and_on_the_gpu(
    machine: str, tau_s: float, source: str
) -> None:
    channels = [c for s in found(FakeNvml(machine)) for c in s.channels]
    (power,) = [c for c in channels if c.key == "power.gpu0"]
    assert (power.tau_s, power.source) == (tau_s, source)


def test_the_old_name_of_the_reasons_is_asked_where_the_new_one_is_missing() -> None:
    library = FakeNvml("old driver")
    library.lacking = {"CurrentClocksEventReasons"}
    assert values(found(library))["reasons.gpu0"] == 4


def test_what_is_not_supported_is_asked_once_and_disables_nothing_else() -> None:
    library = FakeNvml("thor")
    sensors = found(library)
    after_probing = library.calls.copy()
    first, second = readings(sensors), readings(sensors)
    assert {k: r.value for k, r in first.items() if r.value is not None} == {
        "clock.gpu0": 1575e6,
        "load.gpu0": 0.12,
        "reasons.gpu0": 0,
    }
    assert first["power.gpu0"].reason == "Not Supported"
    assert first["energy.gpu0"].quality is Quality.MISSING
    assert second.keys() == first.keys()
    repeated = library.calls - after_probing
    assert repeated == {
        "UtilizationRates": 2,
        "ClockInfo": 2,
        "CurrentClocksEventReasons": 2,
    }


def test_what_never_has_a_value_is_told_once_a_second_at_most() -> None:
    sensors = found(FakeNvml("thor"))
    assert [s.pace for s in sensors] == [Pace.MEDIUM, Pace.SLOW]


@pytest.mark.parametrize("machine", ["orin nvgpu", "orin zeros"])
def test_a_gpu_that_gives_no_value_is_not_used_and_that_is_said_once(
    machine: str, caplog: pytest.LogCaptureFixture
) -> None:
    library = FakeNvml(machine)
    assert found(library) == []
    assert [r.getMessage() for r in caplog.records] == [
        "NVML: gpu0 (Orin (nvgpu)) gives no value: not used"
    ]
    assert library.opened == 0


def test_the_recorded_half_there_library_gives_no_sensor(cases: Path) -> None:
    """Each answer of the record that is no number is an error of that name."""
    recorded = json.loads((cases / "E04/expected.json").read_text())
    for fake in recorded["fake_nvml"]:
        library = FakeNvml("orin nvgpu", fake["count"])
        names = {"power": "PowerUsage", "temp": "Temperature"}
        names["util"] = "UtilizationRates"
        library.answers = {"Name": fake["name"]} | {
            call: Refusal(NOT_SUPPORTED)
            for name, call in names.items()
            if fake[name] == "NotSupported"
        }
        assert found(library) == []


@pytest.mark.parametrize("working", ["PowerUsage", "Temperature", "UtilizationRates"])
def test_a_single_value_is_enough_to_be_used(working: str) -> None:
    library = FakeNvml("orin nvgpu")
    library.answers[working] = FakeNvml().answers[working]
    assert sum(value is not None for value in values(found(library)).values()) == 1


def test_zero_watts_are_not_a_measurement() -> None:
    library = FakeNvml()
    library.answers |= {"field 186": 0, "PowerUsage": 0}
    power = readings(found(library))["power.gpu0"]
    assert (power.value, power.quality) == (None, Quality.MISSING)
    assert power.reason == "the driver says 0: not measured"


def test_the_averaged_power_is_used_where_the_instant_one_is_zero() -> None:
    library = FakeNvml("averaging")
    library.answers["field 186"] = 0
    assert values(found(library))["power.gpu0"] == 120.0


def test_no_load_and_no_reason_are_measurements() -> None:
    library = FakeNvml()
    library.answers["UtilizationRates"] = SimpleNamespace(gpu=0, memory=0)
    library.answers["CurrentClocksEventReasons"] = 0
    seen = values(found(library))
    assert (seen["load.gpu0"], seen["reasons.gpu0"]) == (0.0, 0)


@pytest.mark.parametrize("number", [LIBRARY_MISSING, 9])
def test_a_machine_without_such_a_gpu_gets_no_sensor_and_no_warning(
    number: int, caplog: pytest.LogCaptureFixture
) -> None:
    library = FakeNvml()
    library.init = number
    assert found(library) == []
    assert caplog.records == []


def test_a_library_that_cannot_be_initialised_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    library = FakeNvml()
    library.init = 18
    assert found(library) == []
    assert [r.getMessage() for r in caplog.records] == [
        "NVML cannot be used: NVML Error with code 18"
    ]


def test_without_the_library_there_is_no_sensor_and_no_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)  # importing it fails
    assert find_nvml(FakeTime()) == []
    assert other_gpu_users() == (None, "NVML is not there")
    assert caplog.records == []


def test_no_gpu_is_no_sensor() -> None:
    library = FakeNvml(count=0)
    assert found(library) == []
    assert library.opened == 0


def test_gpus_that_cannot_be_counted_or_opened_are_told_once_each(
    caplog: pytest.LogCaptureFixture,
) -> None:
    library = FakeNvml(count=2)
    library.everything = LOST
    assert found(library) == []
    library.count = -1  # not even that
    assert found(library) == []
    assert [r.getMessage() for r in caplog.records] == [
        "NVML: gpu0 cannot be opened: GPU is lost",
        "NVML: gpu1 cannot be opened: GPU is lost",
        "NVML: the GPUs cannot be counted: Not Supported",
    ]


def test_several_gpus_are_told_apart() -> None:
    sensors = found(FakeNvml(count=2))
    assert [s.name for s in sensors[::2]] == ["NVML gpu0 medium", "NVML gpu1 medium"]
    assert "power.gpu1" in values(sensors)


def test_a_lost_gpu_gives_reasons_costs_one_call_a_sweep_and_comes_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    library, time = FakeNvml(), FakeTime()
    sensors = found(library, time)
    library.everything = LOST
    before = library.calls.total()
    lost = readings(sensors)
    assert {r.value for r in lost.values()} == {None}
    assert {r.reason for r in lost.values()} == {"GPU is lost"}
    assert library.calls.total() - before <= 2 * len(sensors)
    for _ in range(20):
        time.ns += S
        readings(sensors)
    assert len(caplog.records) == 1
    library.everything = None
    time.ns += 10 * S
    assert None not in values(sensors).values()


def test_after_a_driver_reset_the_library_is_opened_anew() -> None:
    library, time = FakeNvml(), FakeTime()
    sensors = found(library, time)
    library.opened = 0  # the driver was unloaded under us
    library.init = UNINITIALIZED
    assert set(values(sensors).values()) == {None}
    library.init = None
    library.answers["TotalEnergyConsumption"] = 1000  # counts from the new start
    time.ns += 6 * S
    again = readings(sensors)
    assert again["power.gpu0"].value == 120.0
    for sensor in sensors:
        sensor.close()
    assert library.opened == 0


def test_opening_anew_is_not_tried_at_each_sweep() -> None:
    library, time = FakeNvml(), FakeTime()
    sensors = found(library, time)
    library.everything = UNKNOWN
    for _ in range(100):
        time.ns += S // 10
        readings(sensors)
    assert 2 <= library.calls["Init"] <= 4


def test_one_call_that_keeps_failing_neither_reopens_nor_silences_the_rest() -> None:
    library, time = FakeNvml(), FakeTime()
    sensors = found(library, time)
    library.answers["PowerUsage"] = Refusal(UNKNOWN)
    for _ in range(100):
        time.ns += S // 10
        readings(sensors)
    seen = values(sensors)
    assert seen.pop("power.gpu0") is None
    assert None not in seen.values()
    assert library.calls["Init"] == 1


def test_a_gpu_that_is_not_ready_yet_is_kept_and_read_later() -> None:
    library, time = FakeNvml(), FakeTime()
    library.answers |= {
        name: Refusal(NOT_READY) for name in library.answers if name != "Name"
    }
    sensors = found(library, time)
    assert set(values(sensors).values()) == {None}
    library.answers |= FakeNvml().answers
    time.ns += 10 * S
    assert None not in values(sensors).values()


def test_what_worked_once_is_asked_again_even_if_it_says_not_supported() -> None:
    library = FakeNvml()
    sensors = found(library)
    library.answers["Temperature"] = Refusal(NOT_SUPPORTED)
    assert values(sensors)["temperature.gpu0"] is None
    library.answers["Temperature"] = 50
    assert values(sensors)["temperature.gpu0"] == 50


def test_energy_never_falls_when_the_driver_starts_counting_anew() -> None:
    library, time = FakeNvml(), FakeTime()
    sensors = found(library, time)
    readings(sensors)
    time.ns += S
    library.answers["TotalEnergyConsumption"] = 1_000
    anew = readings(sensors)["energy.gpu0"]
    assert (anew.value, anew.quality) == (5000.0, Quality.DOUBTFUL)
    time.ns += S
    library.answers["TotalEnergyConsumption"] = 101_000
    assert readings(sensors)["energy.gpu0"] == Reading(
        anew.channel, 5100.0, time.ns, "", Quality.GOOD
    )


def test_a_reading_is_dated_in_the_middle_of_its_call() -> None:
    ticks = iter(range(0, 10**6, 10))
    sensors = find_nvml(lambda: next(ticks), FakeNvml())
    begun = next(ticks)
    readings_of_one = sensors[0].read()
    assert [r.at_ns - begun for r in readings_of_one[:2]] == [25, 45]


def test_the_library_is_given_back_with_the_last_sensor() -> None:
    library = FakeNvml()
    sensors = found(library)
    sensors[0].close()
    sensors[0].close()
    assert library.opened == 1
    for sensor in sensors:
        sensor.close()
    assert library.opened == 0


def process(pid: int, memory: int | None) -> SimpleNamespace:
    return SimpleNamespace(pid=pid, usedGpuMemory=memory)


def test_others_on_the_gpu_are_named_once_and_this_process_is_left_out() -> None:
    library = FakeNvml()
    library.running = {
        "ComputeRunningProcesses": [process(5, 1 << 30), process(os.getpid(), 9)],
        "GraphicsRunningProcesses": [process(5, 1 << 30), process(7, None)],
    }
    assert other_gpu_users(library) == (
        (
            GpuUser("gpu0", 5, "/usr/bin/program-5", 1 << 30),
            GpuUser("gpu0", 7, "", None),
        ),
        "",
    )
    assert library.opened == 0


def test_a_driver_that_is_too_old_for_a_call_is_asked_by_the_one_before() -> None:
    library = FakeNvml()
    library.running = {"ComputeRunningProcesses_v2": [process(5, None)]}
    found = other_gpu_users(library)
    assert found.users == (GpuUser("gpu0", 5, "/usr/bin/program-5", None),)


def test_users_that_cannot_be_had_are_not_nobody() -> None:
    assert other_gpu_users(FakeNvml()) == (None, "no GPU tells its processes")
    library = FakeNvml()
    library.init = LIBRARY_MISSING
    assert other_gpu_users(library) == (None, "NVML is not there")
