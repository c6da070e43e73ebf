"""Decoded video frames as pictures, without a copy wherever that is possible."""

from typing import Any, NamedTuple

import cv2
import numpy as np
from av.sidedata.sidedata import SideDataContainer
from av.sidedata.sidedata import Type as SideDataType
from av.video.format import VideoFormat
from av.video.frame import VideoFrame
from av.video.reformatter import ColorRange, VideoReformatter
from numpy.typing import NDArray

from edgepipe.pipeline.frame import ColorMatrix, Picture, PixelFormat
from edgepipe.stages.sources.orientation import (
    UPRIGHT,
    Orientation,
    of_exif,
    of_matrix,
    upright,
)

_LIMITED_RANGE, _FULL_RANGE = 1, 2
"""AVCOL_RANGE_MPEG and AVCOL_RANGE_JPEG. Where none is said, YUV is read as limited, as
FFmpeg itself does."""
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
    "yuv422p": PixelFormat.I422,
    "yuvj422p": PixelFormat.I422,
    "yuv444p": PixelFormat.I444,
    "yuvj444p": PixelFormat.I444,
    "nv12": PixelFormat.NV12,
    "nv16": PixelFormat.NV16,
    "bgr24": PixelFormat.BGR,
    "rgb24": PixelFormat.RGB,
    "gray": PixelFormat.GRAY,
}
_TURNED = {-90: of_exif(6), 90: of_exif(8), 180: of_exif(3), -180: of_exif(3)}
"""By the counterclockwise angle."""
_HALF_ACROSS = frozenset({PixelFormat.I422, PixelFormat.NV16})
_TARGETS = {(2, 2): "yuv420p", (2, 4): "yuv422p"}
"""What other YUV becomes, by its chroma samples for four luma samples, across and down.
All else becomes 4:4:4 and keeps its chroma whole."""
_FULL_OF_LIMITED = np.clip((np.arange(256) - 16) * 255 / 219 + 0.5, 0, 255).astype("u1")
_HIGH_DYNAMIC_RANGE = {16: "PQ", 18: "HLG"}
"""By AVColorTransferCharacteristic number."""

Image = NDArray[np.uint8]


class _Traits(NamedTuple):
    """What follows from a frame's format alone."""

    target: str | None
    """The format that it is turned into; None if it can be used as it is."""
    is_yuv: bool
    is_full: bool
    """Whether the format itself says that the range is full."""


class PictureMaker:
    """Makes pictures of one source's frames; used by one thread at a time.

    Attributes:
        notes: What is not shown as it was meant, one line each.
    """

    def __init__(self) -> None:
        self._reformatter = VideoReformatter()
        self._traits: dict[str, _Traits] = {}
        self.notes: tuple[str, ...] = ()

    def picture(self, frame: VideoFrame) -> Picture:
        """The frame as a picture, upright.

        Planar and half-planar YUV and packed RGB of 8 bits are views of the decoder's
        memory. Other formats are converted once, to 8 bits: YUV keeps its matrix, its
        range and its chroma. Transparency is left out, as OpenCV and Pillow do it, so
        that colours are those that were stored.
        """
        self._note(frame)
        orientation = orientation_of(frame)
        angle = frame.rotation if orientation != UPRIGHT else 0
        # Stills of one channel rarely say what their range is: it is full.
        limited = frame.color_range == _LIMITED_RANGE
        frame, full = self._readable(frame, turned=orientation.transpose)
        format_ = _AS_IT_IS[frame.format.name]
        matrix = _MATRICES.get(frame.colorspace, ColorMatrix.BT601)
        planes = _planes(frame, format_)
        if format_ is PixelFormat.GRAY and limited:
            planes = (_read_only(np.asarray(cv2.LUT(planes[0], _FULL_OF_LIMITED))),)
        if orientation != UPRIGHT:
            planes = tuple(_read_only(upright(plane, orientation)) for plane in planes)
        height, width = planes[0].shape[:2]
        return Picture(
            format_, planes, width, height, matrix, full, rotation=angle, owner=frame
        )

    def _readable(self, frame: VideoFrame, *, turned: bool) -> tuple[VideoFrame, bool]:
        """The frame in a format of pictures, and whether its range is full."""
        name = frame.format.name
        traits = self._traits.get(name)
        if traits is None:
            traits = self._traits[name] = _traits(frame.format)
        target, is_yuv, is_full = traits
        full = is_full or frame.color_range == _FULL_RANGE
        if is_yuv and frame.colorspace not in _MATRICES:
            return self._reformat(frame, "bgr24", full=True), True
        if turned and _AS_IT_IS.get(target or name) in _HALF_ACROSS:
            target = "yuv444p"  # its chroma would be halved from top to bottom
        if target is None:
            return frame, full
        full = full or not is_yuv
        return self._reformat(frame, target, full=full), full

    def _reformat(self, frame: VideoFrame, target: str, *, full: bool) -> VideoFrame:
        return self._reformatter.reformat(
            frame,
            format=target,
            dst_color_range=ColorRange.JPEG if full else ColorRange.MPEG,
            threads=1,  # or swscale starts a thread for each processor
        )

    def _note(self, frame: VideoFrame) -> None:
        if frame.interlaced_frame:
            self._add_note("interlaced: both fields of a frame are shown together")
        transfer = _HIGH_DYNAMIC_RANGE.get(frame.color_trc)
        if transfer is not None:
            self._add_note(f"high dynamic range ({transfer}) is shown as it is stored")

    def _add_note(self, note: str) -> None:
        if note not in self.notes:
            self.notes = (*self.notes, note)


