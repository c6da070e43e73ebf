"""What the table of integration errors claims, on a small part of it."""

import math

import numpy as np
import pytest
from energy_error import (
    Row,
    filter_bias_pct,
    load,
    mean_w,
    rows,
    sampling_theory_pct,
    tables,
    trials,
)


@pytest.fixture(scope="module")
def found() -> dict[tuple[float, float, int], Row]:
    """A few trials with short windows, by filter, rate and window."""
    some = list(trials(1, 8, (0.0, 0.5), (10.0, 47.0), (1, 10)))
    return {(r.tau_s, r.rate_hz, r.window_s): r for r in rows(some, 1)}


def test_the_load_has_the_mean_that_theory_reckons_with() -> None:
    joules = [load(np.random.default_rng(i), 47).joules(47) for i in range(3)]
    assert joules == pytest.approx([47 * mean_w()] * 3, rel=0.002)


def test_a_sensor_without_a_filter_shows_the_load_itself() -> None:
    truth = load(np.random.default_rng(1), 1)
    assert truth.seen_by(0.0) is truth.true_w
    assert truth.seen_by(0.5)[0] == pytest.approx(truth.true_w[0])
    assert truth.seen_by(0.5).max() < truth.true_w.max()


def test_the_error_of_a_locked_rate_does_not_shrink_with_the_window(
    found: dict[tuple[float, float, int], Row],
) -> None:
    short, long = found[0.0, 10.0, 1], found[0.0, 10.0, 10]
    assert long.p95_pct > 40
    assert long.p95_pct > 0.8 * short.p95_pct
    assert long.warned


def test_the_error_of_the_default_rate_does(
    found: dict[tuple[float, float, int], Row],
) -> None:
    short, long = found[0.0, 47.0, 1], found[0.0, 47.0, 10]
    assert long.p95_pct < 2
    assert long.p95_pct < 0.5 * short.p95_pct
    assert not long.warned


def test_errors_are_those_of_theory(
    found: dict[tuple[float, float, int], Row],
) -> None:
    for row in found.values():
        assert row.theory_pct / 3 < row.p95_pct < 3 * row.theory_pct


def test_the_bias_of_a_filter_is_that_of_theory_and_is_undone(
    found: dict[tuple[float, float, int], Row],
) -> None:
    row = found[0.5, 47.0, 10]
    assert row.uncorrected_bias_pct == pytest.approx(-2.28, abs=0.3)
    assert row.uncorrected_theory_pct == pytest.approx(-2.28, abs=0.01)
    assert abs(row.bias_pct) < 0.1


def test_the_estimate_is_hardly_ever_smaller_than_the_error(
    found: dict[tuple[float, float, int], Row],
) -> None:
    assert all(row.within >= 0.87 for row in found.values())


def test_without_a_filter_there_is_no_bias() -> None:
    assert filter_bias_pct(0.0, 10) == 0
    assert filter_bias_pct(1.0, math.inf) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(("rate_hz", "phases"), [(10, 1), (50, 5), (100, 10)])
def test_theory_of_a_locked_rate_is_within_the_spacing_of_its_phases(
    rate_hz: float, phases: int
) -> None:
    rng = np.random.default_rng(1)
    off = sampling_theory_pct(0.0, rate_hz, 10, rng)
    assert 20 / phases < off < 100 * 14 / mean_w() / phases
    assert sampling_theory_pct(0.0, rate_hz, 60, rng) == pytest.approx(off, rel=0.2)


def test_the_tables_have_a_line_for_each_rate(
    found: dict[tuple[float, float, int], Row],
) -> None:
    text = tables(list(found.values()))
    assert "| 0 | 10 (warned) |" in text
    assert "| 0.5 | 47 |" in text
