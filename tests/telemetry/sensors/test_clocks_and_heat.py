"""Clocks, loads, temperatures, cooling, counters, fans, memory and batteries."""

import errno
from pathlib import Path

import pytest

from edgepipe.telemetry.sensors.kernel import find_board
from edgepipe.telemetry.sensors.reading import Quality, Reading, Scope
from edgepipe.telemetry.sensors.sensor import Pace
from tests.telemetry.boards import (
    Boards,
    Files,
    Machine,
    hwmon,
    read_all,
    read_once,
    write,
)

MHZ = 1_000_000


def sweep(machine: Machine, *, user: bool = False) -> dict[str, Reading]:
    return read_once(find_board(machine.tree(user=user), lambda: 5))


def values(machine: Machine) -> dict[str, float | None]:
    return {key: reading.value for key, reading in sweep(machine).items()}


# --- clocks ---------------------------------------------------------------------------


def test_a_policy_tells_its_clock_and_its_bounds_by_its_first_cpu(
    boards: Boards,
) -> None:
    read = sweep(boards("orin-nano-super-jp6"))
    assert read["clock.cpu4"].value == 729.6 * MHZ
    assert read["clock_floor.cpu4"].value == 729.6 * MHZ
    assert read["clock_ceiling.cpu4"].value == 1728 * MHZ
    assert read["clock.cpu4"].channel.limits == {
        "min": 729.6 * MHZ,
        "max": 1728 * MHZ,
    }


def test_the_measured_clock_shows_what_the_set_one_hides(boards: Boards) -> None:
    read = values(boards("orin-nano-super-jp6.oc3"))
    assert (read["clock.cpu0"], read["clock_measured.cpu0"]) == (1728 * MHZ, 862 * MHZ)


def test_a_normal_user_has_no_measured_clock_and_all_the_rest(boards: Boards) -> None:
    root = sweep(boards("orin-nano-super-jp6.oc3"))
    user = sweep(boards("orin-nano-super-jp6.oc3"), user=True)
    assert set(root) - set(user) == {"clock_measured.cpu0", "clock_measured.cpu4"}
    assert all(user[key].value == root[key].value for key in user)


def test_what_a_pc_calls_measured_is_not(boards: Boards) -> None:
    assert "clock_measured.cpu0" not in values(boards("x86-rapl"))


@pytest.mark.parametrize(
    ("name", "mhz"),
    [("nano-jp4", 76.8), ("xavier-nx-jp5", 114.75), ("agx-thor-jp7", 315)],
)
def test_the_gpu_has_one_name_on_all_boards(
    boards: Boards, name: str, mhz: float
) -> None:
    assert values(boards(name))["clock.gpu"] == mhz * MHZ


def test_other_clocks_keep_their_names(boards: Boards) -> None:
    read = values(boards("agx-thor-jp7"))
    assert (read["clock.emc"], read["clock.gpu-nvd-0"]) == (2750 * MHZ, 315 * MHZ)


def test_the_bounds_of_a_gpu_are_those_of_its_table(boards: Boards) -> None:
    channel = sweep(boards("agx-orin-jp6"))["clock.gpu"].channel
    assert channel.limits == {"min": 306 * MHZ, "max": 1300.5 * MHZ}


def test_a_clock_of_zero_is_a_part_that_is_switched_off(boards: Boards) -> None:
    reading = sweep(boards("agx-thor-jp7.gpu-gated"))["clock.gpu"]
    assert reading.value is None
    assert reading.reason.startswith("gated")


def test_a_load_is_a_share(boards: Boards) -> None:
    assert values(boards("orin-nano-super-jp6.thermal"))["load.gpu"] == 0.99


def test_a_load_above_all_is_none(boards: Boards) -> None:
    machine = boards("nano-jp4")
    machine.answer("sys/devices/57000000.gpu/load", b"1001\n")
    assert values(machine)["load.gpu"] is None


def test_many_policies_are_read_seldom(tmp_path: Path) -> None:
    files: Files = {
        f"sys/devices/system/cpu/cpufreq/policy{i}/scaling_cur_freq": "2000000"
        for i in range(64)
    }
    (sensor,) = find_board(write(files, tmp_path).tree(), lambda: 0)
    assert sensor.pace is Pace.SLOW
    assert [each.name for each in sensor.channels[::3]] == [
        f"cpu{i}" for i in range(64)
    ]


