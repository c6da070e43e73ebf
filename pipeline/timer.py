"""One alarm clock for a whole runtime."""

from collections.abc import Callable
from threading import Event

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
        self._at_ns = 0
        self._stopped = False

    def set(self, at_ns: int) -> None:
        """Fire at this moment and not at an earlier one that was asked for.

        For one caller at a time.
        """
        self._at_ns = at_ns
        self._changed.set()

    def stop(self) -> None:
        """Fire no more; ``run`` returns."""
        self._stopped = True
        self._changed.set()

    def run(self) -> None:
        """The thread's loop, until stopped."""
        changed = self._changed
        while changed.wait():
            # Before anything is read: what changes from here on sets it again.
            changed.clear()
            if self._stopped:
                return
            if not self._clock.wait_until(self._at_ns, changed):
                self._fire()
