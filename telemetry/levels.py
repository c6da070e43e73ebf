"""How a clock or a temperature stood over a stretch of time, kept in a few numbers."""

from edgepipe.telemetry.device_facts import Level
from edgepipe.telemetry.sensors.reading import Reading


class LevelMeter:
    """Mean, lowest and highest value of one channel between two moments.

    A value holds until the next reading; while there is no value, no time counts.
    Readings before the window serve as the value with which it begins.
    """

    def __init__(self) -> None:
        self._from_ns: int | None = None
        self._until_ns: int | None = None
        self._last: Reading | None = None
        self._area = 0.0
        self._known_ns = 0
        self._low = self._high = 0.0
        self._readings = 0

    def begin(self, at_ns: int) -> None:
        """The window begins then."""
        self._from_ns = at_ns

    def end(self, at_ns: int) -> None:
        """The window ends then."""
        self._hold(at_ns)
        self._until_ns = at_ns

    def add(self, reading: Reading) -> None:
        """Take the next reading, in the order of their times."""
        if self._until_ns is not None:
            return
        self._hold(reading.at_ns)
        self._last = reading
        value, from_ns = reading.value, self._from_ns
        if value is None or from_ns is None or reading.at_ns < from_ns:
            return
        self._see(value)
        self._readings += 1

    def _hold(self, until_ns: int) -> None:
        last, from_ns = self._last, self._from_ns
        if last is None or last.value is None or from_ns is None:
            return
        length_ns = until_ns - max(last.at_ns, from_ns)
        if length_ns > 0:
            self._see(last.value)
            self._area += last.value * length_ns
            self._known_ns += length_ns

    def _see(self, value: float) -> None:
        if not self._known_ns and not self._readings:
            self._low = self._high = value
        self._low = min(self._low, value)
        self._high = max(self._high, value)

    def level(self) -> Level | None:
        """What was found; None if there was no value in the window."""
        if not self._known_ns:
            return None
        mean = self._area / self._known_ns
        return Level(mean, self._low, self._high, self._readings)
