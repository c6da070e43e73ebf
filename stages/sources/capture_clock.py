"""When a picture that came over a network was taken. Pure."""

WORST_DRIFT_PPM = 200
"""How much faster than ours a camera's clock may run. Quartz keeps within 100."""
_JUMP_NS = 10_000_000_000
"""A media time that differs by more from what is expected begins anew."""


class CaptureClock:
    """Maps a camera's media time to the monotonic clock by when its frames come.

    A frame cannot come before it is taken, and some come almost without a wait. So the
    smallest distance between coming and media time is the true one but for the
    shortest way, and what other frames take longer is the network's doing: their age.
    """

    def __init__(self) -> None:
        self._offset_ns: int | None = None
        self._came_ns = 0

    def captured_ns(
        self, came_ns: int, media_ns: int | None, told_ns: int | None = None
    ) -> int:
        """When the frame was taken, never after it came.

        Args:
            came_ns: When it came.
            media_ns: Its media time; None if it has none.
            told_ns: When it was taken as the camera says, on the monotonic clock; None
                if it does not, or if its clock is not to be trusted.
        """
        if told_ns is not None and told_ns <= came_ns:
            return told_ns
        if media_ns is None:
            return came_ns
        return media_ns + self._offset(came_ns, media_ns)

    def _offset(self, came_ns: int, media_ns: int) -> int:
        seen_ns, known_ns = came_ns - media_ns, self._offset_ns
        if known_ns is not None:
            # Let it rise with time, or a camera whose clock is slow would seem late.
            passed_ns = max(0, came_ns - self._came_ns)
            known_ns += passed_ns * WORST_DRIFT_PPM // 1_000_000
        if known_ns is None or abs(seen_ns - known_ns) > _JUMP_NS:
            known_ns = seen_ns
        self._offset_ns, self._came_ns = min(known_ns, seen_ns), came_ns
        return self._offset_ns