def _traits(format_: VideoFormat) -> _Traits:
    name = format_.name
    colors = [each for each in format_.components if not each.is_alpha]
    is_other = format_.has_palette or format_.is_rgb or format_.is_bayer
    is_yuv = len(colors) == 3 and not is_other
    if name in _AS_IT_IS:
        target = None
    elif len(colors) == 1 and not is_other:
        target = "gray"
    elif is_yuv:
        chroma = format_.chroma_width(4), format_.chroma_height(4)
        target = _TARGETS.get(chroma, "yuv444p")
    else:
        target = "bgr24"
    return _Traits(target, is_yuv, name.startswith("yuvj"))


_side_data: Any = SideDataContainer
"""Its stub knows no argument."""


def orientation_of(frame: VideoFrame) -> Orientation:
    """Which way up a frame is to be shown."""
    if isinstance(frame.opaque, Orientation):  # found in the packet
        return frame.opaque
    try:
        # Not frame.side_data, which the frame would keep: a circle of references, whose
        # memory comes back when garbage is collected and not when the frame goes.
        data: Any = _side_data(frame).get(SideDataType.DISPLAYMATRIX)
    except ValueError:  # PyAV 18 does not know all kinds of FFmpeg 8
        return _TURNED.get(frame.rotation, UPRIGHT)
    if data is None:
        return UPRIGHT
    return of_matrix(np.frombuffer(data, np.int32, 9).tolist())


def _planes(frame: VideoFrame, format_: PixelFormat) -> tuple[Image, ...]:
    width, height = frame.width, frame.height
    half_width, half_height = (width + 1) // 2, (height + 1) // 2
    luma = (height, width)
    shapes: tuple[tuple[int, ...], ...] = {
        PixelFormat.I420: (luma, *[(half_height, half_width)] * 2),
        PixelFormat.I422: (luma, *[(height, half_width)] * 2),
        PixelFormat.I444: (luma, luma, luma),
        PixelFormat.NV12: (luma, (half_height, half_width, 2)),
        PixelFormat.NV16: (luma, (height, half_width, 2)),
        PixelFormat.GRAY: (luma,),
    }.get(format_, ((height, width, 3),))
    return tuple(map(_view, frame.planes, shapes))


def _view(plane: Any, shape: tuple[int, ...]) -> Image:
    """The plane's pixels in the frame's own memory, its row padding cut off."""
    stride = plane.line_size
    row_bytes = shape[1] * (shape[2] if len(shape) == 3 else 1)
    memory: Image = np.frombuffer(plane, np.uint8)[: abs(stride) * shape[0]]
    rows: Image = memory.reshape(shape[0], abs(stride))[:, :row_bytes]
    if stride < 0:  # stored bottom-up, as uncompressed AVI does
        rows = rows[::-1]
    return _read_only(rows if len(shape) == 2 else rows.reshape(shape))


def _read_only(array: Image) -> Image:
    # Fresh arrays and views only come here: nobody else loses write access.
    array.flags.writeable = False
    return array
