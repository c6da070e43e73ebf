"""One output file for all streams, or one for each."""

import re
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Generic, Protocol, TypeVar
from urllib.parse import quote

_ODD = re.compile(r"[\x00-\x1f\x7f/\\%{}]")

MARK = "{stream}"
"""Stands in a path for the id of the stream."""


class Closable(Protocol):
    """What a file of a sink must be able to do."""

    def close(self) -> None:
        """Finish and release; calling it again does nothing."""
        ...


File = TypeVar("File", bound=Closable)


def path_for(path: Path, stream: str) -> Path:
    """Fill in the stream's id, written so that it is a single, safe path part.

    Letters of every script stay as they are. What a path or a person could trip over
    (``/``, ``%``, braces, control characters, an id of dots) is percent-encoded, so
    different ids give different paths.
    """
    part = _ODD.sub(lambda found: quote(found.group(), safe=""), stream)
    if not part.strip("."):
        part = part.replace(".", "%2E")
    return Path(str(path).replace(MARK, part))


class PerStream(Generic[File]):
    """Opens files as they are needed: at once, or with each stream's first frame.

    Raises:
        OSError: The file, or the folder that the files will lie in, cannot be made.
    """

    def __init__(self, path: Path, open_file: Callable[[Path], File]) -> None:
        self._path = path
        self._open = open_file
        self._files: dict[Path, File] = {}
        if MARK in str(path):
            parts = list(path.parts)
            first = next(k for k, part in enumerate(parts) if MARK in part)
            Path(*parts[:first]).mkdir(parents=True, exist_ok=True)
        else:
            self.of("")

    def of(self, stream: str) -> File:
        """The file of a stream; there are never more than there are streams.

        Raises:
            OSError: It could not be opened; the next call tries again.
        """
        path = path_for(self._path, stream)
        file = self._files.get(path)
        if file is None:
            file = self._files[path] = self._open(path)
        return file

    def close(self) -> None:
        """Close every file, even if one of them fails; that error is raised."""
        with ExitStack() as stack:
            for file in self._files.values():
                stack.callback(file.close)
