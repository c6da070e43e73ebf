"""Which machine it is, how it is set, and why it cannot measure its power."""

from dataclasses import replace
from pathlib import Path

import pytest

from edgepipe.telemetry.sensors.board import Board, identify, why_no_power
from edgepipe.telemetry.sensors.power_mode import Mode
from edgepipe.telemetry.sensors.tree import Tree
from tests.telemetry.boards import (
    EXPECTED,
    NAMES,
    Boards,
    Files,
    files_of,
    hwmon,
    write,
)


def facts(files: Files, folder: Path) -> Board:
    return identify(write(files, folder).tree())


@pytest.mark.parametrize("name", NAMES)
def test_the_model_is_what_the_firmware_says(boards: Boards, name: str) -> None:
    board = identify(boards(name).tree())
    assert board.model == EXPECTED[name]["model"]
    assert board.is_jetson == (EXPECTED[name]["model"] is not None)


@pytest.mark.parametrize(
    ("name", "soc", "l4t", "jetpack"),
    [
        ("nano-jp4", "tegra210", "32.7.4", "4"),
        ("xavier-nx-jp5", "tegra194", "35.4.1", "5"),
        ("orin-nano-super-jp6", "tegra234", "36.4.4", "6.2"),
        ("agx-thor-jp7", "tegra264", "38.4.0", "7.1"),
    ],
)
def test_chip_and_release_are_known(
    boards: Boards, name: str, soc: str, l4t: str, jetpack: str
) -> None:
    board = identify(boards(name).tree())
    assert (board.soc, board.l4t, board.jetpack) == (soc, l4t, jetpack)


@pytest.mark.parametrize(
    ("release", "l4t", "jetpack"),
    [
        ("# R36 (release), REVISION: 4.0, GCID: 1", "36.4.0", "6"),
        ("# R36 (release), REVISION: 4.3, GCID: 1", "36.4.3", "6.2"),
        ("# R36 (release), REVISION: 5.0, GCID: 1", "36.5.0", "6"),
        ("# R34 (release), REVISION: 1.1", "34.1.1", "5"),
        ("# R38 (release), REVISION: 2.0, EABI: aarch64", "38.2.0", "7.0"),
        ("# R39 (release), REVISION: 2.0", "39.2.0", "7.2"),
        ("# R99 (release), REVISION: 1.0", "99.1.0", None),
        ("nonsense", None, None),
    ],
)
def test_jetpack_is_told_as_far_as_the_release_tells_it(
    tmp_path: Path, release: str, l4t: str | None, jetpack: str | None
) -> None:
    board = facts({"etc/nv_tegra_release": release}, tmp_path)
    assert (board.l4t, board.jetpack) == (l4t, jetpack)


def test_a_power_mode_has_a_number_a_name_and_caps(boards: Boards) -> None:
    mode = identify(boards("orin-nano-super-jp6").tree()).power_mode
    assert mode is not None
    assert mode.current == Mode(2, "MAXN_SUPER", {}, 6)
    assert mode.default == Mode(
        1,
        "25W",
        {
            "CPU_A78_0": 1_344_000_000,
            "CPU_A78_1": 1_344_000_000,
            "GPU": 918_000_000,
            "EMC": 3_199_000_000,
        },
        6,
    )


def test_a_mode_may_switch_cores_off(boards: Boards, tmp_path: Path) -> None:
    files = {**files_of("nano-jp4"), "var/lib/nvpmodel/status": "pmode:0001"}
    mode = facts(files, tmp_path).power_mode
    assert mode is not None
    assert mode.current == Mode(
        1, "5W", {"CPU_A57": 918_000_000, "GPU": 640_000_000}, 2
    )
    assert mode.fan_profile is None


def test_a_long_table_is_read_to_its_end(tmp_path: Path) -> None:
    table = "# filler\n" * 2_000
    table += "< POWER_MODEL ID=7 NAME=40W >\n< PM_CONFIG DEFAULT=7 >"
    files: Files = {
        "etc/nvpmodel.conf": table,
        "var/lib/nvpmodel/status": "pmode:0007 fmode:fanmode_cool",
    }
    mode = facts(files, tmp_path).power_mode
    assert mode is not None
    assert (mode.current, mode.default) == (Mode(7, "40W"), Mode(7, "40W"))
    assert mode.fan_profile == "cool"


