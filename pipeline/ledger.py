"""The books: every captured frame has exactly one fate."""

from collections import Counter
from dataclasses import dataclass

from edgepipe.scheduler.fates import Fate, Reason


@dataclass(frozen=True, slots=True)
class Account:
    """One stream's books at one instant."""

    captured: int
    completed: int
    late: int
    dropped: dict[str, int]
    """Reason to count; only reasons that occurred."""
    failed: dict[str, int]
    in_flight: int

    @property
    def balanced(self) -> bool:
        """Whether every captured frame is accounted for exactly once."""
        return self.captured == (
            self.completed
            + self.late
            + sum(self.dropped.values())
            + sum(self.failed.values())
            + self.in_flight
        )


class LedgerError(AssertionError):
    """A frame entered twice, left twice or left without having entered: a bug."""


class _Book:
    __slots__ = ("captured", "fates", "live")

    def __init__(self) -> None:
        self.captured = 0
        self.fates: Counter[tuple[Fate, Reason | None]] = Counter()
        self.live: set[int] = set()


class Ledger:
    """Counts frames in and out, per stream. The caller serialises the calls.

    The frames in flight are kept as a set and not computed from the counters, so that
    the balance is a check and not a definition. Warm-up frames have books of their
    own: they must balance too, but are not part of what is measured.
    """

    def __init__(self, streams: list[str]) -> None:
        self._books = {(name, warm): _Book() for name in streams for warm in (0, 1)}

    def captured(self, stream: str, sequence: int, *, warm_up: bool = False) -> None:
        """A frame has entered: the one way in.

        Raises:
            LedgerError: It is in flight already.
        """
        book = self._books[stream, warm_up]
        if sequence in book.live:
            raise LedgerError(f"frame {sequence} of {stream!r} was captured twice")
        book.captured += 1
        book.live.add(sequence)

    def fate(
        self,
        stream: str,
        sequence: int,
        fate: Fate,
        reason: Reason | None = None,
        *,
        warm_up: bool = False,
    ) -> None:
        """A frame has left: the one way out.

        Raises:
            LedgerError: It is not in flight, or the fate lacks its reason.
        """
        if (reason is None) == (fate in (Fate.DROPPED, Fate.FAILED)):
            raise LedgerError(f"fate {fate.value} with reason {reason}")
        book = self._books[stream, warm_up]
        if sequence not in book.live:
            raise LedgerError(f"frame {sequence} of {stream!r} is not in flight")
        book.live.remove(sequence)
        book.fates[fate, reason] += 1

    def account(self, stream: str, *, warm_up: bool = False) -> Account:
        """The stream's books now."""
        book = self._books[stream, warm_up]

        def by_reason(fate: Fate) -> dict[str, int]:
            return {
                reason.value: count
                for (kind, reason), count in sorted(
                    book.fates.items(), key=lambda item: str(item[0])
                )
                if kind is fate and reason is not None
            }

        return Account(
            book.captured,
            book.fates[Fate.COMPLETED, None],
            book.fates[Fate.LATE, None],
            by_reason(Fate.DROPPED),
            by_reason(Fate.FAILED),
            len(book.live),
        )

    def in_flight(self, stream: str) -> set[int]:
        """Sequences of the stream's frames that have come in and not left."""
        return self._books[stream, False].live | self._books[stream, True].live

    @property
    def balanced(self) -> bool:
        """Whether all books balance, the warm-up's too."""
        return all(
            book.captured == book.fates.total() + len(book.live)
            for book in self._books.values()
        )
