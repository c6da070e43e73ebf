"""Decoded video frames as pictures, without a copy wherever that is possible."""

from typing import Any

import cv2
import numpy as np
from av.video.frame import VideoFrame
from av.video.reformatter import ColorRange, VideoReformatter
from numpy.typing import NDArray

from edgepipe.pipeline.frame import ColorMatrix, Picture, PixelFormat

_FULL_RANGE = 2
"""AVCOL_RANGE_JPEG; anything else is read as limited, as FFmpeg itself does."""
_MATRICES = {
    1: ColorMatrix.BT709,
    # Not said. FFmpeg and OpenCV take BT.601 for any size, so the same file gives the
    # same colours here.
    2: ColorMatrix.BT601,
    5: ColorMatrix.BT601,
    6: ColorMatrix.BT601,
    7: ColorMatrix.BT709,  # SMPTE 240M differs from it by less than 2 %
    9: ColorMatrix.BT2020,
    10: ColorMatrix.BT2020,
}
"""By AVColorSpace number (ITU-T H.273)."""
_AS_IT_IS = {
    "yuv420p": PixelFormat.I420,
    "yuvj420p": PixelFormat.I420,
    "nv12": PixelFormat.NV12,
    "bgr24": PixelFormat.BGR,
    "rgb24": PixelFormat.RGB,
}
_GRAY = frozenset({"gray", "gray10le", "gray12le", "gray16le", "gray16be"})
_TURNS = {
    90: cv2.ROTATE_90_COUNTERCLOCKWISE,
    180: cv2.ROTATE_180,
    -180: cv2.ROTATE_180,
    -90: cv2.ROTATE_90_CLOCKWISE,
}
"""By the counterclockwise angle that the recording asks for."""

Image = NDArray[np.uint8]


class PictureMaker:
    """Makes pictures of one source's frames; used by one thread at a time."""

    def __init__(self) -> None:
        self._reformatter = VideoReformatter()

    def picture(self, frame: VideoFrame) -> Picture:
        """The frame as a picture, upright.

        4:2:0 with 8 bits and packed 8-bit RGB are views of the decoder's memory; other
        formats are converted once, to 8-bit 4:2:0 where they are YUV.
        """
        frame, full_range = self._readable(frame)
        name = frame.format.name
        format_ = _AS_IT_IS.get(name, PixelFormat.GRAY)
        planes = _planes(frame, format_)
        turn = _TURNS.get(frame.rotation)
        width, height = frame.width, frame.height
        if turn is not None:
            planes = tuple(_turned(plane, turn) for plane in planes)
            if turn != cv2.ROTATE_180:
                width, height = height, width
        matrix = _MATRICES.get(frame.colorspace, ColorMatrix.BT601)
        return Picture(
            format_,
            planes,
            width,
            height,
            matrix,
            full_range,
            rotation=frame.rotation if turn is not None else 0,
            owner=frame,
        )

    def _readable(self, frame: VideoFrame) -> tuple[VideoFrame, bool]:
        """The frame in a format of pictures, and whether its Y is full range."""
        name = frame.format.name
        full = frame.color_range == _FULL_RANGE or name.startswith("yuvj")
        if name in _AS_IT_IS:
            return frame, full
        if name in _GRAY:
            limited = frame.color_range == 1
            if name == "gray" and not limited:
                return frame, True
            return self._reformat(frame, "gray", full=True), True
        is_yuv = not frame.format.is_rgb and not frame.format.has_palette
        if is_yuv and frame.colorspace in _MATRICES:
            target = "yuvj420p" if full else "yuv420p"
            return self._reformat(frame, target, full=full), full
        return self._reformat(frame, "bgr24", full=True), True

    def _reformat(self, frame: VideoFrame, target: str, *, full: bool) -> VideoFrame:
        return self._reformatter.reformat(
            frame,
            format=target,
            dst_color_range=ColorRange.JPEG if full else ColorRange.MPEG,
            threads=1,  # or swscale starts a thread for each processor
        )


def _planes(frame: VideoFrame, format_: PixelFormat) -> tuple[Image, ...]:
    width, height = frame.width, frame.height
    half_width, half_height = (width + 1) // 2, (height + 1) // 2
    shapes: tuple[tuple[int, ...], ...] = {
        PixelFormat.I420: ((height, width), *[(half_height, half_width)] * 2),
        PixelFormat.NV12: ((height, width), (half_height, half_width, 2)),
        PixelFormat.GRAY: ((height, width),),
    }.get(format_, ((height, width, 3),))
    return tuple(
        _view(plane, plane.line_size, shape)
        for plane, shape in zip(frame.planes, shapes, strict=False)
    )


def _view(plane: Any, stride: int, shape: tuple[int, ...]) -> Image:
    """The plane's pixels in the frame's own memory, its row padding cut off."""
    row_bytes = shape[1] * (shape[2] if len(shape) == 3 else 1)
    memory: Image = np.frombuffer(plane, np.uint8)[: abs(stride) * shape[0]]
    rows: Image = memory.reshape(shape[0], abs(stride))[:, :row_bytes]
    if stride < 0:  # stored bottom-up, as uncompressed AVI does
        rows = rows[::-1]
    return _read_only(rows if len(shape) == 2 else rows.reshape(shape))


def _turned(plane: Image, turn: int) -> Image:
    return _read_only(np.asarray(cv2.rotate(plane, turn), np.uint8))


def _read_only(array: Image) -> Image:
    # Fresh arrays and views only come here: nobody else loses write access.
    array.flags.writeable = False
    return array
