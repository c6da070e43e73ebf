"""A fixed ring of network-input buffers, lent to frames and given back."""

from collections import deque
from dataclasses import dataclass
from threading import Lock

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """One place in the ring. Whoever holds the frame holds the slot."""

    index: int
    array: NDArray[np.uint8]
    """(height, width, 3), C-contiguous, in the model's colour order."""
    ring: "BufferRing"

    def give_back(self) -> None:
        """Return the slot to its ring."""
        self.ring.give_back(self)

    def write_off(self) -> None:
        """Its holder hangs: the ring gets another one in its place."""
        self.ring.write_off(self)


@dataclass(frozen=True, slots=True)
class RingStatistics:
    """A snapshot of one ring."""

    capacity: int
    lent: int
    peak_lent: int


class BufferRing:
    """``capacity`` equal buffers, allocated once; thread-safe."""

    def __init__(self, capacity: int, height: int, width: int) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, got {capacity}")
        self._capacity = capacity
        # Zeroed on purpose: the pages are touched here and not on the first frames.
        memory = np.zeros((capacity, height, width, 3), np.uint8)
        memory[...] = 0
        self._slots = [Slot(i, memory[i], self) for i in range(capacity)]
        self._free = deque(self._slots)
        self._is_lent = [False] * capacity
        self._peak_lent = 0
        self._lock = Lock()

    def lend(self) -> Slot:
        """Take a free slot; the caller gives it back with :meth:`give_back`.

        Raises:
            BufferError: All slots are lent. The scheduler's bound on frames in flight
                makes this a bug, never a wait.
        """
        with self._lock:
            if not self._free:
                raise BufferError(f"all {self._capacity} buffers are lent")
            slot = self._free.popleft()
            self._is_lent[slot.index] = True
            self._peak_lent = max(self._peak_lent, self._capacity - len(self._free))
            return slot

    def give_back(self, slot: Slot) -> None:
        """Return a slot; its contents may be overwritten from now on."""
        with self._lock:
            if self._slots[slot.index] is not slot:
                return  # written off: its holder has come back after all
            if not self._is_lent[slot.index]:
                raise ValueError(f"slot {slot.index} was given back twice")
            self._is_lent[slot.index] = False
            self._free.append(slot)

    def write_off(self, slot: Slot) -> None:
        """Put a new buffer in the place of one whose holder may use it for ever.

        Giving the old one back does nothing from now on.
        """
        with self._lock:
            if self._slots[slot.index] is slot and self._is_lent[slot.index]:
                fresh = Slot(slot.index, np.zeros_like(slot.array), self)
                self._slots[slot.index] = fresh
                self._is_lent[slot.index] = False
                self._free.append(fresh)

    def statistics(self) -> RingStatistics:
        """Capacity, slots lent now and most ever lent."""
        with self._lock:
            lent = self._capacity - len(self._free)
            return RingStatistics(self._capacity, lent, self._peak_lent)
