"""Where a sink must not write: over devices, the input, or the run's own files."""

import os
from collections.abc import Iterable
from pathlib import Path

REPLACED = ("coco", "mcap", "video")
"""Kinds that remove or replace what lies at their path. The others only write to it, so
a device or a pipe will do for them."""
OWN_NAMES = frozenset(
    ("config.yaml", "environment.json", "frames.arrow", "report.html", "summary.json")
)
"""Files that every run writes into its folder."""


def why_not(kind: str, path: Path, folder: Path, inputs: Iterable[Path]) -> str | None:
    """Why a sink of this kind must not write to ``path``; None if it may.

    Args:
        kind: Of the sink.
        path: Where it would write.
        folder: The run's folder.
        inputs: Files that the streams read; those that do not exist are ignored.
    """
    if path.name in OWN_NAMES and _same(path.parent, folder):
        return f"{path.name} is a file that every run writes itself"
    if kind in REPLACED and path.exists() and not path.is_file():
        return f"{path} is there and is no regular file"
    for source in inputs:
        if _same(path, source):
            return f"{path} is the input of a stream"
    return None


def _same(a: Path, b: Path) -> bool:
    try:
        return os.path.samefile(a, b)
    except (OSError, ValueError):  # one of them does not exist, or is no path at all
        return False
