"""The drawings of a report, as SVG text without scripts.

Colours and line styles are classes; the page's style sheet defines them for light and
dark.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from edgepipe.telemetry.report_data import MOST_DOTS, Series, columns

COLOURS = 8
"""Stages get the classes s0..s7, in turn."""

_WIDTH, _RIGHT = 1000, 10
LEFT = 58
"""Where plots begin, in units of the drawing."""
PLOT = _WIDTH - LEFT - _RIGHT
"""How wide they are."""
_NS = 1e6
_BINS = 60
_FAR = 4
"""A deadline more than this many times the longest latency is off the scale."""

Axis = Callable[[float], float]


def latency_over_time(
    series: Series, span_ns: tuple[int, int], deadline_ms: float
) -> str:
    """Latency of every delivered frame over the run; lost frames as ticks below."""
    start_ns, end_ns = span_ns
    floor, height = 210, 275
    top_ms = _scale_top(series, deadline_ms)

    def x(at_ns: float) -> float:
        return LEFT + PLOT * (at_ns - start_ns) / (end_ns - start_ns)

    def y(latency_ms: float) -> float:
        return floor - (floor - 20) * min(latency_ms / top_ms, 1.0)

    lost_x = sorted({round(x(at_ns), 1) for at_ns in series.lost_ns})
    parts = [
        *horizontal_grid(top_ms, y),
        *(
            label(x(start_ns + seconds * 1e9), height - 22, f"{seconds:g}", "middle")
            for seconds in ticks((end_ns - start_ns) / 1e9)
        ),
        label(LEFT + PLOT / 2, height - 4, "seconds since the first frame", "middle"),
        _frames(series, span_ns, x, y),
        _beyond(series, top_ms),
        *_deadline_across(deadline_ms, top_ms, y),
        label(LEFT - 8, floor + 21, "lost", "end"),
        path("".join(f"M{at} {floor + 8}v16" for at in lost_x), "lost"),
    ]
    return svg(height, "Latency of each frame over the run", parts)


def latency_histogram(
    series: Series, deadline_ms: float, marks_ms: Mapping[str, float]
) -> str:
    """How many delivered frames took how long; ``marks_ms`` are named lines."""
    floor, height = 180, 222
    top_ms = _scale_top(series, deadline_ms)
    counts = [0] * _BINS
    for latency_ns in series.latency_ns:
        counts[min(int(latency_ns / _NS / top_ms * _BINS), _BINS - 1)] += 1
    most = max(counts)
    width = PLOT / _BINS

    def x(latency_ms: float) -> float:
        return LEFT + PLOT * latency_ms / top_ms

    def y(count: float) -> float:
        return floor - (floor - 50) * count / most

    bars = "".join(
        f"M{LEFT + index * width + 0.5:.1f} {floor}V{min(y(n), floor - 2):.1f}"
        f"h{width - 1:.1f}V{floor}z"
        for index, n in enumerate(counts)
        if n
    )
    parts = [
        *horizontal_grid(most, y),
        path(bars, "bar"),
        *(label(x(ms), floor + 18, f"{ms:g}", "middle") for ms in ticks(top_ms)),
        label(LEFT + PLOT / 2, height - 6, "latency in milliseconds", "middle"),
        *_deadline_down(x(deadline_ms), floor, shown=deadline_ms <= top_ms),
        *_marks(marks_ms, x, floor),
    ]
    return svg(height, "Histogram of the latency", parts)


def where_time_goes(parts_ms: Mapping[str, Any]) -> str:
    """One bar: the mean latency of a stream, cut into its parts in order."""
    total = parts_ms["total"]
    stages: Mapping[str, Mapping[str, float]] = parts_ms["stages"]
    pieces = [("capture", parts_ms["capture"], "outside")]
    for index, (stage, times) in enumerate(stages.items()):
        colour = f"s{index % COLOURS}"
        pieces.append((f"{stage}: waiting", times["queue"], f"{colour} waiting"))
        pieces.append((stage, times["service"], colour))
    pieces.append(("other", parts_ms["other"], "outside"))
    # Overlapping stages make "other" negative: then the pieces are longer than the bar.
    length = max(total, sum(max(ms, 0.0) for _, ms, _ in pieces))
    drawn: list[str] = []
    at = 0.0
    for name, ms, css in pieces:
        width = _WIDTH * max(ms, 0.0) / length if length > 0 else 0.0
        drawn += _piece(name, ms, css, at, width)
        at += width
    return svg(46, "Where the mean latency goes", drawn)


def _piece(name: str, ms: float, css: str, at: float, width: float) -> Iterator[str]:
    if width < 0.2:
        return
    title = escape(f"{name} {ms:.2f} ms")
    yield (
        f'<rect class="{css}" x="{at:.1f}" y="4" width="{max(width - 1, 0.5):.1f}"'
        f' height="38"><title>{title}</title></rect>'
    )
    if width > 9 * len(name) and "waiting" not in css:
        yield label(at + width / 2, 28, name, "middle", "on-bar")


def _frames(series: Series, span_ns: tuple[int, int], x: Axis, y: Axis) -> str:
    if len(series.latency_ns) <= MOST_DOTS:
        pairs = zip(series.done_ns, series.latency_ns, strict=True)
        return path(
            "".join(f"M{x(t):.1f} {y(ns / _NS):.1f}h0" for t, ns in pairs), "dot"
        )
    thinned = columns(series, *span_ns)
    ranges = "".join(
        f"M{x(c.at_ns):.1f} {y(c.low_ns / _NS):.1f}V{y(c.high_ns / _NS):.1f}"
        for c in thinned
    )
    middles = "".join(
        f"M{x(c.at_ns):.1f} {y(c.middle_ns / _NS):.1f}h0" for c in thinned
    )
    return path(ranges, "range") + path(middles, "dot")


def _beyond(series: Series, top_ms: float) -> str:
    beyond = [ns for ns in series.latency_ns if ns / _NS > top_ms]
    if not beyond:
        return ""
    frames = "frame" if len(beyond) == 1 else "frames"
    text = (
        f"▲ {len(beyond)} {frames} beyond the scale, up to {max(beyond) / _NS:.1f} ms"
    )
    return label(LEFT, 12, text)


def _scale_top(series: Series, deadline_ms: float) -> float:
    """The end of the latency scale: shows the deadline unless it is far away.

    A few extreme frames do not squeeze all others: the scale ends at three times the
    latency that 99 % stay under, and what lies beyond is said in words.
    """
    ordered = sorted(series.latency_ns)
    if not ordered:
        return deadline_ms * 1.15
    longest_ms = ordered[-1] / _NS
    usual_ms = ordered[-(-len(ordered) * 99 // 100) - 1] / _NS
    top_ms = min(longest_ms, 3 * usual_ms) * 1.05
    far = deadline_ms > _FAR * longest_ms
    return max(top_ms, 1e-3) if far else max(top_ms, deadline_ms * 1.15)


def _deadline_across(deadline_ms: float, top_ms: float, y: Axis) -> Iterator[str]:
    right = _WIDTH - _RIGHT
    name = f"deadline {deadline_ms:g} ms"
    if deadline_ms > top_ms:
        yield label(right, 12, f"{name}, far above this scale", "end", "deadline-text")
        return
    yield _line(LEFT, y(deadline_ms), right, y(deadline_ms), "deadline")
    yield label(right, y(deadline_ms) - 5, name, "end", "deadline-text")


def _deadline_down(at: float, floor: float, *, shown: bool) -> Iterator[str]:
    if shown:
        yield _line(at, 4, at, floor, "deadline")
        yield label(at - 5, 14, "deadline", "end", "deadline-text")


def _marks(marks_ms: Mapping[str, float], x: Axis, floor: float) -> Iterator[str]:
    for row, (name, ms) in enumerate(marks_ms.items(), start=1):
        at = x(ms)
        top = 6 + 14 * row
        crowded = at > _WIDTH * 0.85
        yield _line(at, top, at, floor, "mark")
        yield label(
            at - 5 if crowded else at + 5,
            top + 9,
            f"{name} {ms:.1f} ms",
            "end" if crowded else "start",
        )


def horizontal_grid(top: float, y: Axis) -> Iterator[str]:
    """Dotted lines at round values up to ``top``, with their figures."""
    for value in ticks(top, 5):
        yield _line(LEFT, y(value), _WIDTH - _RIGHT, y(value), "grid")
        yield label(LEFT - 8, y(value) + 4, f"{value:g}", "end")


def ticks(end: float, most: int = 10) -> Sequence[float]:
    """Round numbers from 0 to ``end``, at most about ``most`` of them."""
    rough = end / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(step for step in (1, 2, 5, 10) if step * power >= rough) * power
    return [round(index * step, 9) for index in range(int(end / step) + 1)]


def svg(height: int, name: str, parts: Sequence[str]) -> str:
    """A drawing of the report's width; ``name`` is for those who cannot see it."""
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{name}">'
        f"{''.join(parts)}</svg>"
    )


def _line(x1: float, y1: float, x2: float, y2: float, css: str) -> str:
    return path(f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}", css)


def path(data: str, css: str) -> str:
    """A path of that class, or nothing for no data."""
    return f'<path class="{css}" d="{data}"/>' if data else ""


def label(
    x: float, y: float, text: str, anchor: str = "start", css: str = "label"
) -> str:
    """A piece of text."""
    return (
        f'<text class="{css}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
        f"{escape(text)}</text>"
    )
