"""Longer text files of a machine, read once, and the shapes of what stands in them."""

import gzip
import re
import zlib
from collections.abc import Iterable
from pathlib import Path

from edgepipe.telemetry.sensors.tree import Tree

MOST_BYTES = 1 << 20
MOST_PROCESSORS = 1 << 13
"""Numbers of processors beyond this are taken for garbage."""


def whole(tree: Tree, path: str) -> str:
    """A text file of up to 1 MiB; empty when it cannot be read.

    For files that are longer than what a :class:`Tree` hands out at once.
    """
    try:
        with (tree.root / path).open("rb") as file:
            return file.read(MOST_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError):  # the latter for a zero in the path
        return ""


def value_of(text: str | None, key: str) -> int | None:
    """The number behind ``key:`` in a file such as meminfo or status."""
    found = re.search(rf"^{re.escape(key)}:\s*(-?\d{{1,18}})\b", text or "", re.M)
    return int(found[1]) if found else None


def word_of(text: str | None, key: str) -> str | None:
    """The text behind ``key:`` on its line."""
    found = re.search(rf"^{re.escape(key)}\s*:[ \t]*(\S.*)$", text or "", re.M)
    return found[1].strip() if found else None


def processors_in(text: str | None) -> frozenset[int] | None:
    """The numbers of a list such as ``0-3,6``; None when it is none, or missing."""
    if text is None:
        return None
    numbers: set[int] = set()
    for part in filter(None, text.split(",")):
        found = re.fullmatch(r"\s*(\d{1,5})(?:-(\d{1,5}))?\s*", part)
        if found is None or int(found[2] or 0) > MOST_PROCESSORS:
            return None
        numbers.update(range(int(found[1]), int(found[2] or found[1]) + 1))
    return frozenset(numbers)


def as_list(numbers: Iterable[int]) -> str:
    """The other way round: ``0-3,6``."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{a}-{b}" if a != b else str(a) for a, b in runs)


def kernel_option(tree: Tree, name: str) -> str | None:
    """How the kernel was built, ``y``, ``m`` or ``n``; None when nobody says."""
    config = _packed(tree.root / "proc/config.gz")
    if not config:
        release = tree.text("proc/sys/kernel/osrelease") or ""
        config = whole(tree, f"boot/config-{release}") if release else ""
    if not config:
        return None
    found = re.search(rf"^CONFIG_{name}=(\w)", config, re.M)
    return found[1] if found else "n"


def _packed(path: Path) -> str:
    try:
        with gzip.open(path) as file:
            return file.read(MOST_BYTES).decode("utf-8", "replace")
    except (OSError, EOFError, zlib.error):
        return ""
