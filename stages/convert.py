"""Decoded planes to network input in one go: scale, then colour, then letterbox.

The planes are scaled one by one to the network's size and only then turned into RGB,
so no full-size RGB picture is ever made. Scaling is bilinear without a filter, as
``cv2.resize`` does by default, because that is what detectors are mostly trained and
judged with.
"""

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from edgepipe.models.card import Align, ColorOrder
from edgepipe.pipeline.buffers import BufferRing
from edgepipe.pipeline.frame import Frame, Picture, PixelFormat
from edgepipe.stages.letterbox import Placement, letterbox_for
from edgepipe.stages.yuv import rgb_from_yuv

Image = NDArray[np.uint8]

_SWAPPED = {
    (PixelFormat.BGR, ColorOrder.RGB): cv2.COLOR_BGR2RGB,
    (PixelFormat.RGB, ColorOrder.BGR): cv2.COLOR_RGB2BGR,
    (PixelFormat.GRAY, ColorOrder.RGB): cv2.COLOR_GRAY2RGB,
    (PixelFormat.GRAY, ColorOrder.BGR): cv2.COLOR_GRAY2BGR,
}
"""Packed formats that are not already in the order wanted."""


class Scratch:
    """Memory for the steps in between, for pictures of up to ``pixels`` pixels.

    One for each worker: it is allocated once and cut to the size of the moment.
    """

    def __init__(self, pixels: int) -> None:
        self._planes = np.empty((3, pixels), np.uint8)
        self._packed = np.empty(3 * pixels, np.uint8)

    def plane(self, number: int, width: int, height: int, channels: int = 1) -> Image:
        """Plane 0, 1 or 2; the chroma of NV12 takes 1 and 2 together."""
        memory = self._planes[number:].reshape(-1)[: width * height * channels]
        if channels == 1:
            return memory.reshape(height, width)
        return memory.reshape(height, width, channels)

    def packed(self, width: int, height: int) -> Image:
        """(height, width, 3)."""
        return self._packed[: 3 * width * height].reshape(height, width, 3)


class Convert:
    """Fills a buffer lent from the ring with a frame's network input. Stateless.

    Takes the frame's picture; sets ``tensor`` (height, width, 3) in the model's colour
    order and ``letterbox``. The ring may be shared with other stages.

    Args:
        ring: Where the network's input is lent from.
        height: Of the network's input, in pixels.
        width: Of the network's input, in pixels.
        color: The model's colour order.
        align: Where the picture goes inside the input.
        pad_value: Colour around the picture, in the model's colour order.
    """

    name = "convert"

    def __init__(
        self,
        ring: BufferRing,
        height: int,
        width: int,
        color: ColorOrder,
        align: Align,
        pad_value: tuple[int, int, int],
    ) -> None:
        self._ring = ring
        self._height, self._width = height, width
        self._color, self._align = color, align
        # Copying rows of a painted image is many times faster than painting them.
        self._empty = np.empty((height, width, 3), np.uint8)
        self._empty[...] = pad_value
        self._scratch: dict[int, Scratch] = {}

    def process(self, frame: Frame, worker: int) -> Frame:
        """Add the network's input and where the picture lies in it."""
        picture = frame.picture
        if picture is None:
            raise ValueError("convert needs a decoded frame")
        placement = letterbox_for(
            picture.width, picture.height, self._width, self._height, self._align
        )
        scratch = self._scratch.get(worker)
        if scratch is None:
            scratch = self._scratch[worker] = Scratch(self._width * self._height)
        slot = self._ring.lend()
        try:
            self._pad(slot.array, placement)
            inside = slot.array[placement.rows, placement.columns]
            render(picture, inside, self._color, scratch)
        except BaseException:
            slot.give_back()
            raise
        return frame.with_changes(tensor=slot, letterbox=placement.letterbox)

    def _pad(self, array: Image, placement: Placement) -> None:
        """Paint what the picture will not cover: the slot held another stream's."""
        rows, columns, empty = placement.rows, placement.columns, self._empty
        array[: rows.start] = empty[: rows.start]
        array[rows.stop :] = empty[rows.stop :]
        if placement.width < self._width:
            array[rows, : columns.start] = empty[rows, : columns.start]
            array[rows, columns.stop :] = empty[rows, columns.stop :]

    def close(self) -> None:
        """Nothing to release: the ring belongs to whoever made it."""


def to_bgr(picture: Picture, dst: Image | None = None) -> Image:
    """The whole picture as BGR, (height, width, 3), for those who draw on it.

    Writes into ``dst`` when it is given; the result is the caller's own in any case.
    """
    image = (
        np.empty((picture.height, picture.width, 3), np.uint8) if dst is None else dst
    )
    scratch = Scratch(picture.width * picture.height)
    render(picture, image, ColorOrder.BGR, scratch)
    return image


def render(picture: Picture, dst: Image, order: ColorOrder, scratch: Scratch) -> None:
    """Scale ``picture`` to fill ``dst`` (height, width, 3), in full-range ``order``.

    ``dst`` may be a window of a larger array. ``scratch`` must have room for ``dst``.
    """
    if picture.format in (PixelFormat.I420, PixelFormat.NV12):
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
    if picture.format is PixelFormat.NV12:
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
    """Scale a half-size plane onto the luma's grid.

    A chroma sample sits in the middle of its four luma samples, as swscale and cv2
    assume too. With an odd size the chroma plane reaches half a luma pixel further
    than the picture, and stretching it to fit would shift colours by up to that.
    """
    if picture.width % 2 == 0 and picture.height % 2 == 0:
        _scale(source, dst)
        return
    height, width = dst.shape[:2]
    step_x, step_y = picture.width / width / 2, picture.height / height / 2
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
