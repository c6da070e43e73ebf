"""One alarm clock for a whole runtime."""

from collections.abc import Callable
from threading import Event, Lock

from edgepipe.telemetry.clock import Clock


class Timer:
    """Calls ``fire`` at the moment that was asked for last, from the thread in ``run``.

    A moment that is replaced while ``fire`` is about to be called may still be fired
    for: whoever is called looks again at what is due.
    """

    def __init__(self, clock: Clock, fire: Callable[[], None]) -> None:
        self._clock = clock
        self._fire = fire
        self._changed = Event()
        self._lock = Lock()
        self._at_ns: int | None = None
        self._stopped = False

    def set(self, at_ns: int) -> None:
        """Fire at this moment and not at an earlier one that was asked for.

        For one caller at a time.
        """
        with self._lock:
            self._at_ns = at_ns
        self._changed.set()

    def stop(self) -> None:
        """Fire no more; ``run`` returns."""
        self._stopped = True
        self._changed.set()

    def run(self) -> None:
        """The thread's loop, until stopped."""
        changed = self._changed
        while True:
            at_ns = self._at_ns
            if at_ns is None:
                changed.wait()
            # Before anything is read again: what changes from here on sets it again.
            if at_ns is None or self._clock.watch_until(at_ns, changed):
                changed.clear()
                if self._stopped:
                    return
            elif self._is_due(at_ns):
                self._fire()

    def _is_due(self, at_ns: int) -> bool:
        """Take the moment as done, unless it was replaced."""
        with self._lock:
            if self._at_ns != at_ns:
                return False
            self._at_ns = None
            return True
