"""The INA3221 of Jetson boards, as JetPack 4 and as later releases show it."""

from itertools import count
from pathlib import Path

import pytest

from edgepipe.telemetry.sensors.hwmon import find_hwmon
from edgepipe.telemetry.sensors.iio import find_iio
from edgepipe.telemetry.sensors.reading import Channel, Kind, Scope
from edgepipe.telemetry.sensors.sensor import Pace
from edgepipe.telemetry.sensors.tree import Handle, KeptFile, Tree
from tests.telemetry.boards import Boards, Files, files_of, hwmon, read_once, write

RAIL = {"in1_label": "VDD_IN", "in1_input": 5_000, "curr1_input": 1_000}


def rails(tree: Tree) -> dict[str, Channel]:
    sensors = [*find_iio(tree, lambda: 0), *find_hwmon(tree, lambda: 0)]
    channels = [channel for sensor in sensors for channel in sensor.channels]
    return {each.name: each for each in channels if each.kind is Kind.POWER}


def read_rails(tree: Tree) -> dict[str, float | None]:
    sensors = [*find_iio(tree, lambda: 0), *find_hwmon(tree, lambda: 0)]
    return {
        each.channel.name: each.value
        for each in read_once(sensors).values()
        if each.channel.kind is Kind.POWER
    }


def test_three_rails_take_six_reads(boards: Boards) -> None:
    reads: list[Path] = []

    class Counted(KeptFile):
        def __init__(self, path: Path) -> None:
            super().__init__(path)
            self.path = path

        def read(self) -> bytes:
            reads.append(self.path)
            return super().read()

    tree = Tree(boards("orin-nano-super-jp6").root, Counted)
    (fast,) = [s for s in find_hwmon(tree, lambda: 0) if s.pace is Pace.FAST]
    reads.clear()
    fast.read()
    assert len(reads) == 6


def test_a_value_is_of_the_middle_of_its_own_reads(boards: Boards) -> None:
    times = count(step=100)
    tree = boards("orin-nano-super-jp6").tree()
    fast = find_hwmon(tree, lambda: next(times))[0]
    start_ns = next(times) + 100
    at_ns = [reading.at_ns - start_ns for reading in fast.read()]
    assert at_ns == [50, 150, 250]


