"""How large a value INT8 shall be able to hold: four answers from one histogram.

All are symmetric: a range of r is the values from -r to r in 255 steps.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.quantise.histogram import BINS, Histogram

STEPS = 127
"""Steps of the positive half of symmetric INT8."""
SEVEN_BITS_STEPS = 64
"""The same of weights with seven bits."""
PERCENTILE = 99.999
"""Share of the values, in percent, that the percentile method does not clip."""
_COARSEST = 128
"""Bins of the smallest range that entropy and mean squared error look at."""
_STRIDE = 8
"""They look at every so-many-th bin as a range."""


def minmax(histogram: Histogram) -> float:
    """The largest value that was seen: nothing is clipped."""
    return histogram.largest


def percentile(histogram: Histogram) -> float:
    """The bin's edge below which ``PERCENTILE`` of the values lie."""
    below: NDArray[np.int64] = np.cumsum(histogram.counts)
    wanted = float(below[-1]) * (PERCENTILE / 100)
    bins = int(np.searchsorted(below, wanted)) + 1
    return min(bins * histogram.limit / BINS, histogram.largest)


def mean_squared_error(histogram: Histogram) -> float:
    """The range whose rounding and clipping together cost least.

    A value inside loses a twelfth of the squared step in the mean, one outside what it
    is beyond the range.
    """
    candidates = _candidates()
    ranges = candidates * (histogram.limit / BINS)
    counts = histogram.counts.astype(np.float64)
    inside = np.concatenate([[0.0], np.cumsum(counts)])[candidates]
    rounding = inside * (ranges / STEPS) ** 2 / 12
    # Sum over the bins outside of count * (x - range)^2, from three running sums.
    powers = [histogram.centres**power for power in range(3)]
    outside = [_tail(counts * values)[candidates] for values in powers]
    clipping = outside[2] - 2 * ranges * outside[1] + ranges**2 * outside[0]
    return min(float(ranges[np.argmin(rounding + clipping)]), histogram.largest)


def entropy(histogram: Histogram) -> float:
    """The range that keeps most of the distribution (Migacz, GTC 2017).

    For each range the distribution inside it, with what is outside counted in its last
    bin, is compared with itself in 128 levels by the Kullback-Leibler divergence.
    """
    counts = histogram.counts.astype(np.float64)
    candidates = _candidates()
    costs = [_divergence(counts, int(bins)) for bins in candidates]
    best = int(candidates[int(np.argmin(costs))])
    return min(best * histogram.limit / BINS, histogram.largest)


METHODS: Mapping[str, Callable[[Histogram], float]] = MappingProxyType(
    {
        "minmax": minmax,
        "percentile": percentile,
        "mse": mean_squared_error,
        "entropy": entropy,
    }
)


def _candidates() -> NDArray[np.int64]:
    return np.arange(_COARSEST, BINS + 1, _STRIDE)


def _tail(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(BINS + 1,) sums of the values from each position to the end."""
    return np.concatenate([np.cumsum(values[::-1])[::-1], [0.0]])


def _divergence(counts: NDArray[np.float64], bins: int) -> float:
    """How much is lost when the first so many bins are told apart in 128 levels."""
    reference = counts[:bins].copy()
    inside = reference > 0
    reference[-1] += counts[bins:].sum()
    # The levels see only what is inside; clipped values must cost something.
    level = np.arange(bins) * _COARSEST // bins
    mass = np.bincount(level, weights=counts[:bins], minlength=_COARSEST)
    occupied = np.bincount(level, weights=inside, minlength=_COARSEST)
    spread = np.divide(mass, occupied, out=np.zeros(_COARSEST), where=occupied > 0)
    approximation = np.where(inside, spread[level], 0.0)
    p, q = reference / reference.sum(), approximation / max(approximation.sum(), 1.0)
    seen = p > 0
    # A bin that has no level would cost infinity: a small share stands for it.
    q = np.where(q > 0, q, 1e-9)
    return float(np.sum(p[seen] * np.log(p[seen] / q[seen])))
