"""When something held, and how often something happened, in bounded memory.

At its bound a timeline joins neighbours in pairs: it loses where within a pair, and
never how much.
"""

from collections.abc import Iterable
from typing import NamedTuple

MOST = 1024


class Span(NamedTuple):
    """A stretch in which something held for a part of the time, or all of it."""

    from_ns: int
    until_ns: int
    held_ns: int


class Spans:
    """Stretches of time, added in order; those that touch become one.

    Args:
        most: Stretches that are told apart, at least 2.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._spans: list[Span] = []
        self.total_ns = 0
        """For how long it held, ever."""

    def add(self, from_ns: int, until_ns: int) -> None:
        """It held from here to there; what was added before is not counted again."""
        last = self._spans[-1] if self._spans else None
        if last is not None:
            from_ns = max(from_ns, last.until_ns)
        if until_ns <= from_ns:
            return
        self.total_ns += until_ns - from_ns
        if last is not None and last.until_ns == from_ns:
            held_ns = last.held_ns + until_ns - from_ns
            self._spans[-1] = Span(last.from_ns, until_ns, held_ns)
        else:
            self._spans.append(Span(from_ns, until_ns, until_ns - from_ns))
        if len(self._spans) > self._most:
            self._join()

    def held_ns(self, start_ns: int, end_ns: int) -> int:
        """For how long it held within a window; additive over adjacent ones."""
        return self._before(end_ns) - self._before(start_ns)

    def _before(self, at_ns: int) -> int:
        return sum(_held_before(span, at_ns) for span in self._spans)

    def _join(self) -> None:
        spans, pairs = self._spans, range(0, len(self._spans) - 1, 2)
        joined = [
            Span(
                spans[i].from_ns,
                spans[i + 1].until_ns,
                spans[i].held_ns + spans[i + 1].held_ns,
            )
            for i in pairs
        ]
        self._spans = joined + spans[2 * len(joined) :]


def _held_before(span: Span, at_ns: int) -> int:
    if at_ns <= span.from_ns:
        return 0
    length_ns = span.until_ns - span.from_ns
    return span.held_ns * min(at_ns - span.from_ns, length_ns) // length_ns


class Counts:
    """Numbers with their times, added in order.

    Args:
        most: Times that are told apart, at least 2.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._counts: list[tuple[int, float]] = []
        self.total = 0.0

    def add(self, at_ns: int, number: float) -> None:
        """So much came at this time."""
        self.total += number
        if self._counts and self._counts[-1][0] == at_ns:
            number += self._counts.pop()[1]
        self._counts.append((at_ns, number))
        if len(self._counts) > self._most:
            counts, pairs = self._counts, range(0, len(self._counts) - 1, 2)
            joined = [(counts[i][0], counts[i][1] + counts[i + 1][1]) for i in pairs]
            self._counts = joined + counts[2 * len(joined) :]

    def within(self, start_ns: int, end_ns: int) -> float:
        """How much came from ``start_ns`` on and before ``end_ns``."""
        return _sum(n for at_ns, n in self._counts if start_ns <= at_ns < end_ns)


def _sum(numbers: Iterable[float]) -> float:
    return sum(numbers, 0.0)
