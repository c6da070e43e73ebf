"""What the device was doing while each frame was worked on: two logs joined by time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.telemetry.device_log import HOLD_NS, DeviceLog
from edgepipe.telemetry.frame_log import FrameLog
from edgepipe.telemetry.sensors.reading import Kind

Times = NDArray[np.int64]
"""(n,): monotonic nanoseconds."""
Values = NDArray[np.float64]
"""(n,): in the channel's unit; NaN where nothing is known."""

JOINED = (Kind.CLOCK, Kind.CLOCK_CEILING, Kind.TEMPERATURE, Kind.POWER, Kind.LOAD)
"""Kinds of channels that are joined."""

_LONGEST_NS = HOLD_NS + 2_000_000_000
"""A value that is not followed by another for so long is no longer known."""


@dataclass(frozen=True, slots=True)
class FramesOnDevice:
    """One row for each frame of a log, in its order."""

    start_ns: Times
    """When the first stage began to work on it; without any, when it left."""
    end_ns: Times
    """When the last stage was done with it; without any, when it left."""
    at_ns: Times
    """The middle of the longest piece of work: the moment of the values."""
    values: Mapping[str, Values]
    """By channel key."""
    throttled_by: Sequence[str]
    """What took performance away between start and end, comma between; often empty."""


def values_at(times_ns: Times, values: Values, at_ns: Times) -> Values:
    """The value that held at each moment: the newest one that is not too old.

    Args:
        times_ns: (m,) of the readings, ascending.
        values: (m,), NaN where there was no value.
        at_ns: (n,) moments, in any order.
    """
    if not len(times_ns):
        return np.full(len(at_ns), np.nan)
    index = np.searchsorted(times_ns, at_ns, side="right") - 1
    found = values[np.maximum(index, 0)]
    age_ns = at_ns - times_ns[np.maximum(index, 0)]
    return np.where((index >= 0) & (age_ns <= _LONGEST_NS), found, np.nan)


def service_times(frames: FrameLog) -> tuple[Times, Times, Times]:
    """Start, end and the middle of the longest work of each frame, (n,) each."""
    table = frames.table.combine_chunks()
    done_ns = table["done_ns"].to_numpy().astype(np.int64)
    start_ns, end_ns, at_ns = done_ns.copy(), done_ns.copy(), done_ns.copy()
    lists: Any = table["stages"].combine_chunks()
    spans = lists.flatten()
    if not len(spans):
        return start_ns, end_ns, at_ns
    begun = spans.field("start_ns").to_numpy()
    took = spans.field("service_ns").to_numpy()
    frame = np.repeat(np.arange(len(done_ns)), lists.value_lengths().to_numpy())
    # Frames have their spans in order, and each frame's lie together.
    last = np.r_[np.flatnonzero(np.diff(frame)), len(frame) - 1]
    first = np.r_[0, last[:-1] + 1]
    start_ns[frame[first]] = begun[first]
    end_ns[frame[last]] = begun[last] + took[last]
    longest = np.lexsort((took, frame))[last]
    at_ns[frame[longest]] = begun[longest] + took[longest] // 2
    return start_ns, end_ns, at_ns


def join(
    frames: FrameLog, device: DeviceLog, episodes: Sequence[tuple[str, int, int]]
) -> FramesOnDevice:
    """Put what the device was doing beside each frame.

    Args:
        frames: The frame log of a run.
        device: The device log of the same run.
        episodes: What took performance away: cause, from and until, monotonic ns.
    """
    start_ns, end_ns, at_ns = service_times(frames)
    values = {
        key: values_at(*device.series(key), at_ns)
        for key, channel in device.channels.items()
        if channel.kind in JOINED
    }
    causes = [
        (cause, (start_ns <= until_ns) & (end_ns >= from_ns))
        for cause, from_ns, until_ns in episodes
    ]
    throttled_by = [
        ", ".join(dict.fromkeys(cause for cause, met in causes if met[n]))
        for n in range(len(at_ns))
    ]
    return FramesOnDevice(start_ns, end_ns, at_ns, values, throttled_by)
