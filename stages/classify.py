"""Second networks that look at each object that was found."""

from typing import Generic, Protocol, TypeVar

import numpy as np

from edgepipe.models.classifier import Classifier
from edgepipe.models.keypoints import KeypointFinder
from edgepipe.pipeline.detections import NOT_LOOKED_AT, Attribute, Keypoints
from edgepipe.pipeline.frame import Frame
from edgepipe.stages.crops import Crops, detections_of


class _Renewable(Protocol):
    def renew(self, request: int) -> None: ...


N = TypeVar("N", bound=_Renewable)


class SecondLook(Generic[N]):
    """What the stages of second networks share. Stateless.

    Args:
        network: Shared by all streams; closed by whoever made it.
        crops: Which objects it looks at.
        labels: What its classes or keypoints are called.
        name: What to call what it says.
    """

    def __init__(
        self, network: N, crops: Crops, labels: tuple[str, ...], name: str
    ) -> None:
        self.name = f"classify-{name}"
        self._network = network
        self._crops = crops
        self._labels = labels
        self._called = name

    @property
    def counts(self) -> dict[str, int]:
        """Objects so far: ``looked_at``, ``left_out`` (too many) and ``too_small``."""
        return self._crops.counts

    def renew(self, worker: int) -> None:
        """Another request and other memory for the worker of this number.

        Raises:
            EngineError: The engine has no more requests.
        """
        self._crops.forget(worker)
        self._network.renew(worker)

    def close(self) -> None:
        """The network is closed by whoever made it."""


class Classify(SecondLook[Classifier]):
    """Adds an :class:`Attribute` to a frame's detections."""

    def process(self, frame: Frame, worker: int) -> Frame:
        """Describe the objects of the frame.

        Raises:
            FrameError: ``bad_output``: the network's output is not finite, or no
                probabilities.
        """
        found = detections_of(frame)
        class_id = np.full(len(found), NOT_LOOKED_AT, np.int32)
        score = np.zeros(len(found), np.float32)
        for batch, said in self._crops.each(frame, worker, self._network.classify):
            class_id[batch.rows], score[batch.rows] = said.class_id, said.score
        attribute = Attribute(self._called, self._labels, class_id, score)
        return frame.with_changes(detections=found.described(attribute))


class FindKeypoints(SecondLook[KeypointFinder]):
    """Adds :class:`Keypoints` to a frame's detections."""

    def process(self, frame: Frame, worker: int) -> Frame:
        """Find the keypoints of the objects of the frame.

        Raises:
            FrameError: ``bad_output``: the network's output is not finite.
        """
        found = detections_of(frame)
        xy = np.full((len(found), len(self._labels), 2), np.nan, np.float32)
        score = np.zeros(xy.shape[:2], np.float32)
        for batch, said in self._crops.each(frame, worker, self._network.find):
            places = zip(batch.rows.tolist(), said.xy, batch.places, strict=True)
            for row, points, place in places:
                xy[row] = place.to_captured(points)
            if said.score is not None:
                score[batch.rows] = said.score
        scores = score if self._network.scores else None
        keypoints = Keypoints(self._called, self._labels, xy, scores)
        return frame.with_changes(detections=found.pointed(keypoints))
