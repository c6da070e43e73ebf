"""Decoding: the first step, on the source's own decoder."""

import time
from collections.abc import Callable

from edgepipe.pipeline.frame import Frame, Picture
from edgepipe.pipeline.source import (
    DamagedError,
    EventKind,
    Shedding,
    SkippedError,
    Source,
    SourceEvent,
)
from edgepipe.pipeline.stage import FrameError
from edgepipe.scheduler.fates import Reason


class Decode:
    """Makes the picture of a frame that its source has announced. Stateful.

    Frames that were given up before they were decoded are decoded all the same when a
    later frame refers to them: the source sees to that. What only a picture tells
    becomes an event: another size, another rotation, damage until further notice.

    Args:
        source: Where the frames come from.
        now_ns: The clock of the frames' deadlines.
        sheds: Whether the source may leave out frames for which there is no time. It
            is given half of the time that a frame has left; the other half is for the
            steps that follow.
    """

    name = "decode"

    def __init__(
        self,
        source: Source,
        now_ns: Callable[[], int] = time.monotonic_ns,
        *,
        sheds: bool = True,
    ) -> None:
        self._source = source
        self._now_ns = now_ns
        self._shedding = source if sheds and isinstance(source, Shedding) else None
        self._decoding = ""
        """Which frames are decoded, as it was last told; empty: as at the beginning."""
        self._shape: tuple[int, int, int] | None = None
        """Width, height and rotation of the last picture."""
        self._is_damaged = False

    def process(self, frame: Frame, worker: int) -> Frame:
        """Add the picture, its size, and what is new with it.

        Raises:
            FrameError: ``damaged``: there is no usable picture for this frame.
                ``decoder_skip``: it was left out to keep up with the source.
        """
        del worker
        try:
            picture = self._picture(frame)
        except DamagedError as error:
            raise self._damaged(frame, str(error)) from error
        except SkippedError as error:
            news = self._new_decoding(frame)
            raise FrameError(Reason.DECODER_SKIP, str(error), news) from error
        self._is_damaged = False
        news = self._new_decoding(frame)
        if news:
            frame = frame.with_changes(events=frame.events + news)
        size = picture.width, picture.height
        shape = (*size, picture.rotation)
        last, self._shape = self._shape, shape
        if last is None or shape == last:
            return frame.with_changes(picture=picture, size=size)
        events = frame.events + _changes(last, shape, frame.pts_ns)
        return frame.with_changes(picture=picture, size=size, events=events)

    def _picture(self, frame: Frame) -> Picture:
        shedding = self._shedding
        if shedding is None:
            return self._source.decode(frame.sequence)
        now_ns = self._now_ns()
        until_ns = now_ns + frame.slack_ns(now_ns) // 2
        return shedding.decode_in_time(frame.sequence, until_ns, self._now_ns)

    def _new_decoding(self, frame: Frame) -> tuple[SourceEvent, ...]:
        """The event that the decoder leaves out more or fewer frames from here on."""
        if self._shedding is None:
            return ()
        words, last = self._shedding.decoding, self._decoding
        self._decoding = words
        if not last or words == last:
            return ()
        return (SourceEvent(EventKind.DECODING, words, frame.pts_ns),)

    def _damaged(self, frame: Frame, detail: str) -> FrameError:
        """The frame's end; its event stands for all damaged ones in a row."""
        news: tuple[SourceEvent, ...] = ()
        if not self._is_damaged:
            news = (SourceEvent(EventKind.DAMAGE, detail, frame.pts_ns),)
        self._is_damaged = True
        return FrameError(Reason.DAMAGED, detail, news)

    def close(self) -> None:
        """The source is closed by whoever opened it."""


def _changes(
    before: tuple[int, int, int], after: tuple[int, int, int], pts_ns: int | None
) -> tuple[SourceEvent, ...]:
    """What is different now; each argument is width, height and rotation."""
    found: list[SourceEvent] = []
    if before[:2] != after[:2]:
        words = "{}x{} becomes {}x{}".format(*before[:2], *after[:2])
        found.append(SourceEvent(EventKind.RESOLUTION, words, pts_ns))
    if before[2] != after[2]:
        words = f"turned by {after[2]} degrees instead of {before[2]}"
        found.append(SourceEvent(EventKind.ROTATION, words, pts_ns))
    return tuple(found)
