"""A network that says what an image shows: one class for each image."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.card import ModelCard
from edgepipe.models.engine import Engine
from edgepipe.models.heads import build_classifier


@dataclass(frozen=True, slots=True)
class Classes:
    """The best class of each image of a batch."""

    class_id: NDArray[np.int32]
    """(n,) index into the card's class names; the lower one when two are equal."""
    score: NDArray[np.float32]
    """(n,) its probability."""


class Classifier:
    """Runs an engine and reads what it puts out.

    Args:
        card: The model's description; names the head.
        engine: A loaded engine of that model; stays the caller's to close.

    Raises:
        ModelError: The card's head is not a classifier's.
    """

    def __init__(self, card: ModelCard, engine: Engine) -> None:
        self._head = build_classifier(card)
        self._engine = engine

    def classify(self, images: NDArray[np.uint8], request: int = 0) -> Classes:
        """The best class of each image of an (n, height, width, 3) uint8 batch.

        Different requests may be used by different threads at once.

        Raises:
            EngineError: The library failed.
            BadOutputError: The network's output is not finite, or no probabilities.
        """
        shares = self._head.probabilities(self._engine.infer(images, request))
        best = shares.argmax(axis=1)
        return Classes(best.astype(np.int32), shares[np.arange(len(best)), best].copy())

    def renew(self, request: int) -> None:
        """Make another request of this number: a thread hangs that may use the old one.

        Raises:
            EngineError: The library failed.
        """
        self._engine.renew(request)
