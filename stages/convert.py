"""Decoded planes to network input in one go: scale, colour and letterbox.

No full-size RGB picture is ever made. The planes are scaled one by one to the network's
size and only then turned into RGB, or, where it is cheap enough, a band of rows at a
time goes the way that ``cv2.VideoCapture`` and ``cv2.resize`` would take (``bands``).
Scaling is bilinear without a filter, as ``cv2.resize`` does by default, because that is
what detectors are mostly judged with.
"""

from typing import TYPE_CHECKING

import numpy as np

from edgepipe.models.card import Align, ColorOrder
from edgepipe.pipeline.buffers import BufferRing
from edgepipe.pipeline.frame import Frame, Picture, PixelFormat
from edgepipe.stages.letterbox import Placement, letterbox_for
from edgepipe.stages.planes import CHROMA_STEPS, Image, Scratch, render

if TYPE_CHECKING:
    from edgepipe.stages.bands import Bands

_MOST_SIZES = 8
"""Picture sizes for which one worker keeps its memory."""


class _Bench:
    """One worker's own tools: memory, allocated when a size is first seen."""

    def __init__(self, net_pixels: int) -> None:
        self._scratch = Scratch(net_pixels)
        self._bands: dict[tuple[PixelFormat, int, int, int], Bands | None] = {}

    def render(self, picture: Picture, dst: Image, order: ColorOrder) -> None:
        """Scale the picture to fill ``dst``, in the cheapest way that is exact."""
        bands = self._bands_for(picture, len(dst))
        if bands is not None:
            bands.render(picture, dst, order)
        else:
            render(picture, dst, order, self._scratch)

    def _bands_for(self, picture: Picture, out_height: int) -> "Bands | None":
        format_, width, height = picture.format, picture.width, picture.height
        if format_ not in CHROMA_STEPS:
            return None
        key = (format_, width, height, out_height)
        if key not in self._bands:
            if len(self._bands) == _MOST_SIZES:
                self._bands.clear()
            self._bands[key] = _bands(format_, width, height, out_height)
        return self._bands[key]


def _bands(
    format_: PixelFormat, width: int, height: int, out_height: int
) -> "Bands | None":
    # Almost all YUV is decoded video, for which PyAV is loaded already.
    from edgepipe.stages.bands import PLANAR, Bands, band_rows

    rows = band_rows(width, height, out_height) if format_ in PLANAR else None
    return None if rows is None else Bands(width, height, rows, format_)


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
        self._benches: dict[int, _Bench] = {}

    def process(self, frame: Frame, worker: int) -> Frame:
        """Add the network's input and where the picture lies in it."""
        picture = frame.picture
        if picture is None:
            raise ValueError("convert needs a decoded frame")
        placement = letterbox_for(
            picture.width, picture.height, self._width, self._height, self._align
        )
        bench = self._benches.get(worker)
        if bench is None:
            bench = self._benches[worker] = _Bench(self._width * self._height)
        slot = self._ring.lend()
        try:
            self._pad(slot.array, placement)
            inside = slot.array[placement.rows, placement.columns]
            bench.render(picture, inside, self._color)
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

    def renew(self, worker: int) -> None:
        """Another thread takes this number: it gets tools of its own."""
        self._benches.pop(worker, None)

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
