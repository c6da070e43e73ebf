"""Sources into a recording: a thread for each, and one that writes."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import NamedTuple

from edgepipe.errors import EdgepipeError
from edgepipe.pipeline.source import (
    DamagedError,
    Interruptible,
    Source,
    SourceEvent,
)
from edgepipe.stages.recordings.byte_queue import ByteQueue
from edgepipe.stages.recordings.kept_stream import KeptStream, Made
from edgepipe.stages.recordings.segments import Entry, Segments
from edgepipe.telemetry.clock import Clock

SYNC_NS = 1_000_000_000
"""What a power cut can cost."""
QUEUE_BYTES = 64 << 20
"""Between sources and disk. Beyond it recordings wait, and cameras lose frames."""
_LOOK_S = 0.05

log = logging.getLogger("edgepipe")


class Input(NamedTuple):
    """One stream to be recorded."""

    stream: str
    source: Source
    kept: KeptStream


@dataclass(slots=True)
class Account:
    """What became of the frames of one stream."""

    frames: int = 0
    """That the source had."""
    messages: int = 0
    bytes: int = 0
    damaged: int = 0
    """That could not be kept."""
    lost: int = 0
    """That the disk was too slow for."""
    events: dict[str, int] = field(default_factory=dict[str, int])
    """What befell the source, by kind."""
    state: str = "stopped"
    """How it ended."""
    detail: str = ""


class Recorder:
    """Records until the sources end or it is told to stop.

    The sources and the recording stay their opener's to close.

    Args:
        inputs: What is recorded; their positions are the channels of ``segments``.
        segments: Where to.
        clock: The time.
    """

    def __init__(
        self, inputs: Sequence[Input], segments: Segments, clock: Clock
    ) -> None:
        self._inputs, self._segments, self._clock = inputs, segments, clock
        self.accounts = {each.stream: Account() for each in inputs}
        self._queue: ByteQueue[Entry] = ByteQueue(QUEUE_BYTES)
        self._stop = Event()
        self._running = 0
        self.failure = ""
        """Why writing had to stop; empty if it did not."""

    def run(self, should_stop: Callable[[], bool], until_ns: int | None = None) -> None:
        """Record; returns when everything that came is on the disk, or cannot be."""
        threads = [
            Thread(target=self._feed, args=(n, each), name=f"record {each.stream}")
            for n, each in enumerate(self._inputs)
        ]
        for thread in threads:
            thread.start()
        try:
            self._write(threads, should_stop, until_ns)
        except OSError as error:
            self.failure = f"cannot write {self._segments.folder}: {error.strerror}"
            self._segments.abandon()
        finally:
            self._end(threads)

    def _write(
        self,
        threads: Sequence[Thread],
        should_stop: Callable[[], bool],
        until_ns: int | None,
    ) -> None:
        segments, clock = self._segments, self._clock
        synced_ns = clock.now_ns()
        while True:
            alive = any(thread.is_alive() for thread in threads)
            entry = self._queue.get(_LOOK_S)
            if entry is not None:
                segments.add(entry)
            now_ns = clock.now_ns()
            if now_ns - synced_ns >= SYNC_NS:
                segments.sync()
                synced_ns = now_ns
            if segments.full:
                break
            if not self._stop.is_set() and (
                should_stop() or (until_ns is not None and now_ns >= until_ns)
            ):
                self._tell_to_stop()
            if entry is None and not alive:
                break
        segments.close()
        self.failure = segments.full

    def _tell_to_stop(self) -> None:
        self._stop.set()
        for each in self._inputs:
            if isinstance(each.source, Interruptible):
                each.source.interrupt()

    def _end(self, threads: Sequence[Thread]) -> None:
        self._tell_to_stop()
        self._queue.close()
        for thread in threads:
            thread.join()

    # --- one thread for each source ---------------------------------------------------

    def _feed(self, channel: int, each: Input) -> None:
        account = self.accounts[each.stream]
        try:
            self._read(channel, each, account)
        except EdgepipeError as error:
            account.state, account.detail = "failed", str(error)
            log.error("stream %s: %s", each.stream, error)
        except Exception as error:  # a thread's edge: the other streams go on
            account.state, account.detail = "failed", repr(error)
            log.exception("stream %s: its source failed", each.stream)

    def _read(self, channel: int, each: Input, account: Account) -> None:
        put = Handover(self._queue, channel, account, waits=not each.source.info.live)
        while not self._stop.is_set():
            arrival = each.source.next_arrival()
            if arrival is None:
                if not self._stop.is_set():
                    account.state, account.detail = each.source.end_state
                break
            if isinstance(arrival, SourceEvent):
                kind = arrival.kind.value
                account.events[kind] = account.events.get(kind, 0) + 1
                continue
            account.frames += 1
            stamp_ns = arrival.captured_ns
            if stamp_ns is None:
                stamp_ns = arrival.pts_ns
            if stamp_ns is None:
                stamp_ns = self._clock.now_ns()
            try:
                for made in each.kept.messages(arrival.index, stamp_ns):
                    put(made)
            except DamagedError:
                account.damaged += 1
        for made in each.kept.rest():
            put(made)


class Handover:
    """Hands messages to the thread that writes, from a key frame on."""

    def __init__(
        self, queue: ByteQueue[Entry], channel: int, account: Account, *, waits: bool
    ) -> None:
        self._queue, self._channel, self._account = queue, channel, account
        self._waits = waits
        self._needs_key = True
        self._sequence = 0

    def __call__(self, made: Made) -> None:
        """Hand one message over, or count it as lost."""
        if self._needs_key and not made.is_key:
            self._account.lost += 1
            return
        entry = Entry(self._channel, self._sequence, *made)
        taken = self._queue.put(entry, len(made.data), wait=self._waits)
        # What follows a lost packet cannot be decoded without it.
        self._needs_key = not taken
        if not taken:
            self._account.lost += 1
            return
        self._sequence += 1
        self._account.messages += 1
        self._account.bytes += len(made.data)
