"""What a decoder leaves out when it cannot keep up. Pure: it is told the time."""

from collections import deque
from enum import IntEnum
from typing import NamedTuple

from edgepipe.pipeline.source import SkippedError

SECOND_NS = 10**9
SHORTEST_WAIT_NS = SECOND_NS // 2
LONGEST_WAIT_NS = 8 * SECOND_NS
_POOR = 16
"""So many frames left out for one that is shown are not worth the work."""
_NEWEST = 8
"""A mean forgets a value after about as many others."""
_RATE_OVER_NS = SECOND_NS // 4
"""Time over which the rate of the frames is a mean."""
_QUICK_OF = 33
"""Packets whose lower quartile is what one takes when nothing disturbs."""
_NEEDED_OVER = 32
"""Packets over which the share of those that others refer to is a mean."""
_HOPELESS = 0.9
"""Load from which a backlog is not believed ever to be worked off."""


class Level(IntEnum):
    """Which frames are decoded; from each level on fewer."""

    ALL = 0
    """Every frame that is asked for."""
    REFERENCES = 1
    """Those that others refer to."""
    KEYS = 2
    """Key frames, or the first one asked for after each."""

    @property
    def words(self) -> str:
        """For people."""
        return _WORDS[self]


_WORDS = {
    Level.ALL: "all frames are decoded",
    Level.REFERENCES: "only frames that others refer to are decoded",
    Level.KEYS: "only key frames are decoded",
}


