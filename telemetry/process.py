"""What this process uses: processor time, memory, threads and open files."""

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgepipe.telemetry.nulls import missing, present

SLOPE_SAMPLES = 60
"""Readings below which no memory slope is claimed (a minute at one per second)."""

_MB = 1e6
_NO_PROC = "not measured: no /proc/self on this system"


@dataclass(frozen=True, slots=True)
class ProcessReading:
    """One look at this process; None where the system does not tell."""

    cpu_ns: int
    """User and system time of all threads since the process began."""
    rss_bytes: int | None
    threads: int | None
    fds: int | None


@dataclass(frozen=True, slots=True)
class Slope:
    """A least-squares slope with its 95 % interval, per unit of x."""

    value: float
    low: float
    high: float


class Trend:
    """A straight line through points that are not kept (Welford's running sums)."""

    def __init__(self) -> None:
        self.n = 0
        self._mean_x = self._mean_y = 0.0
        self._xx = self._xy = self._yy = 0.0

    def add(self, x: float, y: float) -> None:
        """Take one more point."""
        self.n += 1
        dx, dy = x - self._mean_x, y - self._mean_y
        self._mean_x += dx / self.n
        self._mean_y += dy / self.n
        self._xx += dx * (x - self._mean_x)
        self._xy += dx * (y - self._mean_y)
        self._yy += dy * (y - self._mean_y)

    def slope(self) -> Slope | None:
        """The slope; None for fewer than three points or points at one x.

        The interval takes the points as independent and their scatter as normal.
        """
        if self.n < 3 or self._xx == 0:
            return None
        slope = self._xy / self._xx
        scatter = max(self._yy - slope * self._xy, 0.0) / (self.n - 2)
        # 1.96 belongs to many points; three would need 12.7. Callers ask for 60.
        reach = 1.96 * math.sqrt(scatter / self._xx)
        return Slope(slope, slope - reach, slope + reach)


def read_process(proc: Path = Path("/proc/self")) -> ProcessReading:
    """Look at this process now; takes some tens of microseconds."""
    cpu_ns = time.process_time_ns()
    try:
        pages = int((proc / "statm").read_text().split()[1])
        status = (proc / "status").read_text()
        threads = int(status.split("\nThreads:", 1)[1].split(maxsplit=1)[0])
        # The listing itself holds one descriptor open.
        fds = len(os.listdir(proc / "fd")) - 1
    except (OSError, ValueError, IndexError):
        return ProcessReading(cpu_ns, None, None, None)
    return ProcessReading(cpu_ns, pages * os.sysconf("SC_PAGE_SIZE"), threads, fds)


class ProcessSampler:
    """Follows this process over a run; call ``sample`` about once a second.

    Keeps the first and the last reading and a trend, so it does not grow. The first
    call is made when the measured part begins, the last when it ends.
    """

    def __init__(self, read: Callable[[], ProcessReading] = read_process) -> None:
        self._read = read
        self._first: ProcessReading | None = None
        self._last: ProcessReading | None = None
        self._first_ns = 0
        self._rss_mb_per_h = Trend()

    def sample(self, now_ns: int) -> None:
        """Take one reading; ``now_ns`` is monotonic time."""
        reading = self._last = self._read()
        if self._first is None:
            self._first, self._first_ns = reading, now_ns
        if reading.rss_bytes is not None:
            hours = (now_ns - self._first_ns) / 3.6e12
            self._rss_mb_per_h.add(hours, reading.rss_bytes / _MB)

    def summary(self, delivered: int) -> dict[str, Any]:
        """The ``process`` part of a summary, for so many delivered frames."""
        first, last = self._first, self._last
        if first is None or last is None:
            return _not_sampled()
        return {
            "cpu_s_per_frame": _per_frame(last.cpu_ns - first.cpu_ns, delivered),
            "rss_mb": self._rss(first.rss_bytes, last.rss_bytes),
            "threads": _edges(first.threads, last.threads),
            "fds": _edges(first.fds, last.fds),
        }

    def _rss(self, first: int | None, last: int | None) -> dict[str, Any]:
        if first is None or last is None:
            return _edges(first, last) | _slope(None, 0)
        n = self._rss_mb_per_h.n
        slope = self._rss_mb_per_h.slope() if n >= SLOPE_SAMPLES else None
        too_few = f"a slope needs {SLOPE_SAMPLES} samples, there are {n}"
        return {
            "start": first / _MB,
            "end": last / _MB,
            **_slope(slope, n),
            "reason": "" if slope else too_few,
        }


def _slope(slope: Slope | None, n: int) -> dict[str, Any]:
    return {
        "slope_per_h": slope and slope.value,
        "slope_per_h_low": slope and slope.low,
        "slope_per_h_high": slope and slope.high,
        "n": n,
    }


def _per_frame(cpu_ns: int, delivered: int) -> dict[str, Any]:
    if not delivered:
        return missing("no frame was delivered")
    return present(cpu_ns / 1e9 / delivered)


def _edges(
    start: int | None, end: int | None, reason: str = _NO_PROC
) -> dict[str, Any]:
    known = start is not None and end is not None
    return {"start": start, "end": end, "reason": "" if known else reason}


def _not_sampled() -> dict[str, Any]:
    reason = "not measured: the process was not sampled"
    nothing = _edges(None, None, reason)
    return {
        "cpu_s_per_frame": missing(reason),
        "rss_mb": nothing | _slope(None, 0),
        "threads": nothing,
        "fds": nothing,
    }
