"""How sure a drop of accuracy is: block bootstrap over frames (Kuensch, 1989).

Neighbouring frames show the same objects and are no independent evidence. So not frames
are drawn but blocks of consecutive ones, round the end (Politis and Romano, 1992), and
both networks are judged on the same draw.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray

Weights = NDArray[np.float64]
Statistic = Callable[[Weights], NDArray[np.float64]]
"""(b, frames) weights to (b,) values; NaN where a weighting leaves nothing to judge."""

RESAMPLES = 1000
CONFIDENCE = 0.95
MOST_GROUPS = 200
"""Of frames that are left out together while influences are found."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A value with what it may be at most."""

    value: float
    """With every frame counted once."""
    upper: float
    """With 95 % confidence, one-sided, it is not above this."""
    block: int
    """Consecutive frames that were drawn together."""
    resamples: int
    """How many draws there were that left something to judge."""


def upper_bound(
    statistic: Statistic,
    frames: int,
    *,
    block: int | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Bound:
    """A statistic of the frames and its upper bound by block bootstrap.

    The bound is the 95th percentile of the draws (Efron's percentile interval).

    Args:
        statistic: Of weighted frames.
        frames: How many there are; 1 or more.
        block: Frames drawn together; None: as long as the statistic's own
            autocorrelation asks for.
        resamples: How many draws.
        seed: Equal seeds give equal bounds.

    Raises:
        ValueError: With every frame counted once there is nothing to judge.
    """
    (value,) = statistic(np.ones((1, frames)))
    if np.isnan(value):
        raise ValueError("there is nothing to judge in these frames")
    length = _chosen_block(statistic, frames) if block is None else block
    weights = block_weights(frames, length, resamples, seed)
    drawn = statistic(weights)
    drawn = drawn[~np.isnan(drawn)]
    upper = float(np.quantile(drawn, CONFIDENCE)) if len(drawn) else float("inf")
    return Bound(float(value), upper, length, len(drawn))


def influences(
    statistic: Statistic, frames: int, group: int = 1
) -> NDArray[np.float64]:
    """(groups,) what each group of consecutive frames adds to a statistic.

    These are the jackknife's pseudo-values without the mean. A group without which
    there is nothing to judge adds 0.
    """
    whole = statistic(np.ones((1, frames)))[0]
    groups = -(-frames // group)
    owner = np.arange(frames) // group
    without = statistic((owner != np.arange(groups)[:, np.newaxis]).astype(np.float64))
    added: NDArray[np.float64] = np.nan_to_num((whole - without) * (groups - 1))
    return added


def block_length(series: NDArray[np.float64]) -> int:
    """Length of blocks that keeps what neighbours share (Politis and White, 2004).

    With the correction of Patton, Politis and White (2009), for circular blocks: the
    autocovariance up to twice the lag from which on it is noise, under a flat-top
    window. At least 1, at most a third of the series or three of its square roots.
    """
    n = len(series)
    if n < 4 or np.ptp(series) == 0:
        return 1
    covariance = _autocovariance(series)
    last = _last_lag(covariance / covariance[0], n)
    lags = np.arange(1, min(2 * last, n - 1) + 1)
    window = np.minimum(1.0, 2.0 * (1.0 - lags / (2.0 * last)))
    terms = window * covariance[lags]
    spread = covariance[0] + 2.0 * terms.sum()
    slope = 2.0 * (lags * terms).sum()
    longest = max(1, int(min(3 * sqrt(n), n / 3)))
    if spread <= 0:
        return longest
    length = (1.5 * slope**2 / spread**2 * n) ** (1 / 3)
    return int(min(max(1, ceil(length)), longest))


def block_weights(frames: int, block: int, resamples: int, seed: int) -> Weights:
    """(resamples, frames): how often each frame is drawn, in blocks round the end."""
    rng = np.random.default_rng(seed)
    blocks = -(-frames // block)
    starts = rng.integers(0, frames, (resamples, blocks))
    drawn = (starts[:, :, np.newaxis] + np.arange(block)) % frames
    drawn = drawn.reshape(resamples, -1)[:, :frames]
    rows = np.arange(resamples)[:, np.newaxis] * frames
    counts = np.bincount((rows + drawn).ravel(), minlength=resamples * frames)
    return counts.reshape(resamples, frames).astype(np.float64)


def _chosen_block(statistic: Statistic, frames: int) -> int:
    """As long as the statistic's own autocorrelation asks for."""
    group = -(-frames // MOST_GROUPS)
    return group * block_length(influences(statistic, frames, group))


def _autocovariance(series: NDArray[np.float64]) -> NDArray[np.float64]:
    """At lags 0 .. n - 1."""
    n = len(series)
    spectrum = np.fft.rfft(series - series.mean(), 2 * n)
    return np.asarray(np.fft.irfft(np.abs(spectrum) ** 2, 2 * n)[:n] / n)


def _last_lag(correlation: NDArray[np.float64], n: int) -> int:
    """The lag after which several in a row are within noise; their rule of thumb."""
    row = max(5, ceil(sqrt(np.log10(n))))
    noise = 2.0 * sqrt(np.log10(n) / n)
    most = min(ceil(sqrt(n)) + row, n - 1)
    small = np.abs(correlation[1 : most + 1]) < noise
    for lag in range(len(small) - row + 1):
        if small[lag : lag + row].all():
            return max(1, lag)
    return max(1, len(small))
