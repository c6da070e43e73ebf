"""Uncompressed images as cameras give them: bytes with a four-character code.

The codes are those of V4L2; ``OF_GSTREAMER`` has GStreamer's names of the same formats.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from edgepipe.pipeline.frame import ColorMatrix, Picture, PixelFormat
from edgepipe.pipeline.source import DamagedError

Image = NDArray[np.uint8]
Buffer = Any
"""Anything with the buffer protocol."""

OF_GSTREAMER = {
    "I420": "YU12",
    "YV12": "YV12",
    "Y42B": "422P",
    "Y444": "444P",
    "NV12": "NV12",
    "NV21": "NV21",
    "NV16": "NV16",
    "NV61": "NV61",
    "P010_10LE": "P010",
    "YUY2": "YUYV",
    "YVYU": "YVYU",
    "UYVY": "UYVY",
    "VYUY": "VYUY",
    "GRAY8": "GREY",
    "GRAY16_LE": "Y16 ",
    "RGB": "RGB3",
    "BGR": "BGR3",
    "BGRx": "XR24",
    "BGRA": "XR24",
    "RGBx": "XB24",
    "RGBA": "XB24",
    "bggr": "BA81",
    "gbrg": "GBRG",
    "grbg": "GRBG",
    "rggb": "RGGB",
}


class RawFormat(NamedTuple):
    """What must be known of an image to read its bytes."""

    fourcc: str
    width: int
    height: int
    bytes_per_line: int = 0
    """Of the first plane, with its padding; 0: no padding. The lines of other planes
    are as long in proportion, as V4L2 and GStreamer have it."""
    matrix: ColorMatrix = ColorMatrix.BT601
    full_range: bool = False


class _Bytes:
    """Takes planes off a buffer one after the other."""

    def __init__(self, data: Buffer, format_: RawFormat) -> None:
        self._memory: Image = np.frombuffer(data, np.uint8)
        self._at = 0
        self._format = format_

    def plane(self, rows: int, row_bytes: int, stride: int) -> Image:
        """(rows, row_bytes), a view.

        Raises:
            DamagedError: The bytes end before.
        """
        begin = self._at
        end = begin + stride * (rows - 1) + row_bytes
        if stride < row_bytes or end > self._memory.size:
            fourcc, width, height, *_ = self._format
            raise DamagedError(
                f"{fourcc} {width}x{height}: {self._memory.size} bytes are too few"
            )
        self._at = begin + stride * rows
        return np.lib.stride_tricks.as_strided(
            self._memory[begin:], (rows, row_bytes), (stride, 1), writeable=False
        )


def is_known(fourcc: str) -> bool:
    """Whether :func:`raw_picture` can read images of this code."""
    return fourcc in _READERS


KNOWN_FIRST = ("NV12", "YUYV", "UYVY", "YU12", "NV16", "NV21", "GREY", "BGR3", "RGB3")
"""The cheapest first, for whoever has a choice."""


def raw_picture(data: Buffer, format_: RawFormat, owner: object = None) -> Picture:
    """The picture that the bytes show.

    Its planes are views of ``data`` wherever the format allows; ``owner`` is kept with
    the picture, and the bytes must not change while that lives.

    Raises:
        DamagedError: There are too few bytes.
        KeyError: The code is not known.
    """
    reader = _READERS[format_.fourcc]
    pixel_format, planes = reader(_Bytes(data, format_), format_)
    for plane in planes:
        plane.flags.writeable = False
    return Picture(
        pixel_format,
        planes,
        format_.width,
        format_.height,
        format_.matrix,
        format_.full_range,
        owner=data if owner is None else owner,
    )


_Planes = tuple[PixelFormat, tuple[Image, ...]]
_Reader = Callable[[_Bytes, RawFormat], _Planes]


# --- planar ---------------------------------------------------------------------------


def _planar(kind: PixelFormat, across: int, down: int, *, swapped: bool) -> _Reader:
    def read(source: _Bytes, format_: RawFormat) -> _Planes:
        _, width, height, line, *_ = format_
        line = line or width
        luma = source.plane(height, width, line)
        rows, columns = -(-height // down), -(-width // across)
        first, second = (
            source.plane(rows, columns, -(-line // across)) for _ in range(2)
        )
        return kind, (luma, second, first) if swapped else (luma, first, second)

    return read


def _half_planar(kind: PixelFormat, down: int, *, swapped: bool) -> _Reader:
    def read(source: _Bytes, format_: RawFormat) -> _Planes:
        _, width, height, line, *_ = format_
        line = line or width + width % 2
        luma = source.plane(height, width, line)
        columns = -(-width // 2)
        chroma = source.plane(-(-height // down), 2 * columns, line)
        chroma = chroma.reshape(-1, columns, 2)
        if swapped:
            chroma = np.ascontiguousarray(chroma[..., ::-1])
        return kind, (luma, chroma)

    return read


def _p010(source: _Bytes, format_: RawFormat) -> _Planes:
    """Ten bits at the upper end of sixteen."""
    _, width, height, line, *_ = format_
    line = line or 2 * (width + width % 2)
    columns = -(-width // 2)
    luma = _scaled(source.plane(height, 2 * width, line), 256)
    chroma = _scaled(source.plane(-(-height // 2), 4 * columns, line), 256)
    return PixelFormat.NV12, (luma, chroma.reshape(-1, columns, 2))


# --- packed ---------------------------------------------------------------------------


def _packed_422(luma_at: int, *, swapped: bool) -> _Reader:
    """Two bytes for each pixel: its luma, and by turns one of the two chromas."""

    def read(source: _Bytes, format_: RawFormat) -> _Planes:
        _, width, height, line, *_ = format_
        even = width + width % 2
        pairs = source.plane(height, 2 * even, line or 2 * even)
        pairs = pairs.reshape(height, even, 2)
        luma = np.asarray(cv2.extractChannel(pairs, luma_at), np.uint8)[:, :width]
        chroma = np.asarray(cv2.extractChannel(pairs, 1 - luma_at), np.uint8)
        chroma = chroma.reshape(height, even // 2, 2)
        if swapped:
            chroma = np.ascontiguousarray(chroma[..., ::-1])
        return PixelFormat.NV16, (luma, chroma)

    return read


def _packed_rgb(kind: PixelFormat, channels: int) -> _Reader:
    def read(source: _Bytes, format_: RawFormat) -> _Planes:
        _, width, height, line, *_ = format_
        row_bytes = channels * width
        rows = source.plane(height, row_bytes, line or row_bytes)
        pixels: Image = rows.reshape(height, width, channels)
        if channels == 4:
            pixels = np.asarray(cv2.cvtColor(pixels, cv2.COLOR_BGRA2BGR), np.uint8)
        return kind, (pixels,)

    return read


def _gray(bits: int) -> _Reader:
    def read(source: _Bytes, format_: RawFormat) -> _Planes:
        _, width, height, line, *_ = format_
        row_bytes = width * (1 if bits == 8 else 2)
        rows = source.plane(height, row_bytes, line or row_bytes)
        if bits > 8:
            rows = _scaled(rows, ((1 << bits) - 1) / 255)
        return PixelFormat.GRAY, (rows,)

    return read


# --- Bayer ----------------------------------------------------------------------------

# OpenCV names a pattern by the second row's second and third pixel, V4L2 by the first
# row's first two.
_DEMOSAIC = {
    "RGGB": cv2.COLOR_BayerBG2BGR,
    "GRBG": cv2.COLOR_BayerGB2BGR,
    "GBRG": cv2.COLOR_BayerGR2BGR,
    "BGGR": cv2.COLOR_BayerRG2BGR,
}


def _bayer(pattern: str, bits: int = 8) -> _Reader:
    def read(source: _Bytes, format_: RawFormat) -> _Planes:
        _, width, height, line, *_ = format_
        row_bytes = width * (1 if bits == 8 else 2)
        rows = source.plane(height, row_bytes, line or row_bytes)
        if bits > 8:
            rows = _scaled(rows, ((1 << bits) - 1) / 255)
        return PixelFormat.BGR, (_demosaiced(rows, pattern),)

    return read


def _bayer_packed_10(pattern: str) -> _Reader:
    """Four pixels in five bytes; the fifth has the low bits, which are not needed."""

    def read(source: _Bytes, format_: RawFormat) -> _Planes:
        _, width, height, line, *_ = format_
        groups = -(-width // 4)
        rows = source.plane(height, 5 * groups, line or 5 * groups)
        high = rows.reshape(height, groups, 5)[..., :4].reshape(height, -1)[:, :width]
        return PixelFormat.BGR, (_demosaiced(high, pattern),)

    return read


def _demosaiced(rows: Image, pattern: str) -> Image:
    return np.asarray(cv2.demosaicing(rows, _DEMOSAIC[pattern]), np.uint8)


def _scaled(rows: Image, divisor: float) -> Image:
    """Pairs of bytes, low one first, as numbers divided and rounded to 8 bits."""
    numbers = np.ascontiguousarray(rows).view("<u2")
    return np.asarray(cv2.convertScaleAbs(numbers, alpha=1 / divisor), np.uint8)


_READERS: Mapping[str, _Reader] = {
    "YU12": _planar(PixelFormat.I420, 2, 2, swapped=False),
    "YV12": _planar(PixelFormat.I420, 2, 2, swapped=True),
    "422P": _planar(PixelFormat.I422, 2, 1, swapped=False),
    "444P": _planar(PixelFormat.I444, 1, 1, swapped=False),
    "NV12": _half_planar(PixelFormat.NV12, 2, swapped=False),
    "NV21": _half_planar(PixelFormat.NV12, 2, swapped=True),
    "NV16": _half_planar(PixelFormat.NV16, 1, swapped=False),
    "NV61": _half_planar(PixelFormat.NV16, 1, swapped=True),
    "P010": _p010,
    "YUYV": _packed_422(0, swapped=False),
    "YVYU": _packed_422(0, swapped=True),
    "UYVY": _packed_422(1, swapped=False),
    "VYUY": _packed_422(1, swapped=True),
    "RGB3": _packed_rgb(PixelFormat.RGB, 3),
    "BGR3": _packed_rgb(PixelFormat.BGR, 3),
    # Alpha of a camera means nothing: these are opaque.
    "XR24": _packed_rgb(PixelFormat.BGR, 4),
    "AR24": _packed_rgb(PixelFormat.BGR, 4),
    "BGR4": _packed_rgb(PixelFormat.BGR, 4),
    "XB24": _packed_rgb(PixelFormat.RGB, 4),
    "AB24": _packed_rgb(PixelFormat.RGB, 4),
    "GREY": _gray(8),
    "Y10 ": _gray(10),
    "Y12 ": _gray(12),
    "Y16 ": _gray(16),
    "RGGB": _bayer("RGGB"),
    "GRBG": _bayer("GRBG"),
    "GBRG": _bayer("GBRG"),
    "BA81": _bayer("BGGR"),
    "RG10": _bayer("RGGB", 10),
    "BA10": _bayer("GRBG", 10),
    "GB10": _bayer("GBRG", 10),
    "BG10": _bayer("BGGR", 10),
    "RG12": _bayer("RGGB", 12),
    "BA12": _bayer("GRBG", 12),
    "GB12": _bayer("GBRG", 12),
    "BG12": _bayer("BGGR", 12),
    "RG16": _bayer("RGGB", 16),
    "GR16": _bayer("GRBG", 16),
    "GB16": _bayer("GBRG", 16),
    "BYR2": _bayer("BGGR", 16),
    "pRAA": _bayer_packed_10("RGGB"),
    "pgAA": _bayer_packed_10("GRBG"),
    "pGAA": _bayer_packed_10("GBRG"),
    "pBAA": _bayer_packed_10("BGGR"),
}
"""By V4L2 code."""
