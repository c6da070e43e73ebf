"""The running integral of one channel, cut at marks."""

import copy
import math
from bisect import bisect_left, insort
from dataclasses import replace

from edgepipe.telemetry.energy_part import Part
from edgepipe.telemetry.sensors.reading import Kind, Quality, Reading

SHORTEST_GAP_NS = 500_000_000
GAP_PERIODS = 5
"""Two readings that are further apart than both of these are not joined."""

CELL_NS = 1_000_000_000
_LEVEL_NS = 500_000_000
_PERIOD_MEMORY = 16


class Integral:
    """Sums of what was read, one :class:`Part` for each stretch between marks.

    Power between two readings is taken to be a straight line. A reading without a value
    breaks the line; a counter knows across it all the same. A counter that goes back
    was reset, and what it counted in between is lost. So is what came before a count
    that its sensor calls doubtful: one that began anew, or may have gone round.

    Args:
        kind: POWER or ENERGY.
        period_ns: How often readings are expected; learnt when None.
    """

    def __init__(self, kind: Kind, period_ns: int | None = None) -> None:
        self._counter = kind is Kind.ENERGY
        self._period_ns = None if period_ns is None else float(period_ns)
        self._last: Reading | None = None
        self._value = 0.0
        self._broken = False
        self._lost = False
        """Whether a counter has lost count since the last reading."""
        self._level = math.nan
        self._cell = _Cell()
        self._ahead: list[int] = []
        self._part = Part(0, 0)
        self._begun = False
        self.total_j = 0.0
        """All that was ever covered, without correction."""
        self.covered_ns = 0
        self.parts: list[Part] = []
        """The stretches between marks that readings have passed."""

    @property
    def reached_ns(self) -> int | None:
        """The time of the last reading that counted."""
        return None if self._last is None else self._last.at_ns

    @property
    def gap_limit_ns(self) -> float:
        """The longest time between two readings that are joined."""
        return max(SHORTEST_GAP_NS, GAP_PERIODS * (self._period_ns or 0.0))

    def mark(self, at_ns: int) -> None:
        """Cut at this moment, which no reading has passed."""
        if at_ns not in self._ahead:
            insort(self._ahead, at_ns)

    def unmark(self, at_ns: int) -> None:
        """Join what lies before and after a mark."""
        if at_ns in self._ahead:
            self._ahead.remove(at_ns)
            return
        starts = [part.start_ns for part in self.parts]
        here = bisect_left(starts, at_ns)
        if here < len(starts) and starts[here] == at_ns:
            after = self.parts.pop(here)
            if here:
                self.parts[here - 1] = self.parts[here - 1].joined(after)
        elif self._begun and self._part.start_ns == at_ns:
            self._join_open()

    def _join_open(self) -> None:
        if self.parts:
            before = self.parts.pop()
            self._part = before.joined(replace(self._part, end_ns=before.end_ns))
        else:
            self._begun = False

    def copy(self) -> "Integral":
        """Another one in the same state."""
        twin = copy.copy(self)
        twin._ahead = list(self._ahead)
        twin._part = replace(self._part)
        twin._cell = copy.copy(self._cell)
        twin.parts = list(self.parts)
        return twin

    def add(self, reading: Reading) -> None:
        """Take in the next reading; one that is not later than the last is left out."""
        if reading.value is None or not math.isfinite(reading.value):
            self._broken = True
            return
        if self._last is not None and reading.at_ns <= self._last.at_ns:
            return
        self._lost = self._counter and (
            reading.value < self._value or reading.quality is Quality.DOUBTFUL
        )
        self._advance(reading.at_ns, reading.value)
        self._part.see(reading.at_ns, reading.quality is Quality.DOUBTFUL)
        self._cell_of(reading.at_ns, reading.value)
        self._last, self._value, self._broken = reading, reading.value, False

    def close(self, until_ns: int) -> None:
        """Let time pass without a reading, up to and including this moment."""
        while self._ahead and self._ahead[0] <= until_ns:
            self._cut()

    def _advance(self, at_ns: int, value: float) -> None:
        last = self._last
        if last is None:
            self._level = value
            self.close(at_ns)
            return
        length_ns = at_ns - last.at_ns
        if self._joins(length_ns):
            self._cover(last.at_ns, at_ns, value)
            self._compare(length_ns, value)
        else:
            self.close(at_ns)
            self._part.resets += self._lost
            self._level = value
            self._cell = _Cell()
        self._learn(length_ns)

    def _joins(self, length_ns: int) -> bool:
        if self._counter:
            return not self._lost
        return not self._broken and length_ns <= self.gap_limit_ns

    def _cover(self, from_ns: int, to_ns: int, value: float) -> None:
        """Add a straight line, cut at the marks that lie on it."""
        level = self._level + (value - self._level) * -math.expm1(
            (from_ns - to_ns) / _LEVEL_NS
        )
        start = 0.0
        at_ns = from_ns
        while self._ahead and self._ahead[0] <= to_ns:
            cut_ns = max(self._ahead[0], from_ns)
            end = (cut_ns - from_ns) / (to_ns - from_ns)
            self._piece(at_ns, cut_ns, start, end, value, level)
            start, at_ns = end, cut_ns
            self._cut()
        self._piece(at_ns, to_ns, start, 1.0, value, level)
        self._level = level

    def _piece(
        self,
        from_ns: int,
        to_ns: int,
        start: float,
        end: float,
        value: float,
        level: float,
    ) -> None:
        step = value - self._value
        if self._counter:
            joules = step * (end - start)
        else:
            middle_w = self._value + step * (start + end) / 2
            joules = middle_w * (to_ns - from_ns) / 1e9
            self._part.rise_w += step * (end - start)
            self._part.level_rise_w += (level - self._level) * (end - start)
        self._part.joules += joules
        self._part.covered_ns += to_ns - from_ns
        self.total_j += joules
        self.covered_ns += to_ns - from_ns

    def _compare(self, length_ns: int, value: float) -> None:
        step = value - self._value
        part = self._part
        part.changes += self._counter and step > 0
        part.step_square += step * step
        part.largest_step = max(part.largest_step, abs(step))
        part.steps += 1
        part.stepped_ns += length_ns

    def _cell_of(self, at_ns: int, value: float) -> None:
        if self._counter:
            return
        found = self._cell.add(at_ns // CELL_NS, value)
        if found is not None:
            earlier, difference = found
            self._part.compare(earlier * CELL_NS, difference)

    def _cut(self) -> None:
        at_ns = self._ahead.pop(0)
        if self._begun:
            self._part.end_ns = at_ns
            self.parts.append(self._part)
        self._part = Part(at_ns, at_ns)
        self._begun = True

    def _learn(self, length_ns: int) -> None:
        if self._period_ns is None:
            self._period_ns = float(length_ns)
            return
        # A long pause counts as the longest that is none: if pauses are the rule, they
        # are the period after a while.
        seen_ns = min(float(length_ns), self.gap_limit_ns)
        self._period_ns += (seen_ns - self._period_ns) / _PERIOD_MEMORY


class _Cell:
    """Means of readings over whole seconds, compared with the second before."""

    def __init__(self) -> None:
        self._number: int | None = None
        self._sum = 0.0
        self._count = 0
        self._before: float | None = None

    def add(self, number: int, value: float) -> tuple[int, float] | None:
        """Count a reading.

        Returns:
            When it begins a new cell: the number of the earlier of the two before, and
            by how much they differ.
        """
        found = None
        if self._number is not None and number != self._number:
            mean = self._sum / self._count
            if self._before is not None:
                found = self._number - 1, mean - self._before
            self._before = mean if number == self._number + 1 else None
            self._sum, self._count = 0.0, 0
        self._number = number
        self._sum += value
        self._count += 1
        return found
