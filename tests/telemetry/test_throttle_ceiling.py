"""How much of the full clock can be had."""

from collections.abc import Mapping

import pytest

from edgepipe.telemetry.throttle import ThrottleJudge

from .throttling import BUSY, MHZ, S, judge_of, sweep

Values = Mapping[str, float | None]

HOT: Values = {**BUSY, "cooling.gpu-throttle-alert": 1, "clock.gpu": 510 * MHZ}


def gpu(*sweeps: Values) -> int | None:
    return judge_of(*enumerate(sweeps)).ceiling_permille("gpu")


def test_it_begins_with_all_of_it() -> None:
    assert gpu(BUSY) == 1000
    assert ThrottleJudge().ceiling_permille("gpu") is None


def test_a_ceiling_that_is_lowered_is_told() -> None:
    assert gpu(BUSY, {**BUSY, "ceiling.gpu": 612 * MHZ}) == 600


def test_a_ceiling_that_is_raised_during_the_run_is_told_too() -> None:
    assert gpu({**BUSY, "ceiling.gpu": 612 * MHZ}, BUSY) == 1667


def test_a_throttled_clock_under_load_is_what_can_be_had() -> None:
    assert gpu(BUSY, HOT) == 500
    assert gpu(BUSY, HOT, BUSY) == 1000


def test_an_idle_clock_says_nothing_of_what_can_be_had() -> None:
    idle = {**BUSY, "clock.gpu": 306 * MHZ, "load.gpu": 0.02}
    assert gpu(BUSY, idle) == 1000
    assert gpu(BUSY, {**idle, "cooling.gpu-throttle-alert": 1}) == 1000
    unloaded = {**idle, "cooling.gpu-throttle-alert": 1, "load.gpu": None}
    assert gpu(BUSY, unloaded) == 1000


def test_a_throttled_part_that_goes_idle_keeps_what_was_seen() -> None:
    idle = {**HOT, "clock.gpu": 306 * MHZ, "load.gpu": 0.02}
    assert gpu(BUSY, HOT, idle) == 500


def test_small_changes_are_not_told() -> None:
    near = {**BUSY, "ceiling.gpu": 980 * MHZ}
    assert gpu(BUSY, near) == 1000
    far = {**BUSY, "ceiling.gpu": 960 * MHZ}
    assert gpu(BUSY, far) == 941
    assert gpu(BUSY, far, near) == 941


def test_a_ceiling_that_cannot_be_read_for_once_changes_nothing() -> None:
    assert gpu(BUSY, {**BUSY, "ceiling.gpu": None}) == 1000


CPUS: Values = {"ceiling.cpu0": 1728 * MHZ, "ceiling.cpu4": 1728 * MHZ}


def test_cpus_are_the_mean_of_their_policies() -> None:
    one_slow = {**CPUS, "ceiling.cpu4": 864 * MHZ}
    judge = judge_of((0, CPUS), (1, one_slow))
    assert judge.ceiling_permille("cpu") == 750
    assert judge.ceiling_permille("cpu0") == 1000
    assert judge.ceiling_permille("cpu4") == 500


DIVIDED: Values = {
    **CPUS,
    "clock.cpu0": 1728 * MHZ,
    "floor.cpu0": 1728 * MHZ,
    "measured.cpu0": 864 * MHZ,
}


def test_a_divider_that_lasts_counts_and_one_that_flashes_does_not() -> None:
    whole = {**DIVIDED, "measured.cpu0": 1728 * MHZ}
    judge = judge_of((0, whole), (1, DIVIDED), (2, whole), (3, DIVIDED))
    assert judge.ceiling_permille("cpu0") == 1000
    judge.take(sweep(4, DIVIDED), 4 * S)
    assert judge.ceiling_permille("cpu0") == 500
    judge.take(sweep(5, whole), 5 * S)
    assert judge.ceiling_permille("cpu0") == 1000


@pytest.mark.parametrize(("reasons", "told"), [(0x0, 1000), (0x1, 1000), (0x20, 600)])
def test_a_clock_of_a_gpu_counts_while_its_driver_gives_a_reason(
    reasons: int, told: int
) -> None:
    full = {"clock.gpu0": 1980e6, "ceiling.gpu0": 1980e6, "reasons.gpu0": 0}
    slow = {**full, "clock.gpu0": 1188e6, "reasons.gpu0": reasons}
    assert gpu(full, slow) == told


def test_the_highest_clock_there_is_stands_for_a_ceiling_that_nobody_tells() -> None:
    full = {"clock.gpu0": 1980e6, "reasons.gpu0": 0.0}
    assert gpu(full) == 1000
    assert gpu(full, {"clock.gpu0": 990e6, "reasons.gpu0": 0x20}) == 500
    assert gpu(full, {"clock.gpu0": 345e6, "reasons.gpu0": 1}) == 1000


def test_the_slowest_gpu_counts() -> None:
    two = {"ceiling.gpu0": 1980e6, "ceiling.gpu1": 1980e6}
    assert gpu(two, {**two, "ceiling.gpu1": 990e6}) == 500
