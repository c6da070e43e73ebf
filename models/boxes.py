"""Boxes as networks put them out, and as edges in network pixels."""

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.candidates import BadOutputError
from edgepipe.models.card import ModelCard
from edgepipe.models.head_options import BoxFormat

Y_FIRST: tuple[BoxFormat, ...] = ("yxyx", "cycxhw")
_SWAPPED = [1, 0, 3, 2]


class BoxRule:
    """How four values become a box.

    Args:
        card: Its options say it where they do; its size is that of the input.
        box_format: Order of the values where the card does not say it.
        normalized: Whether they are shares of the input's sides, likewise.
    """

    def __init__(
        self, card: ModelCard, box_format: BoxFormat, *, normalized: bool
    ) -> None:
        options = card.head_options
        self.format: BoxFormat = options.box_format or box_format
        is_share = normalized if options.normalized is None else options.normalized
        sides = [card.width, card.height] * 2
        self._scale = np.array(sides, np.float32) if is_share else None

    def xyxy(self, boxes: NDArray[np.float32], name: str) -> NDArray[np.float32]:
        """(n, 4) edges in pixels of the network's input.

        Raises:
            BadOutputError: A box is too large for a number.
        """
        if self.format in Y_FIRST:
            boxes = boxes[:, _SWAPPED]
        with np.errstate(over="ignore", invalid="ignore"):
            if self.format in ("cxcywh", "cycxhw"):
                boxes = corners(boxes)
            if self._scale is not None:
                boxes = boxes * self._scale
        return finite_boxes(np.array(boxes, np.float32), name)


def corners(boxes: NDArray[np.float32]) -> NDArray[np.float32]:
    """(n, 4) cx, cy, w, h as x1, y1, x2, y2."""
    xyxy = np.empty((len(boxes), 4), np.float32)
    half = boxes[:, 2:] / 2
    np.subtract(boxes[:, :2], half, out=xyxy[:, :2])
    np.add(boxes[:, :2], half, out=xyxy[:, 2:])
    return xyxy


def finite_boxes(xyxy: NDArray[np.float32], name: str) -> NDArray[np.float32]:
    """The same boxes.

    Raises:
        BadOutputError: A box made of finite values is not finite.
    """
    if not np.isfinite(xyxy).all():
        raise BadOutputError(f"output {name!r}: a box is too large for a number")
    return xyxy


def sized_by_anchors(
    offsets: NDArray[np.float32],
    anchors: NDArray[np.float32],
    variances: NDArray[np.float32],
) -> NDArray[np.float32]:
    """(n, 4) cx, cy, w, h from offsets of that order, each to its anchor.

    The centre moves by shares of the anchor's size, and the size grows by the
    exponential of its offset (SSD, Liu et al., 2016); what overflows is infinite.
    """
    scaled = offsets * variances
    boxes = np.empty_like(scaled)
    with np.errstate(over="ignore"):
        boxes[:, :2] = anchors[:, :2] + scaled[:, :2] * anchors[:, 2:]
        boxes[:, 2:] = np.exp(scaled[:, 2:]) * anchors[:, 2:]
    return boxes
