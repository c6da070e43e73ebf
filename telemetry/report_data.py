"""What the charts of a report need of the frames: bounded, one pass over the log."""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from edgepipe.telemetry.records import FrameRecord

MOST_DOTS = 2000
"""Frames up to which each gets a dot of its own; beyond, columns sum them up."""

COLUMNS = 400


@dataclass(slots=True)
class Series:
    """The measured frames of one stream, in order of leaving."""

    done_ns: "array[int]" = field(default_factory=lambda: array("q"))
    """When each delivered frame was delivered."""
    latency_ns: "array[int]" = field(default_factory=lambda: array("q"))
    lost_ns: "array[int]" = field(default_factory=lambda: array("q"))
    """When each dropped or failed frame was given up."""


@dataclass(frozen=True, slots=True)
class Column:
    """Some frames next to each other in time; times in nanoseconds."""

    at_ns: int
    low_ns: int
    middle_ns: int
    high_ns: int


def gather(frames: Iterable[FrameRecord]) -> dict[str, Series]:
    """Sort the measured frames by stream; 16 bytes are kept of each."""
    streams: dict[str, Series] = {}
    for frame in frames:
        if frame.warm_up:
            continue
        series = streams.setdefault(frame.stream, Series())
        if frame.delivered:
            series.done_ns.append(frame.done_ns)
            series.latency_ns.append(frame.latency_ns)
        else:
            series.lost_ns.append(frame.done_ns)
    return streams


def time_span(streams: Iterable[Series]) -> tuple[int, int]:
    """The first and the last moment at which a frame left; (0, 1) without frames."""
    moments = [
        moment
        for series in streams
        for each in (series.done_ns, series.lost_ns)
        if each
        for moment in (min(each), max(each))
    ]
    if not moments:
        return 0, 1
    return min(moments), max(max(moments), min(moments) + 1)


def columns(series: Series, start_ns: int, end_ns: int) -> list[Column]:
    """Equal slices of time; each keeps its smallest, middle and largest latency.

    The largest survives, so that thinning out never hides a slow frame.
    """
    slices: list[list[int]] = [[] for _ in range(COLUMNS)]
    width_ns = (end_ns - start_ns) / COLUMNS
    for done_ns, latency_ns in zip(series.done_ns, series.latency_ns, strict=True):
        index = int((done_ns - start_ns) / width_ns)
        slices[min(index, COLUMNS - 1)].append(latency_ns)
    return [
        _column(start_ns + int((index + 0.5) * width_ns), sorted(latencies))
        for index, latencies in enumerate(slices)
        if latencies
    ]


def _column(at_ns: int, ordered: Sequence[int]) -> Column:
    return Column(at_ns, ordered[0], ordered[len(ordered) // 2], ordered[-1])
