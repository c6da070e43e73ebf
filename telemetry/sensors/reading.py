"""One measured value and where it comes from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """What a channel measures."""

    POWER = "power"
    ENERGY = "energy"
    """A counter that only grows; a reading is what it has counted, wraps undone."""
    VOLTAGE = "voltage"
    CURRENT = "current"
    TEMPERATURE = "temperature"
    CLOCK = "clock"
    """The clock now."""
    CLOCK_FLOOR = "clock_floor"
    """The lowest that is allowed at present."""
    CLOCK_CEILING = "clock_ceiling"
    """The highest that is allowed at present."""
    CLOCK_MEASURED = "clock_measured"
    """The clock as the hardware counts it, where that differs from ``CLOCK``."""
    LOAD = "load"
    COOLING = "cooling"
    """How far a cooling device is turned up: 0 is not at all."""
    EVENTS = "events"
    """A counter of events since the machine started."""
    THROTTLED = "throttled"
    """A counter of the time that one cause has taken."""
    REASONS = "reasons"
    """Bits that say what holds a clock down at this moment."""
    FAN = "fan"
    """How fast a fan is driven."""
    MEMORY = "memory"


UNITS: Mapping[Kind, str] = {
    Kind.POWER: "W",
    Kind.ENERGY: "J",
    Kind.VOLTAGE: "V",
    Kind.CURRENT: "A",
    Kind.TEMPERATURE: "C",
    Kind.CLOCK: "Hz",
    Kind.CLOCK_FLOOR: "Hz",
    Kind.CLOCK_CEILING: "Hz",
    Kind.CLOCK_MEASURED: "Hz",
    Kind.LOAD: "1",
    Kind.COOLING: "state",
    Kind.EVENTS: "events",
    Kind.THROTTLED: "s",
    Kind.REASONS: "bits",
    Kind.FAN: "1",
    Kind.MEMORY: "B",
}
"""The unit of each kind's values. A share, such as a load, is between 0 and 1."""


class Scope(Enum):
    """What a power or energy figure covers; two scopes are never added or compared."""

    MODULE_INPUT = "module_input"
    """All that goes into the computer module; not its carrier board."""
    SYSTEM_INPUT = "system_input"
    """All that goes into the board."""
    RAIL_SUM = "rail_sum"
    """Rails that were added up because no sensor sees their common input."""
    RAIL = "rail"
    """One rail: a part of something else."""
    GPU_BOARD = "gpu_board"
    CPU_PACKAGE = "cpu_package"
    MEMORY = "memory"
    """Memory modules outside the processor's package."""
    BATTERY = "battery"


class Quality(Enum):
    """How far a value can be believed."""

    GOOD = "good"
    DOUBTFUL = "doubtful"
    """There is a value, and a reason to look twice at it."""
    MISSING = "missing"
    """There is none."""
    STALE = "stale"
    """There is none because the sensor has not answered in time."""


@dataclass(frozen=True, slots=True)
class Channel:
    """One thing that one sensor measures; the same object for all its readings."""

    kind: Kind
    name: str
    """Unique for its kind: ``VDD_IN``, ``gpu``, ``policy4``, ``tj-thermal``, ``oc3``.

    The rail's, zone's or policy's own name, never a number that may move at the next
    boot.
    """
    source: str
    """Sensor and place, for people: ``ina3221 1-0040``, ``NVML 0``, ``RAPL``."""
    scope: Scope | None = None
    """Of power and energy; None for other kinds."""
    tau_s: float | None = None
    """Time constant of the sensor's own first-order filter; 0 for none, None for not
    known."""
    step: float | None = None
    """Smallest difference the sensor can show, in the kind's unit; None: not known."""
    limits: Mapping[str, float] = field(
        default_factory=dict[str, float], hash=False, compare=False
    )
    """What the system says about it once, in the kind's unit: ``passive`` and
    ``critical`` of a zone, ``min`` and ``max`` of a clock, ``max`` of a cooling device,
    ``crit`` of a power."""

    key: str = field(init=False, repr=False, hash=False, compare=False)
    """Unique among all channels of a machine: ``power.VDD_IN``."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", f"{self.kind.value}.{self.name}")

    def __hash__(self) -> int:
        # Of one text that knows its hash: readings are sorted by channel all the time.
        return hash(self.key)

    @property
    def unit(self) -> str:
        """The unit of its readings."""
        return UNITS[self.kind]


class Reading(NamedTuple):
    """One value of a channel. A tuple: some hundreds are made each second."""

    channel: Channel
    value: float | None
    """In the channel's unit; None was not measured, and ``reason`` says why."""
    at_ns: int
    """Monotonic time of the value: the middle of the read."""
    reason: str = ""
    """Why there is no value, or why it is doubtful; empty for a good one."""
    quality: Quality = Quality.GOOD


def no_reading(
    channel: Channel, at_ns: int, reason: str, quality: Quality = Quality.MISSING
) -> Reading:
    """The reading that says that there is no value, and why."""
    return Reading(channel, None, at_ns, reason, quality)
