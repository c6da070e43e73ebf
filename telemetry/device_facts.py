"""What a finished run tells about the device it ran on. Plain values, no sensors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from edgepipe.telemetry.energy import Energy
from edgepipe.telemetry.records import RecorderFacts
from edgepipe.telemetry.sensors.sampler import SamplingFacts
from edgepipe.telemetry.sensors.totals import Total
from edgepipe.telemetry.throttle import Verdict

NO_SENSOR = "not measured: no sensor was read"


@dataclass(frozen=True, slots=True)
class PowerFacts:
    """Power and energy within one boundary."""

    total: Total
    run: Energy
    """Of the measured part."""
    idle: Energy | None
    """Before the first frame, by the same meters."""
    no_idle: str = ""
    """Why there is none."""


@dataclass(frozen=True, slots=True)
class Level:
    """How one channel stood over the measured part."""

    mean: float
    """Over the time it was known, a value holding until the next one."""
    low: float
    high: float
    readings: int


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """All of it."""

    powers: Sequence[PowerFacts] = ()
    """One for each boundary, the widest first. They are never added or compared."""
    no_power: str = NO_SENSOR
    """Why there is none."""
    rails_w: Mapping[str, tuple[float | None, str]] = field(
        default_factory=dict[str, tuple[float | None, str]]
    )
    """Mean power of each rail, or why there is none; parts of the above."""
    clocks_hz: Mapping[str, Level] = field(default_factory=dict[str, Level])
    no_clocks: str = NO_SENSOR
    temperatures_c: Mapping[str, Level] = field(default_factory=dict[str, Level])
    no_temperatures: str = NO_SENSOR
    throttle: Verdict | None = None
    """None with ``no_throttle``."""
    no_throttle: str = NO_SENSOR
    """Why nothing is known about throttling."""
    sampling: SamplingFacts | None = None
    unread: Mapping[str, str] = field(default_factory=dict[str, str])
    """Channels that never gave a value, and why."""
    log: RecorderFacts | None = None
    """Of ``device.arrow``; None: there is none."""


def unmeasured(reason: str) -> DeviceFacts:
    """What is known of a device of which nothing was measured, and why."""
    return DeviceFacts(
        no_power=reason,
        no_clocks=reason,
        no_temperatures=reason,
        no_throttle=reason,
    )
