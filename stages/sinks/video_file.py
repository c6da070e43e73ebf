"""A video file that can be watched even if its writer was killed."""

import os
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import av
import av.error
import cv2
import numpy as np
from numpy.typing import NDArray

TICKS = 50_000
"""Time stamps per second: MPEG-4 allows 65535, and 25 fps come out exact."""
_LEAST_STEP = TICKS // 1000
"""One millisecond, between frames whose times repeat or go back."""


class Codec(NamedTuple):
    """How FFmpeg is to compress."""

    encoder: str
    options: dict[str, str]


# libvpx as for a video call: one pass, no look-ahead, the fastest of its settings.
_REALTIME = {
    "deadline": "realtime",
    "cpu-used": "8",
    "row-mt": "0",
    "lag-in-frames": "0",
    "crf": "34",
    "b": "0",
}
# Both aim at a quality and let the size follow: times are too uneven for a bit rate.
CODECS = {
    "vp9": Codec("libvpx-vp9", _REALTIME),
    "mpeg4": Codec("mpeg4", {"qmin": "4", "qmax": "4"}),
}
"""By the name in the configuration. Never x264 or x265: their licence is the GPL."""

# Fragments of a second while it grows, an ordinary MP4 once it is closed.
_CONTAINER = {
    "movflags": "hybrid_fragmented",
    "frag_duration": "1000000",
    "flush_packets": "1",
}


class VideoFile:
    """Encodes images into an MP4 on the calling thread; the first sets the size.

    An odd width or height gains one column or row, a copy of the last, because the
    encoders want even sizes. Images of another size are scaled to the first one's.
    When writing fails, the file is given up where it is and the next image begins
    ``NAME-2``, ``NAME-3`` and so on, so that each file is whole in itself.

    Raises:
        OSError: The file cannot be opened for writing.
        KeyError: There is no codec of that name.
    """

    def __init__(self, path: Path, codec: str) -> None:
        self._codec = CODECS[codec]
        self._path = path
        self._part = 1
        self._encoder: _Encoder | None = None
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")

    def add(self, image: NDArray[np.uint8], at_ns: int) -> None:
        """Append a BGR image (height, width, 3) that was taken at ``at_ns``.

        Raises:
            OSError: It could not be written.
        """
        if self._encoder is None:
            height, width = image.shape[:2]
            self._encoder = _Encoder(self._part_path(), self._codec, width, height)
        try:
            self._encoder.add(image, at_ns)
        except av.error.FFmpegError:
            broken, self._encoder = self._encoder, None
            # A part that holds nothing yet is tried again under the same name.
            self._part += broken.frames > 0
            broken.abandon()
            raise

    def close(self) -> None:
        """Finish the file; calling it again does nothing.

        Raises:
            OSError: It could not be completed; it can be watched up to the last second.
        """
        encoder, self._encoder = self._encoder, None
        if encoder is not None:
            encoder.close()
        elif self._part == 1 and self._path.exists():
            _remove_if_empty(self._path)

    def _part_path(self) -> Path:
        if self._part == 1:
            return self._path
        return self._path.with_stem(f"{self._path.stem}-{self._part}")


def _remove_if_empty(path: Path) -> None:
    if path.is_file() and os.path.getsize(path) == 0:  # never a device
        path.unlink()


class _Encoder:
    """One encoder and the container that it fills."""

    def __init__(self, path: Path, codec: Codec, width: int, height: int) -> None:
        self._size = (width, height)
        self._even = (width + width % 2, height + height % 2)
        self._edge = ((0, height % 2), (0, width % 2), (0, 0))
        self._scaled = np.empty((height, width, 3), np.uint8)
        self._yuv = np.empty((self._even[1] * 3 // 2, self._even[0]), np.uint8)
        self._last_ns: int | None = None
        self._pts = 0
        self.frames = 0
        """Images encoded so far."""
        # PyAV's own annotations are incomplete, hence Any.
        self._container: Any = av.open(
            str(path), "w", format="mp4", container_options=dict(_CONTAINER)
        )
        self._stream = self._add_stream(codec)

    def _add_stream(self, codec: Codec) -> Any:
        stream = self._container.add_stream(
            codec.encoder, rate=25, options=dict(codec.options)
        )
        stream.width, stream.height = self._even
        stream.pix_fmt = "yuv420p"
        context = stream.codec_context
        context.time_base = Fraction(1, TICKS)
        context.thread_count = 1
        context.gop_size = 50
        context.colorspace = 6  # SMPTE 170M, the matrix of cv2's I420
        context.color_range = 1  # 16..235
        return stream

    def add(self, image: NDArray[np.uint8], at_ns: int) -> None:
        if image.shape[1::-1] != self._size:
            cv2.resize(
                image, self._size, dst=self._scaled, interpolation=cv2.INTER_AREA
            )
            image = self._scaled
        if self._size != self._even:
            image = np.pad(image, self._edge, mode="edge")
        cv2.cvtColor(image, cv2.COLOR_BGR2YUV_I420, dst=self._yuv)
        picture = av.VideoFrame.from_ndarray(self._yuv, format="yuv420p")
        picture.pts = self._next_pts(at_ns)
        picture.time_base = Fraction(1, TICKS)
        self._container.mux(self._stream.encode(picture))
        self.frames += 1

    def _next_pts(self, at_ns: int) -> int:
        if self._last_ns is not None:
            step = round((at_ns - self._last_ns) * TICKS / 1e9)
            self._pts += max(step, _LEAST_STEP)
        self._last_ns = at_ns
        return self._pts

    def close(self) -> None:
        try:
            self._container.mux(self._stream.encode(None))
        finally:
            self._container.close()

    def abandon(self) -> None:
        """Close without hope: the disk may still be full."""
        with suppress(av.error.FFmpegError):
            self._container.close()
