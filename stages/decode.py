"""Decoding: the first step, on the source's own decoder."""

from edgepipe.pipeline.frame import Frame
from edgepipe.pipeline.source import DamagedError, EventKind, Source, SourceEvent
from edgepipe.pipeline.stage import FrameError
from edgepipe.scheduler.fates import Reason


class Decode:
    """Makes the picture of a frame that its source has announced. Stateful.

    Frames that were given up before they were decoded are decoded all the same when a
    later frame refers to them: the source sees to that. What only a picture tells
    becomes an event: another size, another rotation, damage until further notice.
    """

    name = "decode"

    def __init__(self, source: Source) -> None:
        self._source = source
        self._shape: tuple[int, int, int] | None = None
        """Width, height and rotation of the last picture."""
        self._is_damaged = False

    def process(self, frame: Frame, worker: int) -> Frame:
        """Add the picture, its size, and what is new with it.

        Raises:
            FrameError: ``damaged``: there is no usable picture for this frame.
        """
        del worker
        try:
            picture = self._source.decode(frame.sequence)
        except DamagedError as error:
            raise self._damaged(frame, str(error)) from error
        self._is_damaged = False
        size = picture.width, picture.height
        shape = (*size, picture.rotation)
        last, self._shape = self._shape, shape
        if last is None or shape == last:
            return frame.with_changes(picture=picture, size=size)
        events = frame.events + _changes(last, shape, frame.pts_ns)
        return frame.with_changes(picture=picture, size=size, events=events)

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
