"""The decision table, row by row."""

from collections.abc import Mapping

import pytest

from edgepipe.telemetry.throttle_cause import Cause
from edgepipe.telemetry.throttle_facts import Facts, family
from edgepipe.telemetry.throttle_rules import cools, findings

from .throttling import BUSY, MHZ, S, judge_of, sweep

Values = Mapping[str, float | None]


def found(*sweeps: Values, why: str = "gated") -> dict[tuple[Cause, str], str]:
    """What the rules find after these, one each second: texts by cause and part."""
    facts, now_ns = Facts(), 0
    for t, values in enumerate(sweeps):
        now_ns = t * S
        facts.take(sweep(t, values, why))
    return {key: each.text for key, each in findings(facts, now_ns).items()}


def test_a_busy_board_at_full_clock_has_nothing() -> None:
    assert found(BUSY) == {}


@pytest.mark.parametrize(
    ("device", "part"),
    [
        ("gpu-throttle-alert", "gpu"),
        ("cpu-throttle-alert", "cpu"),
        ("soc012-throttle-alert", "board"),
        ("cv0-throttle-alert", "board"),
        ("hot-surface-alert", "board"),
        ("devfreq-17000000.gpu", "gpu"),
        ("devfreq-gpu-gpc-0", "gpu"),
        ("devfreq-17000000.ga10b", "gpu"),
        ("devfreq-57000000.gpu", "gpu"),
        ("cpufreq-cpu4", "cpu4"),
        ("thermal-cpufreq-0", "cpu"),
        ("cpu-balanced", "cpu"),
        ("gpu-balanced", "gpu"),
        ("emergency-balanced", "board"),
        ("Processor", "cpu"),
        ("Processor-3", "cpu"),
        ("gpu-throttle-alert-1", "gpu"),
    ],
)
def test_a_cooling_device_that_is_turned_up_is_heat(device: str, part: str) -> None:
    heat = found({**BUSY, f"cooling.{device}": 1})
    assert heat == {(Cause.THERMAL, part): f"{device}=1, tj 78.0 C of 99.0"}


@pytest.mark.parametrize("device", ["pwm-fan", "Fan", "pwm-fan-1", "TCC Offset", "lcd"])
def test_fans_and_unknown_devices_take_no_speed(device: str) -> None:
    assert not cools(device)
    assert found({**BUSY, f"cooling.{device}": 3}) == {}


def test_all_devices_of_a_part_make_one_finding() -> None:
    hot = {**BUSY, "cooling.gpu-throttle-alert": 1, "cooling.devfreq-17000000.gpu": 4}
    assert found({**hot, "temp.tj": 99.3}) == {
        (Cause.THERMAL, "gpu"): (
            "devfreq-17000000.gpu=4, gpu-throttle-alert=1, tj 99.3 C of 99.0"
        )
    }


def test_without_trip_points_the_hottest_zone_is_named() -> None:
    hot = {"cooling.gpu-throttle-alert": 1, "temp.AO-therm": 60.0, "temp.GPU-therm": 88}
    assert found(hot)[Cause.THERMAL, "gpu"] == "gpu-throttle-alert=1, GPU-therm 88.0 C"


@pytest.mark.parametrize(
    ("counter", "key"),
    [
        ("events.oc1", (Cause.UNDER_VOLTAGE, "board")),
        ("events.oc2", (Cause.POWER_CAP, "board")),
        ("events.oc3", (Cause.OVER_CURRENT, "board")),
        ("events.cpu-throttle", (Cause.THERMAL, "cpu")),
        ("throttled.gpu0-thermal", (Cause.THERMAL, "gpu0")),
        ("throttled.gpu0-power", (Cause.POWER_CAP, "gpu0")),
    ],
)
def test_a_counter_that_rises_names_its_cause(
    counter: str, key: tuple[Cause, str]
) -> None:
    assert list(found({counter: 7})) == []
    assert list(found({counter: 7}, {counter: 9})) == [key]
    assert list(found({counter: 7}, {counter: 9}, {counter: 9})) == []
    assert list(found({counter: 7}, {counter: 2})) == []


def test_a_counter_of_something_else_is_left_alone() -> None:
    assert found({"events.oc7": 1}, {"events.oc7": 2}) == {}
    assert found({"throttled.gpu0-other": 1}, {"throttled.gpu0-other": 2}) == {}