@pytest.mark.parametrize(
    ("status", "name", "reason"),
    [
        ("pmode:0042", "not in the table", ""),
        ("garbage", None, "/var/lib/nvpmodel/status names no mode"),
    ],
)
def test_a_mode_that_is_not_known_is_not_guessed(
    tmp_path: Path, status: str, name: str | None, reason: str
) -> None:
    mode = facts({"var/lib/nvpmodel/status": status}, tmp_path).power_mode
    assert mode is not None
    assert (mode.current.name if mode.current else None) == name
    assert (mode.default, mode.reason) == (None, reason)


def test_clocks_are_pinned_when_none_can_move(boards: Boards) -> None:
    pinned = identify(boards("orin-nano-super-jp6.oc3").tree())
    free = identify(boards("orin-nano-super-jp6").tree())
    assert (pinned.pinned, pinned.moving) == (True, ())
    assert (free.pinned, free.moving) == (False, ("cpu0", "cpu4", "gpu"))


def test_a_gpu_that_moves_is_not_pinned(boards: Boards) -> None:
    machine = boards("orin-nano-super-jp6.oc3")
    machine.answer("sys/class/devfreq/17000000.gpu/min_freq", b"306000000\n")
    board = identify(machine.tree())
    assert (board.pinned, board.moving) == (False, ("gpu",))


def test_pins_that_cannot_be_read_are_not_known(boards: Boards) -> None:
    machine = boards("orin-nano-super-jp6.oc3")
    machine.answer("sys/devices/system/cpu/cpufreq/policy4/scaling_min_freq", 5)
    assert identify(machine.tree()).pinned is None
    assert identify(boards("vm-none").tree()).pinned is None


def test_governors_and_fan_are_told(boards: Boards) -> None:
    board = identify(boards("agx-thor-jp7").tree())
    assert board.governors["cpu12"] == "schedutil"
    assert board.governors["emc"] == "userspace"
    assert (board.fan_profile, board.fan_rpm) == ("quiet", 1786)


def test_a_machine_without_anything_is_nothing(tmp_path: Path) -> None:
    board = identify(Tree(tmp_path))
    assert replace(board, governors={}, moving=()) == Board(
        model=None, soc=None, l4t=None, jetpack=None, power_mode=None, pinned=None,
        moving=(), governors={}, fan_profile=None, fan_rpm=None, virtual_machine="",
        container="",
    )  # fmt: skip


# --- why there is no power -----------------------------------------------------------


def test_a_virtual_machine_has_no_sensor(boards: Boards) -> None:
    assert why_no_power(boards("vm-none").tree()) == (
        "no power sensor: this is a virtual machine (hypervisor flag of the processor)"
    )


def test_a_counter_that_only_root_may_read_has_its_remedy(boards: Boards) -> None:
    why = why_no_power(boards("x86-rapl").tree(user=True))
    assert "only root may read" in why
    assert "chmod a+r" in why


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (
            {"proc/device-tree/model": "NVIDIA Jetson Nano 2GB Developer Kit\0"},
            "the Jetson Nano 2GB has no INA3221",
        ),
        (
            {"proc/device-tree/model": "NVIDIA Jetson AGX Orin Developer Kit\0"},
            "the driver of the INA3221 is not loaded",
        ),
        (
            {
                "proc/device-tree/model": "NVIDIA Jetson AGX Orin Developer Kit\0",
                "sys/bus/i2c/drivers/ina3221/1-0040/name": "ina3221",
            },
            "the rails of the INA3221 at 1-0040 cannot be read",
        ),
        ({"run/.containerenv": ""}, "none is shown in this container (.containerenv)"),
        (
            {"proc/device-tree/compatible": "radxa,rock-5b\0rockchip,rk3588\0"},
            "the kernel shows none on this rk3588",
        ),
        ({"proc/cpuinfo": "flags : fpu sse"}, "modprobe intel_rapl_msr"),
        (hwmon(0, "nvme", temp1_input=40_000), "no power in hwmon"),
    ],
)
def test_the_reason_fits_the_machine(tmp_path: Path, files: Files, said: str) -> None:
    why = why_no_power(write(files, tmp_path).tree())
    assert why.startswith("no power sensor: ")
    assert said in why
    assert "\n" not in why
