"""Writes a log beside the running pipeline, without ever holding it up."""

import contextlib
import logging
import os
from collections import deque
from pathlib import Path
from threading import Event, Thread
from typing import Generic

from edgepipe.errors import EdgepipeError
from edgepipe.telemetry.arrow_stream import END_OF_STREAM, LogFormat, Record
from edgepipe.telemetry.clock import Clock
from edgepipe.telemetry.records import RecorderFacts

log = logging.getLogger(__name__)

DEFAULT_CAPACITY = 16_384
"""Records waiting for the disk: nine minutes of 30 frames a second, some 30 MB."""

_BATCH = 1024
_FLUSH_S = 1.0
_CLOSE_S = 2.0
_WARN_NS = 60_000_000_000


class Recorder(Generic[Record]):
    """Collects records and writes them to a file once a second.

    ``add`` only appends to a bounded queue; a thread (``start`` to ``close``) writes
    whole batches and syncs them to the disk, so that a kill or a power cut costs the
    last second. When the disk fails the records wait in memory and it is tried again
    each second; beyond ``capacity`` the oldest waiting records are lost and counted.
    No failure of the disk ever reaches a caller.
    """

    def __init__(
        self,
        path: Path,
        clock: Clock,
        log_format: LogFormat[Record],
        capacity: int = DEFAULT_CAPACITY,
    ) -> None:
        """Create ``path``.

        Raises:
            EdgepipeError: It cannot be created.
        """
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, got {capacity}")
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        except OSError as error:
            problem = f"{path}: cannot be written: {error.strerror}"
            raise EdgepipeError(problem) from error
        self._path = path
        self._clock = clock
        self._format = log_format
        self._queue: deque[Record] = deque(maxlen=capacity)
        self._batch: list[Record] = []
        self._encoded = b""
        self._good_bytes = 0
        self._added = self._written = self._write_failures = 0
        self._next_warning_ns = clock.now_ns()
        self._stop = Event()
        self._thread: Thread | None = None

    def add(self, record: Record) -> None:
        """Take one record; for one caller at a time, about 0.1 microseconds."""
        self._queue.append(record)
        self._added += 1

    def start(self) -> None:
        """Load the encoder, write the head of the log, then flush once a second."""
        self.flush()
        self._thread = Thread(target=self._run, name=self._format.name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(_FLUSH_S):
            self.flush()

    def flush(self) -> bool:
        """Write and sync everything that waits; False if the disk refused.

        Called by the thread each second; by others only while no thread runs.
        """
        try:
            if not self._good_bytes:
                self._append(self._format.head())
            while self._take_batch():
                self._append(self._encoded)
                self._written += len(self._batch)
                self._batch = []
            os.fdatasync(self._fd)
        except OSError as error:
            self._write_failures += 1
            self._warn(error)
            return False
        return True

    def _take_batch(self) -> bool:
        """Have a batch ready to write: the one that failed, or the next one."""
        while not self._batch and self._queue:
            n = min(len(self._queue), _BATCH)
            self._batch = [self._queue.popleft() for _ in range(n)]
            try:
                self._encoded = self._format.batch(self._batch)
            except (ValueError, TypeError) as error:
                # A record that no column can hold would fail for ever.
                self._batch = []
                self._warn(error)
        return bool(self._batch)

    def _append(self, data: bytes) -> None:
        """Write ``data`` behind the last whole batch; part of it does not count."""
        rest, at = memoryview(data), self._good_bytes
        while rest:
            written = os.pwrite(self._fd, rest, at)
            rest, at = rest[written:], at + written
        self._good_bytes = at

    def _warn(self, error: Exception) -> None:
        now_ns = self._clock.now_ns()
        if now_ns < self._next_warning_ns:
            return
        self._next_warning_ns = now_ns + _WARN_NS
        facts = self.statistics()
        log.warning(
            "%s: cannot be written: %s (%d failures, %d records lost so far)",
            self._path,
            error,
            facts.write_failures,
            facts.lost,
        )

    def statistics(self) -> RecorderFacts:
        """Records written and lost, and failed writes; final after ``close``."""
        waiting = len(self._queue) + len(self._batch) if self._fd >= 0 else 0
        # Read without a lock: while frames come it may be one too low, never negative.
        lost = max(0, self._added - self._written - waiting)
        return RecorderFacts(self._written, lost, self._write_failures)

    def close(self) -> RecorderFacts:
        """Write what waits and end the log; what the disk refuses now is lost.

        Takes no longer than two seconds for a disk that hangs. Further calls only
        return the statistics.
        """
        if self._fd < 0:
            return self.statistics()
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_CLOSE_S)
        if self._thread is None or not self._thread.is_alive():
            self._finish()
        # A thread that hangs in the disk keeps its descriptor until the process ends.
        self._fd = -1
        self._queue.clear()
        self._batch = []
        return self.statistics()

    def _finish(self) -> None:
        with contextlib.suppress(OSError):
            if self.flush():
                self._append(END_OF_STREAM)
            # Cuts off the part of a batch that a full disk did not take whole.
            os.ftruncate(self._fd, self._good_bytes)
        with contextlib.suppress(OSError):
            os.close(self._fd)
