"""JPEGs decoded no larger than somebody needs them, with libjpeg-turbo.

A JPEG can be decoded at a half, a quarter or an eighth of its size for less than it
takes to decode the whole. Needs the extra ``jpeg``.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from av.codec.context import CodecContext
from av.error import FFmpegError
from numpy.typing import NDArray

from edgepipe.pipeline.frame import Picture, PixelFormat
from edgepipe.pipeline.source import DamagedError
from edgepipe.stages.sources.exif import jpeg_orientation
from edgepipe.stages.sources.orientation import UPRIGHT, of_exif, upright
from edgepipe.stages.sources.padding import packet_of

Image = NDArray[np.uint8]
LeastSize = Callable[[int, int], tuple[int, int]]
"""From the size of a picture to the least size that is of use of it."""

_LIBRARY = "simplejpeg"
_FACTORS = (8, 4, 2)
_MOST_BUFFERS = 16
_UNUSED = 3
"""References to an array that only the list, a name and the call itself hold."""


def is_available() -> bool:
    """Whether the library is installed."""
    return find_spec(_LIBRARY) is not None


def is_sound(data: bytes) -> bool:
    """Whether a JPEG has all of its picture: OpenCV fills up what lacks with grey."""
    if is_available():
        try:
            # At an eighth, which reads everything and computes little.
            import_module(_LIBRARY).decode_jpeg(
                data, "GRAY", fastdct=True, min_height=1, min_width=1, min_factor=8
            )
        except ValueError:
            pass  # it also minds what does no harm
        else:
            return True
    decoder = CodecContext.create("mjpeg", "r")
    decoder.options = {"err_detect": "explode"}
    try:
        return any(not frame.is_corrupt for frame in decoder.decode(packet_of(data)))
    except FFmpegError:
        return False


class ReducedJpegs:
    """Decodes the JPEGs of one source; for one thread.

    Args:
        least: What each picture is needed for.
    """

    def __init__(self, least: LeastSize) -> None:
        self._library: Any = import_module(_LIBRARY)
        self._least = least
        self._buffers: list[Image] = []

    def picture(self, data: memoryview) -> Picture:
        """The picture, upright: its size is that of the JPEG, its plane's may be less.

        Raises:
            DamagedError: There is something wrong with it, however little.
        """
        orientation = of_exif(jpeg_orientation(data))
        try:
            height, width, kind, _ = self._library.decode_jpeg_header(data)
            if kind not in ("YCbCr", "Gray", "RGB"):
                raise DamagedError(f"a JPEG of the kind {kind}")
            image = self._decode(data, width, height, orientation.transpose)
        except ValueError as error:
            raise DamagedError(f"a damaged JPEG: {error}") from error
        if orientation != UPRIGHT:
            image = upright(image, orientation)
            if orientation.transpose:
                width, height = height, width
        image.flags.writeable = False
        return Picture(PixelFormat.BGR, (image,), width, height, owner=image)

    def _decode(self, data: memoryview, width: int, height: int, turned: bool) -> Image:
        shown = (height, width) if turned else (width, height)
        least_width, least_height = self._least(*shown)
        if turned:
            least_width, least_height = least_height, least_width
        factor = factor_for(width, height, least_width, least_height)
        small_width, small_height = width // factor, height // factor
        image = self._library.decode_jpeg(
            data,
            "BGR",
            fastdct=factor > 1,
            fastupsample=factor > 1,
            min_width=small_width,
            min_height=small_height,
            min_factor=factor,
            buffer=self._buffer(3 * small_width * small_height),
        )
        return np.asarray(image, np.uint8)

    def _buffer(self, size: int) -> Image:
        """Memory that no picture uses any more, or new memory."""
        for buffer in self._buffers:
            # Pictures refer to it as long as anybody looks at them.
            if buffer.size == size and sys.getrefcount(buffer) == _UNUSED:
                return buffer
        if len(self._buffers) == _MOST_BUFFERS:
            self._buffers.pop(0)
        self._buffers.append(np.empty(size, np.uint8))
        return self._buffers[-1]


def factor_for(width: int, height: int, least_width: int, least_height: int) -> int:
    """By how much a picture can be made smaller: 8, 4, 2 or 1.

    Only sizes that can be divided are: the edge of a picture that ends within a pixel
    would move everything in it.
    """
    for factor in _FACTORS:
        whole = width % factor == 0 and height % factor == 0
        if whole and width >= factor * least_width and height >= factor * least_height:
            return factor
    return 1
