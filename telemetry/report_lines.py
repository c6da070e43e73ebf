"""Measured values over the time of a run, as SVG text without scripts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgepipe.telemetry.report_charts import (
    COLOURS,
    LEFT,
    PLOT,
    horizontal_grid,
    label,
    path,
    svg,
    ticks,
)

__all__ = ["COLOURS", "Line", "Shade", "lines_over_time"]

COLUMNS = 466
"""A line is drawn through so many points at most: one for two pixels."""

_FLOOR, _HEIGHT, _TOP = 170, 212, 14


@dataclass(frozen=True, slots=True)
class Line:
    """One channel over time."""

    name: str
    times_ns: NDArray[np.int64]
    """(n,) ascending, monotonic."""
    values: NDArray[np.float64]
    """(n,) as they are drawn; NaN breaks the line."""


@dataclass(frozen=True, slots=True)
class Shade:
    """A stretch of time that is marked."""

    from_ns: int
    until_ns: int


def lines_over_time(
    lines: Sequence[Line], span_ns: tuple[int, int], shades: Sequence[Shade], name: str
) -> str:
    """Lines in one scale from 0, or from below where values are negative."""
    start_ns, end_ns = span_ns
    thinned = [_thinned(line, start_ns, end_ns) for line in lines]
    highest = max((float(np.nanmax(v)) for _, v in thinned if np.isfinite(v).any()),
                  default=1.0)  # fmt: skip
    top = max(highest * 1.08, 1e-6)
    seconds = (end_ns - start_ns) / 1e9

    def x(at_s: float) -> float:
        return LEFT + PLOT * at_s / seconds

    def y(value: float) -> float:
        # What is below 0, an offset of an idle rail, is drawn at 0.
        return _FLOOR - (_FLOOR - _TOP) * min(max(value, 0.0) / top, 1.0)

    parts = [
        *_shaded(shades, start_ns, end_ns),
        *horizontal_grid(top, y),
        *(label(x(at), _HEIGHT - 22, f"{at:g}", "middle") for at in ticks(seconds)),
        label(LEFT + PLOT / 2, _HEIGHT - 4, "seconds since the first frame", "middle"),
    ]
    for number, (at_s, values) in enumerate(thinned):
        points: list[str] = []
        pen = "M"
        for moment, value in zip(at_s, values, strict=True):
            if not np.isfinite(value):
                pen = "M"
                continue
            points.append(f"{pen}{x(moment):.1f} {y(value):.1f}")
            pen = "L"
        parts.append(path("".join(points), f"line l{number % COLOURS}"))
    return svg(_HEIGHT, name, parts)


def _thinned(
    line: Line, start_ns: int, end_ns: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Seconds and values within the span; of crowded ones the mean of each column."""
    inside = (line.times_ns >= start_ns) & (line.times_ns <= end_ns)
    at_s = (line.times_ns[inside] - start_ns) / 1e9
    values = line.values[inside]
    if len(values) <= COLUMNS:
        return at_s, values
    column = np.minimum(at_s / ((end_ns - start_ns) / 1e9) * COLUMNS, COLUMNS - 1)
    edges = np.flatnonzero(np.diff(column.astype(int))) + 1
    starts = np.r_[0, edges]
    counts = np.diff(np.r_[starts, len(values)])
    return (
        np.add.reduceat(at_s, starts) / counts,
        np.add.reduceat(values, starts) / counts,
    )


def _shaded(shades: Sequence[Shade], start_ns: int, end_ns: int) -> Iterator[str]:
    for shade in shades:
        begin = max(shade.from_ns, start_ns)
        end = min(shade.until_ns, end_ns)
        if end < begin:
            continue
        at = LEFT + PLOT * (begin - start_ns) / (end_ns - start_ns)
        width = max(PLOT * (end - begin) / (end_ns - start_ns), 2.0)
        yield (
            f'<rect class="shade" x="{at:.1f}" y="{_TOP}" width="{width:.1f}"'
            f' height="{_FLOOR - _TOP}"/>'
        )
