"""How far an energy may be off: an estimate from the very readings it was made of.

The parts, each as half an interval that holds the truth about 19 times in 20:

- *sampling*: the mean of readings differs from the mean of power. Twice the standard
  error, from differences of the means of seconds that follow each other (a slow drift
  cancels in them); with fewer than eight such seconds, or where frame rates are not
  known, also from differences of single readings, which is too much for evenly spaced
  readings. Where frame rates are known, no less than what the number of different
  moments of a frame allows (:func:`~edgepipe.telemetry.sampling_rate.phases`).
- *edges*: the window begins and ends between two readings.
- *steps*: the smallest difference that the sensor shows. It averages out only where the
  readings move by more than one step.
- *filter*: the correction is as good as the time constant, and the INA3221's conversion
  times are specified to 10 %. Without a known constant: what the slowest filter that
  was seen on a board, 3.4 s, would have done.
- *counter*: a counter is updated now and then. Its edges are late by up to that time.
- *gaps*: what was not covered may have been between nothing and twice the mean.

Not in it: the sensor's own calibration, and all that it does not see.
"""

import math
from collections.abc import Sequence

from edgepipe.telemetry.energy_part import Part
from edgepipe.telemetry.sampling_rate import phases, ripple
from edgepipe.telemetry.sensors.reading import Channel, Kind

SLOWEST_TAU_S = 3.4
"""INA3221 with 512 averages of 1.1 ms conversions, the slowest seen on a board."""

FEWEST_PHASES = 4
"""With fewer moments of a frame, what lies between them cannot be told from them."""

_SIGMAS = 2.0
_FEWEST_CELLS = 8
_TAU_ERROR = 0.1
_SWING = 2.0
"""A load that is not seen is taken to switch by up to twice its mean power."""
_TRIANGLE_95 = 0.78
"""Of the difference of two lags, each evenly spread: 1 - sqrt(0.05)."""


def error_pct(
    channel: Channel, part: Part, mean_w: float, frame_rates: Sequence[float] = ()
) -> float | None:
    """The estimate in percent of ``mean_w``; None if there is nothing to go by."""
    if not mean_w or not part.covered_ns:
        return None
    if channel.kind is Kind.ENERGY:
        measured = _counter_w(channel, part, mean_w)
    else:
        measured = _power_w(channel, part, mean_w, frame_rates)
    uncovered = 1 - part.covered_ns / (part.end_ns - part.start_ns)
    return 100 * math.hypot(measured / mean_w, uncovered)


def _power_w(
    channel: Channel, part: Part, mean_w: float, frame_rates: Sequence[float]
) -> float:
    scatter_w = math.sqrt(part.step_square / 2 / part.steps) if part.steps else 0.0
    covered_s = part.covered_ns / 1e9
    period_s = covered_s / max(1, part.steps)
    return math.hypot(
        _sampling_w(channel, part, mean_w, scatter_w, frame_rates),
        scatter_w * math.sqrt(2) * period_s / 2 / covered_s,
        _steps_w(channel, part, scatter_w),
        _filter_w(channel, part, scatter_w),
    )


def _sampling_w(
    channel: Channel,
    part: Part,
    mean_w: float,
    scatter_w: float,
    frame_rates: Sequence[float],
) -> float:
    by_readings = _SIGMAS * scatter_w / math.sqrt(max(1, part.steps))
    cell_w = math.sqrt(part.cell_square / 2 / max(1, part.cells))
    by_cells = _SIGMAS * cell_w / math.sqrt(part.cells + 1)
    if part.cells < _FEWEST_CELLS or not frame_rates:
        by_cells = max(by_cells, by_readings)
    locks = [_lock_w(channel, part, mean_w, f) for f in frame_rates]
    return max(by_cells, *locks) if locks else by_cells


def _lock_w(channel: Channel, part: Part, mean_w: float, frame_hz: float) -> float:
    """What a load that comes with the frames can hide between the readings."""
    seen = phases_seen(part, frame_hz)
    if seen >= FEWEST_PHASES:
        return part.largest_step / seen
    return _SWING * 2 / math.pi * mean_w * ripple(frame_hz, channel.tau_s) / seen


def phases_seen(part: Part, frame_hz: float) -> int:
    """How many different moments of a frame the readings saw."""
    if part.steps < 2:
        return 1
    # Half of the readings: jitter blurs the rate as the whole window shows it.
    return phases(part.steps * 1e9 / part.stepped_ns, frame_hz, part.steps // 2)


def _steps_w(channel: Channel, part: Part, scatter_w: float) -> float:
    step_w = channel.step or 0.0
    if scatter_w < step_w / 2:
        return step_w / 2
    return _SIGMAS * step_w / math.sqrt(12 * max(1, part.steps))


def _filter_w(channel: Channel, part: Part, scatter_w: float) -> float:
    covered_s = part.covered_ns / 1e9
    if channel.tau_s is None:
        return SLOWEST_TAU_S * abs(part.level_rise_w) / covered_s
    edge_w = math.sqrt(2) * max(scatter_w, (channel.step or 0.0) / math.sqrt(12))
    shift_w = _TAU_ERROR * abs(part.rise_w)
    return channel.tau_s * math.hypot(edge_w, shift_w) / covered_s


def _counter_w(channel: Channel, part: Part, mean_w: float) -> float:
    late_j = _TRIANGLE_95 * update_s(part) * mean_w
    return math.hypot(late_j, channel.step or 0.0) / (part.covered_ns / 1e9)


def update_s(part: Part) -> float:
    """How often a counter is updated: the mean time between two changes seen."""
    return part.covered_ns / 1e9 / max(1, part.changes)
