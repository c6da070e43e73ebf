"""The machines that other tests read."""

import errno
import json
from pathlib import Path

import pytest

from .boards import EXPECTED, NAMES, Boards, files_of, renumbered, write


def test_there_are_ten_machines_and_each_has_its_expectation() -> None:
    assert len(NAMES) == 10
    assert set(NAMES) == set(EXPECTED)


def test_files_that_hardware_does_not_let_be_read_fail(boards: Boards) -> None:
    zone = boards("agx-orin-jp6").tree().open("sys/class/thermal/thermal_zone1/temp")
    with pytest.raises(BlockingIOError) as refused:
        zone.read()
    assert refused.value.errno == errno.EAGAIN


def test_a_normal_user_may_not_read_what_only_root_may(boards: Boards) -> None:
    path = "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_cur_freq"
    machine = boards("nano-jp4")
    assert machine.tree().number(path).value == 1_224_000
    assert machine.tree(user=True).number(path).reason == "permission denied"


def test_an_answer_holds_for_its_machine_only_and_through_links(boards: Boards) -> None:
    path = "sys/class/hwmon/hwmon1/in1_input"
    machine = boards("orin-nano-super-jp6")
    machine.answer(path, b"77\n")
    untouched = boards("orin-nano-super-jp6").tree()
    assert machine.tree().number(path).value == 77
    assert untouched.number(path).value == 4984


def test_a_machine_like_another_has_its_files(boards: Boards) -> None:
    tree = boards("orin-nano-super-jp6.oc3").tree()
    assert tree.number("sys/class/hwmon/hwmon3/oc3_event_cnt").value == 27_390
    assert tree.text("var/lib/nvpmodel/status") == "pmode:0002 fmode:fanmode_quiet"


def test_hwmon_devices_can_change_their_numbers(tmp_path: Path) -> None:
    files = renumbered(files_of("agx-orin-jp6"), {3: 4, 4: 3})
    tree = write(files, tmp_path).tree()
    assert tree.text("sys/class/hwmon/hwmon4/in1_label") == "VDD_GPU_SOC"
    assert tree.text("sys/class/hwmon/hwmon3/in2_label") == "VDDQ_VDD2_1V8AO"
    assert json.dumps(files).count("hwmon5") > 0
