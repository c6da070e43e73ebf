"""Energy between marks: what must hold for any readings, and the odd cases by name."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgepipe.telemetry.energy import Energy, Method
from edgepipe.telemetry.energy_meter import LATE_READINGS, MOST_MARKS, EnergyMeter
from edgepipe.telemetry.sensors.reading import (
    Channel,
    Kind,
    Quality,
    Reading,
    Scope,
    no_reading,
)

S = 1_000_000_000
PERIOD = S // 50

RAIL = Channel(Kind.POWER, "VDD_IN", "ina3221 1-0040", Scope.MODULE_INPUT, tau_s=0.0)
COUNTER = Channel(Kind.ENERGY, "package-0", "RAPL", Scope.CPU_PACKAGE, step=1e-6)

Values = Sequence[tuple[int, float | None]]


def energy(
    values: Values, start_ns: int, end_ns: int, channel: Channel = RAIL
) -> Energy:
    """Between two marks set beforehand, of (time, value) pairs."""
    meter = EnergyMeter(channel, PERIOD)
    meter.mark(start_ns)
    meter.mark(end_ns)
    feed(meter, values)
    return meter.between(start_ns, end_ns)


def feed(meter: EnergyMeter, values: Values) -> None:
    for at_ns, value in values:
        reading = Reading(meter.channel, value, at_ns)
        gone = no_reading(meter.channel, at_ns, "gated")
        meter.add(gone if value is None else reading)


def every(
    period_ns: int, until_ns: int, power: Callable[[float], float]
) -> list[tuple[int, float | None]]:
    return [(at, power(at / S)) for at in range(0, until_ns + 1, period_ns)]


def steady(_: float) -> float:
    return 5.0


@st.composite
def readings(draw: st.DrawFn) -> list[tuple[int, float | None]]:
    """Some seconds of readings at uneven times, with gaps and lost readings."""
    gaps = draw(
        st.lists(
            st.one_of(st.integers(1, 3 * PERIOD), st.integers(1, 3 * S)),
            min_size=2,
            max_size=60,
        )
    )
    watts = st.one_of(st.floats(-1, 40), st.none())
    at_ns, found = 0, list[tuple[int, float | None]]()
    for gap in gaps:
        at_ns += gap
        found.append((at_ns, draw(watts)))
    return found


def test_constant_power_times_time_is_energy() -> None:
    found = energy(every(PERIOD, 12 * S, steady), S, 11 * S)
    assert found.joules == pytest.approx(50)
    assert found.mean_w == pytest.approx(5)
    assert found.coverage == 1
    assert found.samples == 500
    assert found.rate_hz == pytest.approx(50)
    assert found.longest_gap_s == pytest.approx(0.02)
    assert found.method is Method.TRAPEZOID
    assert found.scope is Scope.MODULE_INPUT
    assert (found.quality, found.low, found.reason) == ("good", (), "")


@given(period_ns=st.integers(S // 500, S // 3), watts=st.floats(0.1, 100))
def test_a_constant_signal_is_the_same_however_it_is_sampled(
    period_ns: int, watts: float
) -> None:
    found = energy(every(period_ns, 5 * S, lambda _: watts), S, 4 * S)
    assert found.joules == pytest.approx(3 * watts)
    assert found.error_pct == pytest.approx(0)


@given(
    corners=st.lists(st.floats(-2, 60), min_size=3, max_size=20),
    start=st.floats(0, 0.45),
    length=st.floats(0.01, 0.5),
)
def test_piecewise_linear_power_is_integrated_exactly(
    corners: list[float], start: float, length: float
) -> None:
    step_ns = S // 4
    end_ns = step_ns * (len(corners) - 1)
    from_ns, to_ns = round(start * end_ns), round((start + length) * end_ns)
    found = energy(
        [(i * step_ns, value) for i, value in enumerate(corners)], from_ns, to_ns
    )
    assert found.joules == pytest.approx(
        _line_j(corners, to_ns / step_ns) - _line_j(corners, from_ns / step_ns),
        abs=1e-6,
    )


def _line_j(corners: list[float], until: float) -> float:
    """Joules up to this many corners, a quarter of a second each."""
    whole = int(until)
    total = sum((a + b) / 2 for a, b in pairwise(corners[: whole + 1]))
    if whole + 1 < len(corners):
        part, step = until - whole, corners[whole + 1] - corners[whole]
        total += part * (corners[whole] + step * part / 2)
    return total / 4


@given(
    values=readings(), marks=st.lists(st.integers(0, 60 * S), min_size=3, max_size=3)
)
@pytest.mark.parametrize("channel", [RAIL, COUNTER])
def test_energy_is_additive_over_adjacent_windows(
    channel: Channel, values: Values, marks: list[int]
) -> None:
    low, middle, high = (mark + i for i, mark in enumerate(sorted(marks)))
    meter = EnergyMeter(channel, PERIOD)
    for mark in (low, middle, high):
        meter.mark(mark)
    feed(meter, values)
    whole = meter.between(low, high)
    parts = [meter.between(low, middle), meter.between(middle, high)]
    known = sum(part.joules or 0.0 for part in parts)
    assert (whole.joules or 0.0) == pytest.approx(known, abs=1e-9)
    assert whole.samples == sum(part.samples for part in parts)
    assert whole.coverage * whole.window_s == pytest.approx(
        sum(part.coverage * part.window_s for part in parts)
    )


@given(
    values=readings(),
    marks=st.tuples(st.integers(0, 60 * S), st.integers(1, 60 * S)),
    before=st.integers(0, 60),
)
@pytest.mark.parametrize("channel", [RAIL, COUNTER])
def test_it_does_not_matter_when_a_mark_is_set(
    channel: Channel, values: Values, marks: tuple[int, int], before: int
) -> None:
    start_ns, end_ns = marks[0], marks[0] + marks[1]
    early = energy(values, start_ns, end_ns, channel)
    meter = EnergyMeter(channel, PERIOD)
    feed(meter, values[:before])
    meter.mark(end_ns)
    feed(meter, values[before:])
    meter.mark(start_ns)
    assert meter.between(start_ns, end_ns) == early


@given(values=readings(), asks=st.sets(st.integers(0, 60)))
def test_looking_while_it_runs_changes_nothing(values: Values, asks: set[int]) -> None:
    start_ns, end_ns = S, 30 * S
    meter = EnergyMeter(RAIL, PERIOD)
    meter.mark(start_ns)
    meter.mark(end_ns)
    for i, value in enumerate(values):
        feed(meter, [value])
        if i in asks:
            meter.between(start_ns, end_ns)
    assert meter.between(start_ns, end_ns) == energy(values, start_ns, end_ns)


@given(values=readings())
def test_a_lost_reading_is_a_gap_and_never_zero_watts(values: Values) -> None:
    high = [(at, None if value is None else 20 + abs(value)) for at, value in values]
    found = energy(high, 0, 200 * S)
    if found.joules is None:
        assert found.reason
        assert found.mean_w is None
    else:
        assert found.mean_w is not None
        assert found.mean_w >= 20 * (1 - 1e-9)


@given(
    steps=st.lists(st.integers(1, S // 4), min_size=2, max_size=80),
    seed=st.integers(0, 99),
    edges=st.tuples(st.floats(0, 1), st.floats(0, 1)),
)
def test_the_sum_is_that_of_all_readings_at_once(
    steps: list[int], seed: int, edges: tuple[float, float]
) -> None:
    times = np.cumsum([0, *steps])
    watts = np.random.default_rng(seed).uniform(-1, 40, len(times))
    low, high = (round(edge * times[-1]) for edge in sorted(edges))
    inner = times[(times > low) & (times < high)]
    at = np.array([low, *inner, high + (high == low)])
    line = np.interp(at, times, watts)
    expected = float(((line[1:] + line[:-1]) / 2 * np.diff(at)).sum()) / S
    pairs = [(int(t), float(w)) for t, w in zip(times, watts, strict=True)]
    found = energy(pairs, low, int(at[-1]))
    if high > low:
        assert found.joules == pytest.approx(expected, abs=1e-9)


@given(marks=st.lists(st.integers(0, 70 * S), min_size=2, max_size=2, unique=True))
@settings(max_examples=10)
def test_what_was_added_up_long_ago_equals_what_still_waits(marks: list[int]) -> None:
    low, high = sorted(marks)
    values = every(PERIOD, 70 * S, lambda at_s: 5 + at_s % 7)
    meter = EnergyMeter(RAIL, PERIOD)
    meter.mark(low)
    meter.mark(high)
    before = list[Energy]()
    for value in values:
        feed(meter, [value])
        if value[0] in (30 * S, 50 * S):
            before.append(meter.between(low, high))
    after = meter.between(low, high)
    assert len(values) > 3 * LATE_READINGS
    assert after.joules == energy(values, low, high).joules
    assert all(each.coverage <= after.coverage for each in before)


@given(values=readings())
def test_unmarking_joins_what_it_had_parted(values: Values) -> None:
    meter = EnergyMeter(RAIL, PERIOD)
    for mark in (S, 2 * S, 30 * S, 31 * S):
        meter.mark(mark)
    feed(meter, values)
    for mark in (2 * S, 30 * S):
        meter.unmark(mark)
    found, plain = meter.between(S, 31 * S), energy(values, S, 31 * S)
    assert found.joules == pytest.approx(plain.joules)
    assert found.longest_gap_s == plain.longest_gap_s
    assert found.samples == plain.samples


@pytest.mark.parametrize("tau_s", [0.05, 0.5, 3.4])
@settings(max_examples=20)
@given(ends=st.tuples(st.floats(0, 40), st.floats(0, 40)))
def test_the_filter_is_undone_exactly_for_a_load_that_jumps(
    tau_s: float, ends: tuple[float, float]
) -> None:
    idle_w, busy_w = ends
    channel = Channel(Kind.POWER, "VDD_IN", "x", Scope.MODULE_INPUT, tau_s=tau_s)

    def filtered(at_s: float) -> float:
        grown = -math.expm1(-max(0.0, at_s - 2) / tau_s)
        return idle_w + (busy_w - idle_w) * grown

    found = energy(every(S // 250, 4 * S, filtered), 2 * S, 4 * S, channel)
    assert found.joules == pytest.approx(2 * busy_w, abs=0.02)
    swing_j = (busy_w - idle_w) * tau_s * -math.expm1(-2 / tau_s)
    assert found.correction_j == pytest.approx(swing_j, abs=0.02)


def test_a_correction_spans_gaps_stretch_by_stretch() -> None:
    channel = Channel(Kind.POWER, "VDD_IN", "x", Scope.MODULE_INPUT, tau_s=1.0)
    rising = every(PERIOD, 10 * S, lambda at_s: at_s)
    broken = [(at, None if 4 * S < at < 6 * S else value) for at, value in rising]
    found = energy(broken, 2 * S, 8 * S, channel)
    assert found.correction_j == pytest.approx(4)
    assert found.joules == pytest.approx(6 + 14 + 4)


def test_half_a_window_without_readings_is_of_low_quality() -> None:
    values = every(PERIOD, 12 * S, steady)
    broken = [(at, None if 4 * S < at < 9 * S else value) for at, value in values]
    found = energy(broken, S, 11 * S)
    assert found.joules == pytest.approx(25, rel=0.01)
    assert found.mean_w == pytest.approx(5)
    assert found.window_j == pytest.approx(50)
    assert found.coverage == pytest.approx(0.5, abs=0.01)
    assert found.quality == "low"
    assert found.low == ("only 50 % of the window was measured", "no reading for 5 s")
    assert found.error_pct == pytest.approx(50, rel=0.02)


def test_one_lost_reading_costs_two_periods_and_no_quality() -> None:
    values = every(PERIOD, 12 * S, steady)
    values[200] = (values[200][0], None)
    found = energy(values, S, 11 * S)
    assert found.quality == "good"
    assert found.coverage == pytest.approx(1 - 0.04 / 10)
    assert found.longest_gap_s == pytest.approx(0.04)


def test_a_sensor_that_answers_each_second_is_joined_across_a_second() -> None:
    found = energy(every(S, 60 * S, steady), 20 * S, 50 * S)
    assert found.coverage == 1
    assert found.quality == "good"


def test_a_sensor_that_hung_is_not_bridged() -> None:
    hung = [v for v in every(PERIOD, 20 * S, steady) if not 5 * S < v[0] < 8 * S]
    found = energy(hung, 0, 20 * S)
    assert found.coverage == pytest.approx(0.85, abs=0.002)
    assert found.longest_gap_s == pytest.approx(3, abs=0.05)


def test_a_window_without_readings_says_what_the_sensor_said() -> None:
    found = energy([(at, None) for at in range(0, 10 * S, PERIOD)], S, 2 * S)
    assert (found.joules, found.reason) == (None, "gated")
    assert (found.coverage, found.longest_gap_s) == (0, 1)
    assert found.quality == "low"


def test_one_reading_is_no_energy() -> None:
    found = energy([(S + S // 2, 5.0)], S, 2 * S)
    assert found.joules is None
    assert found.reason == "no two readings of the window follow each other"


def test_a_window_shorter_than_a_period_is_interpolated() -> None:
    found = energy([(0, 4.0), (S // 10, 8.0)], S // 40, S // 20)
    assert found.joules == pytest.approx(5.5 / 40)
    assert found.samples == 0


def test_the_end_of_a_window_may_still_be_to_come() -> None:
    meter = EnergyMeter(RAIL, PERIOD)
    meter.mark(0)
    meter.mark(10 * S)
    feed(meter, every(PERIOD, 5 * S, steady))
    half = meter.between(0, 10 * S)
    assert half.joules == pytest.approx(25)
    assert half.coverage == pytest.approx(0.5)
    feed(meter, every(PERIOD, 10 * S, steady)[251:])
    assert meter.between(0, 10 * S).joules == pytest.approx(50)


def test_a_window_that_is_not_marked_has_no_figure() -> None:
    meter = EnergyMeter(RAIL, PERIOD)
    feed(meter, every(PERIOD, 5 * S, steady))
    assert "not marked" in meter.between(0, S).reason


def test_a_mark_comes_too_late_when_its_readings_have_been_added_up() -> None:
    meter = EnergyMeter(RAIL, PERIOD)
    feed(meter, every(PERIOD, (LATE_READINGS + 100) * PERIOD, steady))
    meter.mark(50 * PERIOD)
    meter.mark(200 * PERIOD)
    meter.mark(300 * PERIOD)
    assert "too late" in meter.between(50 * PERIOD, 200 * PERIOD).reason
    assert meter.between(200 * PERIOD, 300 * PERIOD).joules == pytest.approx(10)


def test_the_oldest_mark_is_forgotten_at_the_bound() -> None:
    meter = EnergyMeter(RAIL, PERIOD)
    for mark in range(MOST_MARKS + 1):
        meter.mark(mark * PERIOD)
    feed(meter, every(PERIOD, 3 * PERIOD, steady))
    assert "not marked" in meter.between(0, PERIOD).reason
    assert meter.between(PERIOD, 2 * PERIOD).joules == pytest.approx(0.1)


def test_readings_out_of_order_and_doubled_ones_are_left_out() -> None:
    values = every(PERIOD, 3 * S, steady)
    mixed = [values[0], *values, values[5], values[9]]
    assert energy(mixed, S, 2 * S) == energy(values, S, 2 * S)


def test_infinite_power_is_no_reading() -> None:
    values = every(PERIOD, 3 * S, steady)
    values[70] = (values[70][0], math.inf)
    assert energy(values, S, 2 * S).mean_w == pytest.approx(5)


def test_readings_that_the_sensor_doubts_make_a_doubtful_figure() -> None:
    meter = EnergyMeter(RAIL, PERIOD)
    meter.mark(S)
    meter.mark(2 * S)
    for at_ns in range(0, 3 * S, PERIOD):
        doubt = Quality.DOUBTFUL if at_ns < S + 2 * PERIOD else Quality.GOOD
        meter.add(Reading(RAIL, 5.0, at_ns, "two units fit", doubt))
    found = meter.between(S, 2 * S)
    assert found.joules == pytest.approx(5)
    assert found.low == ("the sensor doubts 2 of 50 readings",)


def test_a_temperature_has_no_energy() -> None:
    with pytest.raises(ValueError, match=r"temperature\.tj"):
        EnergyMeter(Channel(Kind.TEMPERATURE, "tj", "x"))


def test_an_empty_window_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="empty"):
        EnergyMeter(RAIL).between(5, 5)


def test_the_running_total_needs_no_marks() -> None:
    meter = EnergyMeter(RAIL, PERIOD)
    assert meter.joules is None
    feed(meter, every(PERIOD, 100 * S, steady))
    assert meter.joules == pytest.approx(500)
    assert meter.covered_s == pytest.approx(100)


class TestCounter:
    """Counters of energy."""

    def test_energy_is_the_difference(self) -> None:
        counts = every(PERIOD, 12 * S, lambda at_s: 1000 + 30 * at_s)
        found = energy(counts, S, 11 * S, COUNTER)
        assert found.joules == pytest.approx(300)
        assert found.method is Method.COUNTER
        assert (found.tau_s, found.correction_j) == (0, 0)
        assert found.quality == "good"

    def test_a_lost_reading_costs_nothing(self) -> None:
        counts = every(PERIOD, 12 * S, lambda at_s: 30 * at_s)
        broken = [(at, None if at // S == 5 else v) for at, v in counts]
        found = energy(broken, S, 11 * S, COUNTER)
        assert found.joules == pytest.approx(300)
        assert found.coverage == 1
        assert found.low == ("no reading for 1.02 s",)

    def test_what_it_counted_until_it_was_reset_is_lost_and_a_gap(self) -> None:
        counts = every(PERIOD, 6 * S, lambda at_s: 500 + 30 * at_s)
        counts += [(at + 6 * S + PERIOD, v) for at, v in
                   every(PERIOD, 6 * S, lambda at_s: 30 * at_s)]  # fmt: skip
        found = energy(counts, S, 11 * S, COUNTER)
        assert found.joules == pytest.approx(30 * (10 - 0.02))
        assert found.coverage == pytest.approx(1 - 0.002)
        assert found.low == ("the counter went back 1 times",)

    def test_what_lies_before_a_doubtful_count_is_a_gap(self) -> None:
        meter = EnergyMeter(COUNTER, PERIOD)
        for at_ns in (S, 11 * S):
            meter.mark(at_ns)
        for at_ns, count in every(PERIOD, 12 * S, lambda at_s: 30 * at_s):
            if not 5 * S < at_ns < 7 * S:
                doubt = Quality.DOUBTFUL if at_ns == 7 * S else Quality.GOOD
                meter.add(Reading(COUNTER, count, at_ns, "gone round", doubt))
        found = meter.between(S, 11 * S)
        assert found.joules == pytest.approx(30 * 8)
        assert found.coverage == pytest.approx(0.8)

    def test_one_that_is_updated_now_and_then_has_late_edges(self) -> None:
        counts = every(PERIOD, 12 * S, lambda at_s: 300 * (int(at_s * 10) / 10))
        found = energy(counts, S + S // 30, 11 * S + S // 21, COUNTER)
        assert found.mean_w == pytest.approx(300, rel=0.01)
        assert found.error_pct == pytest.approx(0.78, rel=0.05)

    def test_one_that_does_not_move_is_no_zero(self) -> None:
        found = energy(every(PERIOD, 3 * S, lambda _: 7.0), S, 2 * S, COUNTER)
        assert found.joules is None
        assert found.reason == "the counter did not move in the window"

    @given(steps=st.lists(st.floats(0, 50), min_size=3, max_size=50))
    def test_no_joule_is_lost_between_the_first_reading_and_the_last(
        self, steps: list[float]
    ) -> None:
        sums = [sum(steps[:i]) for i in range(len(steps) + 1)]
        counts = [(i * PERIOD, value) for i, value in enumerate(sums)]
        found = energy(counts, 0, len(steps) * PERIOD, COUNTER)
        assert (found.joules or 0) == pytest.approx(sums[-1])
