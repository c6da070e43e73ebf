"""Heads of networks that suppress by themselves: boxes, scores and class numbers."""

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.boxes import BoxRule
from edgepipe.models.candidates import (
    BadOutputError,
    Candidates,
    Shape,
    require_finite,
)
from edgepipe.models.card import ModelCard
from edgepipe.models.engine import Outputs


class EndToEndHead:
    """One output (n, 6): a box, its score, its class (YOLOv10, YOLO26)."""

    def __init__(self, card: ModelCard) -> None:
        (self._output,) = card.outputs
        self._boxes = BoxRule(card, "xyxy", normalized=False)
        self._classes = len(card.class_names)
        self.shapes: tuple[Shape, ...] = ((None, 6),)

    def classes_in(self, shape: tuple[int, ...]) -> int:
        """A shape does not tell: the class number of each box is checked instead."""
        return self._classes

    def decode(
        self, outputs: Outputs, image_index: int, score_threshold: float
    ) -> Candidates:
        """See :class:`edgepipe.models.candidates.Head`."""
        output = outputs[self._output][image_index]
        require_finite(output, self._output)
        kept = output[output[:, 4] >= np.float32(score_threshold)]
        class_id = class_numbers(kept[:, 5], self._classes, self._output)
        xyxy = self._boxes.xyxy(kept[:, :4], self._output)
        return Candidates(xyxy, kept[:, 4].copy(), class_id)


class PostprocessedHead:
    """Scores (n,), boxes (n, 4), class numbers (n,) and perhaps how many they are.

    As exports with their own NMS have them: TensorFlow's SSD, TensorRT's plugins. With
    ``background: first`` class numbers count from 1.
    """

    def __init__(self, card: ModelCard) -> None:
        self._score, self._box, self._class, *count = card.outputs
        self._count = count[0] if count else None
        self._boxes = BoxRule(card, "xyxy", normalized=False)
        self._first = int(card.head_options.background == "first")
        self._classes = len(card.class_names)
        shapes: tuple[Shape, ...] = ((None,), (None, 4), (None,))
        # The number of detections is a scalar or a row of one.
        self.shapes = (*shapes, None) if count else shapes

    def classes_in(self, shape: tuple[int, ...]) -> int:
        """A shape does not tell: the class number of each box is checked instead."""
        return self._classes

    def decode(
        self, outputs: Outputs, image_index: int, score_threshold: float
    ) -> Candidates:
        """See :class:`edgepipe.models.candidates.Head`."""
        score, boxes, numbers = (
            outputs[name][image_index] for name in (self._score, self._box, self._class)
        )
        require_finite(score, self._score)
        require_finite(boxes, self._box)
        require_finite(numbers, self._class)
        there = self._there(outputs, image_index, len(score))
        kept = np.flatnonzero(score[:there] >= np.float32(score_threshold))
        class_id = class_numbers(
            numbers[kept] - self._first, self._classes, self._class
        )
        xyxy = self._boxes.xyxy(boxes[kept], self._box)
        return Candidates(xyxy, np.asarray(score[kept], np.float32), class_id)

    def _there(self, outputs: Outputs, image_index: int, rows: int) -> int:
        """How many rows are detections."""
        if self._count is None:
            return rows
        count = np.atleast_1d(outputs[self._count][image_index])
        require_finite(count, self._count)
        if count.size != 1 or not 0 <= count.flat[0] <= rows:
            raise BadOutputError(
                f"output {self._count!r}: {count.tolist()} detections of {rows} rows"
            )
        return round(float(count.flat[0]))


def class_numbers(
    numbers: NDArray[np.float32], classes: int, name: str
) -> NDArray[np.int32]:
    """Class numbers as integers.

    Raises:
        BadOutputError: One is no whole number or has no name.
    """
    whole = np.rint(numbers)
    wrong = (whole != numbers) | (whole < 0) | (whole >= classes)
    if wrong.any():
        raise BadOutputError(
            f"output {name!r}: class {float(numbers[wrong][0]):g}, the card has "
            f"{classes} class names (0 to {classes - 1})"
        )
    return whole.astype(np.int32)
