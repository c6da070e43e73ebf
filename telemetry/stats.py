"""The formulas behind every reported number: pure functions on integer samples.

**When a percentile is claimed.** A percentile p is claimed from n samples only if
``p ** n <= 0.05``: with fewer, there is a chance above 5 % that all samples lie below
the true percentile, and no figure taken from them could stand for it (the distribution
free tolerance bound of S. S. Wilks, 1941). That asks for 5 samples for p50, 29 for p90,
59 for p95, 99 for p97, 299 for p99 and 2995 for p99.9. A percentile that is not claimed
is None, and the distribution says why.

Percentiles are nearest rank: the smallest sample that at least p of all samples do not
exceed. They are always samples that really occurred, never interpolated, and always
from the samples themselves, never from other percentiles or averages.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgepipe.telemetry.samples import Samples

WHOLE = 10_000
"""Percentiles are given in ten-thousandths, so that ranks are exact integers."""

PERCENTILES: Mapping[str, int] = {
    "p50": 5000,
    "p90": 9000,
    "p95": 9500,
    "p97": 9700,
    "p99": 9900,
    "p99_9": 9990,
}
"""The percentiles of every distribution, in ten-thousandths."""

CLAIM_RISK = 0.05


@dataclass(frozen=True, slots=True)
class Distribution:
    """Integer samples, summed up. A value that cannot be given is None."""

    n: int
    """Samples that the figures rest on."""
    total: int
    """Samples ever taken; more than ``n`` when the oldest were overwritten."""
    mean: float | None
    min: int | None
    max: int | None
    percentiles: Mapping[str, int | None]
    """By the names of :data:`PERCENTILES`."""
    reason: str
    """Why values are None; empty when none is."""


@dataclass(frozen=True, slots=True)
class PeriodJitter:
    """How uneven the intervals between deliveries are, in their own unit."""

    std: float
    """Standard deviation of the intervals."""
    mean_abs: float
    """Mean distance of an interval from the mean interval."""


def samples_needed(percentile: int) -> int:
    """The fewest samples from which a percentile (in ten-thousandths) is claimed."""
    if not 0 < percentile < WHOLE:
        raise ValueError(f"percentile must be within 1..{WHOLE - 1}, got {percentile}")
    return math.ceil(math.log(CLAIM_RISK) / math.log(percentile / WHOLE))


def nearest_rank(ordered: NDArray[np.int64], percentile: int) -> int:
    """The nearest-rank percentile (in ten-thousandths) of ascending samples.

    Raises:
        ValueError: There are no samples.
    """
    if not len(ordered):
        raise ValueError("no samples to take a percentile of")
    rank = -(-len(ordered) * percentile // WHOLE)
    return int(ordered[rank - 1])


def distribution(samples: Samples, nothing: str) -> Distribution:
    """Sum up stored samples; ``nothing`` is the reason given when there are none."""
    return distribution_of(samples.values(), samples.total, nothing)


def distribution_of(
    values: NDArray[np.int64], total: int, nothing: str
) -> Distribution:
    """Sum up ``values``, in any order, which are the newest of ``total`` samples."""
    ordered = np.sort(values)
    n = len(ordered)
    if n == 0:
        nulls: dict[str, int | None] = dict.fromkeys(PERCENTILES)
        return Distribution(0, 0, None, None, None, nulls, nothing)
    return Distribution(
        n=n,
        total=total,
        mean=float(ordered.mean()),
        min=int(ordered[0]),
        max=int(ordered[-1]),
        percentiles={
            name: nearest_rank(ordered, p) if n >= samples_needed(p) else None
            for name, p in PERCENTILES.items()
        },
        reason=_refusals(n),
    )


def _refusals(n: int) -> str:
    refused = [
        f"{name} needs {needed}"
        for name, p in PERCENTILES.items()
        if n < (needed := samples_needed(p))
    ]
    return f"too few samples: {', '.join(refused)}; there are {n}" if refused else ""


def period_jitter(intervals: NDArray[np.int64]) -> PeriodJitter | None:
    """The jitter of the intervals between deliveries; None for fewer than two."""
    if len(intervals) < 2:
        return None
    return PeriodJitter(
        std=float(intervals.std()),
        mean_abs=float(np.abs(intervals - intervals.mean()).mean()),
    )


def latency_spread(latency: Distribution) -> int | None:
    """p99 - p50; None when p99 is not claimed."""
    p50, p99 = latency.percentiles["p50"], latency.percentiles["p99"]
    return None if p50 is None or p99 is None else p99 - p50


def miss_ratio(captured: int, late: int, dropped: int, failed: int) -> float | None:
    """Deadline misses by frames captured: late, dropped and failed all miss.

    None when nothing was captured.

    Raises:
        ValueError: A count is negative, or the misses exceed the frames captured.
    """
    return _share(captured, late, dropped, failed)


def on_time_share(captured: int, on_time: int) -> float | None:
    """Frames delivered by their deadline by frames captured; None without frames.

    Raises:
        ValueError: A count is negative, or more were on time than were captured.
    """
    return _share(captured, on_time)


def drop_ratio(captured: int, dropped: int) -> float | None:
    """Drops by frames captured (never by frames processed); None without frames.

    Raises:
        ValueError: A count is negative, or the drops exceed the frames captured.
    """
    return _share(captured, dropped)


def _share(captured: int, *parts: int) -> float | None:
    if min(captured, *parts) < 0 or sum(parts) > captured:
        raise ValueError(f"{parts} cannot be parts of {captured} captured frames")
    return sum(parts) / captured if captured else None
