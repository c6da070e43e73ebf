"""OpenVINO, imported without the message that it otherwise sends home.

Importing ``openvino`` (seen with 2026.4) starts a thread that reports the import to
its maker over the network and keeps an identifier in the user's home folder. A robot
must do neither. The package uses a stub when its reporting module cannot be imported.
"""

import sys
from importlib import import_module
from typing import Any

_REPORTER = "openvino_telemetry"


def import_openvino() -> Any:
    """The ``openvino`` package, without types: it ships none that mypy can read.

    Raises:
        ImportError: It is not installed or does not load here.
    """
    known = _REPORTER in sys.modules
    if not known:
        # None makes the import system raise ImportError for this name.
        sys.modules[_REPORTER] = None  # type: ignore[assignment]
    try:
        return import_module("openvino")
    finally:
        if not known:
            del sys.modules[_REPORTER]