# --- heat -----------------------------------------------------------------------------


def test_a_zone_tells_its_trip_points_but_not_where_the_fan_starts(
    boards: Boards,
) -> None:
    read = sweep(boards("agx-thor-jp7"))
    cpu, tj = read["temperature.cpu-thermal"], read["temperature.tj-thermal"]
    assert cpu.channel.limits == {"passive": 109.0, "critical": 114.5}
    assert tj.channel.limits == {"critical": 114.5}


def test_a_zone_that_is_switched_off_is_gated(boards: Boards) -> None:
    reading = sweep(boards("agx-orin-jp6"))["temperature.gpu-thermal"]
    assert reading.value is None
    assert reading.reason.startswith("gated")


def test_a_constant_is_called_one(boards: Boards) -> None:
    reading = sweep(boards("nano-jp4"))["temperature.PMIC-Die"]
    assert (reading.value, reading.quality) == (50.0, Quality.DOUBTFUL)


@pytest.mark.parametrize("text", [b"-256000\n", b"-274000\n", b"2147483647\n"])
def test_a_temperature_that_stands_for_none_is_none(
    boards: Boards, text: bytes
) -> None:
    machine = boards("nano-jp4")
    machine.answer("sys/class/thermal/thermal_zone1/temp", text)
    assert values(machine)["temperature.CPU-therm"] is None


def test_a_cold_room_is_a_measurement(boards: Boards) -> None:
    machine = boards("nano-jp4")
    machine.answer("sys/class/thermal/thermal_zone1/temp", b"-45000\n")
    assert values(machine)["temperature.CPU-therm"] == -45.0


def test_a_second_zone_of_the_same_type_has_a_number(tmp_path: Path) -> None:
    files: Files = {}
    for i, mc in enumerate((20_000, 30_000, 40_000)):
        files[f"sys/class/thermal/thermal_zone{i}/type"] = "acpitz"
        files[f"sys/class/thermal/thermal_zone{i}/temp"] = str(mc)
    assert values(write(files, tmp_path)) == {
        "temperature.acpitz": 20.0,
        "temperature.acpitz-1": 30.0,
        "temperature.acpitz-2": 40.0,
    }


def test_a_processor_is_read_from_hwmon_where_no_zone_tells_it(tmp_path: Path) -> None:
    files = {
        **hwmon(0, "k10temp", "0000:00:18.3", temp1_label="Tctl", temp1_input=61_250,
                temp1_crit=95_000, temp3_label="Tccd1", temp3_input=58_000),
        **hwmon(1, "coretemp", "coretemp.0", temp1_label="Package id 0",
                temp1_input=50_000, temp2_label="Core 0", temp2_input=49_000),
    }  # fmt: skip
    read = sweep(write(files, tmp_path))
    assert {key: reading.value for key, reading in read.items()} == {
        "temperature.Package id 0": 50.0,
        "temperature.Tctl": 61.25,
        "temperature.Tccd1": 58.0,
    }
    assert read["temperature.Tctl"].channel.limits == {"critical": 95.0}


def test_cooling_devices_tell_their_level_and_the_highest(boards: Boards) -> None:
    read = sweep(boards("orin-nano-super-jp6.thermal"))
    assert read["cooling.cpufreq-cpu4"].value == 7
    assert read["cooling.cpufreq-cpu4"].channel.limits == {"max": 13.0}
    assert read["cooling.gpu-throttle-alert"].value == 1


def test_a_fan_is_no_cooling_that_slows(boards: Boards) -> None:
    read = sweep(boards("orin-nano-super-jp6.thermal"))
    assert "cooling.pwm-fan" not in read
    assert read["fan.pwm-fan"].value is not None


def test_a_cooling_device_that_is_not_in_use_is_not_at_zero(tmp_path: Path) -> None:
    folder = "sys/class/thermal/cooling_device0"
    files: Files = {
        f"{folder}/type": "intel_powerclamp",
        f"{folder}/cur_state": "-1",
        f"{folder}/max_state": "50",
    }
    reading = sweep(write(files, tmp_path))["cooling.intel_powerclamp"]
    assert (reading.value, reading.reason) == (None, "not in use")


