from dataclasses import replace

import pytest

from edgepipe.telemetry.machine.clocks import (
    ClockRange,
    Clocks,
    examine_clocks,
    judge_clocks,
)
from edgepipe.telemetry.machine.finding import Level
from edgepipe.telemetry.machine.nvpmodel_service import is_undone_by_systemd
from edgepipe.telemetry.machine.probe import Measured
from edgepipe.telemetry.sensors.clocks import find_clocks
from edgepipe.telemetry.sensors.power_mode import Mode, PowerMode
from edgepipe.telemetry.sensors.reading import Channel, Kind, Reading
from edgepipe.telemetry.sensors.tree import Tree

from .conftest import BOARD, MakeTree, OneOf

LOOSE = ClockRange("cpu0", 729.6e6, 1728e6, 1728e6)
GPU = ClockRange("gpu", 306e6, 1020e6, 1020e6)
MAXN, DEFAULT = Mode(2, "MAXN_SUPER"), Mode(1, "25W", {"GPU": 918_000_000}, 6)
CPU = {"cpu0": "schedutil", "cpu4": "schedutil", "gpu": "nvhost_podgov"}
ORIN = Clocks(
    (LOOSE, GPU),
    CPU,
    boost=None,
    on_battery=None,
    mode=PowerMode(MAXN, DEFAULT, "quiet"),
    mode_comes_back=None,
    by_jetson_clocks=True,
)
UNIT = "etc/systemd/system/nvpmodel.service"


def pinned(each: ClockRange) -> ClockRange:
    return replace(each, floor_hz=each.ceiling_hz)


def test_clocks_that_may_move_speak_against_a_bench(one_of: OneOf) -> None:
    found = one_of(judge_clocks(ORIN), "pinned")
    assert found.speaks_against_a_bench
    assert found.found == "no: cpu0 729.6 MHz to 1728 MHz; gpu 306 MHz to 1020 MHz"
    assert "latencies of two runs do not compare" in found.costs
    assert found.remedy == "sudo jetson_clocks"
    elsewhere = one_of(judge_clocks(replace(ORIN, by_jetson_clocks=False)), "pinned")
    assert "cpupower" in elsewhere.remedy


def test_pinned_clocks_are_fine_and_named_together(one_of: OneOf) -> None:
    both = tuple(pinned(replace(LOOSE, name=name)) for name in ("cpu0", "cpu4"))
    found = one_of(judge_clocks(replace(ORIN, ranges=both)), "pinned")
    assert (found.level, found.found) == (Level.OK, "yes: cpu0 cpu4 1728 MHz")


def test_of_many_clocks_the_first_and_the_last_are_named(one_of: OneOf) -> None:
    many = tuple(replace(LOOSE, name=f"cpu{n}") for n in range(128))
    found = one_of(judge_clocks(replace(ORIN, ranges=many)), "pinned")
    assert found.found == "no: cpu0..cpu127 (128) 729.6 MHz to 1728 MHz"


def test_one_loose_clock_is_enough(one_of: OneOf) -> None:
    facts = replace(ORIN, ranges=(pinned(LOOSE), GPU))
    found = one_of(judge_clocks(facts), "pinned")
    assert (found.level, "cpu0" in found.found) == (Level.WARNING, False)


def test_the_performance_governor_is_next_to_pinned(one_of: OneOf) -> None:
    fast = replace(ORIN, ranges=(LOOSE,), governors={"cpu0": "performance"})
    assert one_of(judge_clocks(fast), "pinned").level is Level.NOTE
    with_gpu = replace(fast, ranges=(LOOSE, GPU))
    assert one_of(judge_clocks(with_gpu), "pinned").level is Level.WARNING


@pytest.mark.parametrize(
    "ranges",
    [(), (ClockRange("cpu0", None, 1e9, None),), (replace(LOOSE, ceiling_hz=None),)],
)
def test_clocks_that_are_not_shown_are_not_known(
    ranges: tuple[ClockRange, ...], one_of: OneOf
) -> None:
    found = one_of(judge_clocks(replace(ORIN, ranges=ranges)), "pinned")
    assert (found.known, found.level) == (False, Level.NOTE)


def test_ceilings_below_the_hardware_s_are_told(one_of: OneOf) -> None:
    capped = replace(ORIN, ranges=(replace(GPU, ceiling_hz=612e6), LOOSE))
    found = one_of(judge_clocks(capped), "caps")
    assert found.found == "held below what they can: gpu 612 MHz of 1020 MHz"


