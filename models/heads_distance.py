"""Heads that give, for each cell, the distances from its centre to the box edges."""

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.boxes import finite_boxes
from edgepipe.models.candidates import Candidates, anchor_grid, require_finite
from edgepipe.models.card import ModelCard
from edgepipe.models.engine import Outputs
from edgepipe.models.scores import Best, ScoreRule

NANODET_STRIDES = (8, 16, 32)
NANODET_PLUS_STRIDES = (8, 16, 32, 64)
NANODET_PLUS_BINS = 8
DISTANCE_STRIDES = (8,)
NANODET_BINS = 11
"""Values 0..10 that a side's distance can take, in units of the cell's stride."""


class NanoDetHead:
    """Scores (cells, classes) and, for each side, a distribution over distances.

    Each side's distance is the expectation of a softmax over eleven bins, times the
    stride (Generalized Focal Loss, Li et al., 2020).
    """

    def __init__(self, card: ModelCard) -> None:
        self._scores, self._distances = card.outputs
        self._rule = ScoreRule(card.head_options)
        self._centres, self._strides = anchor_grid(
            card.height, card.width, card.head_options.strides or NANODET_STRIDES
        )
        cells = len(self._strides)
        self.shapes = ((cells, len(card.class_names)), (cells, 4 * NANODET_BINS))

    def classes_in(self, shape: tuple[int, ...]) -> int:
        """The scores have one column for each class."""
        return shape[-1]

    def decode(
        self, outputs: Outputs, image_index: int, score_threshold: float
    ) -> Candidates:
        """See :class:`edgepipe.models.candidates.Head`."""
        scores = outputs[self._scores][image_index]
        logits = outputs[self._distances][image_index]
        require_finite(scores, self._scores)
        require_finite(logits, self._distances)
        best = self._rule.best(scores, score_threshold)
        distances = _expected(logits[best.rows], self._strides[best.rows])
        return _candidates(best, self._centres, distances, self._distances)


class NanoDetPlusHead:
    """One output (cells, classes + 4 x 8): scores, then distributions over distances.

    As NanoDet, but the distances run from the cell's upper left corner, as they do in
    the training of NanoDet-Plus.
    """

    def __init__(self, card: ModelCard) -> None:
        (self._output,) = card.outputs
        self._rule = ScoreRule(card.head_options)
        strides = card.head_options.strides or NANODET_PLUS_STRIDES
        centres, self._strides = anchor_grid(card.height, card.width, strides)
        half = self._strides[:, np.newaxis] / 2
        self._corners = np.asarray(centres - half, np.float32)
        self._classes = len(card.class_names)
        columns = self._classes + 4 * NANODET_PLUS_BINS
        self.shapes = ((len(self._strides), columns),)

    def classes_in(self, shape: tuple[int, ...]) -> int:
        """All columns but those of the four sides."""
        return shape[-1] - 4 * NANODET_PLUS_BINS

    def decode(
        self, outputs: Outputs, image_index: int, score_threshold: float
    ) -> Candidates:
        """See :class:`edgepipe.models.candidates.Head`."""
        output = outputs[self._output][image_index]
        require_finite(output, self._output)
        best = self._rule.best(output[:, : self._classes], score_threshold)
        logits = output[best.rows, self._classes :]
        distances = _expected(logits, self._strides[best.rows])
        return _candidates(best, self._corners, distances, self._output)


class DistanceHead:
    """Scores (cells, classes) and the four distances in network pixels."""

    def __init__(self, card: ModelCard) -> None:
        self._scores, self._distances = card.outputs
        self._rule = ScoreRule(card.head_options)
        self._centres, strides = anchor_grid(
            card.height, card.width, card.head_options.strides or DISTANCE_STRIDES
        )
        self.shapes = ((len(strides), len(card.class_names)), (len(strides), 4))

    def classes_in(self, shape: tuple[int, ...]) -> int:
        """The scores have one column for each class."""
        return shape[-1]

    def decode(
        self, outputs: Outputs, image_index: int, score_threshold: float
    ) -> Candidates:
        """See :class:`edgepipe.models.candidates.Head`."""
        scores = outputs[self._scores][image_index]
        distances = outputs[self._distances][image_index]
        require_finite(scores, self._scores)
        require_finite(distances, self._distances)
        best = self._rule.best(scores, score_threshold)
        return _candidates(best, self._centres, distances[best.rows], self._distances)


def _expected(
    logits: NDArray[np.float32], strides: NDArray[np.float32]
) -> NDArray[np.float32]:
    """(n, 4) distances from (n, 4 x bins) distributions and each cell's stride."""
    sides = logits.reshape(len(logits), 4, logits.shape[1] // 4)
    bins = np.arange(sides.shape[2], dtype=np.float32)
    weights = np.exp(sides - sides.max(axis=2, keepdims=True))
    expected = (weights @ bins) / weights.sum(axis=2)
    return np.asarray(expected * strides[:, np.newaxis], np.float32)


def _candidates(
    best: Best,
    centres: NDArray[np.float32],
    distances: NDArray[np.float32],
    name: str,
) -> Candidates:
    """Boxes of the kept cells from left, top, right and bottom distances."""
    xyxy, middle = np.empty((len(distances), 4), np.float32), centres[best.rows]
    np.subtract(middle, distances[:, :2], out=xyxy[:, :2])
    np.add(middle, distances[:, 2:], out=xyxy[:, 2:])
    return Candidates(finite_boxes(xyxy, name), best.score, best.class_id)
