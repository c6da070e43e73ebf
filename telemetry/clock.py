"""Time sources. Everything that needs the time is given one of these."""

import time
from threading import Event, Lock
from typing import Protocol


class Clock(Protocol):
    """A monotonic time source, in integer nanoseconds."""

    def now_ns(self) -> int:
        """Nanoseconds since an arbitrary start."""
        ...

    def wait_until(self, at_ns: int, interrupt: Event) -> bool:
        """Block until ``at_ns``; return True at once if ``interrupt`` is set."""
        ...

    def watch_until(self, at_ns: int, interrupt: Event) -> bool:
        """The same for whoever only watches.

        A clock that is moved by those who wait does not move for this one.
        """
        ...


class MonotonicClock:
    """The operating system's monotonic clock."""

    def now_ns(self) -> int:
        """Nanoseconds since an arbitrary start."""
        return time.monotonic_ns()

    def wait_until(self, at_ns: int, interrupt: Event) -> bool:
        """Sleep until ``at_ns`` or until ``interrupt`` is set."""
        while (left_ns := at_ns - time.monotonic_ns()) > 0:
            if interrupt.wait(left_ns / 1e9):
                return True
        return interrupt.is_set()

    def watch_until(self, at_ns: int, interrupt: Event) -> bool:
        """Sleep until ``at_ns`` or until ``interrupt`` is set."""
        return self.wait_until(at_ns, interrupt)


class ManualClock:
    """A clock that moves only when a test says so.

    Waiting moves it: ``wait_until`` jumps to the moment waited for.
    """

    def __init__(self, now_ns: int = 0) -> None:
        self._now_ns = now_ns
        self._lock = Lock()
        self._watchers: list[Event] = []

    def now_ns(self) -> int:
        """The time last set."""
        return self._now_ns

    def advance(self, by_ns: int) -> None:
        """Move forward by ``by_ns``."""
        if by_ns < 0:
            raise ValueError(f"time cannot go back by {-by_ns} ns")
        self._move_to(self._now_ns + by_ns)

    def wait_until(self, at_ns: int, interrupt: Event) -> bool:
        """Jump to ``at_ns`` unless ``interrupt`` is already set."""
        if interrupt.is_set():
            return True
        self._move_to(at_ns)
        return False

    def watch_until(self, at_ns: int, interrupt: Event) -> bool:
        """Block until somebody moves the clock, or until ``interrupt`` is set.

        False if it is ``at_ns`` already. Whoever moves the clock sets ``interrupt``, so
        that the watcher looks at the time again.
        """
        with self._lock:
            if self._now_ns >= at_ns:
                return interrupt.is_set()
            self._watchers.append(interrupt)
        interrupt.wait()
        return True

    def _move_to(self, at_ns: int) -> None:
        with self._lock:
            self._now_ns = max(self._now_ns, at_ns)
            watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            watcher.set()
