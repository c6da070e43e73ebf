"""YUV to a scaled RGB picture through swscale and cv2, a band of rows at a time.

The result is bit for bit what ``cv2.VideoCapture`` followed by ``cv2.resize`` gives,
without ever holding the full-size RGB picture: a band fits the processor's cache. That
exactness is worth its price because INT8 networks are chaotic in the last bit: with one
input value in a thousand off by one, one in forty of NanoDet-g's detections on
bikes.mp4 changes visibly (benchmarks/conversion.py, row ``noise``).
"""

from math import gcd, lcm

import cv2
import numpy as np
from av.video.frame import VideoFrame
from av.video.reformatter import Interpolation, VideoReformatter
from numpy.typing import NDArray

from edgepipe.models.card import ColorOrder
from edgepipe.pipeline.frame import ColorMatrix, Picture, PixelFormat
from edgepipe.stages.planes import CHROMA_STEPS

Image = NDArray[np.uint8]

_BAND_BYTES = 256 << 10
"""RGB bytes of one band: of the order of a core's second-level cache."""
_MOST_PIXELS = 1 << 20
"""Above this, turning every pixel into RGB costs more than the exactness is worth."""
_COLOR_SPACES = {
    ColorMatrix.BT601: 5,
    ColorMatrix.BT709: 1,
    ColorMatrix.BT2020: 9,
}
"""AVColorSpace numbers."""
_LIMITED, _FULL = 1, 2
_FORMATS = {ColorOrder.BGR: "bgr24", ColorOrder.RGB: "rgb24"}
_PLANAR = {
    PixelFormat.I420: "yuv420p",
    PixelFormat.I422: "yuv422p",
    PixelFormat.I444: "yuv444p",
}
PLANAR = frozenset(_PLANAR)
"""Formats that bands can be made of."""


def band_rows(width: int, height: int, out_height: int) -> int | None:
    """Rows of a band; None where bands cannot or should not be used.

    They cannot where a band would not be scaled exactly as it is inside the whole
    picture: sizes must be even, the picture must not be enlarged, and a band must give
    whole rows with the very weights that ``cv2.resize`` takes for the whole.
    """
    if width % 2 or height % 2 or out_height > height or width * height > _MOST_PIXELS:
        return None
    # A band begins with a whole row of chroma.
    period = lcm(height // gcd(height, out_height), 4)
    rows = period * max(1, _BAND_BYTES // (3 * width * period))
    if 2 * rows > height:
        return None
    whole = _weights(height, out_height)
    band = _weights(rows, rows * out_height // height)
    repeated = np.resize(band, len(whole))
    return rows if np.array_equal(repeated, whole) else None


def _weights(rows: int, out_rows: int) -> NDArray[np.int64]:
    """Of the upper of the two rows that make up each row, in 2048ths, as in cv2."""
    centers = (np.arange(out_rows) + 0.5) * (1 / (out_rows / rows)) - 0.5
    at = centers.astype(np.float32)
    return np.rint((at - np.floor(at)) * 2048).astype(np.int64)


class Bands:
    """Converts planar pictures of one size and format; for one thread.

    Args:
        width: Of the pictures, even.
        height: Of the pictures, even.
        rows: What :func:`band_rows` said.
        format_: Of the pictures, one of ``PLANAR``.
    """

    def __init__(
        self,
        width: int,
        height: int,
        rows: int,
        format_: PixelFormat = PixelFormat.I420,
    ) -> None:
        self._width, self._height, self._rows = width, height, rows
        across, self._down = CHROMA_STEPS[format_]
        self._band = VideoFrame(width, rows, _PLANAR[format_])
        # Views of the frame's memory: what is copied here is what is converted.
        self._planes = [
            np.frombuffer(memoryview(plane), np.uint8).reshape(-1, plane.line_size)[
                :, :columns
            ]
            for plane, columns in zip(
                self._band.planes, (width, *[width // across] * 2), strict=True
            )
        ]
        self._reformatter = VideoReformatter()

    def render(self, picture: Picture, dst: Image, order: ColorOrder) -> None:
        """Scale the picture to fill ``dst`` (height, width, 3)."""
        out_height, out_width = dst.shape[:2]
        self._band.colorspace = _COLOR_SPACES[picture.matrix]
        self._band.color_range = _FULL if picture.full_range else _LIMITED
        begin = 0
        for top in range(0, self._height, self._rows):
            rows = min(self._rows, self._height - top)
            end = (top + rows) * out_height // self._height
            rgb = self._convert(picture, top, rows, order)
            cv2.resize(rgb, (out_width, end - begin), dst=dst[begin:end])
            begin = end

    def _convert(
        self, picture: Picture, top: int, rows: int, order: ColorOrder
    ) -> Image:
        """(rows, width, 3) of the picture from row ``top`` on."""
        steps = (1, self._down, self._down)
        for plane, source, step in zip(
            self._planes, picture.planes, steps, strict=True
        ):
            plane[: rows // step] = source[top // step : (top + rows) // step]
        # The flags of cv2.VideoCapture; for 4:2:0 they select swscale's fast path.
        frame = self._reformatter.reformat(
            self._band,
            format=_FORMATS[order],
            interpolation=Interpolation.BICUBIC,
            threads=1,
        )
        rgb = frame.planes[0]
        data: Image = np.frombuffer(memoryview(rgb), np.uint8)
        lines: Image = data.reshape(self._rows, rgb.line_size)[:rows, : 3 * self._width]
        return lines.reshape(rows, self._width, 3)
