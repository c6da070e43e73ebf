"""A file that grows by whole rows or not at all."""

import os
from io import FileIO
from pathlib import Path


class RowFile:
    """Appends rows, each with one system call: what was written survives a SIGKILL.

    A row that does not fit (disk full) is taken back before the error is raised, so
    the first row after space is back starts on a line of its own. An existing file is
    replaced. Nothing is buffered here, so the count of errors is the count of rows
    lost.

    Raises:
        OSError: The file cannot be opened for writing.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = FileIO(path, "w")
        self._torn = False

    def write(self, row: bytes) -> None:
        """Append one row, ending in a newline, or several that belong together.

        Raises:
            OSError: The rows could not be written; the file is as it was before.
        """
        if self._torn:
            row = b"\n" + row
        done = 0
        try:
            while done < len(row):
                done += os.write(self._file.fileno(), row[done:])
        except OSError:
            self._take_back(done)
            raise
        self._torn = False

    def fileno(self) -> int:
        """The file descriptor, for those who must sync or poll it."""
        return self._file.fileno()

    def close(self) -> None:
        """Close the file; calling it again does nothing."""
        self._file.close()

    def _take_back(self, n: int) -> None:
        """Remove the last ``n`` bytes; in a pipe they stay, as a line of their own."""
        if n == 0:
            return
        if self._file.seekable():
            self._file.truncate(self._file.seek(-n, os.SEEK_CUR))
        else:
            self._torn = True
