"""Reading a small text file that a person wrote, with errors that name it."""

import os
from pathlib import Path

from edgepipe.configs.characters import MAX_BYTES
from edgepipe.configs.problems import one_line
from edgepipe.errors import ConfigError


def read_bytes(path: str | Path) -> bytes:
    """The bytes of a file, at most one more than a configuration may have.

    Raises:
        ConfigError: It does not exist, is a folder or cannot be read.
    """
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            kind = "a folder" if os.path.isdir(path) else "a device or a pipe"
            raise ConfigError(shown(path), "", f"is {kind}, expected a file")
        # Not all of it: what is longer is refused anyway.
        with open(path, "rb") as file:
            return file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        raise ConfigError(shown(path), "", _reason(error)) from error


def shown(path: str | Path) -> str:
    """The path for the start of a message, always on one line."""
    return one_line(os.fspath(path)) or "''"


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, IsADirectoryError):
        return "is a folder, expected a file"
    if isinstance(error, PermissionError):
        return "may not be read (permission denied)"
    reason = error.strerror if isinstance(error, OSError) else None
    return f"cannot be read: {reason or 'not a usable file name'}"
