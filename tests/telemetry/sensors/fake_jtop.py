"""Clients of jetson-stats that fail as the real one does, chosen by name.

Errors and their words are those that release 7.2.2 raised when it was tried.
"""

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from queue import Empty
from threading import Event
from typing import Any

SAMPLES: Mapping[str, Mapping[str, Any]] = json.loads(
    Path(__file__).with_name("jtop_samples.json").read_text()
)
"""What real clients told of four machines whose files were drawn up."""


class JtopException(Exception):  # noqa: N818 - the library's name
    """As in the library."""


NOT_ACTIVE = "The jtop.service is not active. Please run:\nsudo jtop --install-service"
STARTS: Mapping[str, Exception] = {
    "no socket": JtopException(NOT_ACTIVE),
    "no permission": JtopException(
        "I can't access jtop.service.\nPlease logout or reboot this board."
    ),
    "other version": JtopException(
        "Mismatch version jtop service: [7.2.2] and client: [4.3.2]. Please run:\n\n"
        "sudo jtop --install-service"
    ),
    "other Python": JtopException(
        "Mismatch of Python versions between library and service"
    ),
    "unpickled": ValueError("unsupported pickle protocol: 5"),
    "not trusted": JtopException("Authentication with jetson-stats server failed"),
    "silent service": Empty(),
    "odd": KeyError("board"),
}
"""What ``start`` raises."""


class Service:
    """Stands for the module and for the service behind it; a test steers it."""

    def __init__(self, machine: str = "orin-nano-super") -> None:
        self.told: dict[str, Any] = dict(SAMPLES[machine])
        self.start: Exception | None = None
        self.ok: Callable[[], bool] = lambda: True
        self.updates = 1
        """The service has told so often; the same number is the same data."""
        self.has_uptime = True
        self.hangs = False
        self.let_go = Event()
        """Set by a test at its end, so that what hangs can go."""
        self.connections = 0
        self.closed = 0

    def jtop(self, interval: float) -> "Client":
        return Client(self)


class Client:
    """What the library's class does."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def start(self) -> None:
        self._service.connections += 1
        if self._service.hangs:
            self._service.let_go.wait()
        if self._service.start is not None:
            raise self._service.start

    def ok(self) -> bool:
        return self._service.ok()

    def close(self) -> None:
        self._service.closed += 1

    def __getattr__(self, name: str) -> Any:
        if name == "uptime" and self._service.has_uptime:
            return timedelta(seconds=0.5 * self._service.updates)
        try:
            told = self._service.told[name]
        except KeyError:
            raise AttributeError(name) from None
        if isinstance(told, Exception):
            raise told
        return told
