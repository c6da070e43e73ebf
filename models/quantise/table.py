"""A calibration on disk: what was measured, and of what.

A table is used again only if everything that decided its numbers is the same; a
difference is told by name. Reading never changes a file.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from edgepipe.errors import ModelError

SCHEMA = "edgepipe.calibration/1"
REVISION = 2
"""Goes up when the same images would give other numbers: old tables are stale then."""


@dataclass(frozen=True, slots=True)
class CalibrationKey:
    """Everything that decides the numbers of a calibration.

    How many images were in a batch is not in it: it changes nothing.
    """

    model_sha256: str
    """Of the FP32 file."""
    preprocessing_sha256: str
    """Of the card's input: size, colours, mean, letterbox and so on."""
    data_sha256: str
    """Of all images, as the network was given them, in their order."""
    images: int
    method: str
    """Which of :data:`edgepipe.models.quantise.ranges.METHODS`."""
    tools: str
    """Versions of what computed it."""

    def differences(self, wanted: "CalibrationKey") -> tuple[str, ...]:
        """What is not as wanted, one line each, with both values."""
        mine, theirs = asdict(self), asdict(wanted)
        return tuple(
            f"{name.replace('_', ' ')} is {_short(mine[name])}, now"
            f" {_short(theirs[name])}"
            for name in mine
            if mine[name] != theirs[name]
        )


@dataclass(frozen=True, slots=True)
class CalibrationTable:
    """The largest value that each tensor shall hold in INT8, and where it is from."""

    key: CalibrationKey
    ranges: Mapping[str, float]
    lowest: Mapping[str, float]
    """The smallest value of each tensor, 0 if none was below."""
    source: str
    """The recording, for people."""

    def write(self, path: Path) -> None:
        """Write it whole or not at all.

        Raises:
            ModelError: It cannot be written.
        """
        document = {
            "schema": SCHEMA,
            "key": asdict(self.key),
            "source": self.source,
            "ranges": dict(sorted(self.ranges.items())),
            "lowest": dict(sorted(self.lowest.items())),
        }
        replace_file(path, json.dumps(document, indent=1).encode() + b"\n")


def read_table(path: Path) -> CalibrationTable:
    """Read a table.

    Raises:
        ModelError: It cannot be read or is none of this version.
    """
    try:
        document: Any = json.loads(path.read_bytes())
        if document["schema"] != SCHEMA:
            raise ValueError(f"schema {document['schema']!r}, expected {SCHEMA!r}")
        key = CalibrationKey(**document["key"])
        ranges, lowest = (_numbers(document[name]) for name in ("ranges", "lowest"))
        return CalibrationTable(key, ranges, lowest, str(document["source"]))
    except OSError as error:
        reason = error.strerror or str(error)
        raise ModelError(f"{path}: cannot read the calibration: {reason}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{path}: no calibration table: {error}") from error


def _numbers(given: Any) -> dict[str, float]:
    return {name: float(value) for name, value in cast(dict[str, Any], given).items()}


def reusable(path: Path, wanted: CalibrationKey) -> tuple[CalibrationTable | None, str]:
    """The table of a file if it is the one wanted; else None and why not, in words.

    A missing file is no difference to speak of: the reason is empty then.
    """
    if not path.exists():
        return None, ""
    try:
        table = read_table(path)
    except ModelError as error:
        return None, str(error)
    differences = table.key.differences(wanted)
    if differences:
        return None, f"{path}: not used again: {'; '.join(differences)}"
    return table, ""


def replace_file(path: Path, data: bytes) -> None:
    """Put a file in the place of another in one step, synced to the disk.

    A link stays one: it is what it points to that is replaced. Who may read and write
    the old file may do so with the new one.

    Raises:
        ModelError: It cannot be written; the old one is still there.
    """
    target, path = path, Path(os.path.realpath(path))
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            partial.chmod(path.stat().st_mode & 0o777)
        partial.replace(path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ModelError(f"{target}: cannot be written: {reason}") from error
    finally:
        # It is there only where this has not come to its end, by a signal, too.
        with suppress(OSError):
            partial.unlink()


def _short(value: object) -> str:
    """A hash by its first digits."""
    text = str(value)
    return text[:12] if len(text) == 64 else text
