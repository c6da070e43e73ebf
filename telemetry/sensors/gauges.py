"""Channels of which each is one file with one number in it."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from edgepipe.telemetry.sensors.reading import (
    Channel,
    Kind,
    Quality,
    Reading,
    no_reading,
)
from edgepipe.telemetry.sensors.sensor import Pace
from edgepipe.telemetry.sensors.tree import Handle, read_number


class Gauge(NamedTuple):
    """A channel, the file it is read from, and which numbers are values."""

    channel: Channel
    handle: Handle
    factor: int = 1
    divisor: int = 1
    """A value is the file's count times the one by the other: 1000 for kHz."""
    lowest: int = 0
    highest: int = 10**15
    """Counts below and above cannot be measurements."""
    meanings: Mapping[int, str] = {}
    """Counts that stand for no value, and why."""
    doubt: str = ""
    """Why no value of it should be relied on."""

    def read(self, at_ns: int) -> Reading:
        """What the file says; times are the caller's."""
        count, reason = read_number(self.handle)
        if count is None:
            return no_reading(self.channel, at_ns, reason)
        if not self.lowest <= count <= self.highest:
            return no_reading(self.channel, at_ns, f"{count} cannot be a measurement")
        if count in self.meanings:
            return no_reading(self.channel, at_ns, self.meanings[count])
        quality = Quality.DOUBTFUL if self.doubt else Quality.GOOD
        return Reading(
            self.channel, count * self.factor / self.divisor, at_ns, self.doubt, quality
        )


class GaugeSensor:
    """Gauges that are read together.

    Args:
        name: For messages.
        pace: How often.
        gauges: Their files are closed with the sensor.
        now_ns: The monotonic clock.
    """

    def __init__(
        self,
        name: str,
        pace: Pace,
        gauges: Sequence[Gauge],
        now_ns: Callable[[], int],
    ) -> None:
        self.name = name
        self.pace = pace
        self.channels = tuple(gauge.channel for gauge in gauges)
        self._gauges = tuple(gauges)
        self._now_ns = now_ns

    def read(self) -> list[Reading]:
        """One reading for each channel."""
        readings: list[Reading] = []
        before_ns = self._now_ns()
        for gauge in self._gauges:
            reading = gauge.read(before_ns)
            after_ns = self._now_ns()
            readings.append(reading._replace(at_ns=(before_ns + after_ns) // 2))
            before_ns = after_ns
        return readings

    def close(self) -> None:
        """Close the files."""
        for gauge in self._gauges:
            gauge.handle.close()


class Names:
    """Keeps the names of a machine's channels apart.

    The first that asks for a name of a kind gets it, the second gets ``name-1``. So ask
    in an order that is the same at each boot.
    """

    def __init__(self) -> None:
        self._asked: Counter[tuple[Kind, str]] = Counter()

    def unique(self, kind: Kind, name: str) -> str:
        """The name, or one like it that is still free."""
        self._asked[kind, name] += 1
        before = self._asked[kind, name] - 1
        return self.unique(kind, f"{name}-{before}") if before else name
