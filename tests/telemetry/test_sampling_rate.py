"""Rates that frames do not fool, and what is said about those they do."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.telemetry.sampling_rate import (
    DEFAULT_HZ,
    evenness,
    needed_rate,
    needed_rate_warning,
    phases,
    ripple,
    sampling_rate,
)

USUAL = (15.0, 25.0, 29.97, 30.0, 50.0, 60.0)


@pytest.mark.parametrize(
    ("rate_hz", "seen"),
    [(1, 1), (10, 1), (15, 1), (30, 1), (20, 2), (60, 2), (45, 3), (50, 5), (100, 10),
     (350, 35), (47, 47), (18.7, 187)],
)  # fmt: skip
def test_readings_see_as_many_moments_of_a_frame_as_the_ratio_of_rates_has(
    rate_hz: float, seen: int
) -> None:
    assert phases(rate_hz, 30, 10_000) == seen


@given(up=st.integers(1, 400), down=st.integers(1, 400))
def test_phases_are_the_numerator_of_the_ratio_in_lowest_terms(
    up: int, down: int
) -> None:
    ratio = Fraction(up, down)
    assert phases(30 * up / down, 30, 100_000) == ratio.numerator


@given(
    rate_hz=st.floats(0.5, 500),
    frame_hz=st.floats(0.5, 120),
    readings=st.integers(1, 5000),
)
def test_no_more_moments_are_seen_than_there_are_readings(
    rate_hz: float, frame_hz: float, readings: int
) -> None:
    assert 1 <= phases(rate_hz, frame_hz, readings) <= readings


def test_a_slow_drift_through_the_frame_is_locked_in_a_short_window() -> None:
    assert phases(10.0001, 30, 100) == 1
    assert phases(10.0001, 30, 10_000_000) > 1000


def test_the_default_locks_to_no_usual_frame_rate() -> None:
    assert sampling_rate() == DEFAULT_HZ
    assert sampling_rate(frame_rates=USUAL) == DEFAULT_HZ
    assert all(phases(DEFAULT_HZ, f, 470) >= 47 for f in USUAL)


@pytest.mark.parametrize("wanted_hz", [1, 2, 5, 10, 15, 20, 30, 50, 60, 100, 120])
def test_a_rate_that_locks_is_moved_a_little(wanted_hz: float) -> None:
    rate_hz = sampling_rate(wanted_hz, [30])
    assert rate_hz != wanted_hz
    assert rate_hz == pytest.approx(wanted_hz, rel=0.15)
    assert evenness(rate_hz, 30) >= 0.06


@given(
    wanted_hz=st.floats(1, 400),
    frame_rates=st.lists(st.floats(1, 120), max_size=4),
)
def test_another_rate_is_never_worse_than_the_one_wanted(
    wanted_hz: float, frame_rates: list[float]
) -> None:
    def worst(rate_hz: float) -> float:
        return min((evenness(rate_hz, f) for f in frame_rates), default=1.0)

    rate_hz = sampling_rate(wanted_hz, frame_rates)
    assert rate_hz == pytest.approx(wanted_hz, rel=0.151)
    assert worst(rate_hz) >= min(0.06, worst(wanted_hz))


@pytest.mark.parametrize("rates", [(0.0, [30.0]), (47.0, [0.0]), (-1.0, [])])
def test_a_rate_is_above_zero(rates: tuple[float, list[float]]) -> None:
    with pytest.raises(ValueError, match="above 0"):
        sampling_rate(*rates)


def test_a_filter_lets_little_of_a_frame_through() -> None:
    assert ripple(30, 0) == ripple(30, None) == 1
    assert ripple(30, 0.05) == pytest.approx(0.106, rel=0.01)
    assert ripple(30, 3.4) < 0.002


def test_a_longer_window_and_a_slower_filter_need_fewer_readings() -> None:
    assert needed_rate([30], 0) == pytest.approx(25)
    assert needed_rate([30], 0, window_s=60) == pytest.approx(25 / 6)
    assert needed_rate([30], 0.05) == pytest.approx(2.64, rel=0.01)
    assert needed_rate([], 0) == 0


def test_a_rate_that_divides_the_frame_rate_is_warned_of_with_a_remedy() -> None:
    assert needed_rate_warning(10, 0, [30]) == (
        "power is read 10 times a second while frames come 30 times: readings see 1 "
        "moment(s) of a frame, and energy may be off by 85 % however long the run; "
        "read it at 47 Hz"
    )


def test_a_rate_that_is_too_low_is_warned_of_with_numbers() -> None:
    assert needed_rate_warning(9.66, 0, [30]) == (
        "power is read 9.66 times a second: energy of 10 s is known to some 5.2 %, and "
        "2 % need 25 Hz; read it at 47 Hz"
    )


def test_many_readings_of_each_frame_are_no_lock() -> None:
    assert sampling_rate(350, [30]) == 350
    assert needed_rate_warning(350, 0, [30]) == ""


@pytest.mark.parametrize("frame_rates", [[30.0], [25.0], [15.0, 29.97], []])
def test_the_default_is_not_warned_of(frame_rates: list[float]) -> None:
    assert needed_rate_warning(DEFAULT_HZ, 0, frame_rates) == ""
    assert needed_rate_warning(46.85, None, frame_rates) == ""


def test_a_filter_makes_a_locked_rate_harmless() -> None:
    assert "1 moment" in needed_rate_warning(10, 0.05, [30])
    assert needed_rate_warning(10, 0.5, [30]) == ""


@given(rate_hz=st.floats(1, 400), frame_hz=st.floats(5, 120))
def test_who_follows_the_advice_is_not_warned_again(
    rate_hz: float, frame_hz: float
) -> None:
    warning = needed_rate_warning(rate_hz, 0, [frame_hz])
    if warning:
        advice_hz = float(warning.rsplit("read it at ", 1)[1].removesuffix(" Hz"))
        assert needed_rate_warning(advice_hz, 0, [frame_hz]) == ""
