"""Power, clocks, load and heat as NVIDIA's ``tegrastats`` prints them: a last resort.

A process of its own is run for it and read line by line. Use it only where the kernel's
files give no power: it costs a process, and of energy it knows only a mean since its
own start, which is not used.
"""

import logging
import shutil
from collections.abc import Callable, Sequence

from edgepipe.telemetry.sensors.reading import (
    Channel,
    Kind,
    Quality,
    Reading,
    no_reading,
)
from edgepipe.telemetry.sensors.sensor import Pace, Sensor
from edgepipe.telemetry.sensors.tegrastats_feed import Feed, Stamped
from edgepipe.telemetry.sensors.tegrastats_line import Line
from edgepipe.telemetry.sensors.totals import scope_of

log = logging.getLogger("edgepipe")

INTERVAL_MS = 53
"""18.9 lines a second, which divides no usual frame rate."""
MOST_INTERVAL_MS = 500
FIRST_LINE_S = 3.0
SILENT_NS = 2_000_000_000
"""A line that is older is no reading any more."""
_SOURCE = "tegrastats"
_ENGINES = {"GR3D": "gpu", "EMC": "emc"}
_CONSTANT = frozenset({"PMIC"})
"""A zone that always shows the same temperature."""

Values = dict[tuple[Kind, str], float | None]


def values_of(line: Line) -> Values:
    """What a line measures, by kind and name, in base units."""
    values: Values = {}
    for name, watts in line.rails:
        if name != "NC":
            values.setdefault((Kind.POWER, name), watts)
    for number, core in enumerate(line.cores):
        values[Kind.CLOCK, f"cpu{number}"] = core.hz
    for engine in line.engines:
        if name := _ENGINES.get(engine.name, ""):
            # 0 Hz is switched off, and no clock.
            values[Kind.CLOCK, name] = max(engine.hz, default=None) or None
            values[Kind.LOAD, name] = engine.load
    for zone in line.temperatures:
        if zone.zone not in _CONSTANT:
            values[Kind.TEMPERATURE, zone.zone] = zone.celsius
    return values


_PACES = {Kind.POWER: Pace.FAST, Kind.TEMPERATURE: Pace.SLOW}
"""Everything else is read at a medium pace."""


class TegrastatsSensor:
    """What is read at one pace; the sensors of all paces share one process."""

    def __init__(
        self,
        feed: Feed,
        pace: Pace,
        channels: Sequence[Channel],
        now_ns: Callable[[], int],
    ) -> None:
        self.name = f"tegrastats {pace.value}"
        self.pace = pace
        self.channels = tuple(channels)
        self._feed = feed
        self._now_ns = now_ns
        self._seen: Stamped | None = None
        self._readings: list[Reading] = []
        self._closed = False
        feed.hold()

    def read(self) -> list[Reading]:
        """The readings of the newest line; it may be one that was read before."""
        now_ns = self._now_ns()
        newest = self._feed.newest
        if newest is None or now_ns - newest.at_ns >= SILENT_NS:
            self._feed.revive(now_ns)
            reason = self._feed.trouble or "tegrastats is silent"
            return [
                no_reading(each, now_ns, reason, Quality.STALE)
                for each in self.channels
            ]
        if newest is not self._seen:
            self._seen = newest
            values = values_of(newest.line)
            self._readings = [
                _reading(each, values, newest.at_ns) for each in self.channels
            ]
        return self._readings

    def close(self) -> None:
        """End the process when the last of its sensors is closed."""
        if not self._closed:
            self._closed = True
            self._feed.release()


def _reading(channel: Channel, values: Values, at_ns: int) -> Reading:
    value = values.get((channel.kind, channel.name))
    if value is None:
        return no_reading(channel, at_ns, "not in the line: switched off, or for root")
    return Reading(channel, value, at_ns)


def find_tegrastats(
    now_ns: Callable[[], int],
    interval_ms: int = INTERVAL_MS,
    command: Sequence[str] | None = None,
    first_line_s: float = FIRST_LINE_S,
) -> list[Sensor]:
    """Start tegrastats and see what its first line has; nothing where there is none.

    Args:
        now_ns: The monotonic clock.
        interval_ms: Between two lines; at most 500.
        command: What to run; None looks for ``tegrastats`` on the path.
        first_line_s: How long to wait for the first line.
    """
    if command is None:
        path = shutil.which("tegrastats")
        if path is None:
            return []
        command = (path,)
    interval = str(min(interval_ms, MOST_INTERVAL_MS))
    feed = Feed([*command, "--interval", interval], now_ns)
    feed.hold()
    try:
        return sensors_of(feed, now_ns, first_line_s)
    finally:
        feed.release()


def sensors_of(
    feed: Feed, now_ns: Callable[[], int], first_line_s: float
) -> list[Sensor]:
    """What the first line has; nothing, and a warning, if none comes in time."""
    first = feed.wait(first_line_s)
    if first is None:
        log.warning("tegrastats is not used: %s", feed.trouble or "it prints nothing")
        return []
    by_pace: dict[Pace, list[Channel]] = {}
    for kind, name in _known(values_of(first.line)):
        scope = scope_of(name) if kind is Kind.POWER else None
        channel = Channel(kind, name, _SOURCE, scope)
        by_pace.setdefault(_PACES.get(kind, Pace.MEDIUM), []).append(channel)
    return [
        TegrastatsSensor(feed, pace, by_pace[pace], now_ns)
        for pace in Pace
        if pace in by_pace
    ]


def _known(values: Values) -> list[tuple[Kind, str]]:
    """What there are channels for; a clock or load for root only is none.

    From R36 on, when zones are in small letters, that of a GPU which is switched off is
    left out of the line, and it comes back.
    """
    keys = [key for key, value in values.items() if value is not None or _may_be(key)]
    zones = [name for kind, name in keys if kind is Kind.TEMPERATURE]
    if zones and "gpu" not in zones and all(zone.islower() for zone in zones):
        keys.append((Kind.TEMPERATURE, "gpu"))
    return keys


def _may_be(key: tuple[Kind, str]) -> bool:
    """Whether what has no value now may have one later: zones, cores that are off."""
    kind, name = key
    return kind is Kind.TEMPERATURE or (kind is Kind.CLOCK and name != "emc")
