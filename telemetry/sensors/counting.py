"""Energy counters that run over or start anew, made into ones that only grow."""

from typing import NamedTuple

_SETTLING_S = 1.0
"""A counter may be brought up to date this late, and all at once."""


class Counted(NamedTuple):
    """What a counter has counted, and whether something may be missing."""

    total: int
    """In the counter's own unit; never less than before."""
    doubt: str = ""


class GrowingCounter:
    """Undoes a counter's wraps and survives its restarts.

    Where the counter starts anew (a driver was loaded again, the machine was
    suspended), what it counted between the last reading and the restart is lost: the
    total stands still for that interval, and the doubt says so.

    Args:
        per_joule: Counts in one joule.
        wraps_at: The highest count, after which 0 comes; None for one that never wraps.
        most_w: More than this nothing on this counter can take. A growth beyond it is
            a restart; an interval so long that this much power would go once round is
            a gap.
    """

    def __init__(self, per_joule: int, wraps_at: int | None, most_w: float) -> None:
        self._most_per_s = per_joule * most_w
        self._turn = None if wraps_at is None else wraps_at + 1
        self._total = 0
        self._last: tuple[int, int] | None = None

    @property
    def turn_s(self) -> float | None:
        """The shortest time that once round can take; None for no wrap.

        Readings should not lie further apart than a quarter of it.
        """
        return None if self._turn is None else self._turn / self._most_per_s

    def take(self, count: int, at_ns: int) -> Counted:
        """The total at a reading; times may not go back."""
        if self._last is None:
            self._total, self._last = count, (count, at_ns)
            return Counted(self._total)
        before, before_ns = self._last
        self._last = (count, at_ns)
        elapsed_s = (at_ns - before_ns) / 1e9
        grown = count - before
        if self._turn is not None:
            grown %= self._turn
        if grown < 0 or grown > self._most_per_s * (elapsed_s + _SETTLING_S):
            return Counted(self._total, "the counter started anew: a part is missing")
        self._total += grown
        if self.turn_s is not None and elapsed_s >= self.turn_s:
            return Counted(
                self._total,
                f"not read for {elapsed_s:.0f} s: the counter may have gone round",
            )
        return Counted(self._total)
