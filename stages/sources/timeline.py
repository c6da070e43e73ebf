"""From sorted time stamps to media time, and what befell on the way. Pure."""

from collections import deque
from fractions import Fraction
from statistics import median_low

from edgepipe.pipeline.source_events import EventKind, SourceEvent
from edgepipe.stages.sources.stamps import Stamped

GAP_FRAMES = 4
"""Frames further apart than so many usual ones have a gap between them."""
_USUAL = 15
"""Distances between frames that say what is usual."""


class Timeline:
    """Gives each frame its media time, which begins at 0, rises and goes over loops.

    A stamp that comes again is moved up by half of what is left of a frame, so that
    rates and speeds computed from it stay sane.

    Args:
        tick_ns: Nanoseconds in a tick.
        frame_ns: Between two frames, until the recording has shown what is usual.
        zero: The stamp that is media time 0; None: that of the first frame.

    Attributes:
        repaired: How many stamps did not rise, or were none.
    """

    def __init__(
        self, tick_ns: Fraction, frame_ns: int, zero: int | None = None
    ) -> None:
        self._tick_ns = tick_ns
        self._steps: deque[int] = deque(maxlen=_USUAL)
        self._frame_ns = frame_ns
        self.repaired = 0
        self._last_ns = self._sure_ns = -1
        """Media time of the last frame, and of the last that needed no help."""
        self._laps = 0
        self._lap_from_ns = 0
        self._first = zero
        self._last_stamp: int | None = None
        self._turns = 0

    @property
    def usual_ns(self) -> int:
        """The median of the last distances between frames."""
        return median_low(self._steps) if self._steps else self._frame_ns

    def begin_lap(self, tick_ns: Fraction | None = None) -> None:
        """The recording begins again; its ticks may be others, if it was replaced."""
        self._tick_ns = tick_ns or self._tick_ns
        self._laps += 1
        self._lap_from_ns = self._last_ns + self.usual_ns
        self._first = self._last_stamp = None

    def place(self, stamped: Stamped) -> tuple[int, list[SourceEvent]]:
        """The media time of the next frame, and what befell before it."""
        again = stamped.pts == self._last_stamp
        self._last_stamp = stamped.pts
        events: list[SourceEvent] = []
        if self._first is None:
            self._first, self._turns = stamped.pts, stamped.turns
            if self._laps:
                events.append(SourceEvent(EventKind.LOOP, f"lap {self._laps + 1}"))
        pts_ns = self._lap_from_ns + self._ns(stamped.pts - self._first)
        if stamped.turns > self._turns:
            self._turns = stamped.turns
            events.append(SourceEvent(EventKind.WRAP, "the counter of stamps ran over"))
        if stamped.kind is not None:
            amount_ns = self._ns(stamped.amount)
            event = SourceEvent(stamped.kind, stamped.detail, amount_ns=amount_ns)
            events.append(event)
            self.repaired += stamped.kind is not EventKind.DISCONTINUITY
        elif again:
            events.append(SourceEvent(EventKind.DUPLICATE, "a time stamp came twice"))
            self.repaired += 1
        pts_ns = self._risen(pts_ns, events)
        return pts_ns, [event._replace(pts_ns=pts_ns) for event in events]

    def _risen(self, pts_ns: int, events: list[SourceEvent]) -> int:
        """A time after the last one; adds the gap between both, if there is one."""
        step_ns, usual_ns = pts_ns - self._last_ns, self.usual_ns
        if pts_ns <= self._last_ns:
            left_ns = self._sure_ns + usual_ns - self._last_ns
            pts_ns = self._last_ns + max(1, left_ns // 2)
        else:
            if self._last_ns >= 0:
                if self._steps and step_ns > GAP_FRAMES * usual_ns:
                    lost_ns = step_ns - usual_ns
                    words = f"nothing for {step_ns / 1e9:.3f} s"
                    gap = SourceEvent(EventKind.GAP, words, amount_ns=lost_ns)
                    events.append(gap)
                self._steps.append(step_ns)
            self._sure_ns = pts_ns
        self._last_ns = pts_ns
        return pts_ns

    def _ns(self, ticks: int) -> int:
        return ticks * self._tick_ns.numerator // self._tick_ns.denominator
