"""What every sensor can do."""

from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from edgepipe.telemetry.sensors.reading import Channel, Reading


class Pace(Enum):
    """How often a sensor is worth reading."""

    FAST = "fast"
    """At each sweep: power, which is integrated."""
    MEDIUM = "medium"
    """Some ten times a second: clocks, loads, cooling devices, throttle reasons."""
    SLOW = "slow"
    """Once a second: temperatures, counters, fans, memory."""


class Sensor(Protocol):
    """A few channels that are read together. Used by one thread at a time.

    ``read`` may block for as long as the hardware does; whoever calls it watches over
    that. What the hardware, the kernel or a driver does wrong is a reading without a
    value and never an exception: one channel's failure costs the others nothing.
    """

    @property
    def name(self) -> str:
        """For messages: ``ina3221 1-0040``, ``thermal zones``."""
        ...

    @property
    def pace(self) -> Pace:
        """How often to read it."""
        ...

    @property
    def channels(self) -> Sequence[Channel]:
        """What it measures; the same for its whole life."""
        ...

    def read(self) -> Sequence[Reading]:
        """One reading for each channel, in their order."""
        ...

    def close(self) -> None:
        """Give back descriptors and libraries; calling it again does nothing."""
        ...
