"""Packets come in decoding order, frames are shown in another. Pure."""

import heapq
from collections.abc import Iterator


class PresentationOrder:
    """Sorts time stamps that come in decoding order, and holds back as few as it can.

    A packet's presentation stamp is never before its decoding stamp, and decoding
    stamps only rise. So once a packet with decoding stamp d has been read, every
    presentation stamp up to d is settled.
    """

    def __init__(self) -> None:
        self._waiting: list[int] = []
        self._settled_to: int | None = None

    def push(self, stamp: int, decoding_stamp: int) -> None:
        """Add the stamps of a packet that was read."""
        heapq.heappush(self._waiting, stamp)
        self._settled_to = decoding_stamp

    def settled(self) -> Iterator[int]:
        """Take out, in order, the stamps that nothing can precede any more."""
        while (
            self._waiting
            and self._settled_to is not None
            and self._waiting[0] <= self._settled_to
        ):
            yield heapq.heappop(self._waiting)

    def rest(self) -> Iterator[int]:
        """Take out all stamps in order, because no packet follows."""
        while self._waiting:
            yield heapq.heappop(self._waiting)
