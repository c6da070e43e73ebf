"""The verdict on ten machines as their kernels show them."""

from collections.abc import Sequence

import pytest

from edgepipe.telemetry.sensors.kernel import find_board
from edgepipe.telemetry.sensors.reading import Reading
from edgepipe.telemetry.throttle import ThrottleJudge
from edgepipe.telemetry.throttle_cause import Cause

from .boards import NAMES, Boards
from .throttling import S

IDLE = {(Cause.DVFS_IDLE, "gpu")}
HEAT = {(Cause.THERMAL, part) for part in ("cpu0", "cpu4", "gpu")}
DIVIDED = {(Cause.OVER_CURRENT, part) for part in ("cpu0", "cpu4")}

FOUND = {
    "agx-orin-jp6": IDLE,
    "agx-thor-jp7": IDLE,
    "agx-thor-jp7.gpu-gated": {(Cause.GATED, "gpu")},
    "nano-jp4": IDLE,
    "orin-nano-super-jp6": IDLE,
    "orin-nano-super-jp6.oc3": DIVIDED,
    "orin-nano-super-jp6.thermal": HEAT,
    "vm-none": set[tuple[Cause, str]](),
    "x86-rapl": set[tuple[Cause, str]](),
    "xavier-nx-jp5": IDLE,
}


def readings(
    boards: Boards, name: str, at_s: int, *, user: bool = False
) -> Sequence[Reading]:
    """One sweep of all that a machine's kernel shows."""
    sensors = find_board(boards(name).tree(user=user), lambda: at_s * S)
    found = [reading for sensor in sensors for reading in sensor.read()]
    for sensor in sensors:
        sensor.close()
    return found


def judge(boards: Boards, *names: str, user: bool = False) -> ThrottleJudge:
    """One that has seen these, a second apart."""
    found = ThrottleJudge()
    for t, name in enumerate(names):
        found.take(readings(boards, name, t, user=user), t * S)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_machine_gets_its_verdict(boards: Boards, name: str) -> None:
    verdict = judge(boards, name, name).verdict(0, S)
    found = {(each.cause, each.part) for each in verdict.episodes}
    assert found == FOUND[name]
    blind = name in ("vm-none", "x86-rapl")
    throttled = any(cause.throttles for cause, _ in FOUND[name])
    assert verdict.throttled is (None if blind else throttled)


@pytest.mark.parametrize("name", NAMES)
def test_a_normal_user_sees_all_but_the_measured_clock(
    boards: Boards, name: str
) -> None:
    verdict = judge(boards, name, name, user=True).verdict(0, S)
    found = {(each.cause, each.part) for each in verdict.episodes}
    assert found == FOUND[name] - DIVIDED


@pytest.mark.parametrize("name", NAMES)
def test_counts_since_the_boot_are_no_events_of_the_run(
    boards: Boards, name: str
) -> None:
    assert all(each.events == 0 for each in judge(boards, name, name).totals)


def test_events_of_the_run_are_those_that_came_after_its_first_reading(
    boards: Boards,
) -> None:
    plain, burst = "orin-nano-super-jp6", "orin-nano-super-jp6.oc3"
    totals = judge(boards, plain, burst, burst, user=True).totals
    (over,) = (each for each in totals if each.cause is Cause.OVER_CURRENT)
    assert over.events == 27390
    assert over.lost_s == pytest.approx(29.3, abs=0.1)


def test_the_evidence_has_the_numbers(boards: Boards) -> None:
    name = "orin-nano-super-jp6.thermal"
    texts = {each.part: each.evidence for each in judge(boards, name).episodes}
    assert texts["gpu"].startswith("devfreq-17000000.gpu=4, gpu-throttle-alert=1, ")
    assert texts["gpu"].endswith(" 99.3 C of 99.0")
    assert texts["cpu4"].startswith("cpufreq-cpu4=7, ")


def test_a_hot_gpu_has_less_clock_and_an_idle_one_has_all(boards: Boards) -> None:
    cool, hot = "orin-nano-super-jp6", "orin-nano-super-jp6.thermal"
    assert judge(boards, cool).ceiling_permille("gpu") == 1000
    assert judge(boards, cool, hot).ceiling_permille("gpu") == 600


def test_boards_without_counters_are_blind_to_over_current(boards: Boards) -> None:
    for name in ("nano-jp4", "xavier-nx-jp5"):
        blind = judge(boards, name).verdict(0, S).blind
        assert set(blind) == {
            Cause.UNDER_VOLTAGE,
            Cause.POWER_CAP,
            Cause.OVER_CURRENT,
        }
    assert judge(boards, "orin-nano-super-jp6").verdict(0, S).blind == {}
