"""Delivery: the last step, where a result is handed to every sink."""

import logging
from collections.abc import Sequence
from threading import Lock

from edgepipe.pipeline.frame import Frame
from edgepipe.pipeline.stage import FrameError, Sink
from edgepipe.scheduler.fates import Reason
from edgepipe.telemetry.clock import Clock

log = logging.getLogger("edgepipe")

CLOSE_S = 0.25
"""How long closing waits for a sink that is being written to."""


class Outlet:
    """All sinks of a run, owned and shared by its streams.

    Each sink takes one frame at a time, so a stream waits for at most one write of
    another stream at each sink.
    """

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self.sinks = tuple(sinks)
        self.failures = {sink.name: 0 for sink in sinks}
        """Frames that a sink could not take, and whether it failed to close."""
        self.waits = any(getattr(sink, "waits", False) for sink in sinks)
        """Whether a write may take as long as somebody outside likes."""
        self._locks = tuple(Lock() for _ in self.sinks)
        self._closed = False

    def write(self, frame: Frame, now_ns: int) -> None:
        """Give the frame to each sink; one that fails costs the others nothing."""
        for sink, lock in zip(self.sinks, self._locks, strict=True):
            with lock:
                self._write(sink, frame, now_ns)

    def _write(self, sink: Sink, frame: Frame, now_ns: int) -> None:
        try:
            sink.write(frame, now_ns)
        except Exception as error:  # noqa: BLE001 - a sink's edge: it may fail
            self.failures[sink.name] += 1
            if self.failures[sink.name] == 1:
                log.warning(
                    "sink %s failed on frame %d of %s: %s (more will only be counted)",
                    sink.name,
                    frame.sequence,
                    frame.stream,
                    error,
                )

    def close(self) -> None:
        """Finish every sink; a failure is counted. Calling it again does nothing."""
        if self._closed:
            return
        self._closed = True
        for sink, lock in zip(self.sinks, self._locks, strict=True):
            if not lock.acquire(timeout=CLOSE_S):
                self.failures[sink.name] += 1
                log.warning("sink %s is stuck in a write: left unfinished", sink.name)
                continue
            try:
                sink.close()
            except Exception as error:  # noqa: BLE001 - a sink's edge: it may fail
                self.failures[sink.name] += 1
                log.warning("sink %s could not be finished: %s", sink.name, error)
            finally:
                lock.release()


class Deliver:
    """Hands frames to the sinks, in the order of the stream. Stateful.

    The moment of delivery is stamped here, once, before the sinks are called: ledger
    and sinks cannot disagree about it. A result that is past its deadline then is not
    delivered unless ``late`` allows it.
    """

    name = "deliver"

    def __init__(self, outlet: Outlet, clock: Clock, *, late: bool) -> None:
        self.waits = outlet.waits
        """A sink may wait for the program around the pipeline: that is no hanging."""
        self._outlet = outlet
        self._clock = clock
        self._late = late

    def process(self, frame: Frame, worker: int) -> Frame:
        """Stamp the frame and write it to the sinks.

        Raises:
            FrameError: ``expired``: the deadline has passed and late is not wanted.
        """
        del worker
        now_ns = self._clock.now_ns()
        if now_ns > frame.deadline_ns and not self._late:
            over_ms = -frame.slack_ns(now_ns) / 1e6
            raise FrameError(Reason.EXPIRED, f"{over_ms:.1f} ms past its deadline")
        delivered = frame.with_changes(delivered_ns=now_ns)
        self._outlet.write(delivered, now_ns)
        return delivered

    def close(self) -> None:
        """The outlet is closed by whoever opened it."""
