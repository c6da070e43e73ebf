"""Packets come in decoding order, frames are shown in another. Pure."""

import heapq
from collections.abc import Iterator
from typing import Generic, TypeVar

MOST_REORDERED = 16
"""No codec shows a frame later than so many after the one that it decodes next."""

T = TypeVar("T")


class PresentationOrder(Generic[T]):
    """Sorts what comes in decoding order, and holds back as little as it can.

    A packet's presentation stamp is never before its decoding stamp, and decoding
    stamps only rise. So once a packet with decoding stamp d has been read, every
    presentation stamp up to d is settled. Where a packet has none, nothing is known;
    then only the depth of all reordering bounds what is held back.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, T]] = []
        self._settled_to: int | None = None
        self._count = 0

    def push(self, stamp: int, decoding_stamp: int | None, item: T) -> None:
        """Add a packet that was read; equal stamps stay in the order of reading."""
        heapq.heappush(self._waiting, (stamp, self._count, item))
        self._count += 1
        if decoding_stamp is not None:
            self._settled_to = decoding_stamp

    def settled(self) -> Iterator[tuple[int, T]]:
        """Take out, in order, what nothing can precede any more."""
        waiting = self._waiting
        while waiting and (
            len(waiting) > MOST_REORDERED
            or (self._settled_to is not None and waiting[0][0] <= self._settled_to)
        ):
            stamp, _, item = heapq.heappop(waiting)
            yield stamp, item

    def rest(self) -> Iterator[tuple[int, T]]:
        """Take out everything in order, because no packet follows."""
        while self._waiting:
            stamp, _, item = heapq.heappop(self._waiting)
            yield stamp, item
