"""The frames as a video, with what was found drawn on them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgepipe.pipeline.frame import Frame, Picture
from edgepipe.stages.convert import to_bgr
from edgepipe.stages.draw import annotate
from edgepipe.stages.sinks.per_stream import PerStream
from edgepipe.stages.sinks.video_file import VideoFile


class VideoSink:
    """Writes an MP4 of the delivered frames, annotated, at their own times.

    Frames are shown at their media time, or at their capture time where the source
    has no stamps: what was dropped is missing, and the rest plays at the right speed.
    Time that stands still or goes back advances by 1 ms. A caption tells stream,
    sequence, age at delivery and whether that was in time.

    Raises:
        OSError: The file cannot be opened.
        KeyError: There is no codec of that name.
    """

    def __init__(
        self,
        path: Path,
        class_names: Sequence[str],
        codec: str = "vp9",
        name: str = "video",
    ) -> None:
        self.name = name
        self._class_names = tuple(class_names)
        self._files = PerStream(path, lambda one: VideoFile(one, codec))
        self._image = np.empty((0, 0, 3), np.uint8)

    def write(self, frame: Frame, now_ns: int) -> None:
        """Draw and encode one frame.

        Raises:
            ValueError: The frame has no picture any more.
            OSError: It could not be written.
        """
        if frame.picture is None:
            raise ValueError(f"frame {frame.sequence} of {frame.stream} has no picture")
        image = self._bgr(frame.picture)
        caption = _caption(frame, now_ns)
        annotate(image, frame.detections, self._class_names, caption)
        at_ns = frame.capture_ns if frame.pts_ns is None else frame.pts_ns
        self._files.of(frame.stream).add(image, at_ns)

    def close(self) -> None:
        """Finish the files; calling it again does nothing.

        Raises:
            OSError: A file could not be completed.
        """
        self._files.close()

    def _bgr(self, picture: Picture) -> NDArray[np.uint8]:
        if self._image.shape != (picture.height, picture.width, 3):
            self._image = np.empty((picture.height, picture.width, 3), np.uint8)
        return to_bgr(picture, self._image)


def _caption(frame: Frame, now_ns: int) -> str:
    age_ms = (now_ns - frame.capture_ns) / 1e6
    slack_ms = frame.slack_ns(now_ns) / 1e6
    state = "on time" if slack_ms >= 0 else f"late by {-slack_ms:.0f} ms"
    return f"{frame.stream} #{frame.sequence}  age {age_ms:.0f} ms  {state}"
