"""Whether the rate that a header gives can be that of the frames. Pure."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from statistics import fmean, median_low

_FEWEST = 8
"""Distances between frames from which anything follows."""
_TOLERANCE = 1.5
"""Headers round, and give means; honest ones are not off by more than this factor."""


def other_rate(fps: float, stamps: Sequence[int], time_base: Fraction) -> float | None:
    """The rate of the frames where it cannot be ``fps``; None if it can.

    Args:
        fps: What the header says.
        stamps: Presentation stamps of the first packets, in any order.
        time_base: Seconds in a unit of them.
    """
    steps = [b - a for a, b in pairwise(sorted(stamps)) if b > a]
    if len(steps) < _FEWEST:
        return None
    usual = median_low(steps)
    # Stamps may be rounded to milliseconds, which a mean makes good. Without pauses.
    near = fmean(step for step in steps if usual / 2 <= step <= 2 * usual)
    rates = [1 / (float(time_base) * step) for step in (near, fmean(steps))]
    if min(rates) / _TOLERANCE <= fps <= max(rates) * _TOLERANCE:
        return None
    return round(rates[0], 3)
