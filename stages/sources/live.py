"""A camera as a source: a thread reads it, so that nobody who is slow can delay it."""

import time
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from threading import Condition, Event, Lock, Thread

import numpy as np

from edgepipe.errors import InputError
from edgepipe.pipeline.frame import Picture
from edgepipe.pipeline.packets import Packet, PacketFormat
from edgepipe.pipeline.packets import Taken as TakenPackets
from edgepipe.pipeline.source import Arrival, DamagedError, SourceInfo, SourceStatus
from edgepipe.pipeline.source_events import EventKind, SourceEvent
from edgepipe.stages.sources.backlog import Announced, Backlog, Waiting
from edgepipe.stages.sources.camera import (
    Camera,
    CameraFacts,
    PackingDecoder,
    Shot,
    ShotDecoder,
)
from edgepipe.stages.sources.life import Life, Patience, State
from edgepipe.stages.sources.live_decoding import LiveDecoding
from edgepipe.stages.sources.live_reader import LiveReader
from edgepipe.telemetry.clock import Clock, MonotonicClock

MOST_READY = 16
"""Frames that wait to be taken; beyond it the oldest are left out."""
MOST_UNWANTED = 4
"""The same while nobody has asked for one for ``AWAY_NS``: whoever is made to wait for
frames to be done wants the newest then, but a thread that was late wants all."""
AWAY_NS = 100_000_000
MOST_EVENTS = 32
"""Events that wait to be taken; beyond it the oldest are forgotten."""
_NEVER = 2**63
_SOONEST_S = 0.05
"""How soon the time is looked at again at most."""
_CLOSE_S = 0.7
"""How long after the interrupt the thread is waited for. One that a library still holds
ends by itself when its time-out is over."""


