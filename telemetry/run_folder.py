"""The folder that a run leaves behind."""

import contextlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, count
from pathlib import Path
from typing import Any

from edgepipe.errors import EdgepipeError


@dataclass(frozen=True, slots=True)
class RunFolder:
    """One run's own folder; every file appears in it whole or not at all."""

    path: Path

    @classmethod
    def create(cls, parent: Path, command: str, now: datetime) -> "RunFolder":
        """Make ``parent/<YYYYmmdd-HHMMSS>-<command>``, with ``-2``, ... if taken.

        Two runs that start together get two folders.

        Raises:
            EdgepipeError: It cannot be made there; one line that names the place.
        """
        name = f"{now:%Y%m%d-%H%M%S}-{command}"
        names = chain([name], (f"{name}-{n}" for n in count(2)))
        try:
            parent.mkdir(parents=True, exist_ok=True)
            return cls(next(parent / each for each in names if _made(parent / each)))
        except OSError as error:
            raise EdgepipeError(
                f"{parent}: cannot make a run folder there: {error.strerror}"
            ) from error

    @property
    def frames(self) -> Path:
        """Where the frame log goes."""
        return self.path / "frames.arrow"

    @property
    def device(self) -> Path:
        """Where the device log goes."""
        return self.path / "device.arrow"

    @property
    def report(self) -> Path:
        """Where the report lies once it is written."""
        return self.path / "report.html"

    def write_summary(self, summary: Mapping[str, Any]) -> Path:
        """Write ``summary.json``."""
        return self._write("summary.json", _json(summary))

    def write_environment(self, environment: Mapping[str, Any]) -> Path:
        """Write ``environment.json``."""
        return self._write("environment.json", _json(environment))

    def write_config(self, text: str) -> Path:
        """Write ``config.yaml``, the effective configuration."""
        return self._write("config.yaml", text)

    def write_report(self, html: str) -> Path:
        """Write ``report.html``."""
        return self._write(self.report.name, html)

    def discard(self) -> None:
        """Remove the folder with all that is in it: the run never began."""
        shutil.rmtree(self.path, ignore_errors=True)

    def _write(self, name: str, text: str) -> Path:
        path = self.path / name
        unfinished = self.path / f".{name}.part"
        try:
            with unfinished.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(path)
        except OSError as error:
            with contextlib.suppress(OSError):
                unfinished.unlink()
            raise EdgepipeError(
                f"{path}: cannot be written: {error.strerror}"
            ) from error
        return path


def _made(path: Path) -> bool:
    """Make a folder; False if there is one already."""
    try:
        path.mkdir()
    except FileExistsError:
        return False
    return True


def _json(document: Mapping[str, Any]) -> str:
    # NaN is no JSON: a figure that is none has to be null with a reason.
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
