"""Energy over a window, and what of it one frame cost.

Every figure stands with its scope, the share of the window that was measured and an
estimate of its error; docs/energy.md says what they mean.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from edgepipe.telemetry.sensors.reading import Channel, Scope
from edgepipe.telemetry.sensors.totals import Total


class Method(Enum):
    """How energy came about."""

    TRAPEZOID = "trapezoid"
    """Readings of power, joined by straight lines over their own times."""
    COUNTER = "counter"
    """The difference of a counter of energy."""


@dataclass(frozen=True, slots=True)
class Energy:
    """The energy that one channel, or a sum of channels, saw in one window."""

    channels: tuple[Channel, ...]
    scope: Scope | None
    method: Method
    start_ns: int
    end_ns: int
    joules: float | None
    """Of the covered part of the window, corrected; None with ``reason``."""
    mean_w: float | None
    """Mean power of the covered part."""
    coverage: float
    """Share of the window that lies between two readings that follow each other."""
    samples: int
    """Readings with a value in the window."""
    rate_hz: float | None
    """Readings with a value in each covered second, as really achieved."""
    longest_gap_s: float
    """The longest time without a reading that has a value, edges included."""
    tau_s: float | None
    """The filter that was corrected for; 0 is none, None is not known."""
    correction_j: float
    """What the correction for the sensor's filter added; is part of ``joules``."""
    error_pct: float | None
    """Half an interval that holds the true ``mean_w`` of what the sensor sees about 19
    times in 20, in percent of ``mean_w``; None: not known. The sensor's own calibration
    is not in it."""
    low: tuple[str, ...] = ()
    """Why the figure should not be relied on; empty for a good one."""
    reason: str = ""
    """Why there is no figure; empty when there is one."""

    @property
    def quality(self) -> str:
        """``good`` or ``low``."""
        return "low" if self.low or self.reason else "good"

    @property
    def window_s(self) -> float:
        """Length of the window."""
        return (self.end_ns - self.start_ns) / 1e9

    @property
    def window_j(self) -> float | None:
        """Joules of the whole window, were its gaps like the rest of it."""
        return None if self.mean_w is None else self.mean_w * self.window_s

    @property
    def error_w(self) -> float | None:
        """``error_pct`` in watts."""
        if self.error_pct is None or self.mean_w is None:
            return None
        return abs(self.mean_w) * self.error_pct / 100


def add_energies(total: Total, energies: Sequence[Energy]) -> Energy:
    """The energy of a total from that of its channels, over one window.

    One channel that is missing or without a figure leaves the total without one. Errors
    are added as they are: what makes them, the moments of the readings, is the same for
    all rails.

    Args:
        total: Which channels are added.
        energies: One for each of the channels, in any order; others are left out.

    Raises:
        ValueError: No energy is given, the windows differ, or scopes would be mixed.
    """
    found = {energy.channels: energy for energy in energies}
    chosen = [found[(c,)] for c in total.channels if (c,) in found]
    _check(total, chosen, energies)
    why = _lacking(total, chosen)
    if len(chosen) == 1 and not why:
        return chosen[0]
    return _sum(total, chosen or list(energies), why)


def _check(total: Total, chosen: list[Energy], energies: Sequence[Energy]) -> None:
    if not energies:
        raise ValueError(f"no energies to add for {total.rule}")
    if len({(each.start_ns, each.end_ns) for each in energies}) > 1:
        raise ValueError(f"energies of different windows cannot be added: {total.rule}")
    if len({(each.scope, each.method) for each in chosen}) > 1:
        raise ValueError(f"energies of different scopes cannot be added: {total.rule}")


def _lacking(total: Total, chosen: list[Energy]) -> str:
    there = {each.channels[0] for each in chosen}
    for channel in total.channels:
        if channel not in there:
            return f"{channel.name} was not measured"
    for each in chosen:
        if each.reason:
            return f"{each.channels[0].name}: {each.reason}"
    return ""


