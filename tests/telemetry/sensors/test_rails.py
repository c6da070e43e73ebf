"""Powers whose unit cannot be taken on trust."""

import errno
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgepipe.telemetry.sensors.hwmon import find_hwmon
from edgepipe.telemetry.sensors.rails import (
    CheckedPower,
    PowerFile,
    VoltsTimesAmperes,
    Watts,
)
from edgepipe.telemetry.sensors.reading import Kind, Quality, Reading, Scope
from edgepipe.telemetry.sensors.totals import choose_totals
from tests.telemetry.boards import Files, hwmon, read_once, write

REPEATABLE = settings(derandomize=True, deadline=None)


class Said:
    """A file that says what a test tells it."""

    def __init__(self, text: object) -> None:
        self.text = text
        self.reads = 0

    def read(self) -> bytes:
        self.reads += 1
        if isinstance(self.text, OSError):
            raise self.text
        return f"{self.text}\n".encode()

    def close(self) -> None:
        """Nothing is open."""


def checked(power_uw: object, mv: object, ma: object) -> CheckedPower:
    product = VoltsTimesAmperes(Said(mv), Said(ma))
    return CheckedPower(PowerFile(Said(power_uw), 1_000_000), product)


IO_ERROR = OSError(errno.EIO, os.strerror(errno.EIO))


def powers(files: Files, folder: Path) -> dict[str, Reading]:
    """All readings of power of a machine."""
    readings = read_once(find_hwmon(write(files, folder).tree(), lambda: 0)).values()
    return {r.channel.name: r for r in readings if r.channel.kind is Kind.POWER}


def only(files: Files, folder: Path) -> Reading:
    (reading,) = powers(files, folder).values()
    return reading


@pytest.mark.parametrize(
    ("power_uw", "watts"),
    [(27_320_000, 27.32), (2_400_000_000, 2400.0), (1_500, 0.0015), (0, 0.0)],
)
def test_power_is_in_microwatts_as_the_kernel_rules(
    tmp_path: Path, power_uw: int, watts: float
) -> None:
    reading = only(hwmon(3, "board", power1_input=power_uw), tmp_path)
    assert (reading.value, reading.quality) == (watts, Quality.GOOD)


@pytest.mark.parametrize(
    ("power", "mv", "ma", "watts"),
    [
        (27_320, 12_000, 2_277, 27.324),
        (27_320_000_000, 12_000, 2_277, 27.324),
        (450, 3_300, 137, 0.4521),
        (2_300_000, 230_000, 10_000, 2_300.0),
        (0, 12_000, 2_277, 27.324),
        (273_240_000, 12_000, 2_277, 27.324),
    ],
    ids=["mW", "nW", "small mW", "kW in mW", "dead power file", "tenfold"],
)
def test_a_power_that_is_not_volts_times_amperes_is_doubtful(
    power: int, mv: int, ma: int, watts: float
) -> None:
    value, reason = checked(power, mv, ma).measure()
    assert value == pytest.approx(watts)
    assert reason.startswith("unit doubtful")


@pytest.mark.parametrize(
    ("power", "mv", "ma"),
    [
        (27_320_000, 12_000, 2_277),
        (1_200_000_000, 48_000, 24_000),
        (20_000_000, 12_000, 800),
        (5_000, 12_000, 0),
        (0, 12_000, 1),
        (2_400_000_000, 230_000, 10_500),
    ],
    ids=["right", "kW", "near", "idle", "one step of current", "kW of mains"],
)
def test_a_power_near_volts_times_amperes_is_good(power: int, mv: int, ma: int) -> None:
    assert checked(power, mv, ma).measure() == Watts(power / 1e6)


def test_a_power_without_a_sign_is_told_once_and_the_current_has_the_sign(
    tmp_path: Path,
) -> None:
    files = hwmon(
        2, "ina219", power1_input=176_000, curr1_input=-40, in0_input=-4, in1_input=4228
    )
    readings = read_once(find_hwmon(write(files, tmp_path).tree(), lambda: 0))
    assert readings["power.ina219"].value == 0.176
    assert readings["power.ina219"].quality is Quality.GOOD
    assert readings["current.ina219"].value == -0.04
    assert [key for key in readings if key.startswith("power")] == ["power.ina219"]


def test_what_flows_backwards_keeps_its_size_when_the_unit_is_wrong() -> None:
    assert checked(27_320, 12_000, -2_277).measure().value == pytest.approx(27.324)


def test_a_signed_power_keeps_its_sign() -> None:
    assert checked(-27_320_000, 12_000, -2_277).measure() == Watts(-27.32)


@pytest.mark.parametrize("files", [{"curr1_input": 2277}, {"in1_input": 12000}])
def test_half_a_pair_proves_nothing(tmp_path: Path, files: Mapping[str, int]) -> None:
    reading = only(hwmon(5, "half", power1_input=27_320, **files), tmp_path)
    assert (reading.value, reading.reason) == (0.02732, "")


def test_a_current_that_does_not_move_does_not_make_power_zero() -> None:
    value, reason = checked(27_320_000, 12_000, 0).measure()
    assert value == 27.32
    assert "are 0" in reason


