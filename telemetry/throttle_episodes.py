"""What holds, since when, and what has held: findings become episodes."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace

from edgepipe.telemetry.throttle_cause import Cause
from edgepipe.telemetry.throttle_rules import Finding
from edgepipe.telemetry.throttle_timeline import Spans

MOST_EPISODES = 1024
"""At this bound the oldest episode is dropped, throttling apart from explanations."""
SETTLE_NS = 500_000_000
"""How long what is not sure must last before it counts, then from its first sight:
governors follow the load with a delay. What comes back within this time goes on."""

Key = tuple[Cause, str]
"""A cause and the part it holds down."""


@dataclass(frozen=True, slots=True)
class Episode:
    """One cause that held on one part.

    From the reading that showed it to the first that did not; pauses of less than half
    a second are part of it.
    """

    cause: Cause
    part: str
    """``gpu``, ``gpu0``, ``cpu``, ``cpu4`` or ``board``."""
    from_ns: int
    until_ns: int
    """While it is ``open``: the time it was seen last."""
    events: int
    """Counted by the hardware in it; 0 where nothing counts."""
    evidence: str
    """The readings it rests on, with numbers."""
    open: bool = False


@dataclass(slots=True)
class _Running:
    episode: Episode
    since_ns: int
    """When it began, or began again."""
    until_ns: int
    """Until when its readings speak."""
    sure: bool


class Episodes:
    """Follows findings from sweep to sweep. Memory is bounded."""

    def __init__(self) -> None:
        self._running: dict[Key, _Running] = {}
        self._ended = {
            throttles: deque[Episode](maxlen=MOST_EPISODES)
            for throttles in (True, False)
        }
        self.held: dict[Cause, Spans] = {}
        """When each cause held, on whichever part, up to the last sweep."""

    def follow(
        self, found: Mapping[Key, Finding], now_ns: int, at_once: bool = False
    ) -> None:
        """Let time pass for what holds, end what does not, begin what is new.

        Args:
            found: All that holds at this time, by its key.
            now_ns: Not before that of the call before.
            at_once: Whether what is not sure counts from its first sight on.
        """
        for key, running in list(self._running.items()):
            until_ns = min(now_ns, running.until_ns)
            self._hold(running, until_ns)
            if key in found and until_ns == now_ns:
                _renew(running, found[key])
            else:
                self._end(self._running.pop(key))
        for key, finding in found.items():
            if key not in self._running:
                sure = finding.sure or at_once
                self._running[key] = self._begin(finding, now_ns, sure)

    def count(self, key: Key, events: int) -> None:
        """Add to what runs of this cause on this part."""
        running = self._running.get(key)
        if running is not None:
            counted = running.episode.events + events
            running.episode = replace(running.episode, events=counted)

    def sure(self, now_ns: int) -> frozenset[Key]:
        """What holds at this time, as far as the last sweep can tell."""
        return frozenset(
            key
            for key, running in self._running.items()
            if running.sure and now_ns < running.until_ns
        )

    def until_ns(self, cause: Cause) -> int:
        """Until when the last sweep speaks of a cause; 0 if it does not hold."""
        ends = (
            running.until_ns
            for (held, _), running in self._running.items()
            if held is cause and running.sure
        )
        return max(ends, default=0)

    def all(self) -> tuple[Episode, ...]:
        """Those kept, by the time they began; throttling before explanations."""
        running = [each.episode for each in self._running.values() if each.sure]
        episodes = [*self._ended[True], *self._ended[False], *running]
        return tuple(sorted(episodes, key=lambda e: (not e.cause.throttles, e.from_ns)))

    def _hold(self, running: _Running, until_ns: int) -> None:
        episode = running.episode = replace(running.episode, until_ns=until_ns)
        running.sure = running.sure or until_ns - running.since_ns >= SETTLE_NS
        if running.sure:
            spans = self.held.setdefault(episode.cause, Spans())
            spans.add(running.since_ns, until_ns)

    def _end(self, running: _Running) -> None:
        if running.sure:
            ended = replace(running.episode, open=False)
            self._ended[ended.cause.throttles].append(ended)

    def _begin(self, finding: Finding, now_ns: int, sure: bool) -> _Running:
        key = finding.cause, finding.part
        before = self._taken_up(key, now_ns) if sure else None
        fresh = Episode(*key, now_ns, now_ns, 0, finding.text, open=True)
        episode = replace(before, until_ns=now_ns, open=True) if before else fresh
        return _Running(episode, now_ns, finding.until_ns, sure)

    def _taken_up(self, key: Key, now_ns: int) -> Episode | None:
        """The episode that paused just now, which is no longer among those ended."""
        ended = self._ended[key[0].throttles]
        for i in range(len(ended) - 1, -1, -1):
            if now_ns - ended[i].until_ns >= SETTLE_NS:
                return None
            if (ended[i].cause, ended[i].part) == key:
                found = ended[i]
                del ended[i]
                return found
        return None


def _renew(running: _Running, finding: Finding) -> None:
    running.until_ns = finding.until_ns
    running.sure = running.sure or finding.sure
    if finding.grows:
        running.episode = replace(running.episode, evidence=finding.text)
