"""Renders ``report.html``: one page, no scripts, nothing fetched from anywhere."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

from edgepipe.telemetry.device_log import DeviceLog
from edgepipe.telemetry.figures import LABELS, figure, percent, reasons
from edgepipe.telemetry.records import FrameRecord
from edgepipe.telemetry.report_charts import (
    COLOURS,
    latency_histogram,
    latency_over_time,
    where_time_goes,
)
from edgepipe.telemetry.report_data import MOST_DOTS, Series, gather, time_span
from edgepipe.telemetry.report_device import device_part
from edgepipe.telemetry.report_html import Html, table, tag, text
from edgepipe.telemetry.report_html import figure as drawing
from edgepipe.telemetry.report_tables import (
    event_tables,
    fact_tables,
    ladder_tables,
    missing_table,
    resource_table,
    source_table,
    stage_table,
)

Summary = Mapping[str, Any]

_COUNTS = (
    "stream",
    "criticality",
    "captured",
    "completed",
    "late",
    "dropped",
    "failed",
    "miss ratio",
    "fps in",
    "fps out",
)


def render_report(
    summary: Summary,
    frames: Iterable[FrameRecord],
    log_warning: str = "",
    device: DeviceLog | None = None,
    measured_from_ns: int = 0,
) -> str:
    """The page for one run.

    Args:
        summary: As built by ``summary.build_summary``.
        frames: The frame log; warm-up frames are skipped. Read once.
        log_warning: What is wrong with the log, shown above the charts.
        device: What the sensors said; None: nothing of it is drawn.
        measured_from_ns: When the measured part began, in the time of the logs.
    """
    series = gather(frames)
    style = files("edgepipe.telemetry").joinpath("report.css").read_text("utf-8")
    body = [
        *_head(summary),
        *_stream_tables(summary["streams"]),
        *([tag("p", log_warning, "miss")] if log_warning else []),
        *_stream_charts(summary["streams"], series),
        *device_part(summary, device, time_span(series.values()), measured_from_ns),
        *ladder_tables(summary),
        *stage_table(summary),
        *resource_table(summary),
        *source_table(summary),
        *event_tables(summary),
        *fact_tables(summary),
        *missing_table(summary),
    ]
    title = text(f"edgepipe {summary['command']}: {summary['verdict']}")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _head(summary: Summary) -> Iterator[Html]:
    warm_up = summary["warmup"]
    left_out = (
        f" after {summary['warmup_s']:.1f} s of warm-up ({warm_up['frames']} frames,"
        f" longest {figure(warm_up['latency_ms']['max'])} ms, in no other figure)"
    )
    yield tag("h1", f"edgepipe {summary['command']}")
    yield tag(
        "p",
        f"{summary['started']} · {summary['duration_s']:.1f} s measured"
        f"{left_out if warm_up['frames'] else ''}",
        "soft",
    )
    yield tag("div", summary["verdict"], f"verdict {summary['verdict']}")
    if summary["reasons"]:
        yield tag("p", "These numbers should not be relied on, because:")
        yield tag("ul", Html("".join(tag("li", line) for line in summary["reasons"])))
    else:
        yield tag("p", "These numbers can be relied on.")
    for name, stream in summary["streams"].items():
        missed = percent(stream["miss_ratio"])
        yield tag("p", f"{name}: {missed} of the deadlines missed.")
        if stream["truncated"]:
            cut = f"{stream['truncated']} detections truncated by max_detections."
            yield tag("p", f"{name}: {cut}")


def _stream_tables(streams: Mapping[str, Summary]) -> Iterator[Html]:
    yield tag("h2", "Streams")
    yield table(
        "Every captured frame has one fate. The miss ratio is late, dropped and failed"
        " frames by frames captured.",
        _COUNTS,
        [(name, *_counts(stream)) for name, stream in streams.items()],
    )
    yield table(
        "Latency from capture to delivery, of the delivered frames, in milliseconds."
        " A dash: too few frames to claim it.",
        ("stream", "deadline", "frames", *LABELS.values(), "p99 - p50"),
        [(name, *_latencies(stream)) for name, stream in streams.items()],
    )


def _counts(stream: Summary) -> Sequence[object]:
    return (
        stream["criticality"],
        stream["captured"],
        stream["completed"],
        stream["late"],
        reasons(stream["dropped"]),
        reasons(stream["failed"]),
        percent(stream["miss_ratio"]),
        figure(stream["fps_in"]),
        figure(stream["fps_out"]),
    )


def _latencies(stream: Summary) -> Sequence[object]:
    return (
        f"{stream['deadline_ms']:g}",
        stream["latency_ms"]["n"],
        *(figure(stream["latency_ms"][key]) for key in LABELS),
        figure(stream["jitter_ms"]["latency_spread"]),
    )


def _stream_charts(
    streams: Mapping[str, Summary], series: Mapping[str, Series]
) -> Iterator[Html]:
    span_ns = time_span(series.values())
    for name, stream in streams.items():
        yield tag("h2", f"Stream {name}")
        if name in series:
            yield from _latency_charts(stream, series[name], span_ns)
        else:
            yield tag("p", "The frame log has no measured frame of this stream.")
        yield from _parts(stream["latency_parts_ms"])


def _latency_charts(
    stream: Summary, series: Series, span_ns: tuple[int, int]
) -> Iterator[Html]:
    deadline_ms: float = stream["deadline_ms"]
    dots = (
        "Each dot is one delivered frame."
        if len(series.latency_ns) <= MOST_DOTS
        else "Each column reaches from the shortest to the longest latency in a slice"
        " of time, with the middle one as a dot."
    )
    yield drawing(
        latency_over_time(series, span_ns, deadline_ms),
        f"Latency in milliseconds. {dots} Ticks below: frames dropped or failed"
        f" ({len(series.lost_ns)}).",
    )
    if not series.latency_ns:
        return
    latency: Summary = stream["latency_ms"]
    marks = {key: latency[key] for key in ("p50", "p99") if latency[key] is not None}
    yield drawing(
        latency_histogram(series, deadline_ms, marks),
        "Delivered frames by latency. A bar that is not empty is at least 2 pixels"
        " high; the last one also holds what lies beyond the scale.",
    )


def _parts(parts: Summary) -> Iterator[Html]:
    yield tag("h3", "Where the time goes")
    if not parts["n"]:
        yield tag("p", parts["reason"])
        return
    yield drawing(
        where_time_goes(parts),
        f"The mean latency of {parts['n']} delivered frames,"
        f" {figure(parts['total'])} ms, in order. Faded pieces: waiting for the stage.",
    )
    yield table(
        "Mean milliseconds for each delivered frame; they add up to the mean latency.",
        ("part", "waiting", "working", "together", "share"),
        _part_rows(parts),
    )


def _part_rows(parts: Summary) -> Iterator[Sequence[object]]:
    total: float = parts["total"]

    def together(ms: float) -> tuple[str, str]:
        return figure(ms), percent(ms / total if total else None)

    yield "before the first stage", "", "", *together(parts["capture"])
    for index, (stage, times) in enumerate(parts["stages"].items()):
        queue, service = times["queue"], times["service"]
        name = Html(f'<span class="key k{index % COLOURS}"></span>{text(stage)}')
        yield name, figure(queue), figure(service), *together(queue + service)
    yield "other", "", "", *together(parts["other"])
