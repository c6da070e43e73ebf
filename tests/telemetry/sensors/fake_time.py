"""A clock that a test sets, and by which it can wait for other threads."""

from collections.abc import Callable
from threading import Condition


class FakeTime:
    """Called, it tells the time; ``ns`` sets it."""

    def __init__(self) -> None:
        self.ns = 100_000_000_000
        self._looked = Condition()

    def __call__(self) -> int:
        with self._looked:
            self._looked.notify_all()
        return self.ns

    def until(self, happened: Callable[[], bool]) -> None:
        """Wait for what another thread does next to looking at the time."""
        with self._looked:
            for _ in range(500):
                if happened():
                    return
                self._looked.wait(0.02)
        raise AssertionError("it did not happen within 10 s")
