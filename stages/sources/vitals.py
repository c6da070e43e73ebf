"""What the time stamps and packets of a source are like, in numbers. Pure."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, median, pstdev
from typing import NamedTuple

_UNEVEN = 0.1
"""Distances between frames that differ by more than this share are not regular."""


class Rhythm(NamedTuple):
    """How regularly frames come, from their stamps."""

    frames: int
    duration_s: float
    """From the first frame to the last, and one usual distance more."""
    fps: float | None
    """Frames per second of all distances that are no gaps; None below two frames."""
    usual_ms: float | None
    """The median distance."""
    spread_ms: float | None
    """Standard deviation of the distances that are no gaps."""
    shortest_ms: float | None
    longest_ms: float | None
    is_regular: bool
    """Whether nine of ten distances are within a tenth of the usual one."""


def rhythm(times_ns: Sequence[int], gap_frames: int) -> Rhythm:
    """Of rising media times; distances beyond ``gap_frames`` usual ones are gaps."""
    steps = [b - a for a, b in pairwise(times_ns)]
    if not steps:
        return Rhythm(len(times_ns), 0.0, None, None, None, None, None, True)
    usual = median(steps)
    within = [step for step in steps if step <= gap_frames * usual] or steps
    near = sum(abs(step - usual) <= _UNEVEN * usual for step in within)
    return Rhythm(
        len(times_ns),
        (times_ns[-1] - times_ns[0] + usual) / 1e9,
        1e9 / fmean(within),
        usual / 1e6,
        pstdev(within) / 1e6,
        min(steps) / 1e6,
        max(steps) / 1e6,
        near >= 0.9 * len(within),
    )


class Structure(NamedTuple):
    """How packets refer to each other."""

    packets: int
    key_frames: int
    key_distance: tuple[int, float, int] | None
    """Fewest, median and most frames from one key frame to the next; None if there are
    not two."""
    reorder_depth: int
    """Frames that are decoded before one that is shown before them, at most."""


def structure(packets: Sequence[tuple[int | None, bool]]) -> Structure:
    """Of packets in decoding order: presentation stamp, and whether it is a key."""
    keys = [n for n, (_, is_key) in enumerate(packets) if is_key]
    between = [b - a for a, b in pairwise(keys)]
    distance = (min(between), median(between), max(between)) if between else None
    depth = 0
    ahead: list[int] = []
    for stamp, _ in packets:
        if stamp is None:
            continue
        ahead = [each for each in ahead if each > stamp]
        depth = max(depth, len(ahead))
        ahead.append(stamp)
    return Structure(len(packets), len(keys), distance, depth)


class Spread(NamedTuple):
    """Of measured times, in milliseconds."""

    n: int
    p50: float
    p90: float
    most: float


def spread_ms(times_ns: Sequence[int]) -> Spread | None:
    """None without a measurement."""
    if not times_ns:
        return None
    ordered = sorted(times_ns)
    p90 = ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))]
    return Spread(len(ordered), median(ordered) / 1e6, p90 / 1e6, ordered[-1] / 1e6)
