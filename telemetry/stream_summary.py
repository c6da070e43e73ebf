"""The part of a summary that tells of one stream."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from edgepipe.telemetry import stats
from edgepipe.telemetry.environment import hide_credentials
from edgepipe.telemetry.milliseconds import distribution_ms, distribution_to_ms, to_ms
from edgepipe.telemetry.records import SourceRecord
from edgepipe.telemetry.run_facts import RunFacts, StreamFacts
from edgepipe.telemetry.run_statistics import LatencyParts, StreamStatistics
from edgepipe.telemetry.samples import Samples

_NOTHING_DELIVERED = "no frame was delivered"


def stream_summary(
    ledger: StreamFacts,
    measured: StreamStatistics,
    source: SourceRecord | None,
    facts: RunFacts,
) -> dict[str, Any]:
    """What became of the measured frames of one stream, and how long it took."""
    warm_up_frames = measured.warm_up_fates.total()
    captured = measured.fates.total() + ledger.in_flight
    dropped = _by_reason(measured.fates, "dropped")
    failed = _by_reason(measured.fates, "failed")
    late = measured.fates["late"]
    lost, broken = sum(dropped.values()), sum(failed.values())
    latency = stats.distribution(measured.latency, _NOTHING_DELIVERED)
    return {
        "criticality": ledger.criticality,
        "captured": captured,
        "completed": measured.fates["completed"],
        "late": late,
        "dropped": dropped,
        "failed": failed,
        "in_flight": ledger.in_flight,
        **({"depth": asdict(ledger.depth)} if ledger.depth is not None else {}),
        "warmup_frames": warm_up_frames,
        "deadline_ms": to_ms(ledger.deadline_ns),
        **_ratios(captured, late, lost, broken, facts.duration_ns, measured.delivered),
        "latency_ms": distribution_to_ms(latency),
        "latency_parts_ms": _parts(measured.parts),
        "age_ms": _age(measured, facts.measured_until_ns),
        "jitter_ms": _jitter(measured.intervals, latency),
        "objects": measured.objects,
        "truncated": measured.truncated,
        "variants": dict(measured.variants),
        "ladder": _ladder(measured.on_time, ledger.values, captured),
        **_by_throttle(measured),
        "source": {**_source(source), "events": _events(ledger.stream, facts)},
    }


def _ratios(
    captured: int, late: int, dropped: int, failed: int, duration_ns: int, out: int
) -> dict[str, Any]:
    problems = [] if captured else ["no frame was captured"]
    problems += [] if duration_ns > 0 else ["no time was measured"]
    seconds = duration_ns / 1e9
    return {
        "miss_ratio": stats.miss_ratio(captured, late, dropped, failed),
        "drop_ratio": stats.drop_ratio(captured, dropped),
        "fps_in": captured / seconds if seconds > 0 else None,
        "fps_out": out / seconds if seconds > 0 else None,
        "reason": "; ".join(problems),
    }


def _ladder(
    on_time: Counter[str], values: Mapping[str, float], captured: int
) -> dict[str, Any]:
    """What the results were worth: each at full quality counts as one."""
    worth = sum(values.get(variant, 1.0) * n for variant, n in on_time.items())
    return {
        "utility": worth / captured if captured else None,
        "on_time_share": stats.on_time_share(captured, on_time.total()),
        "rungs": {
            name: {"value": value, "on_time": on_time[name]}
            for name, value in values.items()
        },
        "reason": "" if captured else "no frame was captured",
    }


def _by_throttle(measured: StreamStatistics) -> dict[str, Any]:
    """Frames that met a throttled device apart from the others; nothing if none did."""
    split = measured.split
    if split is None:
        return {}
    clear = measured.fates - split.fates
    return {
        "by_throttle": {
            "throttled": _condition(split.fates, split.latency),
            "clear": _condition(clear, split.clear_latency),
        }
    }


def _condition(fates: Counter[str], latency: Samples) -> dict[str, Any]:
    frames, on_time = fates.total(), fates["completed"]
    return {
        "frames": frames,
        "missed": frames - on_time,
        "miss_ratio": (frames - on_time) / frames if frames else None,
        "latency_ms": distribution_ms(latency, _NOTHING_DELIVERED),
        "reason": "" if frames else "no frame",
    }


def _by_reason(fates: Counter[str], fate: str) -> dict[str, int]:
    prefix = f"{fate}:"
    return {
        key.removeprefix(prefix): n
        for key, n in sorted(fates.items())
        if key.startswith(prefix)
    }


def _age(measured: StreamStatistics, until_ns: int) -> dict[str, Any]:
    """The peak age, with the age that the last result had when the run ended."""
    ages, total = measured.peak_age.values(), measured.peak_age.total
    newest_ns, last_done_ns = measured.newest_capture_ns, measured.last_done_ns
    if newest_ns is not None and last_done_ns is not None and until_ns > last_done_ns:
        ages, total = np.append(ages, until_ns - newest_ns), total + 1
    nothing = "no result was replaced by a newer one"
    return distribution_to_ms(stats.distribution_of(ages, total, nothing))


def _parts(parts: LatencyParts) -> dict[str, Any]:
    n = parts.n

    def mean(total_ns: int) -> float | None:
        return to_ms(total_ns / n) if n else None

    return {
        "n": n,
        "capture": mean(parts.capture_ns),
        "stages": {
            stage: {
                "queue": mean(queue_ns),
                "service": mean(parts.service_ns[stage]),
            }
            for stage, queue_ns in parts.queue_ns.items()
        },
        "other": mean(parts.other_ns),
        "total": mean(parts.total_ns),
        "reason": "" if n else _NOTHING_DELIVERED,
    }


def _jitter(intervals: Samples, latency: stats.Distribution) -> dict[str, Any]:
    period = stats.period_jitter(intervals.values())
    spread = stats.latency_spread(latency)
    reasons = [] if period else ["the period needs three deliveries"]
    reasons += [] if spread is not None else ["the spread needs a p99"]
    return {
        "period_std": to_ms(period.std if period else None),
        "period_mean_abs": to_ms(period.mean_abs if period else None),
        "latency_spread": to_ms(spread),
        "reason": "; ".join(reasons),
    }


def _events(stream: str, facts: RunFacts) -> dict[str, int]:
    """What befell the source, by kind."""
    return {
        kind: count
        for (name, kind), count in sorted(facts.source_events.items())
        if name == stream
    }


def _source(record: SourceRecord | None) -> dict[str, Any]:
    if record is None:
        reason = "the source did not report how it ended"
        return dict.fromkeys(("uri", "state", "detail", "input_hash")) | {
            "reason": reason
        }
    return {
        "uri": hide_credentials(record.uri),
        "state": record.state,
        "detail": record.detail,
        "input_hash": record.input_hash,
        "reason": "" if record.input_hash else "the input is not one file",
    }
