"""What a synthetic stage does with its time.

An accelerator is a timed wait that lets go of the global lock: the processor is free
meanwhile, as it is while a GPU works. A step on the processor burns the thread's own
CPU time, in native code that lets go of the global lock or in bytecode that holds it.
"""

import ctypes
import os
import threading
import time
import zlib
from array import array
from collections.abc import Callable, Sequence
from typing import NamedTuple

from edgepipe.scheduler.job import Resource

BURNING = "cpu"
"""The resource whose steps burn CPU; all others are accelerators."""
SPIN_NS = 60_000
"""The last part of a timed wait is spun: a sleep of Linux ends 30 to 80 us late."""
PR_SET_TIMERSLACK = 29
CHUNK_BYTES = 1 << 18
"""Bytes of one call of native code: some 90 us. Below 5 KiB it would keep the lock."""
LEAST_BYTES = 1 << 13
ROUNDS = 100
"""Rounds of a loop in bytecode between two looks at the time."""


class Task(NamedTuple):
    """One job's work, or that of a batch, which its first frame stands for."""

    stream: str
    sequence: int
    step: int
    resource: str
    start_ns: int
    """When it began, by the runtime's clock."""
    cost_ns: int


Perform = Callable[[Task], None]
"""Does the work of a task; comes back when it is done."""
Burn = Callable[[int], None]
"""Uses so many nanoseconds of the calling thread's CPU time."""


class RealWork:
    """Work on the real clock, and how far its times were missed.

    Args:
        burn: What steps on the processor do.
    """

    def __init__(self, burn: Burn) -> None:
        self._burn = burn
        self._prepared = threading.local()
        self.accelerator_error_ns = array("q")
        """For each timed wait, how late it ended."""
        self.cpu_error_ns = array("q")
        """For each burnt job, wall time beyond the CPU time that was asked for."""

    def perform(self, task: Task) -> None:
        """Do the work of the task."""
        if task.resource == BURNING:
            self._burn(task.cost_ns)
            spent_ns = time.monotonic_ns() - task.start_ns
            self.cpu_error_ns.append(spent_ns - task.cost_ns)
            return
        if not hasattr(self._prepared, "slack"):
            self._prepared.slack = exact_sleeps()
        wait_until(task.start_ns + task.cost_ns)
        end_ns = task.start_ns + task.cost_ns
        self.accelerator_error_ns.append(time.monotonic_ns() - end_ns)


def wait_until(at_ns: int) -> None:
    """Sleep until shortly before the moment, then give way until it has come."""
    left_ns = at_ns - time.monotonic_ns()
    if left_ns > SPIN_NS:
        time.sleep((left_ns - SPIN_NS) / 1e9)
    while time.monotonic_ns() < at_ns:
        os.sched_yield()


def exact_sleeps() -> bool:
    """Ask Linux for this thread's sleeps to the microsecond; whether it agreed."""
    found: int = ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0)
    return found == 0


def burn_releasing(cost_ns: int) -> None:
    """Checksums of a large buffer: native code that lets go of the global lock."""
    end_ns = time.thread_time_ns() + cost_ns
    size, per_byte_ns = CHUNK_BYTES, _PER_BYTE_NS
    while (left_ns := end_ns - time.thread_time_ns()) > 0:
        size = max(LEAST_BYTES, min(CHUNK_BYTES, int(left_ns / per_byte_ns)))
        zlib.crc32(_BUFFER[:size])


def burn_holding(cost_ns: int) -> None:
    """A loop in bytecode: it never lets go of the global lock of its own accord."""
    end_ns = time.thread_time_ns() + cost_ns
    while time.thread_time_ns() < end_ns:
        for _ in range(ROUNDS):
            pass


BURNS: dict[str, Burn] = {"releasing": burn_releasing, "holding": burn_holding}


def check_slots(resources: Sequence[Resource]) -> None:
    """Refuse to burn more CPU at a time than there is.

    Raises:
        ValueError: More slots than this process may use cores.
    """
    cores = len(os.sched_getaffinity(0))
    for resource in resources:
        if resource.name == BURNING and resource.slots > cores:
            raise ValueError(f"{resource.slots} slots of {BURNING}, {cores} cores")


def _per_byte_ns() -> float:
    """What a byte costs when nothing disturbs: the least of a few tries."""
    tries: list[int] = []
    for _ in range(20):
        begun_ns = time.thread_time_ns()
        zlib.crc32(_BUFFER)
        tries.append(time.thread_time_ns() - begun_ns)
    return min(tries) / len(_BUFFER)


_BUFFER = memoryview(bytes(CHUNK_BYTES))
_PER_BYTE_NS = _per_byte_ns()
