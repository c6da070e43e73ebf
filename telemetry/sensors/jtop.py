"""Readings of jetson-stats (``jtop``), for those who ask for them by name.

It gives what only root may read, such as the measured clock of each core, and costs a
service that takes some percent of a core. The library is imported when it is asked
for, and nowhere else.
"""

import importlib
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from edgepipe.telemetry.sensors.jtop_link import Link, Snapshot
from edgepipe.telemetry.sensors.jtop_values import Told, one_line
from edgepipe.telemetry.sensors.reading import (
    Channel,
    Kind,
    Quality,
    Reading,
    no_reading,
)
from edgepipe.telemetry.sensors.sensor import Pace, Sensor
from edgepipe.telemetry.sensors.totals import scope_of

log = logging.getLogger("edgepipe")

INTERVAL_S = 0.53
"""Asked for; the first client of the service decides for all."""
CONNECT_S = 5.0
STALE_NS = 5_000_000_000
_SOURCE = "jtop"
_PACES = {Kind.TEMPERATURE: Pace.SLOW}
"""Everything else is read at a medium pace, more often than it is updated."""


class JtopSensor:
    """What is read at one pace; both sensors share one connection."""

    def __init__(
        self,
        link: Link,
        pace: Pace,
        channels: Sequence[Channel],
        now_ns: Callable[[], int],
    ) -> None:
        self.name = f"jtop {pace.value}"
        self.pace = pace
        self.channels = tuple(channels)
        self._link = link
        self._now_ns = now_ns
        self._closed = False
        link.hold()

    def read(self) -> list[Reading]:
        """The readings of the newest update; it may be one that was read before."""
        now_ns = self._now_ns()
        newest = self._link.newest
        if newest is None or now_ns - newest.at_ns >= STALE_NS:
            why = self._link.trouble
            return [
                no_reading(each, now_ns, why, Quality.STALE) for each in self.channels
            ]
        return [_reading(each, newest) for each in self.channels]

    def close(self) -> None:
        """Close the connection with the last of its sensors."""
        if not self._closed:
            self._closed = True
            self._link.release()


def _reading(channel: Channel, newest: Snapshot) -> Reading:
    nothing = Told(None, "; ".join(newest.failures.values()) or "not told")
    value, reason = newest.values.get((channel.kind, channel.name), nothing)
    if value is None:
        return no_reading(channel, newest.at_ns, reason)
    return Reading(channel, value, newest.at_ns)


def find_jtop(
    now_ns: Callable[[], int],
    module: Any = None,
    connect_s: float = CONNECT_S,
) -> list[Sensor]:
    """Connect to the service; nothing, and one line that says why, if that fails.

    Args:
        now_ns: The monotonic clock.
        module: Has the class ``jtop``; None imports jetson-stats.
        connect_s: How long to wait for the first update.
    """
    try:
        found = importlib.import_module("jtop") if module is None else module
        make = partial(found.jtop, interval=INTERVAL_S)
    except Exception as error:  # noqa: BLE001 - whatever a foreign import raises
        log.warning(
            "jtop cannot be used: %s (pip install 'edgepipe[jetson]' brings it)",
            one_line(error),
        )
        return []
    return sensors_of(Link(make, now_ns), now_ns, connect_s)


def sensors_of(link: Link, now_ns: Callable[[], int], connect_s: float) -> list[Sensor]:
    """What the first update has; nothing, and a warning, if none comes in time."""
    link.hold()
    try:
        first = link.wait(connect_s)
        if first is None:
            log.warning("jtop is not used: %s", link.trouble)
            return []
        return _by_pace(link, first, now_ns)
    finally:
        link.release()


def _by_pace(link: Link, first: Snapshot, now_ns: Callable[[], int]) -> list[Sensor]:
    by_pace: dict[Pace, list[Channel]] = {}
    for kind, name in first.values:
        scope = scope_of(name) if kind is Kind.POWER else None
        channel = Channel(kind, name, _SOURCE, scope)
        by_pace.setdefault(_PACES.get(kind, Pace.MEDIUM), []).append(channel)
    return [
        JtopSensor(link, pace, channels, now_ns) for pace, channels in by_pace.items()
    ]