def test_ranges_come_from_the_sensors_and_the_rest_from_files(
    make_tree: MakeTree,
) -> None:
    cpu = "sys/devices/system/cpu"
    tree = make_tree(
        {
            f"{cpu}/intel_pstate/no_turbo": "0",
        }
    )
    floor = Channel(Kind.CLOCK_FLOOR, "cpu0", "cpufreq", limits={"max": 3.8e9})
    top = Channel(Kind.CLOCK_CEILING, "cpu0", "cpufreq", limits={"max": 3.8e9})
    lone = Channel(Kind.CLOCK_FLOOR, "gpu", "devfreq")
    other = Channel(Kind.CLOCK_FLOOR, "emc", "devfreq")
    measured = Measured(
        [
            Reading(floor, 8e8, 0),
            Reading(top, 3.8e9, 0),
            Reading(lone, None, 0, "gone"),
            Reading(other, 1e9, 0),
        ]
    )
    facts = examine_clocks(tree, measured, BOARD)
    assert facts == Clocks(
        (
            ClockRange("cpu0", 8e8, 3.8e9, 3.8e9),
            ClockRange("gpu", None, None, None),
        ),
        {},
        boost=True,
        on_battery=None,
        mode=None,
        mode_comes_back=None,
        by_jetson_clocks=False,
    )
    assert {each.subject for each in judge_clocks(facts)} == {
        "pinned",
        "boost",
    }


def test_a_floor_that_is_not_set_is_the_hardware_s_own(make_tree: MakeTree) -> None:
    tree = make_tree({})
    devfreq = tmp_devfreq(tree)
    (gpu,) = examine_clocks(tree, Measured(devfreq), BOARD).ranges
    assert gpu == ClockRange("gpu", 306e6, 612e6, 612e6)


def tmp_devfreq(tree: Tree) -> list[Reading]:
    """A GPU whose files say 0 for "no bound", read by the sensor itself."""
    folder = tree.root / "sys/class/devfreq/17000000.gpu"
    folder.mkdir(parents=True)
    for name, text in (
        ("available_frequencies", "306000000 612000000"),
        ("cur_freq", "306000000"),
        ("min_freq", "0"),
        ("max_freq", "0"),
    ):
        (folder / name).write_text(f"{text}\n")
    return [each for s in find_clocks(tree, lambda: 0) for each in s.read()]


@pytest.mark.parametrize(
    ("files", "fed"),
    [
        ({"BAT0/type": "Battery", "BAT0/status": "Discharging"}, True),
        ({"BAT0/type": "Battery", "BAT0/status": "Full"}, False),
        ({"AC/type": "Mains", "AC/online": "1"}, None),
        ({"m/type": "Battery", "m/scope": "Device", "m/status": "Discharging"}, None),
    ],
)
def test_a_battery_that_feeds_the_machine_speaks_against_a_bench(
    files: dict[str, str], fed: bool | None, make_tree: MakeTree
) -> None:
    tree = make_tree({f"sys/class/power_supply/{k}": v for k, v in files.items()})
    facts = examine_clocks(tree, Measured(), BOARD)
    assert facts.on_battery is fed
    bad = {e.subject for e in judge_clocks(facts) if e.speaks_against_a_bench}
    assert bad == ({"supply"} if fed else set())


def test_boost_is_found_in_either_place(make_tree: MakeTree) -> None:
    tree = make_tree({"sys/devices/system/cpu/cpufreq/boost": "0"})
    assert examine_clocks(tree, Measured(), BOARD).boost is False


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        (PowerMode(MAXN, DEFAULT, None), "MAXN_SUPER (2); the default is 25W (1)"),
        (
            PowerMode(DEFAULT, DEFAULT, None),
            "25W (1), which caps GPU 918 MHz, the default",
        ),
        (PowerMode(Mode(7, "odd"), None, None), "odd (7)"),
        (PowerMode(None, DEFAULT, None, "no mode"), "not known: no mode"),
    ],
)
def test_modes_are_told_as_far_as_they_are_known(
    mode: PowerMode, said: str, one_of: OneOf
) -> None:
    told = one_of(judge_clocks(replace(ORIN, mode=mode)), "power mode")
    assert told.found == said


def test_governors_are_told_together(one_of: OneOf) -> None:
    told = one_of(judge_clocks(ORIN), "governor")
    assert told.found == "cpu0 cpu4 schedutil; gpu nvhost_podgov"


def test_the_service_that_undoes_pinned_clocks_is_found(
    make_tree: MakeTree, one_of: OneOf
) -> None:
    tree = make_tree({UNIT: "[Service]\nType=oneshot\nExecStart=/usr/sbin/nvpmodel"})
    assert is_undone_by_systemd(tree) is True
    facts = replace(ORIN, mode_comes_back=True)
    assert "RemainAfterExit=yes" in one_of(judge_clocks(facts), "nvpmodel").remedy
    make_tree({f"{UNIT}.d/keep.conf": "[Service]\nRemainAfterExit=yes"})
    assert is_undone_by_systemd(tree) is False
    make_tree({f"{UNIT}.d/last.conf": "[Service]\nRemainAfterExit = no"})
    assert is_undone_by_systemd(tree) is True


def test_no_such_service_no_such_trap(make_tree: MakeTree) -> None:
    assert is_undone_by_systemd(make_tree({})) is None
