"""A recording on the disk: one file, or a ring of files whose oldest make room."""

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from edgepipe.stages.recordings.mcap_writer import ChannelFacts, McapWriter

LARGEST_SEGMENT = 256 << 20
_SEGMENTS = 8
"""A ring has so many files at least: deleting one costs that part of the recording."""


_OVERHEAD = 64
"""Bytes that a message takes besides its own."""


class Limits(NamedTuple):
    """How much of the disk a recording may take."""

    most_bytes: int | None = None
    """Of all files together; None: no bound of its own."""
    keep_free: int = 0
    """Bytes of the disk that must stay free for others."""

    @property
    def segment_bytes(self) -> int:
        """After which a file of a ring ends, at the next key frame."""
        if self.most_bytes is None:
            return LARGEST_SEGMENT
        return max(1, min(LARGEST_SEGMENT, self.most_bytes // _SEGMENTS))


class Entry(NamedTuple):
    """A message to be written."""

    channel: int
    sequence: int
    log_ns: int
    data: bytes
    is_key: bool
    """Whether reading can begin with it."""


def free_bytes(path: Path) -> int:
    """What an ordinary user may still write on the disk of this path."""
    facts = os.statvfs(path)
    return facts.f_bavail * facts.f_frsize


class Segments:
    """Writes entries to a file, or to one after the other in a folder.

    Args:
        path: A folder, which is made, with one that is made in it for this recording;
            or a file, which must not exist.
        name: Of the folder of this recording; empty: ``path`` is a file.
        limits: Where it must end or make room.
        free: Tells how much of the disk is free.

    Attributes:
        full: Why nothing more can be written within the limits; empty so far.
        is_bound: Whether that is because the file has the size that it was to have.

    Raises:
        OSError: It cannot be created or written.
    """

    def __init__(
        self,
        path: Path,
        name: str,
        channels: Sequence[ChannelFacts],
        metadata: Mapping[str, Mapping[str, str]],
        library: str,
        limits: Limits,
        free: Callable[[Path], int] = free_bytes,
    ) -> None:
        self._limits, self._free = limits, free
        self._channels, self._metadata = channels, metadata
        self._library = library
        self._is_ring = bool(name)
        self.folder = path / name if name else path.parent
        self._path = path
        self.full = ""
        self.is_bound = False
        self._closed: deque[tuple[Path, int]] = deque()
        self.messages = self.written = self.deleted = 0
        self._number = 0
        if self._is_ring:
            path.mkdir(parents=True, exist_ok=True)
            # Earlier recordings in the folder belong to the same ring.
            older = sorted(path.glob("*/*.mcap"))
            self._closed.extend((each, each.stat().st_size) for each in older)
            self.folder.mkdir()
        else:
            self.folder.mkdir(parents=True, exist_ok=True)
        self._writer = self._begin()

    @property
    def size(self) -> int:
        """Bytes that all files of the ring would have if they were complete now."""
        return self._writer.final_size + sum(size for _, size in self._closed)

    def add(self, entry: Entry) -> None:
        """Write one message; it is on the disk after the next :meth:`sync`.

        Raises:
            OSError: It could not be written.
        """
        writer = self._writer
        now = writer.final_size
        limit = self._limits.segment_bytes
        # Without a key frame for long, reading must begin somewhere else after all.
        if self._is_ring and (
            (now >= limit and entry.is_key) or now + len(entry.data) > 2 * limit
        ):
            self._end_segment()
            self._writer = writer = self._begin()
        self._make_room(len(entry.data) + _OVERHEAD)
        if self.full:
            return
        writer.add(entry.channel, entry.sequence, entry.log_ns, entry.data)
        self.messages += 1
        self.written += len(entry.data)

    def sync(self) -> None:
        """Wait until everything is on the disk; look whether that has room.

        Raises:
            OSError: It could not be written.
        """
        self._make_room(0)
        self._writer.sync()

    def close(self) -> None:
        """Complete the last file.

        Raises:
            OSError: It could not be completed; it can be read all the same.
        """
        self._writer.close()

    def abandon(self) -> None:
        """Leave the last file as it is, after an error."""
        self._writer.abandon()

    # --- in detail --------------------------------------------------------------------

    def _begin(self) -> McapWriter:
        path = self._path
        if self._is_ring:
            self._number += 1
            path = self.folder / f"{self._number:06d}.mcap"
        self._current = path
        return McapWriter(path, self._channels, self._metadata, self._library)

    def _end_segment(self) -> None:
        self._writer.close()
        self._closed.append((self._current, self._writer.size))

    def _make_room(self, coming: int) -> None:
        """Delete the oldest files until the limits hold, or tell that they cannot."""
        most = self._limits.most_bytes
        while most is not None and self.size + coming > most:
            if not self._delete_oldest():
                # A ring never stops for this: its newest file begins anew.
                if not self._is_ring:
                    self.full = f"the file has reached {most} bytes"
                    self.is_bound = True
                break
        while self._limits.keep_free and (
            self._free(self.folder) < self._limits.keep_free + coming
        ):
            if not self._delete_oldest():
                self.full = f"less than {self._limits.keep_free} bytes of disk are free"
                break

    def _delete_oldest(self) -> bool:
        if not self._closed:
            return False
        path, _ = self._closed.popleft()
        path.unlink(missing_ok=True)
        self.deleted += 1
        if path.parent != self.folder and not any(path.parent.iterdir()):
            path.parent.rmdir()
        return True
