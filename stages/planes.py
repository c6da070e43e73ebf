"""Scale a picture plane by plane, then turn the small planes into RGB."""

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from edgepipe.models.card import ColorOrder
from edgepipe.pipeline.frame import Picture, PixelFormat
from edgepipe.stages.yuv import rgb_from_yuv

Image = NDArray[np.uint8]

_SWAPPED = {
    (PixelFormat.BGR, ColorOrder.RGB): cv2.COLOR_BGR2RGB,
    (PixelFormat.RGB, ColorOrder.BGR): cv2.COLOR_RGB2BGR,
    (PixelFormat.GRAY, ColorOrder.RGB): cv2.COLOR_GRAY2RGB,
    (PixelFormat.GRAY, ColorOrder.BGR): cv2.COLOR_GRAY2BGR,
}
"""Packed formats that are not already in the order wanted."""
CHROMA_STEPS = {
    PixelFormat.I420: (2, 2),
    PixelFormat.I422: (2, 1),
    PixelFormat.I444: (1, 1),
    PixelFormat.NV12: (2, 2),
    PixelFormat.NV16: (2, 1),
}
"""Luma samples for each chroma sample, across and down."""
_INTERLEAVED = frozenset({PixelFormat.NV12, PixelFormat.NV16})


class Scratch:
    """Memory for the steps in between, for pictures of up to ``pixels`` pixels.

    One for each worker: it is allocated once and cut to the size of the moment.
    """

    def __init__(self, pixels: int) -> None:
        self._planes: Image = np.empty((3, pixels), np.uint8)
        self._packed: Image = np.empty(3 * pixels, np.uint8)

    def plane(self, number: int, width: int, height: int, channels: int = 1) -> Image:
        """Plane 0, 1 or 2; the chroma of NV12 takes 1 and 2 together."""
        memory: Image = self._planes[number:].reshape(-1)[: width * height * channels]
        if channels == 1:
            return memory.reshape(height, width)
        return memory.reshape(height, width, channels)

    def packed(self, width: int, height: int) -> Image:
        """(height, width, 3)."""
        return self._packed[: 3 * width * height].reshape(height, width, 3)


def render(picture: Picture, dst: Image, order: ColorOrder, scratch: Scratch) -> None:
    """Scale ``picture`` to fill ``dst`` (height, width, 3), in full-range ``order``.

    ``dst`` may be a window of a larger array. ``scratch`` must have room for ``dst``.
    """
    if picture.format in CHROMA_STEPS:
        _render_yuv(picture, dst, order, scratch)
    else:
        _render_packed(picture, dst, order, scratch)


def _render_packed(
    picture: Picture, dst: Image, order: ColorOrder, scratch: Scratch
) -> None:
    height, width = dst.shape[:2]
    source = picture.planes[0]
    swap = _SWAPPED.get((picture.format, order))
    if swap is None:
        _scale(source, dst)
        return
    gray = picture.format is PixelFormat.GRAY
    scaled = scratch.plane(0, width, height) if gray else scratch.packed(width, height)
    _scale(source, scaled)
    cv2.cvtColor(scaled, swap, dst=dst)


def _render_yuv(
    picture: Picture, dst: Image, order: ColorOrder, scratch: Scratch
) -> None:
    height, width = dst.shape[:2]
    luma = scratch.plane(0, width, height)
    _scale(picture.planes[0], luma)
    scaled: Sequence[Image]
    if picture.format in _INTERLEAVED:
        chroma = scratch.plane(1, width, height, channels=2)
        _scale_chroma(picture, picture.planes[1], chroma)
        scaled = (luma, chroma)
    else:
        blue, red = (scratch.plane(n, width, height) for n in (1, 2))
        _scale_chroma(picture, picture.planes[1], blue)
        _scale_chroma(picture, picture.planes[2], red)
        scaled = (luma, blue, red)
    packed = scratch.packed(width, height)
    cv2.merge(scaled, packed)
    cv2.transform(packed, rgb_from_yuv(picture.matrix, picture.full_range, order), dst)


def _scale(source: Image, dst: Image) -> None:
    cv2.resize(source, (dst.shape[1], dst.shape[0]), dst=dst)


def _scale_chroma(picture: Picture, source: Image, dst: Image) -> None:
    """Scale a chroma plane onto the luma's grid.

    A chroma sample sits in the middle of its luma samples, as swscale and cv2 assume
    too. With an odd size the chroma plane reaches half a luma pixel further than the
    picture, and stretching it to fit would shift colours by up to that.
    """
    across, down = CHROMA_STEPS[picture.format]
    if picture.width % across == 0 and picture.height % down == 0:
        _scale(source, dst)
        return
    height, width = dst.shape[:2]
    step_x = picture.width / width / across
    step_y = picture.height / height / down
    to_source = np.array(
        [[step_x, 0, step_x / 2 - 0.5], [0, step_y, step_y / 2 - 0.5]], np.float64
    )
    cv2.warpAffine(
        source,
        to_source,
        (width, height),
        dst=dst,
        flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
        borderMode=cv2.BORDER_REPLICATE,
    )
