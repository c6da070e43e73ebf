"""Timelines: what was throttled, from when to when, and what was counted."""

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.telemetry.sensors.reading import Channel, Kind, Reading, Scope
from edgepipe.telemetry.throttle import Held, ThrottleJudge
from edgepipe.telemetry.throttle_cause import Cause
from edgepipe.telemetry.throttle_episodes import MOST_EPISODES

from .throttling import BUSY, MHZ, S, held, judge_of, sweep

HOT: Mapping[str, float | None] = {
    **BUSY,
    "temp.tj": 98.5,
    "cooling.gpu-throttle-alert": 1,
    "clock.gpu": 510 * MHZ,
}
IDLE: Mapping[str, float | None] = {
    **BUSY,
    "clock.gpu": 306 * MHZ,
    "load.gpu": 0.02,
}


def recorded(at: Mapping[str, Any]) -> dict[str, float | None]:
    """One line of a recorded timeline."""
    return {
        "temp.tj": at["thermal_zone_mC"] / 1000,
        "cooling.gpu-throttle-alert": at["cooling_cur_state"],
        "clock.gpu": at["gpu_cur_hz"],
        "ceiling.gpu": at["gpu_max_hz"],
        "load.gpu": at["gpu_load_permille"] / 1000,
        "events.oc3": at["oc_event_count"],
    }


def test_a_recorded_minute_is_judged_second_by_second(cases: Path) -> None:
    folder = cases / "E07"
    timeline = json.loads((folder / "sysfs_timeline.json").read_text())
    expected = json.loads((folder / "expected.json").read_text())
    judge, hot, quiet = ThrottleJudge(), list[int](), list[int]()
    for at in timeline:
        second = at["t_s"]
        judge.take(sweep(second, recorded(at)), second * S)
        state = judge.state_at(second * S)
        hot += [second] if Cause.THERMAL in state else []
        quiet += [] if any(cause.throttles for cause in state) else [second]
    first, last = expected["thermal_throttle_s"]
    assert hot == list(range(first, last + 1))
    thermal, over_current, _ = judge.totals
    assert thermal == Held(Cause.THERMAL, last - first + 1, 0)
    assert over_current.cause is Cause.OVER_CURRENT
    assert over_current.events == expected["overcurrent_events"]
    (burst,) = (each for each in judge.episodes if each.events)
    assert burst.from_ns == expected["overcurrent_first_s"] * S
    start, end = expected["not_throttle_s"]
    assert set(range(start, end + 1)) <= set(quiet)
    assert judge.verdict(start * S, (end + 1) * S).throttled is False