class LiveSource:
    """One camera, opened and reopened for as long as it takes.

    Args:
        camera: What is opened.
        info: What is known before it is: address and rate.
        patience: How long it is waited for.
        clock: The time.
        dice: Spreads the tries of cameras that were lost at the same moment.
        required: Raise if it cannot be opened at once.

    Raises:
        InputError: It is required, and there is no picture.
    """

    def __init__(
        self,
        camera: Camera,
        info: SourceInfo,
        patience: Patience,
        clock: Clock | None = None,
        dice: Random | None = None,
        *,
        required: bool = False,
    ) -> None:
        self._info = info
        self._notes: tuple[str, ...] = ()
        self._stop = Event()
        self._interrupted_s = 0.0
        self._changed = Condition()
        self._ready: deque[Arrival | SourceEvent] = deque()
        self._arrivals = 0
        self._is_begun = False
        """Whether a frame has been taken."""
        self._left_ns = _NEVER
        """When somebody last went away with a frame; never while somebody waits."""
        self._backlog = Backlog()
        self._missed = 0
        self._clock = clock or MonotonicClock()
        self._life = Life(patience, dice or Random())
        self._reader = LiveReader(camera, self._life, self._clock, self._stop, self)
        self._decoding = Lock()
        self._pictures = LiveDecoding(self._backlog, self._changed)
        self._newest: ShotDecoder | None = None
        self._thread = Thread(target=self._run, name="edgepipe-camera", daemon=True)
        self._has_ended = False
        self._thread.start()
        if required:
            self._wait_for_picture()

    # --- what the pipeline sees -------------------------------------------------------

    @property
    def info(self) -> SourceInfo:
        """Size and codec are those of the newest connection; 0 before the first."""
        return self._info

    @property
    def warnings(self) -> tuple[str, ...]:
        """What had to be assumed in the newest connection."""
        return self._notes

    @property
    def status(self) -> SourceStatus:
        """How the camera is doing."""
        return self._reader.status()

    @property
    def end_state(self) -> tuple[str, str]:
        """A camera has no end of its own."""
        return "ended", ""

    def next_arrival(self) -> Arrival | SourceEvent | None:
        """Wait for the next frame or event; None when it was interrupted.

        Raises:
            InputError: The camera has been given up.
        """
        with self._changed:
            while not self._stop.is_set():
                if self._ready:
                    self._left_ns = self._clock.now_ns()
                    item = self._pop()
                    self._is_begun = self._is_begun or isinstance(item, Arrival)
                    return item
                self._left_ns = _NEVER
                if self._has_ended:
                    raise InputError(
                        f"{self._info.uri}: given up: {self._reader.last_failure}"
                    )
                self._changed.release()
                try:
                    wake_ns = self._reader.tick()
                finally:
                    self._changed.acquire()
                if not self._ready and not self._has_ended:
                    self._changed.wait(self._seconds_to(wake_ns))
        return None

    def decode(self, index: int) -> Picture:
        """The picture of that frame; older ones are decoded only if it needs them."""
        with self._decoding:
            picture = self._pictures.picture(index)
        self._reader.looked(lambda: _digest(picture))
        return picture

    def decode_in_time(
        self, index: int, until_ns: int, now_ns: Callable[[], int]
    ) -> Picture:
        """The same, if it can be done by ``until_ns``."""
        with self._decoding:
            picture = self._pictures.picture(index, until_ns, now_ns)
        self._reader.looked(lambda: _digest(picture))
        return picture

    @property
    def decoding(self) -> str:
        """Which frames are decoded at present, in words."""
        return self._pictures.level.words

    @property
    def packet_format(self) -> PacketFormat | None:
        """Of the newest connection; None if it sends pictures, or nothing yet."""
        decoder: object = self._newest
        return decoder.packet_format if isinstance(decoder, PackingDecoder) else None

    def packets(self, index: int) -> TakenPackets:
        """What the camera sent up to the picture of that frame."""
        with self._decoding, self._changed:
            taken = self._backlog.take(index)
        if taken.jumped and taken.shots and not taken.shots[0].shot.is_key:
            raise DamagedError("what it refers to was left out")
        return TakenPackets(taken.tag, [_packet(waiting) for waiting in taken.shots])

    def interrupt(self) -> None:
        """Make whoever waits for a frame come back, for good."""
        if not self._stop.is_set():
            self._interrupted_s = time.monotonic()
        self._stop.set()
        self._reader.interrupt()
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """Let go of the camera."""
        self.interrupt()
        # Many cameras are interrupted together and closed one by one.
        waited_s = time.monotonic() - self._interrupted_s
        self._thread.join(max(0.0, _CLOSE_S - waited_s))

    # --- what the reader brings -------------------------------------------------------

    def opened(self, facts: CameraFacts) -> None:
        """A connection is open."""
        self._notes = facts.notes
        self._info = replace(
            self._info,
            width=facts.width,
            height=facts.height,
            fps=facts.fps or self._info.fps,
            codec=facts.codec,
            held_ns=facts.held_ns,
        )

    def keep(self, shot: Shot, decoder: ShotDecoder) -> Sequence[Announced]:
        """Keep a shot until somebody wants it decoded."""
        with self._changed:
            self._newest = decoder
            frames = self._backlog.push(shot, decoder)
            self._pictures.saw(shot)
            left_out = self._backlog.left_out if frames else 0
            if left_out:
                self._backlog.left_out = 0
            self._changed.notify_all()
        if left_out and self._is_begun:
            detail = f"{left_out} frames were not decoded in time"
            self.tell(SourceEvent(EventKind.GAP, detail))
        if shot.lost:
            fps = self._info.fps
            amount_ns = round(shot.lost * 1e9 / fps) if fps else 0
            detail = f"the camera or the way from it lost {shot.lost} frames"
            self.tell(SourceEvent(EventKind.GAP, detail, amount_ns=amount_ns))
        return frames

    def announce(self, frames: Sequence[Announced]) -> None:
        """Frames can be asked for; the newest ones count."""
        with self._changed:
            away_ns = self._clock.now_ns() - self._left_ns
            most = MOST_UNWANTED if away_ns > AWAY_NS else MOST_READY
            for frame in frames:
                while self._arrivals >= most:
                    self._leave_out_oldest()
                arrival = Arrival(frame.number, None, frame.captured_ns)
                self._ready.append(arrival)
                self._arrivals += 1
            self._changed.notify_all()

    def tell(self, event: SourceEvent) -> None:
        """Something befell the camera."""
        with self._changed:
            if len(self._ready) - self._arrivals == MOST_EVENTS:
                oldest = next(
                    each for each in self._ready if isinstance(each, SourceEvent)
                )
                self._ready.remove(oldest)
            self._ready.append(event)
            self._changed.notify_all()

    # --- in detail --------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._reader.run()
        finally:
            with self._changed:
                self._has_ended = True
                self._changed.notify_all()

    def _wait_for_picture(self) -> None:
        while self._life.state is State.CONNECTING:
            self._reader.tick()
            with self._changed:
                self._changed.wait(_SOONEST_S)
        if self._life.state is State.LIVE:
            return
        self.close()
        raise InputError(f"{self._info.uri}: {self._reader.last_failure}")

    def _pop(self) -> Arrival | SourceEvent:
        if self._missed:
            missed, self._missed = self._missed, 0
            detail = f"{missed} frames were not taken in time"
            return SourceEvent(EventKind.GAP, detail)
        item = self._ready.popleft()
        self._arrivals -= isinstance(item, Arrival)
        return item

    def _leave_out_oldest(self) -> None:
        oldest = next(each for each in self._ready if isinstance(each, Arrival))
        self._ready.remove(oldest)
        self._arrivals -= 1
        # Before somebody took the first one, nobody misses any.
        self._missed += self._is_begun

    def _seconds_to(self, wake_ns: int | None) -> float | None:
        if wake_ns is None:
            return None
        return max(_SOONEST_S, (wake_ns - self._clock.now_ns()) / 1e9)


def _packet(waiting: Waiting) -> Packet:
    shot, decoder = waiting.shot, waiting.decoder
    if not isinstance(decoder, PackingDecoder):
        raise DamagedError("the camera sends another kind of pictures now")
    data = decoder.packed(shot.payload, is_key=shot.is_key)
    return Packet(
        waiting.tag, data, shot.is_key, is_shown=True, captured_ns=shot.captured_ns
    )


def _digest(picture: Picture) -> int:
    """Differs, as good as surely, when any brightness in the picture does."""
    return zlib.crc32(np.ascontiguousarray(picture.planes[0]).data)
