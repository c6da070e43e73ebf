"""Whether a process grows: its resident memory, sampled, and the slope of it."""

import math
import os
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

MIB = 1 << 20
SURE = 1.96
"""Standard errors on either side of the estimate that hold it in 95 of 100 cases."""


class Slope(NamedTuple):
    """A straight line through the samples. MiB for each minute."""

    slope: float
    upper: float
    """The upper end of its 95 % interval."""


def resident_bytes() -> int:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def slope(times_s: Sequence[float], sizes_bytes: Sequence[float]) -> Slope:
    """Fit a line; there must be at least three samples."""
    minutes = np.asarray(times_s, np.float64) / 60
    mib = np.asarray(sizes_bytes, np.float64) / MIB
    centred = minutes - minutes.mean()
    found = float(centred @ mib / (centred @ centred))
    rest = mib - mib.mean() - found * centred
    error = math.sqrt(float(rest @ rest) / (len(mib) - 2) / float(centred @ centred))
    return Slope(found, found + SURE * error)


@contextmanager
def sampled(
    period_s: float, settled_s: float
) -> Generator[list[tuple[float, int]], None, None]:
    """Sample the memory from ``settled_s`` after now until the block ends.

    Yields the list of (seconds, bytes) that grows meanwhile.
    """
    samples: list[tuple[float, int]] = []
    stop, begun_s = threading.Event(), time.monotonic()

    def run() -> None:
        wait_s = settled_s
        while not stop.wait(wait_s):
            wait_s = period_s
            samples.append((time.monotonic() - begun_s, resident_bytes()))

    thread = threading.Thread(target=run, name="memory")
    thread.start()
    try:
        yield samples
    finally:
        stop.set()
        thread.join()
