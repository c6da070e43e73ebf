"""When a stream's frames come, when the next is due, and whether their dates are true.

**A clock step or a stalled camera?** Both show frames that seem to be seconds old.
After a stall the frames are old indeed: they come late, hence after a gap. When a clock
was set, the stamps jump between two frames that come as regularly as ever. So a jump of
the stamps is put right only if the arrivals around it were regular; otherwise the
stamps are believed. So are stamps that make frames fresher and are not from the future:
who was late has caught up, or the stamps were wrong before.
"""

SILENCE = 3
"""Periods without a frame after which nothing is expected any more."""
LEAST_AHEAD_NS = 1_000_000
"""A stamp may be so far ahead of the arrival, or one period, before it counts as wrong:
clocks are read one after the other."""
LEARN_FROM = 9
"""Intervals of which the middle one is taken for the period."""


class Arrivals:
    """The arrivals of one stream. All times are monotonic nanoseconds."""

    __slots__ = (
        "_age_ns",
        "_given",
        "_intervals",
        "_least_age_ns",
        "last_ns",
        "offset_ns",
        "period_ns",
    )

    def __init__(self, period_ns: int = 0) -> None:
        """``period_ns``: the declared period; 0: it is learned."""
        self._given = period_ns > 0
        self.period_ns = period_ns
        """Declared or learned; 0 while not known."""
        self.last_ns: int | None = None
        self.offset_ns = 0
        """How far the stamps are ahead of the truth since the last clock step."""
        self._age_ns = self._least_age_ns = 0
        """Of the last frame, and the least since the last clock step."""
        self._intervals: list[int] = []

    def note(self, now_ns: int, capture_ns: int) -> bool:
        """Take an arrival in; return whether the stamps jumped at this frame.

        The true capture time is ``capture_ns - offset_ns`` after the call.
        """
        last_ns, self.last_ns = self.last_ns, now_ns
        age_ns = now_ns - capture_ns + self.offset_ns
        jumped = False
        if age_ns < -max(self.period_ns, LEAST_AHEAD_NS):
            # Nothing is captured after it has arrived.
            self.offset_ns -= age_ns - self._age_ns
            age_ns = self._age_ns
            jumped = True
        elif last_ns is not None:
            interval_ns, period_ns = now_ns - last_ns, self.period_ns
            if period_ns and period_ns <= 2 * interval_ns <= 3 * period_ns:
                jump_ns = age_ns - self._age_ns
                if jump_ns > period_ns or age_ns < self._least_age_ns - period_ns:
                    age_ns = self._corrected(now_ns - capture_ns, jump_ns)
                    jumped = True
        if last_ns is not None and not self._given:
            self._learn(now_ns - last_ns)
        self._age_ns = age_ns
        if last_ns is None or jumped or age_ns < self._least_age_ns:
            self._least_age_ns = age_ns
        return jumped

    def _corrected(self, raw_age_ns: int, jump_ns: int) -> int:
        """Put a jump of the stamps right; the frame's age after that.

        A stamp that makes the frame fresher than it was believed to be, and not one
        from the future, is as good as the first one was: it is believed as it stands.
        Otherwise a stream that began with wrong stamps would keep them for ever.
        """
        if -self.period_ns <= raw_age_ns <= self._age_ns + self.period_ns:
            self.offset_ns = 0
            return raw_age_ns
        self.offset_ns -= jump_ns
        return self._age_ns

    def _learn(self, interval_ns: int) -> None:
        intervals = self._intervals
        intervals.append(interval_ns)
        if len(intervals) > LEARN_FROM:
            del intervals[0]
        if len(intervals) >= LEARN_FROM // 2:
            self.period_ns = sorted(intervals)[len(intervals) // 2]

    def next_ns(self, now_ns: int) -> int | None:
        """When the next frame is expected; None if none is.

        A frame that is late is expected at any moment for half a period; after that it
        is taken for lost, and the one after it is expected.
        """
        last_ns, period_ns = self.last_ns, self.period_ns
        if last_ns is None or not period_ns:
            return None
        waited_ns = now_ns - last_ns
        if waited_ns >= SILENCE * period_ns:
            return None
        periods = max(1, (2 * waited_ns + period_ns) // (2 * period_ns))
        return max(now_ns, last_ns + periods * period_ns)