class Pressure:
    """Chooses the level at each key frame, by what became of the frames since the last.

    One step down when frames had to be left out, to key frames only if hardly any could
    be shown; one step up after ever longer waits. A step up that has to be taken back
    doubles the wait for the next one; one that lasts as long as the wait halves it.
    """

    def __init__(self) -> None:
        self.level = Level.ALL
        self._wait_ns = SHORTEST_WAIT_NS
        self._changed_ns = 0
        self._went_up = False
        self._shown = self._left_out = 0

    def shown(self) -> None:
        """A frame was decoded in time."""
        self._shown += 1

    def left_out(self) -> None:
        """A frame was given up because the ones before it would take too long."""
        self._left_out += 1

    def at_key_frame(self, now_ns: int, *, has_disposable: bool) -> None:
        """Decoding can begin anew here."""
        shown, left_out = self._shown, self._left_out
        self._shown = self._left_out = 0
        if not left_out:
            self._try_up(now_ns, has_disposable=has_disposable)
        elif self.level is Level.ALL and has_disposable:
            self._down(now_ns, Level.REFERENCES)
        elif self.level is not Level.KEYS and shown * _POOR < left_out:
            self._down(now_ns, Level.KEYS)

    def _down(self, now_ns: int, level: Level) -> None:
        if self._went_up and now_ns - self._changed_ns < 2 * self._wait_ns:
            self._wait_ns = min(2 * self._wait_ns, LONGEST_WAIT_NS)
        self.level, self._changed_ns, self._went_up = level, now_ns, False

    def _try_up(self, now_ns: int, *, has_disposable: bool) -> None:
        if now_ns - self._changed_ns < self._wait_ns:
            return
        if self._went_up:
            self._wait_ns = max(self._wait_ns // 2, SHORTEST_WAIT_NS)
        self._went_up = self.level is not Level.ALL
        if self._went_up:
            use_references = self.level is Level.KEYS and has_disposable
            self.level = Level.REFERENCES if use_references else Level.ALL
            self._changed_ns = now_ns


class Costs:
    """What decoding takes: means over the newest packets, and the rate of frames."""

    def __init__(self) -> None:
        self._key_ns = self._other_ns = 0.0
        self._others_ns: deque[int] = deque(maxlen=_QUICK_OF)
        self._rate_per_ns = 0.0
        self._needed = 1.0
        """Share of the packets that others refer to."""
        self._last: tuple[int, int] | None = None
        self._distance = 0
        """Packets from one key packet to the next, the last time."""

    def took(self, service_ns: int, *, is_key: bool) -> None:
        """A packet was decoded."""
        if is_key:
            self._key_ns += (service_ns - self._key_ns) / (
                _NEWEST if self._key_ns else 1
            )
        else:
            step = _NEWEST if self._other_ns else 1
            self._other_ns += (service_ns - self._other_ns) / step
            self._others_ns.append(service_ns)

    def asked(self, index: int, now_ns: int) -> None:
        """A frame is asked for: how many came since the last one tells the rate."""
        if self._last is not None:
            frames, passed_ns = index - self._last[0], now_ns - self._last[1]
            if passed_ns <= 0:
                return
            share = min(1.0, passed_ns / _RATE_OVER_NS)
            rate = frames / passed_ns
            if not self._rate_per_ns:
                share = 1.0
            self._rate_per_ns += share * (rate - self._rate_per_ns)
        self._last = (index, now_ns)

    def saw(self, *, disposable: bool) -> None:
        """A packet came."""
        self._needed += (float(not disposable) - self._needed) / _NEEDED_OVER

    def saw_key_distance(self, packets: int) -> None:
        """So many packets lay between two key packets."""
        self._distance = packets

    def of(self, keys: int, others: int) -> float:
        """Nanoseconds that so many packets are going to take."""
        return keys * (self._key_ns or self._other_ns) + others * (
            self._other_ns or self._key_ns
        )

    def better_wait(self, backlog_ns: float, since_key: int) -> bool:
        """Whether the next key packet comes before a backlog is worked off.

        Args:
            backlog_ns: What must be decoded to catch up.
            since_key: Packets since the last key packet. Where no distance between two
                is known, as many again are expected.
        """
        # While it catches up, nothing else of the stream wants the processor.
        quick_ns = sorted(self._others_ns)[len(self._others_ns) // 4 :][:1]
        alone_ns = quick_ns[0] if quick_ns else self._other_ns
        load = alone_ns * self._rate_per_ns * self._needed
        if load >= _HOPELESS:
            return True
        if not self._rate_per_ns:
            return False
        expected = self._distance - since_key if self._distance else since_key
        if expected <= 0:  # overdue: there may never be another one
            expected = since_key
        share = alone_ns / self._other_ns if self._other_ns else 1.0
        return expected / self._rate_per_ns < backlog_ns * share / (1 - load)


class Path(NamedTuple):
    """What lies between the decoder and a frame."""

    begins_anew: bool
    """Whether a key frame is on it."""
    keys: int
    others: int
    """Key frames and others that must be decoded before it."""
    is_disposable: bool
    """Whether nothing refers to the frame itself."""


class Shedder:
    """Decides for each frame whether to decode up to it; its caller locks.

    ``came`` may be called by another thread than the rest.
    """

    def __init__(self) -> None:
        self._pressure = Pressure()
        self._costs = Costs()
        self._since_key = 0
        self._has_disposable = False
        self.asked = self._costs.asked
        self.took = self._costs.took
        self.shown = self._pressure.shown

    @property
    def level(self) -> Level:
        """Which frames are decoded at present."""
        return self._pressure.level

    def came(self, *, is_key: bool, disposable: bool) -> None:
        """A packet came."""
        self._has_disposable |= disposable
        self._costs.saw(disposable=disposable)
        if is_key:
            self._costs.saw_key_distance(self._since_key)
            self._since_key = 0
        self._since_key += 1

    def decide(self, path: Path, until_ns: int, now_ns: int) -> int | None:
        """When to stop catching up; None if the frame can be ready in time.

        Raises:
            SkippedError: The frame is not worth beginning with.
        """
        pressure = self._pressure
        if path.begins_anew:
            pressure.at_key_frame(now_ns, has_disposable=self._has_disposable)
        elif pressure.level is Level.KEYS:
            raise SkippedError("only key frames are decoded")
        if pressure.level is Level.REFERENCES and path.is_disposable:
            raise SkippedError("only frames that others refer to are decoded")
        behind_ns = self._costs.of(path.keys, path.others)
        if not behind_ns or behind_ns <= until_ns - now_ns:
            return None
        # A key frame is not passed by: with it the decoder is as near as it can be.
        passes = not path.begins_anew or pressure.level is Level.KEYS
        if passes and self._costs.better_wait(behind_ns, self._since_key):
            pressure.left_out()
            raise SkippedError("the frames before it would take too long")
        return until_ns
