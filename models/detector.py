"""A network, its head and NMS: from images to boxes in network pixels."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.candidates import BadOutputError, Candidates
from edgepipe.models.card import ModelCard
from edgepipe.models.engine import Engine, Outputs
from edgepipe.models.heads import build_head, suppresses
from edgepipe.models.nms import Kept, best_first, suppress


@dataclass(frozen=True, slots=True)
class Found:
    """What was found in one image, score descending."""

    xyxy: NDArray[np.float32]
    """(n, 4): x1, y1, x2, y2 in pixels of the network's input."""
    score: NDArray[np.float32]
    """(n,) in 0..1."""
    class_id: NDArray[np.int32]
    """(n,) index into the card's class names."""
    truncated: int
    """How many more there were, cut by ``max_detections`` after NMS."""


class Detector:
    """Runs an engine and decodes what it puts out.

    Args:
        card: The model's description; names the head.
        engine: A loaded engine of that model; stays the caller's to close.
        score: Lowest score that is kept.
        iou: Overlap above which NMS removes the lower score; not looked at with a head
            that needs no NMS, as the last one.
        max_detections: Most boxes returned for one image.
        class_agnostic: Whether boxes of different classes remove each other.

    Raises:
        ModelError: The card's head does not exist or reads other outputs.
    """

    def __init__(
        self,
        card: ModelCard,
        engine: Engine,
        *,
        score: float,
        iou: float,
        max_detections: int,
        class_agnostic: bool,
    ) -> None:
        self._head = build_head(card)
        self._suppresses = suppresses(card.head)
        self._engine = engine
        self._score = score
        self._iou = iou
        self._max_detections = max_detections
        self._class_agnostic = class_agnostic

    def detect(self, images: NDArray[np.uint8], request: int = 0) -> list[Found]:
        """Boxes of each image of an (n, height, width, 3) uint8 batch.

        Different requests may be used by different threads at once.

        Raises:
            EngineError: The library failed.
            BadOutputError: The network's output is not finite.
        """
        outputs = self._engine.infer(images, request)
        return [self._found(outputs, index) for index in range(len(images))]

    def detect_each(
        self, images: NDArray[np.uint8], request: int = 0
    ) -> list[Found | BadOutputError]:
        """As :meth:`detect`, with the error of an image in its place.

        Raises:
            EngineError: The library failed.
        """
        outputs = self._engine.infer(images, request)
        return [self._found_or_error(outputs, index) for index in range(len(images))]

    def renew(self, request: int) -> None:
        """Make another request of this number: a thread hangs that may use the old one.

        Raises:
            EngineError: The library failed.
        """
        self._engine.renew(request)

    def _found_or_error(self, outputs: Outputs, index: int) -> Found | BadOutputError:
        try:
            return self._found(outputs, index)
        except BadOutputError as error:
            return error

    def _found(self, outputs: Outputs, image_index: int) -> Found:
        """Decode and suppress one image."""
        boxes = self._head.decode(outputs, image_index, self._score)
        kept = self._kept(boxes)
        rows = kept.indices
        return Found(
            boxes.xyxy[rows], boxes.score[rows], boxes.class_id[rows], kept.truncated
        )

    def _kept(self, boxes: Candidates) -> Kept:
        if not self._suppresses:
            return best_first(boxes.score, self._max_detections)
        return suppress(
            boxes.xyxy,
            boxes.score,
            boxes.class_id,
            iou_threshold=self._iou,
            max_detections=self._max_detections,
            class_agnostic=self._class_agnostic,
        )
