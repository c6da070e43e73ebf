"""Was the machine throttled, by what, and for how long."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from edgepipe.telemetry.sensors.reading import Kind, Reading
from edgepipe.telemetry.throttle_blind import blind_causes
from edgepipe.telemetry.throttle_cause import Cause
from edgepipe.telemetry.throttle_ceiling import Ceilings
from edgepipe.telemetry.throttle_episodes import SETTLE_NS, Episode, Episodes
from edgepipe.telemetry.throttle_facts import HOLD_NS, RELEVANT, Facts, Rise
from edgepipe.telemetry.throttle_rules import (
    OVER_CURRENT_EVENT_S,
    cause_of,
    findings,
    tells,
)
from edgepipe.telemetry.throttle_timeline import Counts, Spans

_AT_LEAST_NS = 500_000_000
"""Readings that say the same again are looked at this often."""


@dataclass(frozen=True, slots=True)
class Held:
    """What one cause amounts to, in a window or ever."""

    cause: Cause
    seconds: float
    """For how long it was seen, on whichever part; no second is counted twice.

    For counted events: as long as readings found the counter risen. Boards publish
    theirs in batches of some seconds, so this says when and not for how long."""
    events: int
    """Events that the hardware counted."""
    counted_s: float | None = None
    """For how long a driver's own counter says; None without one."""
    lost_s: float | None = None
    """Estimate for over-current: events times what one cost in a public study of one
    board; None for other causes."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What held clocks down in a window, and what cannot be seen on this machine."""

    start_ns: int
    end_ns: int
    throttled: bool | None
    """None: nothing was read in the window that could tell."""
    observed: float
    """Share of the window in which there were readings that tell of throttling."""
    held: tuple[Held, ...]
    """Causes that held or were counted, those that throttle first."""
    episodes: tuple[Episode, ...]
    """That lie in the window or reach into it, as far as they are kept."""
    blind: Mapping[Cause, str]
    """Causes that cannot be seen on this machine, and why."""