# --- counters, fans, memory, batteries ------------------------------------------------


def test_a_counter_that_goes_back_is_told_as_it_is(boards: Boards) -> None:
    machine = boards("orin-nano-super-jp6.oc3")
    sensors = find_board(machine.tree(), lambda: 0)
    first = read_all(sensors)["events.oc3"]
    machine.answer("sys/class/hwmon/hwmon3/oc3_event_cnt", b"12\n")
    second = read_once(sensors)["events.oc3"]
    assert (first.value, second.value) == (27_390.0, 12.0)


def throttled_pc(folder: Path) -> Machine:
    """Two packages of two cores of two threads; siblings show the same counters."""
    files: Files = {}
    for cpu in range(8):
        package, core = cpu // 4, cpu // 2 % 2
        base = f"sys/devices/system/cpu/cpu{cpu}"
        files[f"{base}/topology/physical_package_id"] = str(package)
        files[f"{base}/topology/core_id"] = str(core)
        files[f"{base}/thermal_throttle/core_throttle_count"] = str(10 ** (cpu // 2))
        files[f"{base}/thermal_throttle/package_throttle_count"] = str(50_000 + package)
    return write(files, folder)


def test_each_core_and_each_package_counts_once(tmp_path: Path) -> None:
    assert values(throttled_pc(tmp_path)) == {"events.cpu-throttle": 1111 + 100_001}


def test_a_sum_of_counters_that_lacks_one_is_none(tmp_path: Path) -> None:
    machine = throttled_pc(tmp_path)
    counter = "sys/devices/system/cpu/cpu2/thermal_throttle/core_throttle_count"
    machine.answer(counter, errno.EIO)
    reading = sweep(machine)["events.cpu-throttle"]
    assert reading.value is None
    assert "EIO" in reading.reason


def test_a_fan_is_driven_by_a_share(boards: Boards, tmp_path: Path) -> None:
    assert values(boards("agx-thor-jp7"))["fan.pwmfan"] == pytest.approx(58 / 255)
    old = write({"sys/devices/pwm-fan/cur_pwm": "255"}, tmp_path)
    assert values(old) == {"fan.pwmfan": 1.0}


def test_memory_is_in_bytes(boards: Boards) -> None:
    read = values(boards("orin-nano-super-jp6"))
    assert read["memory.available"] == 5_216_640 * 1024
    assert read["memory.total"] == 7_789_952 * 1024


def test_a_line_of_memory_that_is_gone_costs_itself_only(boards: Boards) -> None:
    machine = boards("orin-nano-super-jp6")
    sensors = find_board(machine.tree(), lambda: 0)
    machine.answer("proc/meminfo", b"MemTotal: 100 kB\nMemAvailable: x\n")
    read = read_once(sensors)
    assert read["memory.total"].value == 102_400
    assert read["memory.available"].reason == "no line MemAvailable in meminfo"


def test_batteries_tell_their_size_once_and_apart(tmp_path: Path) -> None:
    supply = "sys/class/power_supply"
    files: Files = {
        f"{supply}/BAT0/type": "Battery",
        f"{supply}/BAT0/power_now": "-9300000",
        f"{supply}/BAT1/type": "Battery",
        f"{supply}/BAT1/voltage_now": "12000000",
        f"{supply}/BAT1/current_now": "500000",
        f"{supply}/hid-mouse/type": "Battery",
        f"{supply}/hid-mouse/scope": "Device",
        f"{supply}/hid-mouse/power_now": "1000",
        f"{supply}/ucsi-source-psy-1/type": "USB",
        f"{supply}/ucsi-source-psy-1/voltage_now": "20000000",
        f"{supply}/ucsi-source-psy-1/current_now": "3000000",
    }
    read = sweep(write(files, tmp_path))
    assert {key: each.value for key, each in read.items()} == {
        "power.BAT0": 9.3,
        "power.BAT1": 6.0,
    }
    assert {each.channel.scope for each in read.values()} == {Scope.BATTERY}
