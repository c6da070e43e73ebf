"""Delivery: the last step, where a result is handed to every sink."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock

from edgepipe.pipeline.frame import Frame
from edgepipe.pipeline.stage import FrameError, Sink
from edgepipe.telemetry.clock import Clock

log = logging.getLogger("edgepipe")


@dataclass(slots=True)
class Outlet:
    """All sinks of a run, shared by its streams: one frame at a time."""

    sinks: Sequence[Sink]
    failures: dict[str, int] = field(default_factory=dict[str, int])
    """Frames that a sink could not take, by sink."""
    _lock: Lock = field(default_factory=Lock)

    def write(self, frame: Frame, now_ns: int) -> None:
        """Give the frame to each sink; one that fails costs the others nothing."""
        with self._lock:
            for sink in self.sinks:
                self._write(sink, frame, now_ns)

    def _write(self, sink: Sink, frame: Frame, now_ns: int) -> None:
        try:
            sink.write(frame, now_ns)
        except Exception as error:  # noqa: BLE001 - a sink's edge: it may fail
            count = self.failures.get(sink.name, 0)
            self.failures[sink.name] = count + 1
            if count == 0:
                log.warning(
                    "sink %s failed on frame %d of %s: %s (more will only be counted)",
                    sink.name,
                    frame.sequence,
                    frame.stream,
                    error,
                )


class Deliver:
    """Hands frames to the sinks, in the order of the stream. Stateful.

    A result that is past its deadline is not delivered unless ``late`` allows it.
    """

    name = "deliver"

    def __init__(self, outlet: Outlet, clock: Clock, *, late: bool) -> None:
        self._outlet = outlet
        self._clock = clock
        self._late = late

    def process(self, frame: Frame, worker: int) -> Frame:
        """Write to the sinks.

        Raises:
            FrameError: ``expired``: the deadline has passed and late is not wanted.
        """
        del worker
        now_ns = self._clock.now_ns()
        if now_ns > frame.deadline_ns and not self._late:
            over_ms = -frame.slack_ns(now_ns) / 1e6
            raise FrameError("expired", f"{over_ms:.1f} ms past its deadline")
        self._outlet.write(frame, now_ns)
        return frame

    def close(self) -> None:
        """The sinks are closed by whoever opened them."""
