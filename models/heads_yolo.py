"""Heads of the YOLO family: centre, width and height, already in network pixels."""

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.candidates import Candidates, anchor_grid, require_finite
from edgepipe.models.card import ModelCard
from edgepipe.models.engine import Outputs

STRIDES = (8, 16, 32)
YOLOV5_ANCHORS_PER_CELL = 3


class YoloV8Head:
    """One output (4 + classes, cells): cx, cy, w, h, then a score for each class."""

    def __init__(self, card: ModelCard) -> None:
        (self._output,) = card.outputs
        cells = len(anchor_grid(card.height, card.width, STRIDES)[1])
        self.shapes = ((4 + len(card.class_names), cells),)

    def classes_in(self, shape: tuple[int, ...]) -> int:
        """All rows but four."""
        return shape[0] - 4

    def decode(
        self, outputs: Outputs, image_index: int, score_threshold: float
    ) -> Candidates:
        """See :class:`edgepipe.models.candidates.Head`."""
        output = outputs[self._output][image_index]
        require_finite(output, self._output)
        # The maximum alone is several times cheaper than the maximum and its index;
        # the index is asked for the few cells that are left.
        best = output[4:].max(axis=0)
        kept = np.flatnonzero(best >= np.float32(score_threshold))
        class_id = output[4:, kept].argmax(axis=0).astype(np.int32)
        return Candidates(_corners(output[:4, kept].T), best[kept], class_id)


class YoloV5Head:
    """One output (boxes, 5 + classes): cx, cy, w, h, objectness, class scores.

    A box's score is its objectness times its best class score.
    """

    def __init__(self, card: ModelCard) -> None:
        (self._output,) = card.outputs
        cells = len(anchor_grid(card.height, card.width, STRIDES)[1])
        self.shapes = ((cells * YOLOV5_ANCHORS_PER_CELL, 5 + len(card.class_names)),)

    def classes_in(self, shape: tuple[int, ...]) -> int:
        """All columns but five."""
        return shape[-1] - 5

    def decode(
        self, outputs: Outputs, image_index: int, score_threshold: float
    ) -> Candidates:
        """See :class:`edgepipe.models.candidates.Head`."""
        output = outputs[self._output][image_index]
        require_finite(output, self._output)
        # Class scores are at most 1, so a box whose objectness is too low is out.
        likely = output[output[:, 4] >= np.float32(score_threshold)]
        score = likely[:, 5:].max(axis=1) * likely[:, 4]
        kept = np.flatnonzero(score >= np.float32(score_threshold))
        class_id = likely[kept, 5:].argmax(axis=1).astype(np.int32)
        return Candidates(_corners(likely[kept, :4]), score[kept], class_id)


def _corners(boxes: NDArray[np.float32]) -> NDArray[np.float32]:
    """(n, 4) cx, cy, w, h as x1, y1, x2, y2."""
    xyxy = np.empty((len(boxes), 4), np.float32)
    half = boxes[:, 2:] / 2
    np.subtract(boxes[:, :2], half, out=xyxy[:, :2])
    np.add(boxes[:, :2], half, out=xyxy[:, 2:])
    return xyxy
