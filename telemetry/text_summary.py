"""The summary of a run as text for a terminal, at most 80 columns wide."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from edgepipe.telemetry.device_text import device_lines
from edgepipe.telemetry.figures import LABELS, figure, percent, printable, reasons

Summary = Mapping[str, Any]

_WIDTH = 80
_NAME = 16
_MOST_MOVES = 6


def render_text(summary: Summary) -> str:
    """Settings, throughput, latency, misses, where the time went, and the verdict.

    Plain text that ends in a line break; control characters in names are replaced.
    """
    lines = [
        *_settings(summary),
        *_throughput(summary["streams"]),
        *_latency(summary["streams"]),
        *_misses(summary["streams"]),
        *_ladder(summary),
        *_stages(summary),
        *_notes(summary),
        *_verdict(summary),
    ]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _settings(summary: Summary) -> Iterator[str]:
    warm_up = summary["warmup"]
    left_out = (
        f" after a warm-up of {warm_up['frames']} frames"
        f" (longest {figure(warm_up['latency_ms']['max'])} ms)"
    )
    yield (
        f"edgepipe {summary['command']}: {summary['duration_s']:.1f} s measured"
        f"{left_out if warm_up['frames'] else ''}"
    )
    # What was chosen, not everything that is known: that is in summary.json.
    keys = ("name", "executed_precision", "engine", "chosen_because")
    known = {**summary["model"], **summary["engine"]}
    words = ", ".join(str(known[k]) for k in keys if known.get(k))
    yield from _wrapped("model", words or known["reason"])
    yield from _gate(summary["model"].get("gate", {}))
    for name, stream in summary["streams"].items():
        uri = stream["source"]["uri"] or stream["source"]["reason"]
        words = f"{uri}, {stream['criticality']}, deadline {stream['deadline_ms']:g} ms"
        yield from _wrapped(_short(name), words)


def _gate(gate: Summary) -> Iterator[str]:
    """What INT8 costs in accuracy; nothing of FP32."""
    if gate.get("passed"):
        words = (
            f"passed ({gate['kind']}): INT8 loses {gate['drop']:.2f} points, at most"
            f" {gate['upper']:.2f} of {gate['allowed']:g}; {gate['objects']} objects in"
            f" {gate['frames']} frames"
        )
        yield from _wrapped("gate", words)
    elif gate.get("passed") is False:
        yield from _wrapped("gate", f"NOT PASSED: {gate['reason']}")


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


def _ladder(summary: Summary) -> Iterator[str]:
    """What quality the results had, where there was a choice."""
    ladders = {
        name: stream["ladder"]
        for name, stream in summary["streams"].items()
        if stream["ladder"]["rungs"]
    }
    if not ladders:
        return
    yield ""
    yield _row("ladder", ("utility", "on time"), 9)
    for name, ladder in ladders.items():
        cells = percent(ladder["utility"]), percent(ladder["on_time_share"])
        rungs = ", ".join(
            f"{rung} {found['on_time']}"
            for rung, found in ladder["rungs"].items()
            if found["on_time"]
        )
        yield from _wrapped(_row(name, cells, 9), rungs)
    changes = summary["rung_changes"]
    events = changes["events"]
    for event in events[-_MOST_MOVES:]:
        words = (
            f"{event['at_s']:.1f} s: {event['rung']}, because of {event['cause']}"
            f" at a demand of {percent(event['demand'])}"
        )
        yield from _wrapped(_short(event["stream"]), words)
    more = len(events[:-_MOST_MOVES]) + changes["left_out"]
    if more:
        yield from _wrapped("", f"and {more} moves before these")


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
    for name, error in summary["stage_errors"].items():
        words = f"raised on {error['count']} frames, first: {error['first']}"
        yield from _wrapped(_short(name), words)
    for name, stream in summary["streams"].items():
        source = stream["source"]
        if stream["truncated"]:
            words = f"{stream['truncated']} detections truncated by max_detections"
            yield from _wrapped(_short(name), words)
        befell = {k: n for k, n in source["events"].items() if k != "end"}
        if befell:
            words = ", ".join(f"{kind} {n}" for kind, n in befell.items())
            yield from _wrapped(_short(name), f"source events: {words}")
        if source["state"] in ("truncated", "failed"):
            words = f"{source['state']}: {source['detail']}"
            yield from _wrapped(_short(name), words)
    for warning in summary["warnings"]:
        yield from _wrapped("warning", warning)
    for head, words in device_lines(summary):
        yield from _wrapped(head.ljust(_NAME), words)


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
