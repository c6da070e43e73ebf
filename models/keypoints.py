"""A network that says where the parts of the object in an image are."""

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.card import ModelCard
from edgepipe.models.engine import Engine
from edgepipe.models.heads import build_keypoints
from edgepipe.models.heads_keypoints import Points


class KeypointFinder:
    """Runs an engine and reads what it puts out.

    Args:
        card: The model's description; names the head. Its ``score_threshold`` is the
            lowest score of a keypoint that counts as found.
        engine: A loaded engine of that model; stays the caller's to close.

    Raises:
        ModelError: The card's head is not one of keypoints.
    """

    def __init__(self, card: ModelCard, engine: Engine) -> None:
        self._head = build_keypoints(card)
        self._engine = engine
        self._threshold = np.float32(card.score_threshold)

    @property
    def scores(self) -> bool:
        """Whether keypoints have scores."""
        return self._head.scores

    def find(self, images: NDArray[np.uint8], request: int = 0) -> Points:
        """The keypoints in each image of an (n, height, width, 3) uint8 batch.

        Those that were not found are NaN. Different requests may be used by different
        threads at once.

        Raises:
            EngineError: The library failed.
            BadOutputError: The network's output is not finite.
        """
        points = self._head.points(self._engine.infer(images, request))
        if points.score is not None:
            points.xy[points.score < self._threshold] = np.nan
        return points

    def renew(self, request: int) -> None:
        """Make another request of this number: a thread hangs that may use the old one.

        Raises:
            EngineError: The library failed.
        """
        self._engine.renew(request)
