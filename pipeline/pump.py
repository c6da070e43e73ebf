"""Takes frames from a source when they are due, and only when they are wanted."""

import logging
from collections.abc import Callable
from fractions import Fraction
from queue import SimpleQueue
from threading import Event

from edgepipe.errors import EdgepipeError
from edgepipe.pipeline.pace import Epoch, MediaClock, Pace
from edgepipe.pipeline.source import (
    Arrival,
    EventKind,
    Interruptible,
    Source,
    SourceEvent,
)
from edgepipe.telemetry.clock import Clock
from edgepipe.telemetry.records import SourceRecord

log = logging.getLogger("edgepipe")

MOST_EVENTS = 16
"""Of what befell a source between two frames, the newest go with the next one."""


class Pump:
    """The loop of one source's thread. The source stays its opener's to close.

    Args:
        stream: Whose source it is.
        source: Where frames come from.
        pace: How fast a recording is played.
        waits: Whether a credit is needed for each frame.
        clock: The time.
        stop: Set by others to end the loop; :meth:`wake` it after that.
        arrive: Called with each arrival, its capture time, and what befell the source
            since the one before.
        befell: Called with each of these at once.
        speed: How many seconds of a recording pass in one at its own pace.
        epoch: When its media time is 0, shared with others; None: it is alone.
    """

    def __init__(
        self,
        stream: str,
        source: Source,
        pace: Pace,
        clock: Clock,
        stop: Event,
        arrive: Callable[[Arrival, int, tuple[SourceEvent, ...]], None],
        befell: Callable[[SourceEvent], None],
        *,
        waits: bool,
        speed: Fraction = Fraction(1),
        epoch: Epoch | None = None,
    ) -> None:
        self._stream = stream
        self._source = source
        self._waits = waits
        self._media = MediaClock(pace, yields=waits, speed=speed, epoch=epoch)
        self._clock = clock
        self._stop = stop
        self._arrive = arrive
        self._befell = befell
        # One item for each credit: ten times cheaper than a semaphore.
        self._credits: SimpleQueue[None] = SimpleQueue()

    def grant(self, credits_: int) -> None:
        """Let the source go on for so many frames."""
        for _ in range(credits_):
            self._credits.put(None)

    def wake(self) -> None:
        """Make a loop that waits for a credit or a frame look at ``stop``."""
        self._credits.put(None)
        if isinstance(self._source, Interruptible):
            self._source.interrupt()

    def run(self, until_ns: int | None) -> SourceRecord:
        """Go on until the source ends, fails or is stopped, or a frame is too late.

        Args:
            until_ns: Frames captured from this moment on are not wanted.
        """
        state, detail = self._play(until_ns)
        if state != "stopped":
            words = f"{state}: {detail}" if detail else state
            self._befell(SourceEvent(EventKind.END, words))
        info = self._source.info
        return SourceRecord(self._stream, info.uri, state, detail, info.input_hash)

    def _play(self, until_ns: int | None) -> tuple[str, str]:
        """How the source ended: its state, and a detail for people."""
        state, detail = "stopped", ""
        last = -1
        events: tuple[SourceEvent, ...] = ()
        while not self._stop.is_set():
            # One that was used to learn of an event is still good for a frame.
            if self._waits and not events:
                self._credits.get()
                if self._stop.is_set():
                    break
            try:
                arrival = self._source.next_arrival()
            except EdgepipeError as error:
                state, detail = "failed", str(error)
                log.error("stream %s: %s", self._stream, error)
                break
            except Exception as error:  # a source's edge: the other streams go on
                state, detail = "failed", repr(error)
                log.exception("stream %s: its source failed", self._stream)
                break
            if arrival is None:
                if not self._stop.is_set():
                    state, detail = self._source.end_state
                break
            if isinstance(arrival, SourceEvent):
                events = (*events[1 - MOST_EVENTS :], arrival)
                self._befell(arrival)
                continue
            if arrival.index <= last:
                # Nobody could tell two frames with one number apart.
                state, detail = "failed", f"frame {arrival.index} came after {last}"
                log.error("stream %s: %s", self._stream, detail)
                break
            last = arrival.index
            capture_ns = arrival.captured_ns
            if capture_ns is None:
                now_ns = self._clock.now_ns()
                capture_ns = self._media.capture_ns(arrival.pts_ns, now_ns)
            if until_ns is not None and capture_ns >= until_ns:
                # The run lasts as long as was asked for, also without another frame.
                self._clock.wait_until(until_ns, self._stop)
                break
            if self._clock.wait_until(capture_ns, self._stop):
                break
            self._arrive(arrival, capture_ns, events)
            events = ()
        return state, detail