def _sum(total: Total, parts: list[Energy], why: str) -> Energy:
    first = parts[0]
    watts = None if why else sum(each.mean_w or 0.0 for each in parts)
    rates = [each.rate_hz for each in parts if each.rate_hz is not None]
    taus = {each.tau_s for each in parts}
    return Energy(
        channels=total.channels,
        scope=total.scope,
        method=first.method,
        start_ns=first.start_ns,
        end_ns=first.end_ns,
        joules=None if why else sum(each.joules or 0.0 for each in parts),
        mean_w=watts,
        coverage=min(each.coverage for each in parts),
        samples=min(each.samples for each in parts),
        rate_hz=min(rates, default=None),
        longest_gap_s=max(each.longest_gap_s for each in parts),
        tau_s=taus.pop() if len(taus) == 1 else None,
        correction_j=sum(each.correction_j for each in parts),
        error_pct=_sum_error(watts, parts),
        low=tuple(dict.fromkeys(reason for each in parts for reason in each.low)),
        reason=why,
    )


def _sum_error(watts: float | None, parts: list[Energy]) -> float | None:
    errors = [each.error_w for each in parts]
    known = [error for error in errors if error is not None]
    if not watts or len(known) < len(errors):
        return None
    return 100 * sum(known) / abs(watts)


@dataclass(frozen=True, slots=True)
class FrameEnergy:
    """What one completed frame cost, in a window."""

    frames: int
    gross_j: float | None
    """Energy of the window by frames; None with ``reason``."""
    gross_error_pct: float | None
    idle_w: float | None
    """Power without work, measured by the same meter."""
    net_j: float | None
    """The same above idle power; None with ``net_reason``."""
    net_error_pct: float | None
    """In percent of ``net_j``; None: not known, or ``net_j`` is 0."""
    reason: str = ""
    net_reason: str = ""
    """Why there is no net figure, or why it is doubtful."""


def per_frame(run: Energy, frames: int, idle: Energy | None = None) -> FrameEnergy:
    """Joules for each completed frame of a window, gross and above idle power.

    Gaps count as the rest of the window; ``run.coverage`` says how much that is.

    Args:
        run: The energy of the window.
        frames: Frames that were completed in it.
        idle: The same channels in a window of their own, without work.

    Raises:
        ValueError: ``frames`` is negative.
    """
    if frames < 0:
        raise ValueError(f"there cannot be {frames} frames")
    idle_w = idle.mean_w if idle and idle.channels == run.channels else None
    if run.window_j is None or not frames:
        why = run.reason or "no frame was completed in the window"
        return FrameEnergy(frames, None, None, idle_w, None, None, why, why)
    net_j, net_error_pct, why = _net(run, frames, idle)
    gross_j = run.window_j / frames
    return FrameEnergy(
        frames, gross_j, run.error_pct, idle_w, net_j, net_error_pct, "", why
    )


def _net(
    run: Energy, frames: int, idle: Energy | None
) -> tuple[float | None, float | None, str]:
    if idle is None:
        return None, None, "idle power was not measured"
    if idle.channels != run.channels or idle.scope is not run.scope:
        return None, None, "idle power was measured with another scope"
    if run.mean_w is None or idle.mean_w is None:
        return None, None, f"idle power: {idle.reason}"
    net_w = run.mean_w - idle.mean_w
    error_w = _either(run.error_w, idle.error_w)
    error_pct = None if error_w is None or not net_w else 100 * error_w / abs(net_w)
    why = "; ".join(filter(None, (_doubt(net_w, error_w), *map(_idle, idle.low))))
    return net_w * run.window_s / frames, error_pct, why


def _idle(why: str) -> str:
    return f"idle power: {why}"


def _either(one_w: float | None, other_w: float | None) -> float | None:
    return None if one_w is None or other_w is None else math.hypot(one_w, other_w)


def _doubt(net_w: float, error_w: float | None) -> str:
    if error_w is not None and abs(net_w) <= error_w:
        return (
            f"run and idle differ by {net_w:.3g} W, less than the error {error_w:.2g} W"
        )
    if net_w < 0:
        return f"idle drew {-net_w:.3g} W more than the run: was it idle?"
    return ""
