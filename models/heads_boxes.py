"""Heads with scores in one output and boxes, or offsets to anchors, in another."""

import numpy as np

from edgepipe.errors import ModelError
from edgepipe.models.boxes import Y_FIRST, BoxRule, finite_boxes, sized_by_anchors
from edgepipe.models.boxes import corners as corners_of
from edgepipe.models.candidates import Candidates, Shape, require_finite
from edgepipe.models.card import ModelCard
from edgepipe.models.engine import Outputs
from edgepipe.models.scores import ScoreRule

SSD_VARIANCES = (0.1, 0.1, 0.2, 0.2)


class BoxesHead:
    """Scores (n, classes) and boxes (n, 4) that need NMS."""

    def __init__(self, card: ModelCard) -> None:
        self._name, self._boxes_name = card.outputs
        self._scores = ScoreRule(card.head_options)
        self._boxes = BoxRule(card, "xyxy", normalized=False)
        columns = len(card.class_names) + self._scores.extra
        self.shapes: tuple[Shape, ...] = ((None, columns), (None, 4))

    def classes_in(self, shape: tuple[int, ...]) -> int:
        """The scores' columns, without that of the background."""
        return shape[-1] - self._scores.extra

    def decode(
        self, outputs: Outputs, image_index: int, score_threshold: float
    ) -> Candidates:
        """See :class:`edgepipe.models.candidates.Head`."""
        scores = outputs[self._name][image_index]
        boxes = outputs[self._boxes_name][image_index]
        require_finite(scores, self._name)
        require_finite(boxes, self._boxes_name)
        best = self._scores.best(scores, score_threshold)
        xyxy = self._boxes.xyxy(boxes[best.rows], self._boxes_name)
        return Candidates(xyxy, best.score, best.class_id)


class DetrHead(BoxesHead):
    """Scores (queries, classes) and boxes (queries, 4): one object each, no NMS.

    RT-DETR has a sigmoid for each class, DETR a softmax whose last column is "no
    object": ``scores: softmax, background: last``. A query is its best class.
    """

    def __init__(self, card: ModelCard) -> None:
        super().__init__(card)
        self._scores = ScoreRule(card.head_options, "sigmoid")
        self._boxes = BoxRule(card, "cxcywh", normalized=True)


class SsdHead:
    """Scores (anchors, classes) and offsets (anchors, 4) of cx, cy, w, h.

    Raises:
        ModelError: The card has no anchors.
    """

    def __init__(self, card: ModelCard) -> None:
        options = card.head_options
        self._name, self._boxes_name = card.outputs
        self._scores = ScoreRule(options)
        if options.anchors is None:
            raise ModelError(
                f"model {card.name!r}: head 'ssd' needs head.anchors (if the graph "
                f"makes boxes of them itself, the head is 'boxes')"
            )
        shares = options.normalized is not False
        sides = (card.width, card.height) if shares else (1, 1)
        self._anchors = np.array(options.anchors, np.float32) * np.array(
            [*sides, *sides], np.float32
        )
        self._variances = np.array(options.variances or SSD_VARIANCES, np.float32)
        y_first = options.box_format in Y_FIRST
        self._columns = [1, 0, 3, 2] if y_first else [0, 1, 2, 3]
        n, columns = len(self._anchors), len(card.class_names) + self._scores.extra
        self.shapes: tuple[Shape, ...] = ((n, columns), (n, 4))

    def classes_in(self, shape: tuple[int, ...]) -> int:
        """The scores' columns, without that of the background."""
        return shape[-1] - self._scores.extra

    def decode(
        self, outputs: Outputs, image_index: int, score_threshold: float
    ) -> Candidates:
        """See :class:`edgepipe.models.candidates.Head`."""
        scores = outputs[self._name][image_index]
        offsets = outputs[self._boxes_name][image_index]
        require_finite(scores, self._name)
        require_finite(offsets, self._boxes_name)
        best = self._scores.best(scores, score_threshold)
        boxes = sized_by_anchors(
            offsets[best.rows][:, self._columns],
            self._anchors[best.rows],
            self._variances,
        )
        with np.errstate(over="ignore", invalid="ignore"):
            xyxy = corners_of(boxes)
        xyxy = finite_boxes(xyxy, self._boxes_name)
        return Candidates(xyxy, best.score, best.class_id)
