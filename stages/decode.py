"""Decoding: the first step, on the source's own decoder."""

from edgepipe.pipeline.frame import Frame
from edgepipe.pipeline.source import DamagedError, Source
from edgepipe.pipeline.stage import FrameError
from edgepipe.scheduler.fates import Reason


class Decode:
    """Makes the picture of a frame that its source has announced. Stateful.

    Frames that were given up before they were decoded are decoded all the same when a
    later frame refers to them: the source sees to that.
    """

    name = "decode"

    def __init__(self, source: Source) -> None:
        self._source = source

    def process(self, frame: Frame, worker: int) -> Frame:
        """Add the picture.

        Raises:
            FrameError: ``damaged``: there is no usable picture for this frame.
        """
        del worker
        try:
            picture = self._source.decode(frame.sequence)
        except DamagedError as error:
            raise FrameError(Reason.DAMAGED, str(error)) from error
        return frame.with_changes(picture=picture)

    def close(self) -> None:
        """The source is closed by whoever opened it."""
