"""Python itself during a run: how its threads take turns, when garbage is collected."""

import gc
import sys
from dataclasses import dataclass
from types import TracebackType

from edgepipe.telemetry.clock import Clock

SWITCH_INTERVAL_NS = 200_000
"""How long a thread that computes in Python may keep others waiting. Python's own 5 ms
is a part of many a deadline; shorter ones than 0.2 ms gained nothing that could be told
(docs/benchmarks.md)."""

LEAST_OBJECTS = 700
"""New containers below which there is nothing to collect: Python's own threshold."""
MOST_OBJECTS = 50_000
"""New containers with which the next collection waits for no idle moment."""
MOST_NS = 10_000_000_000
"""Time after which it waits for none either."""


@dataclass(frozen=True, slots=True)
class Collections:
    """What garbage collection has cost so far."""

    count: int = 0
    while_busy: int = 0
    """Those that could not wait for an idle moment."""
    total_ns: int = 0
    longest_ns: int = 0


class Housekeeping:
    """Keeps Python from stopping a run; use it with ``with``, around the run only.

    Whatever lives when it begins is taken out of the collector's sight: imports leave
    some 200,000 objects that live for ever, and a full collection without them is a
    thousand times shorter. After that garbage is collected by :meth:`tick` only. All
    of it concerns the whole process, and is put back as it was at the end.

    Args:
        clock: The time.
        switch_interval_ns: How long a thread may keep others waiting; None: as it is.
    """

    def __init__(
        self, clock: Clock, switch_interval_ns: int | None = SWITCH_INTERVAL_NS
    ) -> None:
        self._clock = clock
        self._interval_ns = switch_interval_ns
        self._interval_before_s = 0.0
        self._collected_by_itself = False
        self._last_ns = 0
        self.collections = Collections()

    def __enter__(self) -> "Housekeeping":
        self._interval_before_s = sys.getswitchinterval()
        if self._interval_ns is not None:
            sys.setswitchinterval(self._interval_ns / 1e9)
        self._collected_by_itself = gc.isenabled()
        gc.collect()
        gc.freeze()
        gc.disable()
        self._last_ns = self._clock.now_ns()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        gc.unfreeze()
        if self._collected_by_itself:
            gc.enable()
        sys.setswitchinterval(self._interval_before_s)

    @property
    def switch_interval_ns(self) -> int:
        """As it is now, whoever set it."""
        return round(sys.getswitchinterval() * 1e9)

    def tick(self, *, idle: bool) -> None:
        """Collect what has piled up if this is the moment; some ten times a second.

        Args:
            idle: Whether no stage works at this moment, so that nobody is kept waiting.
        """
        new = gc.get_count()[0]
        if new < LEAST_OBJECTS:
            return
        before_ns = self._clock.now_ns()
        if not idle and new < MOST_OBJECTS and before_ns - self._last_ns < MOST_NS:
            return
        gc.collect()
        self._last_ns = after_ns = self._clock.now_ns()
        self._count(after_ns - before_ns, idle=idle)

    def _count(self, took_ns: int, *, idle: bool) -> None:
        so_far = self.collections
        self.collections = Collections(
            so_far.count + 1,
            so_far.while_busy + (not idle),
            so_far.total_ns + took_ns,
            max(so_far.longest_ns, took_ns),
        )
