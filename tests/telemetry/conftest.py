from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from edgepipe.telemetry.records import (
    FrameRecord,
    RecorderFacts,
    SourceRecord,
    Span,
)
from edgepipe.telemetry.run_facts import RunFacts, StreamFacts
from edgepipe.telemetry.run_statistics import RunStatistics

MS = 1_000_000

MakeFrame = Callable[..., FrameRecord]
MakeRun = Callable[..., tuple[RunFacts, RunStatistics]]


def frame(
    sequence: int = 0,
    *,
    stream: str = "front",
    latency_ms: float = 20.0,
    period_ms: float = 40.0,
    fate: str = "completed",
    reason: str = "",
    **changes: Any,
) -> FrameRecord:
    """A frame that waits, is decoded on the cpu, waits again and is inferred."""
    capture_ns = 5_000 * MS + int(sequence * period_ms * MS)
    done_ns = capture_ns + round(latency_ms * MS)
    quarter_ns = round(latency_ms * MS) // 4
    ready_ns = capture_ns + 1000
    spans = (
        Span("decode", ready_ns, ready_ns + 10, ready_ns + quarter_ns, "cpu", 0),
        Span("infer", ready_ns + quarter_ns, ready_ns + quarter_ns + 500,
             ready_ns + 3 * quarter_ns, "cpu", sequence % 2),
    )  # fmt: skip
    fields: dict[str, Any] = {
        "stream": stream,
        "sequence": sequence,
        "capture_ns": capture_ns,
        "pts_ns": int(sequence * period_ms * MS),
        "deadline_ns": capture_ns + 33 * MS,
        "fate": fate,
        "reason": reason,
        "stage": "infer",
        "done_ns": done_ns,
        "warm_up": False,
        "variant": "int8",
        "batch": 1,
        "objects": 3,
        "truncated": 0,
        "spans": spans,
    }
    return FrameRecord(**(fields | changes))


def run(
    frames: Sequence[FrameRecord], **changes: Any
) -> tuple[RunFacts, RunStatistics]:
    """A clean ten-second run of these frames, with a ledger that agrees with them."""
    statistics = RunStatistics(capacity=10_000)
    for each in frames:
        statistics.add(each)
    names = list(dict.fromkeys(each.stream for each in frames))
    fields: dict[str, Any] = {
        "command": "bench",
        "started": datetime(2025, 3, 1, 9, 30, tzinfo=timezone(timedelta(hours=1))),
        "measured_from_ns": 5_000 * MS,
        "measured_until_ns": 15_000 * MS,
        "warm_up_ns": 1_500 * MS,
        "asked_ns": 10_000 * MS,
        "streams": [_ledger(name, statistics) for name in names],
        "sources": [
            SourceRecord(name, f"/clips/{name}.mp4", "ended", "", "ab" * 32)
            for name in names
        ],
        "engine": {"engine": "openvino", "precision": "int8", "requests": 2},
        "model": {"name": "nanodet-g", "height": 416, "width": 416},
        "resources": {"cpu": 2},
        "ledger_balanced": True,
        "forced_stop": "",
        "config_hash": "cd" * 32,
        "environment": {"commit": {"value": "0f" * 20, "dirty": False, "reason": ""}},
        "process": {
            "cpu_s_per_frame": {"value": 0.02, "reason": ""},
            "rss_mb": {
                "start": 210.0,
                "end": 211.5,
                "slope_per_h": None,
                "slope_per_h_low": None,
                "slope_per_h_high": None,
                "n": 10,
                "reason": "a slope needs 60 samples, there are 10",
            },
            "threads": {"start": 9, "end": 9, "reason": ""},
            "fds": {"start": 12, "end": 12, "reason": ""},
        },
        "recorder": RecorderFacts(written=len(frames), lost=0, write_failures=0),
        "sink_failures": {"results": 0},
    }
    return RunFacts(**(fields | changes)), statistics


def _ledger(name: str, statistics: RunStatistics) -> StreamFacts:
    measured = statistics.stream(name)
    fates = measured.fates + measured.warm_up_fates
    return StreamFacts(name, "critical", 33 * MS, fates.total(), 0, fates)


@pytest.fixture
def make_frame() -> MakeFrame:
    return frame


@pytest.fixture
def make_run() -> MakeRun:
    return run