@pytest.mark.parametrize(
    ("read_ns", "pace"),
    [(1_500_000, Pace.FAST), (20_000_000, Pace.MEDIUM), (300_000_000, Pace.SLOW)],
)
def test_rails_that_take_long_are_read_less_often(
    tmp_path: Path, read_ns: int, pace: Pace
) -> None:
    times = count(step=read_ns // 3)
    tree = write(hwmon(0, "ina3221", **RAIL), tmp_path).tree()
    assert find_hwmon(tree, lambda: next(times))[0].pace is pace


def test_sums_shunts_and_rails_without_a_name_are_left_out(tmp_path: Path) -> None:
    files = hwmon(
        0, "ina3221", **RAIL,
        in2_label="NC", in2_input=5_000, curr2_input=10,
        in3_input=5_000, curr3_input=20,
        in4_input=5_000, in7_label="sum of shunt voltages", in7_input=9_000,
        curr4_input=1_030,
    )  # fmt: skip
    assert read_rails(write(files, tmp_path).tree()) == {"VDD_IN": 5.0}


def test_a_channel_that_is_switched_off_is_none(tmp_path: Path) -> None:
    files = hwmon(
        0, "ina3221", **RAIL, in2_label="VDD_SOC", in2_enable=0, in2_input=5_000,
        curr2_input=100,
    )  # fmt: skip
    assert list(rails(write(files, tmp_path).tree())) == ["VDD_IN"]


@pytest.mark.parametrize(
    "what", [{"in1_input": -256_000}, {"in1_input": 32_768}, {"curr1_input": 32_768}]
)
def test_what_the_chip_cannot_measure_is_no_measurement(
    tmp_path: Path, what: dict[str, int]
) -> None:
    files = hwmon(0, "ina3221", **{**RAIL, **what, "shunt1_resistor": 5_000})
    assert read_rails(write(files, tmp_path).tree()) == {"VDD_IN": None}


def test_a_rail_whose_sensor_has_an_offset_stays_negative(boards: Boards) -> None:
    read = read_rails(boards("agx-thor-jp7.gpu-gated").tree())
    assert read["VDD_GPU"] == pytest.approx(-0.39248)


def test_the_filter_is_what_the_driver_tells(tmp_path: Path) -> None:
    files = hwmon(0, "ina3221", **RAIL, samples=512, update_interval=3_379)
    assert rails(write(files, tmp_path).tree())["VDD_IN"].tau_s == 3.379


def test_a_filter_that_is_not_told_is_not_guessed(boards: Boards) -> None:
    found = rails(boards("orin-nano-super-jp6").tree())
    assert found["VDD_IN"].tau_s is None


def test_a_step_is_that_of_the_current_at_the_rail_s_voltage(boards: Boards) -> None:
    found = rails(boards("agx-orin-jp6").tree())
    assert found["VDD_GPU_SOC"].step == pytest.approx(0.020 * 20.104)
    assert found["VIN_SYS_5V0"].step == pytest.approx(0.020 * 5.008)


def test_a_limit_at_the_end_of_the_range_is_none(boards: Boards) -> None:
    found = rails(boards("orin-nano-super-jp6").tree())
    assert found["VDD_IN"].limits["crit"] == pytest.approx(4.984 * 4.984)
    assert found["VDD_SOC"].limits == {}


def test_where_the_driver_converts_for_each_read_power_is_read_alone(
    boards: Boards,
) -> None:
    machine = boards("nano-jp4")
    folder = "sys/bus/i2c/drivers/ina3221x/6-0040/iio:device0"
    machine.answer(f"{folder}/in_power0_input", b"1751\n")
    assert read_rails(machine.tree()) == {
        "POM_5V_IN": 1.751,
        "POM_5V_GPU": 0.0,
        "POM_5V_CPU": 0.366,
    }
    found = rails(machine.tree())["POM_5V_IN"]
    assert (found.scope, found.tau_s, found.limits) == (Scope.MODULE_INPUT, 0.0, {})


def test_a_limit_with_its_unit_behind_it_is_read(boards: Boards) -> None:
    machine = boards("nano-jp4")
    folder = "sys/bus/i2c/drivers/ina3221x/6-0040/iio:device0"
    machine.answer(f"{folder}/crit_current_limit_0", b"4000 ma\n")
    limits = rails(machine.tree())["POM_5V_IN"].limits
    assert limits == {"crit": pytest.approx(20.352)}


def test_the_folder_of_very_old_releases_is_known(tmp_path: Path) -> None:
    folder = "sys/bus/i2c/drivers/ina3221x/0-0041/iio_device"
    files: Files = {
        f"{folder}/rail_name_0": "VDD_IN",
        f"{folder}/in_power0_input": "3177",
        f"{folder}/in_power0_trigger_input": "0",
        f"{folder}/rail_name_1": "NC",
        f"{folder}/in_power1_input": "5",
    }
    assert read_rails(write(files, tmp_path).tree()) == {"VDD_IN": 3.177}


def test_the_input_of_a_thor_needs_no_label(tmp_path: Path) -> None:
    files = {
        path: entry
        for path, entry in files_of("agx-thor-jp7").items()
        if not path.endswith("hwmon4/in1_label")
    }
    assert read_rails(write(files, tmp_path).tree())["VIN"] == 19.78


def test_the_same_chip_elsewhere_is_named_by_its_driver(tmp_path: Path) -> None:
    tree = write(hwmon(0, "ina238", power1_input=1_000_000), tmp_path).tree()
    assert rails(tree)["ina238"].scope is Scope.RAIL


def test_closing_gives_all_descriptors_back(boards: Boards) -> None:
    opened: list[Handle] = []
    closed: list[Handle] = []

    class Counted(KeptFile):
        def read(self) -> bytes:
            opened.append(self)
            return super().read()

        def close(self) -> None:
            closed.append(self)
            super().close()

    tree = Tree(boards("orin-nano-super-jp6").root, Counted)
    sensors = find_hwmon(tree, lambda: 0)
    for sensor in sensors:
        sensor.read()
    for sensor in sensors:
        sensor.close()
        sensor.close()
    assert set(opened) <= set(closed)
