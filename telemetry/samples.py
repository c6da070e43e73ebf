"""A bounded store of measured integers that is cheap to append to."""

from array import array

import numpy as np
from numpy.typing import NDArray

DEFAULT_CAPACITY = 1 << 17
"""131 072 samples: 72 minutes at 30 per second, 1 MiB."""


class Samples:
    """The newest ``capacity`` samples, 64-bit integers, and how many there ever were.

    At the bound the oldest sample is overwritten. The memory is taken and touched in
    the constructor, so that filling it during a run does not look like a leak. One
    thread may append while others read.
    """

    __slots__ = ("_capacity", "_total", "_values")

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, got {capacity}")
        self._capacity = capacity
        self._values = array("q", bytes(8 * capacity))
        self._total = 0

    def append(self, value: int) -> None:
        """Keep ``value``, in place of the oldest one when the store is full."""
        total = self._total
        self._values[total % self._capacity] = value
        self._total = total + 1

    def copy(self) -> "Samples":
        """Another store with the same samples and the same bound."""
        other = Samples(1)
        other._capacity = self._capacity
        other._values = self._values[:]
        other._total = self._total
        return other

    def __len__(self) -> int:
        """How many samples are kept."""
        return min(self._total, self._capacity)

    @property
    def capacity(self) -> int:
        """How many it keeps."""
        return self._capacity

    @property
    def total(self) -> int:
        """How many samples were ever appended, kept or not."""
        return self._total

    def values(self) -> NDArray[np.int64]:
        """A copy of the kept samples, (n,), the oldest first."""
        total = self._total
        values = np.array(self._values, np.int64)
        if total <= self._capacity:
            return values[:total]
        return np.roll(values, -(total % self._capacity))
