"""Histograms that grow, and the ranges that are read from them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from edgepipe.models.quantise.histogram import BINS, Histogram
from edgepipe.models.quantise.ranges import METHODS, STEPS

VALUES = st.lists(
    st.floats(-1e6, 1e6, width=32, allow_subnormal=False), min_size=1, max_size=60
)


def histogram_of(*parts: NDArray[np.float32]) -> Histogram:
    histogram = Histogram()
    for part in parts:
        histogram.add(part)
    return histogram


def rounding_error(values: NDArray[np.float64], largest: float) -> float:
    """Mean squared error of symmetric INT8 with that range."""
    scale = largest / STEPS
    rounded = np.clip(np.round(values / scale), -STEPS, STEPS) * scale
    return float(np.mean((rounded - values) ** 2))


@given(VALUES, st.randoms())
def test_every_value_is_counted_once_in_whatever_order_images_come(
    values: list[float], random: np.random.RandomState
) -> None:
    parts = [np.array([value], np.float32) for value in values]
    forward = histogram_of(*parts)
    random.shuffle(parts)
    shuffled = histogram_of(*parts)
    at_once = histogram_of(np.array(values, np.float32))
    largest = float(np.abs(np.array(values, np.float32)).max())
    for each in (forward, shuffled, at_once):
        assert each.counts.sum() == len(values)
        assert each.largest == largest
        assert each.limit >= largest
    assert forward.limit >= at_once.limit


@given(VALUES)
def test_no_method_asks_for_more_than_the_largest_value(values: list[float]) -> None:
    histogram = histogram_of(np.array(values, np.float32))
    for method in METHODS.values():
        assert 0 <= method(histogram) <= histogram.largest


def test_a_larger_value_joins_bins_in_pairs_and_loses_nothing() -> None:
    histogram = histogram_of(np.array([0.9, 0.1], np.float32))
    assert histogram.limit == 1.0
    histogram.add(np.array([3.0], np.float32))
    assert histogram.limit == 4.0
    occupied = np.flatnonzero(histogram.counts)
    for value, bin_ in zip((0.1, 0.9, 3.0), occupied, strict=True):
        assert abs(histogram.centres[bin_] - value) <= 4.0 / BINS


def test_zeros_alone_have_no_range() -> None:
    histogram = histogram_of(np.zeros(9, np.float32))
    assert {method(histogram) for method in METHODS.values()} == {0.0}


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_no_number_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="NaN or infinite"):
        histogram_of(np.array([1.0, bad], np.float32))


def test_each_method_treats_one_outlier_in_its_own_way() -> None:
    values = np.random.default_rng(0).normal(size=200_000)
    values[7] = 60.0
    histogram = histogram_of(values.astype(np.float32))
    assert METHODS["minmax"](histogram) == 60.0
    assert METHODS["percentile"](histogram) < 6
    assert METHODS["entropy"](histogram) < 6
    assert 6 < METHODS["mse"](histogram) < 60


@pytest.mark.parametrize("kind", ["normal", "laplace", "uniform", "halfnormal"])
def test_no_range_has_a_smaller_error_than_that_of_least_error(kind: str) -> None:
    rng = np.random.default_rng(3)
    values = {
        "normal": rng.normal(size=100_000),
        "laplace": rng.laplace(size=100_000),
        "uniform": rng.uniform(-1, 1, 100_000),
        "halfnormal": np.abs(rng.normal(size=100_000)),
    }[kind]
    histogram = histogram_of(values.astype(np.float32))
    chosen = rounding_error(values, METHODS["mse"](histogram))
    best = min(
        rounding_error(values, share * histogram.largest)
        for share in np.linspace(0.1, 1, 200)
    )
    assert chosen <= best * 1.01
