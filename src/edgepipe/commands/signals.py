"""SIGINT, SIGTERM and SIGHUP from the first moment on."""

import signal
from types import FrameType
from typing import Any


class Signals:
    """The first signal ends the program in good order, the second one kills it.

    While the program is starting there is nothing to finish, so the first signal
    raises SystemExit in the main thread. Once :attr:`running` is set it is only noted,
    for whoever runs to look at. A process with the number 1, as in a container, gets no
    signal that it has not asked for: hence handlers before anything else.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        """Number of the first signal, None as long as there was none."""
        self.running = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Signals":
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.received = number
        for each in self._before:
            signal.signal(each, signal.SIG_DFL)
        if not self.running:
            raise SystemExit(128 + number)
