"""A connection to the service of jetson-stats, in a thread that may hang.

Nothing of that library has a time-out that can be trusted, and the service dies or
freezes when the load is high. So one thread, never a second one, does all of it, and
whoever reads looks at the age of what it has brought.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Event, Thread
from typing import Any, NamedTuple

from edgepipe.telemetry.sensors.jtop_values import Values, one_line, values_of

BACK_OFF_S = (1.0, 2.0, 5.0, 15.0, 60.0)
"""Before connecting again: the first after a connection that worked."""
_LEAST_GAP_S = 0.05
"""Between two looks, should waiting for news return at once."""
_END_S = 1.0


class Snapshot(NamedTuple):
    """What one update of the service told."""

    values: Values
    failures: dict[str, str]
    """Parts that could not be had, and why."""
    at_ns: int


class Link:
    """Connects, takes what comes, connects again.

    Args:
        make: Makes a client with ``start``, ``ok``, ``close`` and the properties.
        now_ns: The monotonic clock.
        back_off_s: Waits before the next connection; the last one repeats.
    """

    def __init__(
        self,
        make: Callable[[], Any],
        now_ns: Callable[[], int],
        back_off_s: Sequence[float] = BACK_OFF_S,
    ) -> None:
        self.newest: Snapshot | None = None
        self.trouble = "jtop does not answer"
        """Why nothing new comes."""
        self._make = make
        self._now_ns = now_ns
        self._back_off_s = tuple(back_off_s)
        self._users = 0
        self._stamp: object = None
        self._came = Event()
        self._stop = Event()
        self._thread = Thread(target=self._run, name="jtop", daemon=True)
        self._thread.start()

    def wait(self, timeout_s: float) -> Snapshot | None:
        """The first update; None if none comes in time, or if connecting fails."""
        self._came.wait(timeout_s)
        return self.newest

    def hold(self) -> None:
        """One more user."""
        self._users += 1

    def release(self) -> None:
        """One user less; after the last one the connection is closed.

        A thread that hangs in the library is left to it.
        """
        self._users -= 1
        if self._users <= 0:
            self._stop.set()
            self._thread.join(_END_S)

    def _run(self) -> None:
        in_vain = 0
        while not self._stop.is_set():
            before = self.newest
            self._one_connection()
            in_vain = 0 if self.newest is not before else in_vain + 1
            self._came.set()
            step = min(in_vain, len(self._back_off_s) - 1)
            self._stop.wait(self._back_off_s[step])

    def _one_connection(self) -> None:
        client: Any = None
        try:
            client = self._make()
            client.start()
            while not self._stop.is_set() and client.ok():
                self._take(client)
                self._stop.wait(_LEAST_GAP_S)
            self.trouble = "jtop sends no updates any more"
        except Exception as error:  # noqa: BLE001 - a thread's and a library's edge
            self.trouble = f"jtop: {one_line(error)}"
        if client is not None:
            with suppress(Exception):  # the same
                client.close()

    def _take(self, client: Any) -> None:
        """Keep what is new; a service that is frozen sends the same for ever."""
        stamp = _stamp(client)
        if stamp == self._stamp:
            self.trouble = "jtop is frozen: it sends the same again and again"
            return
        self._stamp = stamp
        at_ns = self._now_ns()
        values, failures = values_of(client)
        if values:
            self.newest = Snapshot(values, failures, at_ns)
            self._came.set()
        else:
            told = "; ".join(f"{part}: {why}" for part, why in failures.items())
            self.trouble = f"jtop tells nothing ({told})"


def _stamp(client: Any) -> object:
    """What differs from update to update.

    The service reads the uptime each time, to 10 ms. ``ok`` is no sign: it is also true
    when nothing has changed.
    """
    try:
        return client.uptime
    except Exception:  # noqa: BLE001 - old releases have none, or no data yet
        return repr([getattr(client, part, None) for part in ("power", "cpu")])
