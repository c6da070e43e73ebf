"""Opens a camera, reads it, loses it and opens it again, until it is told to stop."""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Event, Lock
from typing import Protocol

from edgepipe.pipeline.source import SourceStatus
from edgepipe.pipeline.source_events import SourceEvent
from edgepipe.stages.sources.backlog import Announced
from edgepipe.stages.sources.camera import (
    Camera,
    CameraError,
    CameraFacts,
    Connection,
    Shot,
    ShotDecoder,
)
from edgepipe.stages.sources.life import Events, Life, State
from edgepipe.telemetry.clock import Clock

log = logging.getLogger("edgepipe")

LOOK_NS = 200_000_000
"""How often it is looked whether a device that was unplugged is there again."""


class Taker(Protocol):
    """Whoever gets what a camera sends."""

    def opened(self, facts: CameraFacts) -> None:
        """A connection is open."""
        ...

    def keep(self, shot: Shot, decoder: ShotDecoder) -> Sequence[Announced]:
        """Keep a shot; return the frames that it makes available."""
        ...

    def announce(self, frames: Sequence[Announced]) -> None:
        """These frames can be asked for."""
        ...

    def tell(self, event: SourceEvent) -> None:
        """Something befell the camera."""
        ...


class LiveReader:
    """The loop of one camera's thread.

    Args:
        camera: What is opened.
        life: Its state, fresh.
        clock: The time.
        stop: Ends the loop; :meth:`interrupt` it after that.
        taker: Gets frames and events, in their order.
    """

    def __init__(
        self, camera: Camera, life: Life, clock: Clock, stop: Event, taker: Taker
    ) -> None:
        self._camera, self._life, self._clock = camera, life, clock
        self._stop, self._taker = stop, taker
        self._lock = Lock()
        self._connection: Connection | None = None
        self.last_failure = ""
        """Why the newest attempt or connection ended."""

    def run(self) -> None:
        """Go on until it is stopped, or the camera is given up."""
        while not self._stop.is_set():
            self._note(self._life.start)
            error = self._attempt()
            if self._stop.is_set():
                break
            self.last_failure = str(error)
            self._note(lambda now_ns: self._life.failed(now_ns, self.last_failure))
            if self._life.state is State.GONE:
                return
            self._wait_for_retry(is_absent=error.is_absent)
        with self._lock:
            self._life.end(self._clock.now_ns())

    def interrupt(self) -> None:
        """Make the loop look at ``stop`` soon, whatever it waits for."""
        self._camera.interrupt()
        connection = self._connection
        if connection is not None:
            connection.interrupt()

    def tick(self) -> int | None:
        """Look at the time; return when to look again, None: whenever.

        The loop does so itself whenever the camera lets it, but a camera's library may
        keep it waiting.
        """
        self._note(self._life.tick)
        with self._lock:
            if self._life.why_given_up(self._clock.now_ns()):
                connection = self._connection
                if connection is not None:
                    connection.interrupt()
            return self._life.wake_ns

    def looked(self, digest: Callable[[], int]) -> None:
        """Compare a picture with the one before, if it is time to."""
        now_ns = self._clock.now_ns()
        if self._life.wants_look(now_ns):
            seen = digest()
            self._note(lambda now_ns: self._life.looked(now_ns, seen))

    def status(self) -> SourceStatus:
        """How the camera is doing."""
        with self._lock:
            return self._life.status()

    # --- in detail --------------------------------------------------------------------

    def _note(self, happen: Callable[[int], Events]) -> None:
        with self._lock:
            for event in happen(self._clock.now_ns()):
                self._taker.tell(event)

    def _attempt(self) -> CameraError:
        """One connection from its beginning to its end; returns why it ended."""
        try:
            connection = self._camera.connect()
        except CameraError as error:
            return error
        except Exception as error:  # a library's edge: the next try may be better
            log.exception("a camera could not be opened")
            return CameraError(repr(error))
        self._connection = connection
        try:
            return self._read(connection)
        except CameraError as error:
            return error
        except Exception as error:  # the same
            log.exception("a camera could not be read")
            return CameraError(repr(error))
        finally:
            self._connection = None
            with suppress(CameraError):
                connection.close()

    def _read(self, connection: Connection) -> CameraError:
        facts = connection.facts
        period_ns = round(1e9 / facts.fps) if facts.fps else 0
        self._taker.opened(facts)
        self._note(lambda now_ns: self._life.opened(now_ns, period_ns))
        while not self._stop.is_set():
            shot = connection.read()
            if shot is not None:
                self._take(shot, connection.decoder)
                continue
            self._note(self._life.tick)
            why = self._life.why_given_up(self._clock.now_ns())
            if why:
                return CameraError(why)
        return CameraError("stopped")

    def _take(self, shot: Shot, decoder: ShotDecoder) -> None:
        frames = self._taker.keep(shot, decoder)
        # Once it is live, each shot is a sign of life, wanted or not.
        if frames or self._life.state in (State.LIVE, State.STALLED):
            # First that it is live, then what it is live with.
            self._note(self._life.frame)
            self._taker.announce(frames)
        else:
            self._life.heard(self._clock.now_ns())

    def _wait_for_retry(self, *, is_absent: bool) -> None:
        """Until it is time, or until a device that was not there is there again."""
        was_there = not is_absent and self._camera.is_there() is not False
        while not self._stop.is_set():
            now_ns = self._clock.now_ns()
            if self._life.is_due(now_ns):
                return
            wake_ns = self._life.wake_ns
            look_ns = now_ns + LOOK_NS
            self._clock.wait_until(
                look_ns if wake_ns is None else min(look_ns, wake_ns), self._stop
            )
            is_there = self._camera.is_there()
            if is_there and not was_there:
                self._life.appeared(self._clock.now_ns())
            was_there = is_there is not False
