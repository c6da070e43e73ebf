"""Heads that give, for each cell, the distances from its centre to the box edges."""

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.candidates import (
    Candidates,
    anchor_grid,
    require_finite,
    rows_reaching,
)
from edgepipe.models.card import ModelCard
from edgepipe.models.engine import Outputs

NANODET_STRIDES = (8, 16, 32)
NANODET_BINS = 11
"""Values 0..10 that a side's distance can take, in units of the cell's stride."""


class NanoDetHead:
    """Scores (cells, classes) and, for each side, a distribution over distances.

    Each side's distance is the expectation of a softmax over eleven bins, times the
    stride (Generalized Focal Loss, Li et al., 2020).
    """

    def __init__(self, card: ModelCard) -> None:
        self._scores, self._distances = card.outputs
        self._centres, self._strides = anchor_grid(
            card.height, card.width, NANODET_STRIDES
        )
        self._bins = np.arange(NANODET_BINS, dtype=np.float32)
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
        kept = rows_reaching(scores, score_threshold)
        sides = logits[kept].reshape(-1, 4, NANODET_BINS)
        weights = np.exp(sides - sides.max(axis=2, keepdims=True))
        expected = (weights @ self._bins) / weights.sum(axis=2)
        distances = expected * self._strides[kept, np.newaxis]
        return _candidates(scores[kept], self._centres[kept], distances)


class DistanceHead:
    """Scores (cells, classes) and the four distances in network pixels, one stride."""

    def __init__(self, card: ModelCard) -> None:
        self._scores, self._distances = card.outputs
        self._centres, strides = anchor_grid(card.height, card.width, (8,))
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
        kept = rows_reaching(scores, score_threshold)
        return _candidates(scores[kept], self._centres[kept], distances[kept])


def _candidates(
    scores: NDArray[np.float32],
    centres: NDArray[np.float32],
    distances: NDArray[np.float32],
) -> Candidates:
    """Boxes of the kept cells from left, top, right and bottom distances."""
    xyxy = np.empty((len(scores), 4), np.float32)
    np.subtract(centres, distances[:, :2], out=xyxy[:, :2])
    np.add(centres, distances[:, 2:], out=xyxy[:, 2:])
    class_id = scores.argmax(axis=1).astype(np.int32)
    return Candidates(xyxy, scores.max(axis=1), class_id)