@pytest.mark.parametrize(
    ("bits", "causes"),
    [
        (0x0, set[Cause]()),
        (0x1, {Cause.DVFS_IDLE}),
        (0x2, {Cause.SETTING}),
        (0x4, {Cause.POWER_CAP}),
        (0x8, {Cause.THERMAL}),
        (0x8 | 0x80, {Cause.POWER_CAP}),
        (0x10, {Cause.SETTING}),
        (0x20, {Cause.THERMAL}),
        (0x8 | 0x40, {Cause.THERMAL}),
        (0x80, {Cause.POWER_CAP}),
        (0x100, {Cause.SETTING}),
        (0x4 | 0x20, {Cause.POWER_CAP, Cause.THERMAL}),
        (0x1 | 0x4, {Cause.POWER_CAP}),
        (1 << 40, set[Cause]()),
    ],
)
def test_a_driver_gives_its_reasons_in_bits(bits: int, causes: set[Cause]) -> None:
    assert {cause for cause, _ in found({"reasons.gpu0": bits})} == causes


def test_the_highest_clock_there_is_stands_for_a_ceiling_that_nobody_tells() -> None:
    slow = {"clock.gpu0": 345e6, "load.gpu0": 0.0, "reasons.gpu0": 0x0}
    assert found(slow) == {
        (Cause.DVFS_IDLE, "gpu0"): "gpu0 at 345 of 1980 MHz, load 0 %"
    }


def test_reasons_are_told_in_words() -> None:
    assert found({"reasons.gpu0": 0x24}) == {
        (Cause.POWER_CAP, "gpu0"): "gpu0: power cap of the driver (0x24)",
        (Cause.THERMAL, "gpu0"): "gpu0: slowdown by the driver, hot (0x24)",
    }


def test_a_gpu_whose_driver_gives_no_reason_is_not_suspected() -> None:
    gpu = {"clock.gpu0": 1500e6, "ceiling.gpu0": 1980e6, "load.gpu0": 1.0}
    assert list(found(gpu)) == [(Cause.UNKNOWN, "gpu0")]
    assert found({**gpu, "reasons.gpu0": 0}) == {}


HALVED: Values = {
    **BUSY,
    "clock.cpu0": 1728 * MHZ,
    "floor.cpu0": 1728 * MHZ,
    "measured.cpu0": 862 * MHZ,
}


def test_a_measured_clock_of_half_the_lowest_allowed_one_is_over_current() -> None:
    assert found(HALVED) == {
        (Cause.OVER_CURRENT, "cpu0"): "cpu0 runs at 862 MHz, allowed from 1728 on"
    }
    assert found({**HALVED, "measured.cpu0": 1700 * MHZ}) == {}


def test_a_clock_that_rose_since_it_was_measured_is_not_over_current() -> None:
    assert found({**HALVED, "floor.cpu0": 729 * MHZ}) == {}


def test_the_same_with_a_throttle_alert_is_heat() -> None:
    hot = {**HALVED, "cooling.cpu-throttle-alert": 1}
    assert set(found(hot)) == {(Cause.THERMAL, "cpu0"), (Cause.THERMAL, "cpu")}


PINNED: Values = {**BUSY, "floor.gpu": 1020 * MHZ}


def test_a_floor_that_falls_is_lost_if_the_run_began_pinned() -> None:
    assert found(PINNED) == {}
    assert found(PINNED, {**PINNED, "floor.gpu": 306 * MHZ}) == {
        (Cause.CLOCK_FLOOR_LOST, "gpu"): ("gpu may fall to 306 MHz, was pinned at 1020")
    }
    free = {**PINNED, "floor.gpu": 400 * MHZ}
    assert found(free, {**free, "floor.gpu": 306 * MHZ}) == {}


def test_a_floor_that_comes_back_is_lost_no_longer() -> None:
    lost = {**PINNED, "floor.gpu": 306 * MHZ}
    judge = judge_of((0, PINNED), (1, lost), (2, lost), (3, PINNED))
    (total,) = judge.totals
    assert (total.cause, total.seconds) == (Cause.CLOCK_FLOOR_LOST, 2)


CAPPED: Values = {**BUSY, "ceiling.gpu": 612 * MHZ, "clock.gpu": 612 * MHZ}


def test_a_mode_that_allows_less_than_the_hardware_can_is_told() -> None:
    assert found(CAPPED) == {
        (Cause.POWER_MODE_CAP, "gpu"): "gpu may reach 612 of 1020 MHz"
    }
    assert not Cause.POWER_MODE_CAP.throttles


def test_a_ceiling_that_a_cooling_device_lowered_is_heat_alone() -> None:
    hot = {**CAPPED, "cooling.devfreq-17000000.gpu": 4}
    assert list(found(hot)) == [(Cause.THERMAL, "gpu")]


LOW: Values = {**BUSY, "clock.gpu": 306 * MHZ}


def test_a_low_clock_with_low_load_is_idle() -> None:
    assert found({**LOW, "load.gpu": 0.02}) == {
        (Cause.DVFS_IDLE, "gpu"): "gpu at 306 of 1020 MHz, load 2 %"
    }


