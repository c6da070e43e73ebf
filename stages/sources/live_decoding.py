"""Makes pictures of a camera's shots, and leaves out what there is no time for."""

import time
from collections.abc import Callable
from dataclasses import replace
from threading import Condition

from edgepipe.pipeline.frame import Picture
from edgepipe.pipeline.source import DamagedError, SkippedError
from edgepipe.stages.sources.backlog import Backlog, Taken, Waiting
from edgepipe.stages.sources.camera import Decoded, Shot, ShotDecoder
from edgepipe.stages.sources.pressure import Level, Shedder

MOST_DECODED = 16
"""Pictures that came out before they were asked for."""
_REORDER_S = 0.25
"""How long a decoder that reorders is given for the shots that follow."""


class LiveDecoding:
    """Decodes on request; the caller serialises the requests.

    Args:
        backlog: What waits to be decoded.
        changed: Its lock, which tells when there is more.
    """

    def __init__(self, backlog: Backlog, changed: Condition) -> None:
        self._backlog, self._changed = backlog, changed
        self._decoder: ShotDecoder | None = None
        self._decoded: dict[int, Decoded] = {}
        self._broken = ""
        self._shedder = Shedder()

    @property
    def level(self) -> Level:
        """Which frames are decoded at present."""
        return self._shedder.level

    def saw(self, shot: Shot) -> None:
        """A shot was kept."""
        self._shedder.came(is_key=shot.is_key, disposable=shot.is_disposable)

    def picture(
        self,
        index: int,
        until_ns: int | None = None,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> Picture:
        """The picture of a frame; older ones are decoded only if it needs them.

        Args:
            index: Of the frame.
            until_ns: When the picture must be there; None: there is no hurry.
            now_ns: The clock of ``until_ns``.

        Raises:
            DamagedError: There is none, or it is not fit to look at.
            SkippedError: Its turn would come too late: it is left out.
        """
        stop_ns: int | None = None
        with self._changed:
            self._shedder.asked(index, now_ns())
            if until_ns is not None:
                path = self._backlog.path_to(index)
                stop_ns = self._shedder.decide(path, until_ns, now_ns())
            taken = self._backlog.take(index)
        picture = self._decode(taken, stop_ns, now_ns)
        self._shedder.shown()
        return picture

    def _decode(
        self, taken: Taken, stop_ns: int | None, now_ns: Callable[[], int]
    ) -> Picture:
        """Feed the decoder until the wanted picture comes out."""
        if not taken.is_reordered:
            for old in [tag for tag in self._decoded if tag < taken.tag]:
                del self._decoded[old]
        for number, waiting in enumerate(taken.shots):
            if stop_ns is not None and number and now_ns() >= stop_ns:
                with self._changed:
                    self._backlog.put_back(taken.shots[number:])
                raise SkippedError("the decoder is catching up")
            # Nothing refers to it, and it is not wanted itself any more.
            if waiting.shot.is_disposable and waiting.shot.stamp < taken.stamp:
                continue
            self._feed(waiting, now_ns, jumped=taken.jumped and number == 0)
        while taken.tag not in self._decoded and taken.is_reordered:
            following = self._following()
            if following is None:
                break
            self._feed(following, now_ns, jumped=False)
        found = self._decoded.pop(taken.tag, None)
        while len(self._decoded) > MOST_DECODED:
            del self._decoded[next(iter(self._decoded))]
        if found is not None and not found.is_damaged:
            return found.picture
        raise DamagedError(self._broken or "the decoder gave no picture for this frame")

    def _following(self) -> Waiting | None:
        with self._changed:
            following = self._backlog.take_next()
            if following is None and self._changed.wait(_REORDER_S):
                following = self._backlog.take_next()
            return following

    def _feed(
        self, waiting: Waiting, now_ns: Callable[[], int], *, jumped: bool
    ) -> None:
        shot = waiting.shot
        if waiting.decoder is not self._decoder:
            self._decoder, self._broken = waiting.decoder, ""
            self._decoded.clear()
        elif jumped:
            waiting.decoder.forget()
            self._decoded.clear()
        if shot.is_key:
            self._broken = ""
        if shot.damage:
            self._break(shot.damage)
        begin_ns = now_ns()
        try:
            pictures = waiting.decoder.feed(waiting.tag, shot.payload)
        except DamagedError as error:
            self._break(str(error))
            return
        self._shedder.took(now_ns() - begin_ns, is_key=shot.is_key)
        for each in pictures:
            if each.is_damaged:
                self._break("the decoder reports damage")
            is_damaged = each.is_damaged or bool(self._broken)
            self._decoded[each.tag] = replace(each, is_damaged=is_damaged)

    def _break(self, why: str) -> None:
        """What follows may refer to what is damaged, up to the next key frame."""
        self._broken = f"{why}; damaged until the next key frame"
