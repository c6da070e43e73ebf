"""The part of a summary that tells of the device: power, heat, clocks, throttling."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from edgepipe.telemetry.device_facts import DeviceFacts, Level, PowerFacts
from edgepipe.telemetry.energy import Energy, FrameEnergy, per_frame
from edgepipe.telemetry.nulls import missing, present
from edgepipe.telemetry.sensors.totals import Total
from edgepipe.telemetry.throttle import Held
from edgepipe.telemetry.throttle_episodes import Episode

MOST_EPISODES = 200
"""Of what held clocks down, the newest so many are listed."""


def device_summary(
    device: DeviceFacts, delivered: int, measured_from_ns: int
) -> dict[str, Any]:
    """The ``device`` of a summary.

    Args:
        device: What was measured.
        delivered: Frames whose results reached the sinks in the measured part.
        measured_from_ns: When that began.
    """
    first = device.powers[0] if device.powers else None
    return {
        **_boundary(first, delivered, device.no_power),
        "other_scopes": {
            each.total.scope.value: _boundary(each, delivered, "")
            for each in device.powers[1:]
        },
        "rails_w": {
            name: {"value": watts, "reason": reason}
            for name, (watts, reason) in device.rails_w.items()
        },
        "clocks": _levels(device.clocks_hz, 1e6, "mhz", device.no_clocks),
        "temperature": _levels(device.temperatures_c, 1, "c", device.no_temperatures),
        "throttle": _throttle(device, measured_from_ns),
        "sampling": _sampling(device),
        "unread": dict(device.unread),
    }


def _boundary(
    power: PowerFacts | None, delivered: int, otherwise: str
) -> dict[str, Any]:
    """Power, energy and energy per frame within one boundary."""
    if power is None:
        return {
            "power": _nulls(otherwise, "scope", "sensor", "rate_hz"),
            "energy_j": _nulls(otherwise, "gross", "net", "idle_w"),
            "joules_per_frame": _nulls(otherwise, "gross", "net", "error_pct"),
        }
    cost = per_frame(power.run, delivered, power.idle)
    if power.no_idle:
        cost = replace(cost, net_reason=power.no_idle)
    return {
        "power": _power(power.total, power.run),
        "energy_j": _energy(power.run, cost),
        "joules_per_frame": _per_frame(power.run, cost),
    }


def _nulls(reason: str, *names: str) -> dict[str, Any]:
    return dict.fromkeys(("value", *names)) | {"reason": reason}


def _power(total: Total, run: Energy) -> dict[str, Any]:
    return {
        "value": run.mean_w,
        "scope": total.scope.value,
        "sensor": ", ".join(dict.fromkeys(each.source for each in total.channels)),
        "rate_hz": run.rate_hz,
        "rule": total.rule,
        "method": run.method.value,
        "samples": run.samples,
        "coverage": run.coverage,
        "longest_gap_s": run.longest_gap_s,
        "tau_s": run.tau_s,
        "cautions": list(run.low),
        "reason": _joined(
            run.reason,
            "" if run.tau_s is not None else "the sensor's filter is not known",
        ),
    }


def _energy(run: Energy, cost: FrameEnergy) -> dict[str, Any]:
    net = None if cost.net_j is None else cost.net_j * cost.frames
    return {
        "value": run.window_j,
        "gross": run.window_j,
        "net": net,
        "idle_w": cost.idle_w,
        "error_pct": run.error_pct,
        "net_error_pct": cost.net_error_pct,
        "reason": _joined(run.reason, cost.net_reason, _no_error(run)),
    }


def _per_frame(run: Energy, cost: FrameEnergy) -> dict[str, Any]:
    return {
        "value": cost.gross_j,
        "gross": cost.gross_j,
        "net": cost.net_j,
        "error_pct": cost.gross_error_pct,
        "net_error_pct": cost.net_error_pct,
        "reason": _joined(cost.reason, cost.net_reason, _no_error(run)),
    }


def _no_error(run: Energy) -> str:
    known = run.error_pct is not None or run.reason
    return "" if known else "too few readings to estimate the error"


def _joined(*reasons: str) -> str:
    return "; ".join(dict.fromkeys(each for each in reasons if each))


def _levels(
    levels: Mapping[str, Level], unit: float, name: str, otherwise: str
) -> dict[str, Any]:
    if not levels:
        return missing(otherwise)
    return present(
        {
            key: {
                f"mean_{name}": level.mean / unit,
                f"min_{name}": level.low / unit,
                f"max_{name}": level.high / unit,
                "readings": level.readings,
            }
            for key, level in levels.items()
        }
    )


def _throttle(device: DeviceFacts, measured_from_ns: int) -> dict[str, Any]:
    found = device.throttle
    if found is None:
        return _nulls(device.no_throttle, "events")
    events = {held.cause.value: _held(held, found.episodes) for held in found.held}
    listed = found.episodes[-MOST_EPISODES:]
    return {
        "value": events,
        "events": events,
        "observed": found.observed,
        "episodes": [_episode(each, measured_from_ns) for each in listed],
        "left_out": len(found.episodes) - len(listed),
        "not_observable": [f"{c.value}: {why}" for c, why in found.blind.items()],
        "reason": "",
    }


def _held(held: Held, episodes: Sequence[Episode]) -> dict[str, Any]:
    return {
        "events": held.events,
        "episodes": sum(each.cause is held.cause for each in episodes),
        "seconds": held.seconds,
        "takes_performance": held.cause.throttles,
        **({} if held.counted_s is None else {"counted_s": held.counted_s}),
        **({} if held.lost_s is None else {"estimated_lost_s": held.lost_s}),
    }


def _episode(episode: Episode, measured_from_ns: int) -> dict[str, Any]:
    return {
        "cause": episode.cause.value,
        "part": episode.part,
        "from_s": (episode.from_ns - measured_from_ns) / 1e9,
        "until_s": (episode.until_ns - measured_from_ns) / 1e9,
        "events": episode.events,
        "evidence": episode.evidence,
    }


def _sampling(device: DeviceFacts) -> dict[str, Any]:
    facts = device.sampling
    if facts is None:
        return _nulls("no sensor was read", "rate_hz", "cpu_share")
    share = facts.cpu_share
    log = device.log
    return {
        "value": share,
        "rate_hz": facts.rate_hz,
        "cpu_share": share,
        "sweeps": facts.sweeps,
        "skipped": facts.skipped,
        "stuck": list(facts.stuck),
        "written": log.written if log is not None else 0,
        "lost": log.lost if log is not None else 0,
        "reason": "" if share is not None else "no time was measured",
    }