def test_a_low_clock_with_high_load_is_throttled_and_nobody_says_why() -> None:
    assert found(LOW) == {(Cause.UNKNOWN, "gpu"): "gpu at 306 of 1020 MHz, load 99 %"}
    assert Cause.UNKNOWN.throttles


def test_a_low_clock_with_high_load_near_the_trip_point_is_heat() -> None:
    assert found({**LOW, "temp.tj": 97.5}) == {
        (Cause.THERMAL, "gpu"): "gpu at 306 of 1020 MHz, tj 97.5 C of 99.0, load 99 %"
    }


def test_a_known_cause_on_the_part_explains_its_low_clock() -> None:
    hot = {**LOW, "cooling.gpu-throttle-alert": 1}
    assert list(found(hot)) == [(Cause.THERMAL, "gpu")]
    assert list(found({**hot, "load.gpu": 0.1})) == [(Cause.THERMAL, "gpu")]


def test_events_on_the_board_do_not_explain_a_low_clock() -> None:
    risen = found(LOW, {**LOW, "events.oc3": 4})
    assert set(risen) == {(Cause.OVER_CURRENT, "board"), (Cause.UNKNOWN, "gpu")}


def test_without_a_load_a_low_clock_is_idle_if_cooling_would_show() -> None:
    unloaded = {name: v for name, v in LOW.items() if name != "load.gpu"}
    assert found(unloaded) == {
        (Cause.DVFS_IDLE, "gpu"): "gpu at 306 of 1020 MHz, load not told"
    }
    blind = {"clock.gpu": 306 * MHZ, "ceiling.gpu": 1020 * MHZ}
    assert list(found(blind)) == [(Cause.NOT_OBSERVABLE, "gpu")]


def test_the_load_of_a_gpu_may_come_from_its_driver() -> None:
    lent = {"clock.gpu": 306e6, "ceiling.gpu": 1575e6, "load.gpu0": 0.05}
    assert list(found(lent)) == [(Cause.DVFS_IDLE, "gpu")]


def test_a_clock_of_nothing_is_gated() -> None:
    assert found({**BUSY, "clock.gpu": 0}) == {(Cause.GATED, "gpu"): "gpu: clock 0"}
    assert found({"clock.gpu": None}) == {(Cause.GATED, "gpu"): "gpu: gated"}
    assert found({"clock.gpu": None}, why="permission denied") == {}


@pytest.mark.parametrize(
    ("name", "kin"),
    [("cpu0", "cpu"), ("cpu12", "cpu"), ("gpu", "gpu"), ("gpu0", "gpu"),
     ("gpu0-memory", ""), ("emc", ""), ("gpu-nvd-0", "")],
)  # fmt: skip
def test_clocks_belong_to_processors_or_to_neither(name: str, kin: str) -> None:
    assert family(name) == kin


def blind(*sweeps: Values) -> Mapping[Cause, str]:
    return judge_of(*enumerate(sweeps)).verdict(0, S).blind


def test_a_board_with_everything_is_not_blind() -> None:
    assert blind(PINNED) == {}


def test_a_board_without_counters_cannot_see_over_current() -> None:
    old = {name: v for name, v in PINNED.items() if not name.startswith("events")}
    assert blind(old) == {
        Cause.UNDER_VOLTAGE: "no counter oc1 on this machine",
        Cause.POWER_CAP: "no counter oc2 on this machine",
        Cause.OVER_CURRENT: "no counter oc3 on this machine",
    }


def test_a_machine_that_tells_nothing_is_blind_to_all_of_it() -> None:
    assert set(blind({})) == {
        Cause.THERMAL,
        Cause.UNDER_VOLTAGE,
        Cause.POWER_CAP,
        Cause.OVER_CURRENT,
        Cause.CLOCK_FLOOR_LOST,
        Cause.UNKNOWN,
    }


def test_what_may_not_be_read_is_blind_with_that_reason() -> None:
    shut = {**PINNED, "events.oc3": None, "load.gpu": None}
    assert blind(shut) == {
        Cause.OVER_CURRENT: "no counter oc3: permission denied",
        Cause.UNKNOWN: "no load of the GPU: permission denied",
    }


def test_a_driver_that_gives_reasons_sees_heat_and_power_caps() -> None:
    seen = blind({"reasons.gpu0": 0, "clock.gpu0": 1e9, "load.gpu0": 0.5})
    assert set(seen) == {
        Cause.UNDER_VOLTAGE, Cause.OVER_CURRENT, Cause.CLOCK_FLOOR_LOST
    }  # fmt: skip
