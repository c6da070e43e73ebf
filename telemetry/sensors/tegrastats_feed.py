"""Runs tegrastats, keeps its newest line, and starts it again when it dies."""

import contextlib
import os
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from threading import Event, Thread
from typing import IO, NamedTuple

from edgepipe.telemetry.sensors.tegrastats_line import Line, parse_line

_MOST_LINE = 16_384
"""Bytes; the longest known line has 900."""
_MOST_UNKNOWN = 100
"""Different words of no known form that are counted."""
BACK_OFF_S = (1.0, 2.0, 5.0, 15.0, 60.0)
"""Before starting it again: after a line was read the first, then the next ones."""
_SILENT_NS = 10_000_000_000
"""A process that is silent for so long is killed, to be started again."""
_END_S = 1.0


class Stamped(NamedTuple):
    """A line and when it came."""

    line: Line
    at_ns: int


class Feed:
    """One process and the thread that reads it.

    Args:
        command: What to run.
        now_ns: The monotonic clock.
        back_off_s: Waits before it is started again; the last one repeats.
    """

    def __init__(
        self,
        command: Sequence[str],
        now_ns: Callable[[], int],
        back_off_s: Sequence[float] = BACK_OFF_S,
    ) -> None:
        self.newest: Stamped | None = None
        self.trouble = ""
        """Why there is no line at present, if that is known."""
        self.unknown: Counter[str] = Counter()
        """Words of no known form, and how often each came."""
        self.starts = 0
        self._command = list(command)
        self._now_ns = now_ns
        self._back_off_s = tuple(back_off_s)
        self._users = 0
        self._came = Event()
        self._stop = Event()
        self._child: subprocess.Popen[bytes] | None = None
        self._started_ns = now_ns()
        self._thread = Thread(target=self._run, name="tegrastats", daemon=True)
        self._thread.start()

    # --- the owner's side -----------------------------------------------------------

    def wait(self, timeout_s: float) -> Stamped | None:
        """The first line, or None if none comes in time or the start fails."""
        self._came.wait(timeout_s)
        return self.newest

    def hold(self) -> None:
        """One more user."""
        self._users += 1

    def release(self) -> None:
        """One user less; after the last one the process is ended."""
        self._users -= 1
        if self._users <= 0:
            self._stop.set()
            self._kill()
            self._thread.join(_END_S)

    def revive(self, now_ns: int) -> None:
        """Nothing has come for a while: end a process that hangs."""
        newest = self.newest
        since_ns = self._started_ns if newest is None else newest.at_ns
        if now_ns - max(since_ns, self._started_ns) >= _SILENT_NS:
            self._kill()

    def _kill(self) -> None:
        child = self._child
        if child is None or child.poll() is not None:
            return
        # It has a session of its own: a wrapper's children go with it.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, 9)

    # --- the reading thread ---------------------------------------------------------

    def _run(self) -> None:
        in_vain = 0
        while not self._stop.is_set():
            lines = self._one_life()
            in_vain = 0 if lines else in_vain + 1
            self._came.set()
            step = min(in_vain, len(self._back_off_s) - 1)
            self._stop.wait(self._back_off_s[step])

    def _one_life(self) -> int:
        """Start it, read it until it ends; returns how many lines came."""
        try:
            child = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "LC_ALL": "C"},
                start_new_session=True,
            )
        except OSError as error:
            self.trouble = f"{self._command[0]} cannot be run: {error.strerror}"
            return 0
        self.starts += 1
        self._started_ns = self._now_ns()
        self._child = child
        if self._stop.is_set():
            self._kill()  # released while it was being started
        with child:
            assert child.stdout is not None
            lines = self._read(child.stdout)
        self.trouble = f"tegrastats ended ({_ending(child.returncode)})"
        return lines

    def _read(self, stream: IO[bytes]) -> int:
        lines = 0
        is_rest = False
        while data := stream.readline(_MOST_LINE):
            # A line without an end is a part, of which the last number may be too.
            is_whole = data.endswith(b"\n")
            if is_whole and not is_rest and self._take(data):
                lines += 1
            is_rest = not is_whole
        return lines

    def _take(self, data: bytes) -> bool:
        line = parse_line(data.decode("ascii", "replace"))
        for word in line.unknown:
            if word in self.unknown or len(self.unknown) < _MOST_UNKNOWN:
                self.unknown[word] += 1
        if not (line.rails or line.temperatures or line.engines or line.cores):
            return False  # an error message, a headline
        self.newest = Stamped(line, self._now_ns())
        self.trouble = ""
        self._came.set()
        return True


def _ending(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
