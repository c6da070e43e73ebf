"""Heads of the YOLO family: one output, a box and its scores for each cell."""

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.boxes import BoxRule, corners, finite_boxes
from edgepipe.models.candidates import Candidates, anchor_grid, require_finite
from edgepipe.models.card import ModelCard
from edgepipe.models.engine import Outputs
from edgepipe.models.scores import ScoreRule

STRIDES = (8, 16, 32)
YOLOV5_ANCHORS_PER_CELL = 3


class YoloV8Head:
    """One output (4 + classes, cells): cx, cy, w, h, then a score for each class."""

    def __init__(self, card: ModelCard) -> None:
        (self._output,) = card.outputs
        self._scores = ScoreRule(card.head_options)
        self._boxes = BoxRule(card, "cxcywh", normalized=False)
        strides = card.head_options.strides or STRIDES
        cells = len(anchor_grid(card.height, card.width, strides)[1])
        self.shapes = ((4 + len(card.class_names), cells),)

    def classes_in(self, shape: tuple[int, ...]) -> int:
        """All rows but four."""
        return shape[0] - 4

    def decode(
        self, outputs: Outputs, image_index: int, score_threshold: float
    ) -> Candidates:
        """See :class:`edgepipe.models.candidates.Head`."""
        output = outputs[self._output][image_index]
        # The maximum alone is several times cheaper than the maximum and its index;
        # the index is asked for the few cells that are left.
        highest = output[4:].max(axis=0)
        # An infinity above is in one of the maxima, everything else in the minimum:
        # a pass less than looking for both in the whole.
        ends = output.min(), output[:4].max(), highest.max()
        if not np.isfinite(ends).all():
            require_finite(output, self._output)
        least = np.float32(self._scores.least(score_threshold))
        cells = np.flatnonzero(highest >= least)
        shares = self._scores.shares(output[4:, cells])
        score = shares.max(axis=0)
        kept = score >= np.float32(score_threshold)
        class_id = shares[:, kept].argmax(axis=0).astype(np.int32)
        xyxy = self._boxes.xyxy(output[:4, cells[kept]].T, self._output)
        return Candidates(xyxy, score[kept], class_id)


class YoloV5Head:
    """One output (boxes, 5 + classes): cx, cy, w, h, objectness, class scores.

    A box's score is its objectness times its best class score. There are three boxes
    for each cell.
    """

    def __init__(self, card: ModelCard) -> None:
        (self._output,) = card.outputs
        self._scores = ScoreRule(card.head_options)
        self._boxes = BoxRule(card, "cxcywh", normalized=False)
        strides = card.head_options.strides or STRIDES
        cells = len(anchor_grid(card.height, card.width, strides)[1])
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
        rows, score, class_id = _with_objectness(output, self._scores, score_threshold)
        xyxy = self._boxes.xyxy(output[rows, :4], self._output)
        return Candidates(xyxy, score, class_id)


class YoloXHead:
    """One output (cells, 5 + classes): a box, objectness, class scores.

    The box is relative to its cell: the centre in cells from the cell's corner, width
    and height as logarithms in units of its stride (YOLOX, Ge et al., 2021). With
    ``decoded`` it is cx, cy, w, h in network pixels.
    """

    def __init__(self, card: ModelCard) -> None:
        (self._output,) = card.outputs
        self._scores = ScoreRule(card.head_options)
        self._decoded = bool(card.head_options.decoded)
        strides = card.head_options.strides or STRIDES
        centres, self._strides = anchor_grid(card.height, card.width, strides)
        self._corners = centres / self._strides[:, np.newaxis] - np.float32(0.5)
        self.shapes = ((len(self._strides), 5 + len(card.class_names)),)

    def classes_in(self, shape: tuple[int, ...]) -> int:
        """All columns but five."""
        return shape[-1] - 5

    def decode(
        self, outputs: Outputs, image_index: int, score_threshold: float
    ) -> Candidates:
        """See :class:`edgepipe.models.candidates.Head`."""
        output = outputs[self._output][image_index]
        require_finite(output, self._output)
        rows, score, class_id = _with_objectness(output, self._scores, score_threshold)
        boxes = output[rows, :4]
        with np.errstate(over="ignore", invalid="ignore"):
            if not self._decoded:
                stride = self._strides[rows, np.newaxis]
                boxes[:, :2] = (boxes[:, :2] + self._corners[rows]) * stride
                boxes[:, 2:] = np.exp(boxes[:, 2:]) * stride
            xyxy = corners(boxes)
        return Candidates(finite_boxes(xyxy, self._output), score, class_id)


def _with_objectness(
    output: NDArray[np.float32], rule: ScoreRule, threshold: float
) -> tuple[NDArray[np.intp], NDArray[np.float32], NDArray[np.int32]]:
    """Rows whose objectness times best class reaches the threshold; score and class."""
    # Class scores are at most 1, so a box whose objectness is too low is out.
    rows = np.flatnonzero(output[:, 4] >= np.float32(rule.least(threshold)))
    likely = rule.shares(output[rows, 4:])
    score = likely[:, 1:].max(axis=1) * likely[:, 0]
    kept = np.flatnonzero(score >= np.float32(threshold))
    class_id = likely[kept, 1:].argmax(axis=1).astype(np.int32)
    return rows[kept], score[kept], class_id
