"""The energy counters of x86 processors, on small trees of files."""

import errno
import os
from pathlib import Path

import pytest

from edgepipe.telemetry.sensors.rapl import find_rapl
from edgepipe.telemetry.sensors.reading import Quality, Reading, Scope
from edgepipe.telemetry.sensors.sensor import Pace, Sensor
from edgepipe.telemetry.sensors.tree import Handle, KeptFile, Tree

from .fake_time import FakeTime

S = 1_000_000_000
RANGE_UJ = 262_143_328_850


class Machine:
    """A powercap tree whose counters a test sets."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.time = FakeTime()

    def zone(
        self, zone: str, name: str, uj: int, range_uj: int = RANGE_UJ, enabled: int = 1
    ) -> None:
        folder = self.root / "sys/class/powercap" / zone
        folder.mkdir(parents=True)
        (folder / "name").write_text(f"{name}\n")
        (folder / "max_energy_range_uj").write_text(f"{range_uj}\n")
        (folder / "enabled").write_text(f"{enabled}\n")
        self.set(zone, uj)

    def set(self, zone: str, uj: int) -> None:
        path = self.root / "sys/class/powercap" / zone / "energy_uj"
        path.write_text(f"{uj}\n")

    def after(self, seconds: float) -> None:
        self.time.ns += int(seconds * S)

    def find(self) -> list[Sensor]:
        return find_rapl(Tree(self.root), self.time)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def desktop(machine: Machine) -> Machine:
    machine.zone("intel-rapl:0", "package-0", 262_143_320_000)
    machine.zone("intel-rapl:0:0", "core", 1_234_567_890)
    machine.zone("intel-rapl:0:1", "uncore", 1000)
    machine.zone("intel-rapl:0:2", "dram", 65_712_999_000, 65_712_999_613)
    machine.zone("intel-rapl:1", "psys", 5_000_000)
    return machine


def readings(sensors: list[Sensor]) -> dict[str, Reading]:
    return {r.channel.name: r for sensor in sensors for r in sensor.read()}


def test_each_zone_has_a_name_and_a_scope_of_its_own(desktop: Machine) -> None:
    found = readings(desktop.find())
    assert {name: r.channel.scope for name, r in found.items()} == {
        "package-0": Scope.CPU_PACKAGE,
        "core-0": Scope.RAIL,
        "uncore-0": Scope.RAIL,
        "dram-0": Scope.MEMORY,
        "psys": Scope.SYSTEM_INPUT,
    }
    assert found["package-0"].value == 262_143.32
    assert found["uncore-0"].value == 0.001
    assert found["dram-0"].channel.key == "energy.dram-0"


def test_a_wrap_is_undone_in_each_zone_by_its_own_range(desktop: Machine) -> None:
    sensors = desktop.find()
    before = readings(sensors)
    desktop.after(0.02)
    desktop.set("intel-rapl:0", 1_000_000)
    desktop.set("intel-rapl:0:2", 99)
    after = readings(sensors)
    grown = {
        name: round((after[name].value or 0) * 1e6 - (before[name].value or 0) * 1e6)
        for name in ("package-0", "dram-0")
    }
    assert grown == {
        "package-0": RANGE_UJ - 262_143_320_000 + 1 + 1_000_000,
        "dram-0": 613 + 1 + 99,
    }
    assert after["package-0"].quality is Quality.GOOD


def test_two_sockets_and_the_dies_of_one_are_told_apart(machine: Machine) -> None:
    machine.zone("intel-rapl:0", "package-0-die-0", 10)
    machine.zone("intel-rapl:0:0", "dram", 20)
    machine.zone("intel-rapl:1", "package-1-die-0", 30)
    machine.zone("intel-rapl:1:0", "dram", 40)
    machine.zone("intel-rapl:2", "psys", 50)
    machine.zone("intel-rapl:3", "psys", 60)
    found = readings(machine.find())
    assert {name: round((r.value or 0) * 1e6) for name, r in found.items()} == {
        "package-0-die-0": 10,
        "dram-0-die-0": 20,
        "package-1-die-0": 30,
        "dram-1-die-0": 40,
        "psys": 50,
        "psys-3": 60,
    }


def test_a_package_that_is_there_twice_is_counted_once(machine: Machine) -> None:
    machine.zone("intel-rapl-mmio:0", "package-0", 7_000_000)
    machine.zone("intel-rapl:0", "package-0", 5_000_000)
    (sensor,) = machine.find()
    (reading,) = sensor.read()
    assert (reading.value, reading.channel.source) == (5.0, "RAPL intel-rapl:0")


def test_the_copy_is_used_where_the_first_gives_nothing(machine: Machine) -> None:
    machine.zone("intel-rapl:0", "package-0", 0)
    machine.zone("intel-rapl-mmio:0", "package-0", 7_000_000)
    assert readings(machine.find())["package-0"].value == 7.0


def test_a_zone_whose_limits_are_disabled_counts_all_the_same(machine: Machine) -> None:
    machine.zone("intel-rapl:0", "package-0", 5_000_000, enabled=0)
    assert readings(machine.find())["package-0"].value == 5.0


def test_a_zone_that_has_never_counted_is_not_measured(machine: Machine) -> None:
    machine.zone("intel-rapl:0", "package-0", 5_000_000)
    machine.zone("intel-rapl:0:1", "uncore", 0)
    uncore = readings(machine.find())["uncore-0"]
    assert (uncore.value, uncore.quality) == (None, Quality.MISSING)


def test_a_counter_that_stands_still_does_not_measure(desktop: Machine) -> None:
    sensors = desktop.find()
    readings(sensors)
    desktop.after(2.0)
    still = readings(sensors)
    assert still["package-0"].reason == "it stands still: not measured"
    assert still["uncore-0"].value == 0.001  # graphics may rest
    desktop.set("intel-rapl:0", 262_143_321_000)
    assert readings(sensors)["package-0"].value is not None


def test_an_interval_as_long_as_a_turn_is_a_gap(machine: Machine) -> None:
    machine.zone("intel-rapl:0", "package-0", 1_000_000)
    sensors = machine.find()
    readings(sensors)
    machine.after(263)
    machine.set("intel-rapl:0", 2_000_000)
    late = readings(sensors)["package-0"]
    assert (late.value, late.quality) == (2.0, Quality.DOUBTFUL)
    assert late.reason == "not read for 263 s: the counter may have gone round"
    machine.after(65)
    machine.set("intel-rapl:0", 3_000_000)
    assert readings(sensors)["package-0"].quality is Quality.GOOD


def test_a_counter_that_begins_anew_after_a_suspend_is_no_wrap(
    desktop: Machine,
) -> None:
    sensors = desktop.find()
    desktop.set("intel-rapl:0", 100_000_000_000)
    readings(sensors)
    desktop.after(0.02)  # the clock stands while the machine is suspended
    desktop.set("intel-rapl:0", 50_000)
    anew = readings(sensors)["package-0"]
    assert (anew.value, anew.quality) == (100_000.0, Quality.DOUBTFUL)


class Denied:
    """A counter as a normal user finds it."""

    def read(self) -> bytes:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    def close(self) -> None:
        """Nothing is open."""


def as_user(path: Path) -> Handle:
    return Denied() if path.name == "energy_uj" else KeptFile(path)


def test_without_permission_the_remedy_is_told_and_not_at_each_sweep(
    desktop: Machine,
) -> None:
    (sensor,) = find_rapl(Tree(desktop.root, as_user), desktop.time)
    assert sensor.pace is Pace.SLOW
    for reading in sensor.read():
        assert reading.value is None
        assert reading.reason.startswith("permission denied: only root may read it;")
        assert "sudo chmod a+r" in reading.reason
        assert "\n" not in reading.reason


def test_what_a_container_hides_is_said_to_be_there(machine: Machine) -> None:
    folder = machine.root / "sys/class/powercap"
    folder.mkdir(parents=True)
    for zone in ("intel-rapl:0", "intel-rapl:0:0"):
        (folder / zone).symlink_to(f"../../devices/virtual/powercap/{zone}")
    found = readings(machine.find())
    assert list(found) == ["package-0", "part-0-0"]
    assert "container" in found["package-0"].reason


def test_a_machine_without_counters_has_no_sensor(machine: Machine) -> None:
    (machine.root / "sys/class/powercap").mkdir(parents=True)
    assert machine.find() == []


@pytest.mark.parametrize("text", ["", "garbage\n", "-5\n"])
def test_garbage_is_no_value_and_what_comes_after_it_counts_on(
    desktop: Machine, text: str
) -> None:
    sensors = desktop.find()
    path = desktop.root / "sys/class/powercap/intel-rapl:0:0/energy_uj"
    readings(sensors)
    path.write_text(text)
    broken = readings(sensors)
    assert broken["core-0"].value is None
    assert broken["package-0"].value is not None
    desktop.set("intel-rapl:0:0", 1_234_567_891)
    assert readings(sensors)["core-0"].value == 1234.567891


def test_a_closed_sensor_holds_no_file_and_may_be_closed_again(
    desktop: Machine,
) -> None:
    (sensor,) = desktop.find()
    sensor.read()
    sensor.close()
    sensor.close()
    held = [os.path.realpath(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")]
    assert not [path for path in held if path.startswith(str(desktop.root))]


@pytest.mark.parametrize("range_uj", [-1, 0])
def test_a_range_that_is_none_is_no_wrap(machine: Machine, range_uj: int) -> None:
    machine.zone("intel-rapl:0", "package-0", 5_000_000, range_uj)
    (sensor,) = machine.find()
    sensor.read()
    machine.after(1)
    machine.set("intel-rapl:0", 7_000_000)
    assert [each.value for each in sensor.read()] == [7.0]
