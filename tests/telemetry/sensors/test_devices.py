"""Devices are known by what they are, whatever number they have."""

import errno
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgepipe.telemetry.sensors.devices import SEARCH_EVERY_NS
from edgepipe.telemetry.sensors.kernel import find_board
from edgepipe.telemetry.sensors.reading import Reading
from edgepipe.telemetry.sensors.sensor import Sensor
from edgepipe.telemetry.sensors.tree import Handle, Tree
from tests.telemetry.boards import (
    NAMES,
    Files,
    Machine,
    files_of,
    hwmon,
    read_all,
    read_once,
    renumbered,
    write,
)

S = 1_000_000_000


class Time:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


def sweeps(sensors: list[Sensor], time: Time, seconds: int) -> dict[str, Reading]:
    """The last of one sweep a second."""
    for _ in range(seconds - 1):
        time.now_ns += S
        read_all(sensors)
    time.now_ns += S
    return read_all(sensors)


def told(machine: Machine) -> list[tuple[object, ...]]:
    """All that does not depend on numbers, in order."""
    return [
        (key, reading.value, reading.reason, reading.channel.limits)
        for key, reading in read_once(find_board(machine.tree(), lambda: 0)).items()
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shuffled")


@settings(max_examples=12, derandomize=True, deadline=None)
@given(st.sampled_from(NAMES), st.permutations(range(12)))
def test_another_order_of_devices_changes_nothing(
    folder: Path, name: str, order: list[int]
) -> None:
    shutil.rmtree(folder)
    files = files_of(name)
    before = told(write(files, folder / "before"))
    numbers = dict(enumerate(order))
    assert told(write(renumbered(files, numbers), folder / "after")) == before


def two_chips(first: int, second: int) -> Files:
    """Two chips of the same kind on one bus, with rails 1 and 2 of 5 V."""
    return {
        **hwmon(first, "ina3221", "i2c-1/1-0040", in1_label="VDD_IN", in1_input=5_000,
                curr1_input=1_000),
        **hwmon(second, "ina3221", "i2c-1/1-0041", in1_label="VDD_SOC",
                in1_input=5_000, curr1_input=200),
    }  # fmt: skip


def move(machine: Machine, before: Files, after: Files) -> None:
    """What loading the drivers again does: old files are dead, others are there."""
    for path in before:
        machine.answer(path, errno.ENODEV)
    shutil.rmtree(machine.root / "sys")
    write(after, machine.root)
    for path in after:
        machine.answers.pop(path, None)


def test_chips_that_swap_their_numbers_are_not_mistaken_for_each_other(
    tmp_path: Path,
) -> None:
    time = Time()
    before, after = two_chips(3, 4), two_chips(4, 3)
    machine = write(before, tmp_path)
    sensors = find_board(machine.tree(), time)
    read_all(sensors)
    time.now_ns = 6 * S
    move(machine, before, after)
    values: list[tuple[float | None, float | None]] = []
    for _ in range(3):
        readings = read_all(sensors)
        values.append((readings["power.VDD_IN"].value, readings["power.VDD_SOC"].value))
        time.now_ns += 21_000_000
    assert values[-1] == (5.0, 1.0)
    assert set(values) <= {(5.0, 1.0), (None, None), (5.0, None), (None, 1.0)}


def test_a_chip_that_is_gone_says_so_and_is_back_by_itself(tmp_path: Path) -> None:
    time = Time()
    before, after = two_chips(3, 4), two_chips(7, 8)
    machine = write(before, tmp_path)
    sensors = find_board(machine.tree(), time)
    read_all(sensors)
    move(machine, before, {"sys/class/hwmon/none": ""})
    gone = sweeps(sensors, time, 3)
    assert gone["power.VDD_IN"].value is None
    assert "gone" in gone["power.VDD_IN"].reason
    write(after, tmp_path)
    back = sweeps(sensors, time, 7)
    assert back["power.VDD_IN"].value == 5.0
    assert back["current.VDD_SOC"].value == 0.2


def test_a_chip_that_stays_away_is_looked_for_every_few_seconds_only(
    tmp_path: Path,
) -> None:
    time, searches = Time(), [0]

    class Counted(Tree):
        def glob(self, pattern: str) -> list[Path]:
            searches[0] += "hwmon*" in pattern
            return super().glob(pattern)

        def open(self, path: Path | str) -> Handle:
            return machine.tree().open(path)

    files = hwmon(3, "ina3221", "1-0040", in1_label="VDD_IN", in1_input=1,
                  curr1_input=1)  # fmt: skip
    machine = write(files, tmp_path)
    sensors = find_board(Counted(tmp_path), time)
    move(machine, files, {"sys/class/hwmon/none": ""})
    searches[0] = 0
    for _ in range(47 * 12):
        time.now_ns += S // 47
        read_all(sensors)
    assert searches[0] == 12 * S // SEARCH_EVERY_NS + 1


def test_one_file_that_vanishes_costs_its_rail_only(tmp_path: Path) -> None:
    time = Time()
    files = hwmon(3, "ina3221", "1-0040", in1_label="A", in1_input=5_000,
                  curr1_input=1_000, in2_label="B", in2_input=5_000,
                  curr2_input=100)  # fmt: skip
    machine = write(files, tmp_path)
    sensors = find_board(machine.tree(), time)
    machine.answer("sys/class/hwmon/hwmon3/curr1_input", errno.ENOENT)
    for _ in range(500):
        time.now_ns += S // 47
        readings = read_all(sensors)
        assert readings["power.A"].reason == "current: not there"
        assert readings["power.B"].value == 0.5


def test_chips_without_a_place_are_told_apart_by_their_labels(tmp_path: Path) -> None:
    files = {
        **hwmon(0, "ina3221", in1_label="GPU", in1_input=19_000, curr1_input=100),
        **hwmon(1, "ina3221", in1_label="CV", in1_input=19_000, curr1_input=10),
    }
    swapped = {
        **hwmon(1, "ina3221", in1_label="GPU", in1_input=19_000, curr1_input=100),
        **hwmon(0, "ina3221", in1_label="CV", in1_input=19_000, curr1_input=10),
    }
    first = told(write(files, tmp_path / "a"))
    assert told(write(swapped, tmp_path / "b")) == first
