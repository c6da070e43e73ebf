"""The summary of a run as text for a terminal, at most 80 columns wide."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from edgepipe.telemetry.figures import LABELS, figure, percent, printable, reasons

Summary = Mapping[str, Any]

_WIDTH = 80
_NAME = 16


def render_text(summary: Summary) -> str:
    """Settings, throughput, latency, misses, where the time went, and the verdict.

    Plain text that ends in a line break; control characters in names are replaced.
    """
    lines = [
        *_settings(summary),
        *_throughput(summary["streams"]),
        *_latency(summary["streams"]),
        *_misses(summary["streams"]),
        *_stages(summary),
        *_notes(summary),
        *_verdict(summary),
    ]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _settings(summary: Summary) -> Iterator[str]:
    warm_up = summary["warmup"]
    yield (
        f"edgepipe {summary['command']}: {summary['duration_s']:.1f} s measured,"
        f" {warm_up['frames']} warm-up frames apart"
        f" (longest {figure(warm_up['latency_ms']['max'])} ms)"
    )
    yield from _setting("engine", summary["engine"])
    yield from _setting("model", summary["model"])
    for name, stream in summary["streams"].items():
        uri = stream["source"]["uri"] or stream["source"]["reason"]
        words = f"{uri}, {stream['criticality']}, deadline {stream['deadline_ms']:g} ms"
        yield from _wrapped(_short(name), words)


def _setting(name: str, given: Summary) -> Iterator[str]:
    words = [
        f"{key.replace('_', ' ')} {value}"
        for key, value in given.items()
        if key != "reason" and isinstance(value, str | int | float)
    ]
    yield from _wrapped(name, ", ".join(words) or str(given.get("reason", "")))


def _throughput(streams: Mapping[str, Summary]) -> Iterator[str]:
    yield ""
    yield _row("throughput", ("captured", "completed", "late", "fps in", "fps out"), 11)
    for name, stream in streams.items():
        cells = (
            str(stream["captured"]),
            str(stream["completed"]),
            str(stream["late"]),
            figure(stream["fps_in"]),
            figure(stream["fps_out"]),
        )
        yield _row(name, cells, 11)


def _latency(streams: Mapping[str, Summary]) -> Iterator[str]:
    yield ""
    yield _row("latency (ms)", tuple(LABELS.values()), 9)
    for name, stream in streams.items():
        yield _row(name, [figure(stream["latency_ms"][key]) for key in LABELS], 9)


def _misses(streams: Mapping[str, Summary]) -> Iterator[str]:
    yield ""
    yield _row("misses", ("ratio",), 9)
    for name, stream in streams.items():
        lost = (
            f"late {stream['late']}, dropped {reasons(stream['dropped'])},"
            f" failed {reasons(stream['failed'])}"
        )
        yield from _wrapped(_row(name, [percent(stream["miss_ratio"])], 9), lost)


def _stages(summary: Summary) -> Iterator[str]:
    yield ""
    heads = ("waiting p50", "p99", "working p50", "p99")
    yield _row("time (ms)", heads, 12) + "  on"
    for name, stage in summary["stages"].items():
        cells = [
            figure(stage[part][key])
            for part in ("queue_ms", "service_ms")
            for key in ("p50", "p99")
        ]
        yield f"{_row(name, cells, 12)}  {printable(stage['resource'])}"[:_WIDTH]
    for name, resource in summary["resources"].items():
        yield from _wrapped(
            _short(name),
            f"{percent(resource['utilisation'])} of {resource['slots']} slots busy",
        )


def _notes(summary: Summary) -> Iterator[str]:
    log = summary["frame_log"]
    if log["lost"]:
        yield from _wrapped("frame log", f"{log['lost']} records could not be written")
    for name, sink in summary["sinks"].items():
        if sink["failures"]:
            yield from _wrapped(_short(name), f"{sink['failures']} writes failed")
    power = summary["device"]["power"]
    shown = f"{power['value']:.1f} W" if power["value"] is not None else power["reason"]
    yield from _wrapped("power", shown)


def _verdict(summary: Summary) -> Iterator[str]:
    yield ""
    trust = "should not be relied on:" if summary["reasons"] else "can be relied on"
    yield f"verdict: {summary['verdict']}, these numbers {trust}"
    for reason in summary["reasons"]:
        yield from _wrapped("  -", reason, indent=4)


def _row(name: str, cells: Sequence[str], width: int) -> str:
    return _short(name) + "".join(cell.rjust(width) for cell in cells)


def _short(name: str) -> str:
    clean = printable(name)
    cut = clean if len(clean) < _NAME else clean[: _NAME - 2] + "~"
    return cut.ljust(_NAME)


def _wrapped(head: str, words: str, indent: int = _NAME) -> Iterator[str]:
    """``head``, then ``words``, broken into lines that hang under the first one."""
    start = head.ljust(indent) + ("  " if len(head) > indent else "")
    yield from textwrap.wrap(
        start + printable(words),
        _WIDTH,
        subsequent_indent=" " * len(start),
        break_on_hyphens=False,
        drop_whitespace=True,
    )