class ThrottleJudge:
    """Takes readings as they come and keeps what they say about throttling.

    What a reading shows holds until the next one, or for ``hold_ns``. Pure: the time is
    given. Memory is bounded; totals never lose count. Owned by one thread at a time.

    Args:
        hold_ns: For how long a reading speaks when no other follows.
    """

    def __init__(self, hold_ns: int = HOLD_NS) -> None:
        self._facts = Facts(hold_ns)
        self._ceilings = Ceilings()
        self._episodes = Episodes()
        self._events: dict[Cause, Counts] = {}
        self._counted_s: dict[Cause, Counts] = {}
        self._observed = Spans()
        self._spoken_ns = (0, 0)
        """When the last sweep with a value came, and until when it speaks."""
        self._now_ns = 0
        """When readings were looked at last."""

    def take(self, readings: Iterable[Reading], now_ns: int) -> bool:
        """Take in a sweep: any channels, in any order.

        Args:
            readings: Of kinds that say nothing about throttling, too; they are skipped.
            now_ns: The time of the sweep, not before that of the last one.

        Returns:
            Whether what holds has changed.
        """
        relevant = [each for each in readings if each.channel.kind in RELEVANT]
        if not relevant:
            return False
        now_ns = max(now_ns, self._now_ns)
        rises = self._facts.take(relevant)
        spoken_ns = self._spoken_ns
        self._observe(relevant, now_ns)
        if not self._facts.changed and now_ns - self._now_ns < _AT_LEAST_NS:
            return False
        before = self._episodes.sure(self._now_ns)
        self._now_ns = now_ns
        # Where sweeps are far apart, one of them already stands for a long time.
        rarely = now_ns - spoken_ns[0] >= SETTLE_NS and spoken_ns != (0, 0)
        self._episodes.follow(findings(self._facts, now_ns), now_ns, rarely)
        self._count(rises, now_ns)
        after = self._episodes.sure(now_ns)
        self._ceilings.take(self._facts, after, now_ns)
        return before != after

    def state_at(self, now_ns: int) -> tuple[Cause, ...]:
        """What holds at this time, from the last sweep on; those that throttle first.

        A reading that no other followed for too long says nothing any more.
        """
        causes = {cause for cause, _ in self._episodes.sure(now_ns)}
        return tuple(sorted(causes, key=_ORDER.index))

    def ceiling_permille(self, part: str) -> int | None:
        """How much of the clock that was allowed when the run began can be had now.

        Changes of less than 5 % are not told, nor is a clock that is low because there
        is little to do.

        Args:
            part: ``cpu`` for the mean of all policies, ``gpu`` for the slowest GPU, or
                one channel's name.

        Returns:
            Thousandths; None if no ceiling of it was ever read.
        """
        return self._ceilings.permille(part)

    @property
    def totals(self) -> tuple[Held, ...]:
        """All causes that ever held or were counted, up to the last sweep."""
        return tuple(self._total(cause) for cause in self._known())

    @property
    def episodes(self) -> tuple[Episode, ...]:
        """Those that are kept: throttling first, then in the order they began."""
        return self._episodes.all()

    def verdict(self, start_ns: int, end_ns: int) -> Verdict:
        """What held in a window; seconds and events of adjacent ones add up.

        Raises:
            ValueError: The window is empty.
        """
        if end_ns <= start_ns:
            raise ValueError(f"a window from {start_ns} to {end_ns} ns is empty")
        held = tuple(
            each
            for each in (self._within(c, start_ns, end_ns) for c in self._known())
            if each.seconds or each.events or each.counted_s
        )
        seen_ns = self._observed.held_ns(start_ns, end_ns)
        seen_ns += _overlap((start_ns, end_ns), self._spoken_ns)
        throttled = any(each.cause.throttles for each in held)
        return Verdict(
            start_ns=start_ns,
            end_ns=end_ns,
            throttled=throttled if seen_ns or throttled else None,
            observed=seen_ns / (end_ns - start_ns),
            held=held,
            episodes=tuple(
                each
                for each in self.episodes
                if each.from_ns < end_ns and (each.until_ns > start_ns or each.open)
            ),
            blind=blind_causes(self._facts),
        )

    def _observe(self, readings: list[Reading], now_ns: int) -> None:
        if any(tells(self._facts, each, now_ns) for each in readings):
            from_ns, until_ns = self._spoken_ns
            self._observed.add(from_ns, min(now_ns, until_ns))
            self._spoken_ns = now_ns, now_ns + self._facts.hold_ns

    def _count(self, rises: list[Rise], now_ns: int) -> None:
        for rise in rises:
            key = cause_of(rise)
            if key is None:
                continue
            counts = self._events if rise.kind is Kind.EVENTS else self._counted_s
            counts.setdefault(key[0], Counts()).add(now_ns, rise.by)
            if rise.kind is Kind.EVENTS:
                self._episodes.count(key, round(rise.by))

    def _known(self) -> list[Cause]:
        seen = {*self._episodes.held, *self._events, *self._counted_s}
        seen |= {cause for cause, _ in self._episodes.sure(self._now_ns)}
        return [cause for cause in _ORDER if cause in seen]

    def _total(self, cause: Cause) -> Held:
        spans, events = self._episodes.held.get(cause), self._events.get(cause)
        counted_s = self._counted_s.get(cause)
        return _amount(
            cause,
            spans.total_ns if spans else 0,
            events.total if events else 0,
            counted_s.total if counted_s else None,
        )

    def _within(self, cause: Cause, start_ns: int, end_ns: int) -> Held:
        spans, events = self._episodes.held.get(cause), self._events.get(cause)
        counted_s = self._counted_s.get(cause)
        now = (self._now_ns, self._episodes.until_ns(cause))
        held_ns = spans.held_ns(start_ns, end_ns) if spans else 0
        return _amount(
            cause,
            held_ns + _overlap((start_ns, end_ns), now),
            events.within(start_ns, end_ns) if events else 0,
            counted_s.within(start_ns, end_ns) if counted_s else None,
        )


_ORDER = tuple(Cause)


def _amount(cause: Cause, held_ns: int, events: float, counted_s: float | None) -> Held:
    over = cause is Cause.OVER_CURRENT and events
    lost_s = events * OVER_CURRENT_EVENT_S if over else None
    return Held(cause, held_ns / 1e9, round(events), counted_s, lost_s)


def _overlap(window: tuple[int, int], span: tuple[int, int]) -> int:
    return max(0, min(window[1], span[1]) - max(window[0], span[0]))
