"""Results for the program around the pipeline: a bounded queue between the two."""

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass
from enum import Enum
from threading import Condition

from edgepipe.pipeline.frame import Frame
from edgepipe.pipeline.runtime import Runtime

CAPACITY = 4
"""Results that wait for the program: each may hold a decoded picture."""


class WhenFull(Enum):
    """What becomes of a result when the program has not taken the last ones."""

    BLOCK = "block"
    """Its stream waits. The scheduler drops what can then not be in time, before any
    work is spent on it."""
    DROP_OLDEST = "drop_oldest"
    """The oldest one is forgotten, though it counts as delivered."""


@dataclass(frozen=True, slots=True)
class ResultStatistics:
    """A snapshot of the queue."""

    capacity: int
    depth: int
    peak_depth: int
    dropped: int
    """Results that nobody took: pushed out, or left when it was stopped."""


class Results:
    """A sink whose results somebody takes, one by one, in the order of delivery."""

    name = "results"

    def __init__(
        self, capacity: int = CAPACITY, when_full: WhenFull = WhenFull.BLOCK
    ) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, got {capacity}")
        self._capacity = capacity
        self._when_full = when_full
        self._waiting: deque[Frame] = deque()
        self._changed = Condition()
        self._finished = False
        self._peak_depth = self._dropped = 0

    @property
    def waits(self) -> bool:
        """Whether a write may take as long as the program likes."""
        return self._when_full is WhenFull.BLOCK

    def write(self, frame: Frame, now_ns: int) -> None:
        """Put a result in; wait for room, or make it, when there is none."""
        del now_ns
        waiting = self._waiting
        with self._changed:
            while self.waits and len(waiting) >= self._capacity and not self._finished:
                self._changed.wait()
            if self._finished:
                self._dropped += 1
                return
            if len(waiting) >= self._capacity:
                waiting.popleft()
                self._dropped += 1
            waiting.append(frame)
            self._peak_depth = max(self._peak_depth, len(waiting))
            self._changed.notify_all()

    def take(self) -> Frame | None:
        """Wait for the next result; None when no more will come."""
        with self._changed:
            while not self._waiting and not self._finished:
                self._changed.wait()
            if not self._waiting:
                return None
            frame = self._waiting.popleft()
            self._changed.notify_all()
            return frame

    def finish(self) -> None:
        """Take in no more and keep nobody waiting; what is there can still be taken."""
        with self._changed:
            self._finished = True
            self._changed.notify_all()

    def close(self) -> None:
        """Forget what nobody has taken; calling it again does nothing."""
        self.finish()
        with self._changed:
            self._dropped += len(self._waiting)
            self._waiting.clear()

    def statistics(self) -> ResultStatistics:
        """Results that wait now and waited at most, and those that nobody took."""
        with self._changed:
            return ResultStatistics(
                self._capacity, len(self._waiting), self._peak_depth, self._dropped
            )


def run(
    results: Results, runtime: Runtime, stop_within_s: float
) -> Generator[Frame, None, None]:
    """Start the runtime, give its results, stop it at the end or when left early.

    Raises:
        StoppedError: It has run before.
        Exception: A thread of the runtime itself failed; that is a bug.
    """
    runtime.start()
    try:
        runtime.at_end(results.finish)
        while (frame := results.take()) is not None:
            yield frame
        runtime.wait(0)
    finally:
        results.close()
        runtime.stop(stop_within_s)