def test_heat_that_comes_and_goes_is_an_episode_each_time() -> None:
    judge = judge_of(*((t, HOT if t % 10 < 4 else BUSY) for t in range(50)))
    thermal = [each for each in judge.episodes if each.cause is Cause.THERMAL]
    assert [each.from_ns // S for each in thermal] == [0, 10, 20, 30, 40]
    assert [each.until_ns // S for each in thermal] == [4, 14, 24, 34, 44]
    assert held(judge) == {Cause.THERMAL: 20}
    assert judge.verdict(12 * S, 21 * S).held == (Held(Cause.THERMAL, 3, 0),)


def test_throttling_that_began_before_the_run_counts_from_its_first_reading() -> None:
    judge = judge_of((5, HOT), (6, HOT), (7, BUSY))
    assert held(judge) == {Cause.THERMAL: 2}
    assert judge.verdict(0, 7 * S).observed == pytest.approx(2 / 7)


def test_what_is_seen_names_the_readings_with_their_numbers() -> None:
    (episode,) = judge_of((0, HOT)).episodes
    assert episode.evidence == "gpu-throttle-alert=1, tj 98.5 C of 99.0"
    assert (episode.part, episode.open) == ("gpu", True)


def test_the_first_count_is_where_counting_begins() -> None:
    thor = {**BUSY, "events.oc3": 179}
    judge = judge_of((0, thor), (1, thor), (2, thor))
    assert judge.totals == ()
    assert judge.verdict(0, 3 * S).throttled is False


def test_bursts_of_over_current_are_counted_and_their_cost_is_estimated() -> None:
    counts = [179, 179, 181, 190, 190, 190, 191, 191]
    judge = judge_of(*((t, {**BUSY, "events.oc3": n}) for t, n in enumerate(counts)))
    (total,) = judge.totals
    assert (total.cause, total.events, total.seconds) == (Cause.OVER_CURRENT, 12, 3)
    assert total.lost_s == pytest.approx(12 * 0.00107)
    assert [(e.events, e.evidence) for e in judge.episodes] == [
        (11, "oc3 179 to 190"),
        (1, "oc3 190 to 191"),
    ]


def test_a_counter_that_goes_back_begins_anew() -> None:
    counts = [500, 510, 3, 3, 5]
    judge = judge_of(*((t, {**BUSY, "events.oc3": n}) for t, n in enumerate(counts)))
    assert [each.events for each in judge.totals] == [12]


def test_a_count_that_could_not_be_read_for_a_while_loses_nothing() -> None:
    counts = [500, None, None, 507]
    judge = judge_of(*((t, {**BUSY, "events.oc3": n}) for t, n in enumerate(counts)))
    assert [each.events for each in judge.totals] == [7]


def test_each_counter_of_the_board_has_its_own_cause() -> None:
    risen = {**BUSY, "events.oc1": 1, "events.oc2": 2, "events.oc3": 3}
    judge = judge_of((0, BUSY), (1, risen))
    assert {each.cause: each.events for each in judge.totals} == {
        Cause.UNDER_VOLTAGE: 1,
        Cause.POWER_CAP: 2,
        Cause.OVER_CURRENT: 3,
    }


def test_two_causes_at_once_are_both_told_and_each_second_once() -> None:
    both = {**HOT, "cooling.cpufreq-cpu0": 7}
    sagged = {"events.oc1": 2.0}
    judge = judge_of(
        (0, BUSY),
        (1, both),
        (2, {**both, **sagged}),
        (3, {**both, **sagged}),
        (4, {**BUSY, **sagged}),
    )
    assert held(judge) == {Cause.THERMAL: 3, Cause.UNDER_VOLTAGE: 1}
    assert {each.part for each in judge.episodes} == {"gpu", "cpu0", "board"}


def test_a_low_clock_under_load_counts_from_its_first_sight() -> None:
    slow = {**BUSY, "clock.gpu": 510 * MHZ}
    judge = judge_of((0, BUSY), (1, slow), (2, slow), (3, BUSY))
    assert held(judge) == {Cause.UNKNOWN: 2}
    (episode,) = judge.episodes
    assert episode.evidence == "gpu at 510 of 1020 MHz, load 99 %"


def test_a_low_clock_under_load_in_one_reading_of_a_slow_sweep_counts() -> None:
    slow = {**BUSY, "clock.gpu": 510 * MHZ}
    assert held(judge_of((0, BUSY), (1, slow), (2, BUSY))) == {Cause.UNKNOWN: 1}


def test_a_low_clock_under_load_is_known_at_once_where_sweeps_are_far_apart() -> None:
    slow = {**BUSY, "clock.gpu": 510 * MHZ}
    judge = judge_of((0, BUSY), (1, slow))
    assert judge.state_at(1 * S) == (Cause.UNKNOWN,)
    judge = judge_of((0, BUSY), (0.1, BUSY), (0.2, slow))
    assert judge.state_at(S // 5) == ()


def test_a_governor_that_follows_the_load_is_not_blamed() -> None:
    slow = {**BUSY, "clock.gpu": 510 * MHZ}
    judge = judge_of((0, IDLE), (0.1, slow), (0.3, slow), (0.5, BUSY), (1, BUSY))
    assert (judge.episodes, judge.totals) == ((), ())


def test_what_comes_back_at_once_goes_on_and_its_pauses_are_not_counted() -> None:
    capped = {"reasons.gpu0": 4.0}
    free = {"reasons.gpu0": 0.0}
    judge = judge_of(*((t / 10, free if t % 5 == 4 else capped) for t in range(50)))
    (episode,) = judge.episodes
    assert (episode.cause, episode.part) == (Cause.POWER_CAP, "gpu0")
    assert (episode.from_ns, episode.until_ns) == (0, 49 * S // 10)
    assert held(judge) == {Cause.POWER_CAP: pytest.approx(4.0, abs=0.01)}


def test_explanations_that_come_and_go_push_no_throttling_out() -> None:
    n = 2 * (MOST_EPISODES + 10)
    later = ((t, BUSY if t % 2 else IDLE) for t in range(2, n))
    judge = judge_of((0, HOT), (1, BUSY), *later)
    assert judge.episodes[0].cause is Cause.THERMAL
    assert len(judge.episodes) == MOST_EPISODES + 1


def test_what_changed_is_told_and_only_then() -> None:
    judge = ThrottleJudge()
    changes = [
        judge.take(sweep(t, values), t * S)
        for t, values in enumerate([BUSY, BUSY, HOT, HOT, BUSY, BUSY])
    ]
    assert changes == [False, False, True, False, True, False]


def test_a_reading_speaks_for_a_while_only() -> None:
    judge = judge_of((0, HOT))
    assert judge.state_at(2 * S) == (Cause.THERMAL,)
    assert judge.state_at(3 * S) == ()
    judge.take(sweep(60, HOT), 60 * S)
    assert held(judge) == {Cause.THERMAL: 3}
    assert judge.verdict(10 * S, 20 * S).throttled is None


def test_the_last_sweep_speaks_for_what_follows_it_in_a_window() -> None:
    judge = judge_of((0, BUSY), (1, HOT))
    verdict = judge.verdict(0, 2 * S)
    assert verdict.held == (Held(Cause.THERMAL, 1, 0),)
    assert verdict.observed == 1


def test_a_reading_without_a_value_ends_what_was_seen() -> None:
    lost = dict.fromkeys(HOT)
    assert held(judge_of((0, HOT), (1, lost), (2, lost))) == {Cause.THERMAL: 1}


def test_no_reading_is_no_verdict() -> None:
    verdict = ThrottleJudge().verdict(0, S)
    assert (verdict.throttled, verdict.observed, verdict.held) == (None, 0, ())
    lost = dict.fromkeys(BUSY)
    assert judge_of((0, lost), (1, lost)).verdict(0, S).throttled is None


def test_heat_alone_is_no_verdict() -> None:
    warm = {"temp.x86_pkg_temp": 47.0, "clock.cpu0": 3000 * MHZ}
    verdict = judge_of((0, warm), (1, warm)).verdict(0, 2 * S)
    assert (verdict.throttled, verdict.observed) == (None, 0)


def test_power_says_nothing_about_throttling() -> None:
    rail = Channel(Kind.POWER, "VDD_IN", "test", Scope.MODULE_INPUT)
    judge = ThrottleJudge()
    assert judge.take([Reading(rail, 7.0, 0)], 0) is False
    assert judge.verdict(0, S).throttled is None


def test_a_window_has_a_length() -> None:
    with pytest.raises(ValueError, match="empty"):
        ThrottleJudge().verdict(5, 5)


def test_channels_may_come_in_sweeps_of_their_own() -> None:
    parts = list(HOT.items())
    judge = ThrottleJudge()
    for t in range(4):
        for i in range(0, len(parts), 3):
            values = dict(parts[i : i + 3])
            at_s = t + i / 100
            judge.take(sweep(at_s, values), round(at_s * S))
    assert held(judge)[Cause.THERMAL] == pytest.approx(3, abs=0.1)


def test_old_episodes_are_dropped_and_their_seconds_are_not() -> None:
    n = 2 * (MOST_EPISODES + 100)
    judge = judge_of(*((t, HOT if t % 2 else BUSY) for t in range(n)), (n, BUSY))
    assert len(judge.episodes) == MOST_EPISODES
    assert held(judge) == {Cause.THERMAL: n // 2}
    assert judge.verdict(0, n * S).held == (Held(Cause.THERMAL, n // 2, 0),)


LINES = st.lists(
    st.fixed_dictionaries(
        {
            "temp.tj": st.sampled_from([50.0, 98.0, None]),
            "cooling.gpu-throttle-alert": st.sampled_from([0, 1, None]),
            "cooling.cpufreq-cpu0": st.sampled_from([0, 3]),
            "clock.gpu": st.sampled_from([0, 306 * MHZ, 1020 * MHZ, None]),
            "ceiling.gpu": st.sampled_from([1020 * MHZ, None]),
            "load.gpu": st.sampled_from([0.1, 0.99, None]),
            "events.oc3": st.one_of(st.none(), st.integers(0, 9)),
        }
    ),
    min_size=1,
    max_size=20,
)


@given(lines=LINES, seed=st.integers(0, 99))
def test_the_order_of_readings_in_a_sweep_does_not_matter(
    lines: list[dict[str, float | None]], seed: int
) -> None:
    plain, mixed = ThrottleJudge(), ThrottleJudge()
    for t, line in enumerate(lines):
        readings = sweep(t, line)
        plain.take(readings, t * S)
        random.Random(seed + t).shuffle(readings)
        mixed.take(readings, t * S)
    window = (0, len(lines) * S)
    assert plain.verdict(*window) == mixed.verdict(*window)
    assert plain.totals == mixed.totals
    assert plain.ceiling_permille("gpu") == mixed.ceiling_permille("gpu")


@given(lines=LINES, cuts=st.tuples(*[st.integers(0, 25 * S)] * 3))
def test_seconds_and_events_add_up_over_windows(
    lines: list[dict[str, float | None]], cuts: tuple[int, int, int]
) -> None:
    judge = judge_of(*enumerate(lines))
    low, middle, high = (cut + i for i, cut in enumerate(sorted(cuts)))
    parts = (*judge.verdict(low, middle).held, *judge.verdict(middle, high).held)
    for whole in judge.verdict(low, high).held:
        mine = [each for each in parts if each.cause is whole.cause]
        assert whole.seconds == pytest.approx(sum(each.seconds for each in mine))
        assert whole.events == sum(each.events for each in mine)


@given(lines=LINES)
def test_a_window_of_everything_holds_the_totals(
    lines: list[dict[str, float | None]],
) -> None:
    judge = judge_of(*enumerate(lines), (len(lines), {}))
    last_ns = (len(lines) - 1) * S
    found = {each.cause: each for each in judge.verdict(0, last_ns + 1).held}
    for total in judge.totals:
        if total.seconds or total.events:
            assert found[total.cause].events == total.events
            assert found[total.cause].seconds == pytest.approx(total.seconds, abs=1e-6)
