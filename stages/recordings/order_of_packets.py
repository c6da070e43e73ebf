"""Which stamps packets get that are kept in decoding order. Pure."""

from collections import deque
from collections.abc import Hashable, Iterator
from typing import NamedTuple

from edgepipe.pipeline.packets import Packet, Taken

MOST_UNSHOWN = 32
"""A packet that so many later ones have overtaken will not be shown any more."""


class Placed(NamedTuple):
    """A packet with its times, in nanoseconds."""

    packet: Packet
    stamp_ns: int
    """When it is shown."""
    decoded_ns: int
    """When it is decoded: never falls, and no later packet is shown before it."""


class PacketOrder:
    """Holds packets back until it is known when they are shown."""

    def __init__(self) -> None:
        self._waiting: deque[Packet] = deque()
        self._stamps: dict[Hashable, int] = {}
        """By tag, of those whose frames have come."""
        self._last_ns = 0

    def take(self, taken: Taken, stamp_ns: int) -> Iterator[Placed]:
        """Add what a frame brought; give what can be kept now, in decoding order."""
        for packet in taken.packets:
            self._waiting.append(packet)
            if packet.captured_ns is not None:
                self._stamps[packet.tag] = packet.captured_ns
        if any(packet.tag == taken.tag for packet in self._waiting):
            self._stamps[taken.tag] = stamp_ns
        while self._waiting and (
            self._is_placed(self._waiting[0]) or len(self._waiting) > MOST_UNSHOWN
        ):
            yield self._place()

    def rest(self) -> Iterator[Placed]:
        """Give everything, because no frame follows."""
        while self._waiting:
            yield self._place()

    def _is_placed(self, packet: Packet) -> bool:
        return not packet.is_shown or packet.tag in self._stamps

    def _place(self) -> Placed:
        packet = self._waiting.popleft()
        stamp_ns = self._stamps.pop(packet.tag, None)
        if stamp_ns is None:
            hidden = packet._replace(is_shown=False)
            return Placed(hidden, self._last_ns, self._last_ns)
        # Frames that have not come yet are all shown later than those that have.
        ahead = (self._stamps.get(later.tag) for later in self._waiting)
        decoded_ns = min([stamp_ns, *(ns for ns in ahead if ns is not None)])
        self._last_ns = max(self._last_ns, decoded_ns)
        return Placed(packet, stamp_ns, self._last_ns)
