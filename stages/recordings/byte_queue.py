"""A queue between threads that is bounded by bytes."""

from collections import deque
from threading import Condition
from typing import Generic, TypeVar

T = TypeVar("T")


class ByteQueue(Generic[T]):
    """First in, first out, up to so many bytes; one item always fits."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._items: deque[tuple[T, int]] = deque()
        self._changed = Condition()
        self._bytes = 0
        self._is_closed = False

    def put(self, item: T, size: int, *, wait: bool) -> bool:
        """Add an item; False if it was not taken: no room, or the queue is closed."""
        with self._changed:
            while not self._is_closed:
                if not self._items or self._bytes + size <= self._capacity:
                    self._items.append((item, size))
                    self._bytes += size
                    self._changed.notify_all()
                    return True
                if not wait:
                    return False
                self._changed.wait()
            return False

    def get(self, timeout_s: float) -> T | None:
        """The oldest item; None if none came in time."""
        with self._changed:
            if not self._items:
                self._changed.wait(timeout_s)
            if not self._items:
                return None
            item, size = self._items.popleft()
            self._bytes -= size
            self._changed.notify_all()
            return item

    def close(self) -> None:
        """Take nothing any more; whoever waits comes back."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
