"""From media time to monotonic time: when a frame counts as captured."""

from enum import Enum
from fractions import Fraction
from threading import Lock


class Pace(Enum):
    """How fast a recording is played."""

    REALTIME = "realtime"
    """As it was recorded: frames appear when a camera would have delivered them."""
    FAST = "fast"
    """As fast as the pipeline takes them: the source waits for credits."""


class Epoch:
    """The moment at which media time is 0, for all streams of one recording."""

    def __init__(self) -> None:
        self._at_ns: int | None = None
        self._lock = Lock()

    def ns(self, now_ns: int) -> int:
        """That moment; it is now if nobody has asked before."""
        with self._lock:
            if self._at_ns is None:
                self._at_ns = now_ns
            return self._at_ns

    def move(self, by_ns: int) -> None:
        """Let all streams go on later: one of them was kept waiting."""
        with self._lock:
            if self._at_ns is not None:
                self._at_ns += by_ns


class MediaClock:
    """Maps the media time of one stream to the monotonic clock.

    ``REALTIME`` fixes the epoch at the first frame. A source that may be made to wait
    (``yields``) moves its epoch by the time it was kept waiting, as a paused player
    does; one that may not keeps its schedule, as a camera does, and a frame that is
    looked at late was still captured when it was due.

    Args:
        pace: How fast a recording is played.
        yields: Whether the source may be made to wait.
        speed: How many seconds of the recording pass in one, with ``REALTIME``.
        epoch: What it shares with others; None: its first frame is due at once.
    """

    def __init__(
        self,
        pace: Pace,
        *,
        yields: bool,
        speed: Fraction = Fraction(1),
        epoch: Epoch | None = None,
    ) -> None:
        self._pace = pace
        self._yields = yields
        self._speed = speed.numerator, speed.denominator
        self._epoch = epoch

    def capture_ns(self, pts_ns: int | None, now_ns: int) -> int:
        """When the frame with this media time is (or was) captured."""
        if self._pace is Pace.FAST or pts_ns is None:
            return now_ns
        times, by = self._speed
        passed_ns = pts_ns * by // times
        if self._epoch is None:
            self._epoch = Epoch()
            self._epoch.ns(now_ns - passed_ns)
        due_ns = self._epoch.ns(now_ns) + passed_ns
        if self._yields and due_ns < now_ns:
            self._epoch.move(now_ns - due_ns)
            return now_ns
        return due_ns
