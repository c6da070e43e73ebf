"""Builds ``summary.json`` (``edgepipe.summary/1``) from the facts of a run.

Pure: the same facts and statistics give the same document. What every key means is
said in ``summary_schema.json``; what is not measured is null with a reason.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

from edgepipe.telemetry.device_summary import device_summary
from edgepipe.telemetry.milliseconds import distribution_ms
from edgepipe.telemetry.nulls import missing, present
from edgepipe.telemetry.records import SourceRecord
from edgepipe.telemetry.run_facts import RunFacts
from edgepipe.telemetry.run_statistics import RunStatistics, StageStatistics
from edgepipe.telemetry.samples import Samples
from edgepipe.telemetry.stream_summary import stream_summary
from edgepipe.telemetry.verdict import invalid_because

SCHEMA = "edgepipe.summary/1"

MOST_EVENTS = 200
"""Of what befell the sources, the newest so many are listed."""

_NO_BLOCKING = "not measured: blocking by less critical work is not told apart yet"


def build_summary(facts: RunFacts, statistics: RunStatistics) -> dict[str, Any]:
    """The whole summary, ready for JSON."""
    reasons = invalid_because(facts, statistics)
    sources = {source.stream: source for source in facts.sources}
    return {
        "schema": SCHEMA,
        "command": facts.command,
        "started": facts.started.isoformat(timespec="milliseconds"),
        "verdict": "INVALID" if reasons else "VALID",
        "reasons": reasons,
        "duration_s": facts.duration_ns / 1e9,
        "warmup_s": facts.warm_up_ns / 1e9,
        "warmup": _warm_up(statistics),
        "streams": {
            stream.stream: stream_summary(
                stream,
                statistics.stream(stream.stream),
                sources.get(stream.stream),
                facts,
            )
            for stream in facts.streams
        },
        "stages": {name: _stage(each) for name, each in statistics.stages.items()},
        "resources": {
            name: _resource(slots, statistics.busy_ns.get(name, 0), facts.duration_ns)
            for name, slots in facts.resources.items()
        },
        "sinks": {name: {"failures": n} for name, n in facts.sink_failures.items()},
        "engine": _given(facts.engine, "no stage infers"),
        "model": _given(facts.model, "no stage infers"),
        "device": device_summary(
            facts.device, statistics.delivered, facts.measured_from_ns
        ),
        "process": dict(facts.process),
        "ledger": {"balanced": facts.balanced},
        "frame_log": {
            "written": facts.recorder.written,
            "lost": facts.recorder.lost,
            "write_failures": facts.recorder.write_failures,
            "unrecorded": facts.unrecorded,
        },
        "stage_errors": {
            name: {"count": count, "first": first}
            for name, (count, first) in facts.stage_errors.items()
        },
        "rung_changes": _rung_changes(facts),
        "source_events": _source_events(facts),
        "warnings": list(facts.warnings),
        "environment": dict(facts.environment),
        "config_hash": facts.config_hash,
        "input_hash": _input_hash(facts, sources),
        "commit": facts.environment.get("commit", missing("not collected")),
    }


def _stage(measured: StageStatistics) -> dict[str, Any]:
    return {
        "n": measured.service.total,
        "queue_ms": distribution_ms(measured.queue, "no frame"),
        "service_ms": distribution_ms(measured.service, "no frame"),
        "resource": ", ".join(sorted(measured.resources)),
    }


def _resource(slots: int, busy_ns: int, duration_ns: int) -> dict[str, Any]:
    known = duration_ns > 0
    return {
        "slots": slots,
        "busy_s": busy_ns / 1e9,
        "utilisation": busy_ns / (slots * duration_ns) if known else None,
        "blocked_ms": distribution_ms(Samples(1), _NO_BLOCKING),
        "reason": "" if known else "no time was measured",
    }


def _rung_changes(facts: RunFacts) -> dict[str, Any]:
    return {
        "events": [
            {
                "at_s": (move.at_ns - facts.measured_from_ns) / 1e9,
                "stream": move.stream,
                "rung": move.rung,
                "cause": move.cause,
                "demand": move.demand_permille / 1000,
            }
            for move in facts.moves
        ],
        "left_out": facts.moves_left_out,
    }


def _source_events(facts: RunFacts) -> dict[str, Any]:
    newest = facts.source_history[-MOST_EVENTS:]
    return {
        "events": [
            {
                "at_s": (event.at_ns - facts.measured_from_ns) / 1e9,
                "stream": event.stream,
                "kind": event.kind,
                "detail": event.detail,
                "pts_s": None if event.pts_ns is None else event.pts_ns / 1e9,
                "amount_s": event.amount_ns / 1e9,
                "reason": "no frame has it" if event.pts_ns is None else "",
            }
            for event in newest
        ],
        "left_out": sum(facts.source_events.values()) - len(newest),
    }


def _warm_up(statistics: RunStatistics) -> dict[str, Any]:
    frames = sum(s.warm_up_fates.total() for s in statistics.streams.values())
    latency = distribution_ms(
        statistics.warm_up_latency, "no frame was delivered in the warm-up"
    )
    return {
        "frames": frames,
        "latency_ms": {
            "n": latency["total"],
            "max": latency["max"],
            "reason": "" if latency["n"] else latency["reason"],
        },
    }


def _input_hash(facts: RunFacts, sources: Mapping[str, SourceRecord]) -> dict[str, Any]:
    """The file's hash; for several streams the hash of theirs, in stream order."""
    hashes: list[str] = []
    for stream in facts.streams:
        source = sources.get(stream.stream)
        if source is None or source.input_hash is None:
            return missing(f"the input of stream {stream.stream!r} is not one file")
        hashes.append(source.input_hash)
    if not hashes:
        return missing("no stream was run")
    if len(hashes) == 1:
        return present(hashes[0])
    return present(hashlib.sha256("\n".join(hashes).encode()).hexdigest())


def _given(facts: Mapping[str, Any] | None, otherwise: str) -> dict[str, Any]:
    if facts is None:
        return missing(otherwise)
    unknown = None in facts.values()
    return {"reason": "not stated", **facts} if unknown else dict(facts)
