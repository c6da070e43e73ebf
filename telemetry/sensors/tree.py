"""The small text files in which the kernel shows the hardware, under any root."""

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

_MOST_BYTES = 4096
GONE = frozenset({errno.ENODEV, errno.ENOENT, errno.ENXIO, errno.ESTALE, errno.EBADF})
"""Errors of a file whose device is not there any more."""


class Handle(Protocol):
    """A small file that is read again and again."""

    def read(self) -> bytes:
        """What it holds now, at most 4 KiB.

        Raises:
            OSError: It cannot be read at this moment; the next time it may.
        """
        ...

    def close(self) -> None:
        """Give the descriptor back; calling it again does nothing."""
        ...


class KeptFile:
    """A file that stays open: reading sysfs again costs a tenth of opening it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    def read(self) -> bytes:
        """What it holds now; opens the file if it is not open."""
        if self._fd < 0:
            self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            # From 0 each time: the kernel evaluates the attribute anew.
            return os.pread(self._fd, _MOST_BYTES, 0)
        except OSError as error:
            if error.errno in GONE:
                self.close()
            raise

    def close(self) -> None:
        """Give the descriptor back."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Number(NamedTuple):
    """A whole number from a file, or why there is none."""

    value: int | None
    reason: str = ""


_NUMBER = re.compile(rb"\s*(-?\d{1,20})(?![\w.])")
_WORDS = {
    errno.EAGAIN: "gated: the part is switched off or busy (EAGAIN)",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.ENOENT: "not there",
    errno.ENODEV: "the device is gone",
    errno.ENXIO: "the device is gone",
}


def why(error: OSError) -> str:
    """What went wrong with a file, in a few words."""
    number = error.errno or 0
    name = errno.errorcode.get(number, f"error {number}")
    return _WORDS.get(number) or f"{os.strerror(number)} ({name})"


def number_in(data: bytes) -> Number:
    """The number that a file begins with; a unit may follow it after a blank."""
    found = _NUMBER.match(data)
    if found is None:
        shown = data[:20].decode("ascii", "replace").strip("\0\n ")
        return Number(None, f"not a number: {shown!r}" if shown else "empty")
    return Number(int(found[1]))


def read_number(handle: Handle) -> Number:
    """The number that a file holds now, or why it cannot be had."""
    try:
        return number_in(handle.read())
    except OSError as error:
        return Number(None, why(error))


class Tree:
    """A machine's files below a root. Nothing is ever written.

    Args:
        root: Where ``sys``, ``proc``, ``etc`` and ``var`` are found.
        opener: Makes handles; a test brings one that fails as hardware does.
    """

    def __init__(
        self, root: Path = Path("/"), opener: Callable[[Path], Handle] = KeptFile
    ) -> None:
        self.root = root.absolute()
        self._opener = opener

    def glob(self, pattern: str) -> list[Path]:
        """Paths below the root that match, in natural order: 2 comes before 10.

        A link is matched and not walked through unless the pattern names its insides.
        """
        try:
            return sorted(self.root.glob(pattern.lstrip("/")), key=_natural)
        except OSError:
            return []

    def open(self, path: Path | str) -> Handle:
        """A handle on a file that need not exist (yet); a relative path is below root.

        Nothing is opened before the first read.
        """
        if isinstance(path, str):
            path = path.lstrip("/")
        return self._opener(self.root / path)

    def text(self, path: Path | str) -> str | None:
        """What a small file holds, without blanks and zeros at the ends; None: nothing.

        For facts that are read once.
        """
        handle = self.open(path)
        try:
            return handle.read().decode("utf-8", "replace").strip("\0\n\t ")
        except OSError:
            return None
        finally:
            handle.close()

    def number(self, path: Path | str) -> Number:
        """The number that a small file holds, or why it cannot be had; read once."""
        handle = self.open(path)
        try:
            return read_number(handle)
        finally:
            handle.close()


def _natural(path: Path) -> list[tuple[int, str]]:
    return [
        (int(part), "") if part.isdigit() else (-1, part)
        for part in re.split(r"(\d+)", str(path))
    ]