def test_a_unit_that_was_never_checked_is_doubtful() -> None:
    value, reason = checked(27_320_000, 12_000, IO_ERROR).measure()
    assert value == 27.32
    assert reason.startswith("not checked")


def test_a_wrong_unit_gives_no_value_while_volts_cannot_be_read() -> None:
    volts = Said(12_000)
    rail = CheckedPower(
        PowerFile(Said(27_320), 1_000_000), VoltsTimesAmperes(volts, Said(2_277))
    )
    rail.measure()
    volts.text = IO_ERROR
    value, reason = rail.measure()
    assert value is None
    assert "unit is wrong" in reason


def test_a_unit_that_proved_right_is_not_checked_at_each_reading() -> None:
    volts = Said(12_000)
    rail = CheckedPower(
        PowerFile(Said(27_320_000), 1_000_000), VoltsTimesAmperes(volts, Said(2_277))
    )
    for _ in range(100):
        rail.measure()
    assert volts.reads == 2


@REPEATABLE
@given(st.integers(-(10**9), 10**9), st.integers(-(10**5), 10**5), st.integers())
def test_no_reading_is_far_from_volts_times_amperes_and_called_good(
    power: int, mv: int, ma: int
) -> None:
    value, reason = checked(power, mv, ma % 100_000).measure()
    product = mv * (ma % 100_000) / 1e6
    noise = abs(mv) * 3 / 1e6
    if value is not None and not reason and max(abs(value), abs(product)) > noise:
        assert abs(product) / 3.001 <= abs(value) <= abs(product) * 3.001


@pytest.mark.parametrize("text", ["", "n/a", "12.5", "9" * 19, "-" + "9" * 19])
def test_what_is_no_number_is_no_power(tmp_path: Path, text: str) -> None:
    reading = only(hwmon(0, "odd", power1_input=text), tmp_path)
    assert reading.value is None
    assert reading.reason


def test_batteries_are_apart_and_chargers_are_left_out(tmp_path: Path) -> None:
    files = {
        **hwmon(0, "BAT0", power1_input=9_000_000),
        **hwmon(5, "BAT1", power1_input=8_000_000, in0_input=12_000, curr1_input=-666),
        **hwmon(1, "ucsi_source_psy_USBC000:001", power1_input=15_000_000),
        **hwmon(2, "odd", "i2c-9/9-0055/power_supply/gauge", power1_input=4_000_000),
        **hwmon(3, "ina230", power1_input=5_000_000),
    }
    found = powers(files, tmp_path)
    assert {name: r.value for name, r in found.items()} == {
        "BAT0": 9.0,
        "BAT1": 8.0,
        "ina230": 5.0,
    }
    assert found["BAT1"].channel.scope is Scope.BATTERY
    assert choose_totals([each.channel for each in found.values()]).found == ()


def test_a_power_supply_is_compared_by_its_labels(tmp_path: Path) -> None:
    files = hwmon(
        0, "pmbus",
        in1_label="vin", in1_input=48_000, curr1_label="iin", curr1_input=2_100,
        in2_label="vout1", in2_input=12_000, curr2_label="iout1", curr2_input=8_000,
        power1_label="pin", power1_input=100_800_000,
        power2_label="pout1", power2_input=96_000,
    )  # fmt: skip
    found = powers(files, tmp_path)
    assert (found["pin"].value, found["pin"].reason) == (100.8, "")
    assert found["pout1"].value == 96.0
    assert found["pout1"].quality is Quality.DOUBTFUL


def test_a_voltage_of_another_rail_judges_nothing(tmp_path: Path) -> None:
    files = hwmon(
        0, "corsairpsu",
        power1_label="power total", power1_input=120_000_000,
        power2_label="power +12v", power2_input=60_000_000,
        in0_label="v_in", in0_input=230_000, in1_label="v_out +12v", in1_input=12_000,
        curr1_label="curr in", curr1_input=500, curr2_label="curr +12v",
        curr2_input=5_000,
    )  # fmt: skip
    found = powers(files, tmp_path)
    assert [r.quality for r in found.values()] == [Quality.GOOD, Quality.GOOD]


def test_a_graphics_card_is_a_board_and_a_part_of_a_processor_is_not(
    tmp_path: Path,
) -> None:
    files = {
        **hwmon(0, "amdgpu", "0000:03:00.0", power1_label="PPT", in0_input=800,
                power1_average=95_000_000),
        **hwmon(1, "amdgpu", "0000:c1:00.0", power1_label="PPT", in0_input=800,
                in1_input=700, power1_input=15_000_000),
    }  # fmt: skip
    found = powers(files, tmp_path)
    assert {name: r.value for name, r in found.items()} == {
        "amdgpu": 95.0,
        "amdgpu-1": 15.0,
    }
    totals = choose_totals([each.channel for each in found.values()])
    assert [total.scope for total in totals.found] == [Scope.GPU_BOARD]


def test_limits_and_disabled_powers_are_known(tmp_path: Path) -> None:
    files = hwmon(
        0, "ina260", power1_input=5_000_000, power1_crit=40_000_000,
        power2_input=1, power2_enable=0,
    )  # fmt: skip
    assert only(files, tmp_path).channel.limits == {"crit": 40.0}
