"""What the scheduler says besides what must be done: counted, and logged once."""

import logging
from collections import Counter, deque
from typing import NamedTuple

from edgepipe.pipeline.source_events import EventKind, SourceEvent
from edgepipe.scheduler.events import Admitted, Alarm, Refused, RungChanged

log = logging.getLogger("edgepipe")


MOST_MOVES = 1000
"""Moves on ladders and events of sources that are kept with their times, the newest."""


_WORRYING = frozenset(
    {EventKind.STALLED, EventKind.FROZEN, EventKind.BACKING_OFF, EventKind.GONE}
)
"""Something outside is wrong, and somebody may have to go and look at it."""


class RungMove(NamedTuple):
    """A stream takes another rung of its ladder from this moment on."""

    at_ns: int
    stream: str
    rung: int
    cause: str
    demand_permille: int
    """Expected demand on the scarcest resource before the move."""


class Befallen(NamedTuple):
    """Something befell a stream's source at this moment."""

    at_ns: int
    stream: str
    event: SourceEvent


class Notices:
    """Takes each notice. The caller serialises the calls.

    Every kind is logged the first time it concerns a stream, and only counted after
    that: a clock that is set every second must not fill a disk.
    """

    def __init__(self) -> None:
        self.moves: deque[RungMove] = deque(maxlen=MOST_MOVES)
        """Moves on the degradation ladders, oldest first."""
        self.alarms: Counter[tuple[str, str]] = Counter()
        """How many, by kind and by the stream or resource."""
        self.rung_changes: Counter[tuple[str, str]] = Counter()
        """How many, by stream and cause."""
        self.history: deque[Befallen] = deque(maxlen=MOST_MOVES)
        """What befell the sources, oldest first."""
        self.source_events: Counter[tuple[str, str]] = Counter()
        """How many, by stream and kind."""

    def befell(self, stream: str, event: SourceEvent, now_ns: int) -> None:
        """Count one event of a source, and log it if it is the first of its kind."""
        self.history.append(Befallen(now_ns, stream, event))
        key = stream, event.kind.value
        self.source_events[key] += 1
        if self.source_events[key] == 1:
            words = f": {event.detail}" if event.detail else ""
            level = logging.WARNING if event.kind in _WORRYING else logging.INFO
            log.log(level, "stream %s: %s%s; more will only be counted", *key, words)

    def take(
        self, notice: Alarm | RungChanged | Admitted | Refused, now_ns: int = 0
    ) -> None:
        """Count one notice, and log it if it is the first of its kind."""
        if isinstance(notice, Alarm):
            self._alarm(notice)
        elif isinstance(notice, RungChanged):
            stream, rung, cause, demand = notice
            self.moves.append(RungMove(now_ns, stream, rung, cause.value, demand))
            self._rung_changed(notice)
        elif isinstance(notice, Admitted):
            log.info("stream %s: admitted", notice.stream)
        else:
            log.warning(
                "stream %s: refused, %s would be asked for %.1f %% of what it can do",
                notice.stream,
                notice.resource,
                notice.utilisation_permille / 10,
            )

    def _alarm(self, alarm: Alarm) -> None:
        key = alarm.kind.value, alarm.subject
        self.alarms[key] += 1
        if self.alarms[key] == 1:
            log.warning(
                "%s: %s (%d); more will only be counted",
                alarm.subject,
                alarm.kind.value,
                alarm.detail,
            )

    def _rung_changed(self, change: RungChanged) -> None:
        key = change.stream, change.cause.value
        self.rung_changes[key] += 1
        if self.rung_changes[key] == 1:
            log.info(
                "stream %s: takes rung %d of its ladder because of %s, at a demand of"
                " %.1f %%; more moves will only be counted",
                change.stream,
                change.rung,
                change.cause.value,
                change.demand_permille / 10,
            )
