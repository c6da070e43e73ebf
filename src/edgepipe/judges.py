"""Two precisions of one network, judged frame by frame."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import ModelError
from edgepipe.models.candidates import BadOutputError
from edgepipe.models.card import ModelCard
from edgepipe.models.classifier import Classifier
from edgepipe.models.detector import Detector
from edgepipe.models.engine import Engine
from edgepipe.models.evaluate.agreement import (
    Boxes,
    as_one_class,
    mirror_back,
    mirror_image,
    truth_from,
)
from edgepipe.models.evaluate.matching import Matches, Truth, match
from edgepipe.models.evaluate.verdict import (
    Drop,
    by_class,
    drop_of_agreement,
    drop_of_precision,
)
from edgepipe.models.gate import Kind
from edgepipe.models.heads import CLASSIFIERS, KEYPOINTS
from edgepipe.models.keypoints import KeypointFinder
from edgepipe.samples import Sample
from edgepipe.truth import FrameTruth

LOWEST_SCORE = 0.05
"""From here on detections are judged: average precision asks for unsure ones, too."""
NEAR = 0.05
"""How far a keypoint may move, as a share of the input's longer side."""
SEVERAL = 2
"""Different answers that show that a network looks at its picture."""
MOST_DETECTIONS = 300
"""In a frame; a card's own limit is for those that are shown."""
NOTHING = Boxes(np.empty((0, 4), np.float32), np.empty(0, "f4"), np.empty(0, np.int32))

Found = Callable[[Sample, Boxes], None]
"""Told of a frame and what was found in it, in captured pixels."""


class Judge(Protocol):
    """Looks at frames one by one and says at the end what INT8 lost."""

    kind: Kind
    metric: str
    """What its points are."""
    reference: str
    """What both networks are judged against."""

    @property
    def is_blind(self) -> bool:
        """Whether FP32 answered the same to each of several pictures."""
        ...

    def look(self, sample: Sample) -> None:
        """Take one frame."""
        ...

    def drop(self, seed: int) -> Drop | None:
        """What was lost; None where there was nothing to be found.

        Args:
            seed: Of the bootstrap.
        """
        ...

    def again(self, int8: Engine, samples: Sequence[Sample]) -> None:
        """Begin anew with another INT8 network and the frames that were looked at.

        What FP32 said of them is not asked for again.
        """
        ...


def judge_of(
    card: ModelCard,
    fp32: Engine,
    int8: Engine,
    labels: FrameTruth | None,
    found: Found | None = None,
) -> Judge:
    """The judge for a network, with labels or without.

    Args:
        card: Of the network.
        fp32: What is as right as can be.
        int8: What is judged.
        labels: What is to be seen; None: agreement with FP32.
        found: Told what an INT8 detector finds in each frame that is judged.

    Raises:
        ModelError: What is no detector is to be judged by labels of boxes.
    """
    if card.head not in CLASSIFIERS and card.head not in KEYPOINTS:
        return _Detectors(card, fp32, int8, labels, found)
    if labels is not None:
        raise ModelError(
            f"model {card.name!r} is no detector (head {card.head!r}): labels are of"
            f" boxes; leave them out and its agreement with FP32 is judged"
        )
    if card.head in KEYPOINTS:
        return _Keypoints(card, fp32, int8)
    return _Classifiers(card, fp32, int8)


class _Detectors:
    """Both detectors, against labels or what FP32 sees in the mirrored picture."""

    def __init__(
        self,
        card: ModelCard,
        fp32: Engine,
        int8: Engine,
        labels: FrameTruth | None,
        found: Found | None,
    ) -> None:
        self._labels = labels
        self._found = found
        self._score = card.score_threshold
        self._before, self._after = _detector(card, fp32), _detector(card, int8)
        self._card = card
        self._truths: list[Truth | None] = []
        self._frames: tuple[list[Matches], list[Matches]] = ([], [])
        self._answers: set[bytes] = set()
        self.kind: Kind = "agreement" if labels is None else "ap"
        self.metric = "AP, IoU .50 to .95, mean over classes (COCO)"
        if labels is not None:
            self.reference = f"labels: {labels.name}"
        else:
            self.metric = "AP, IoU .50 to .95, all objects alike whatever their class"
            self.reference = (
                "no labels: what FP32 sees in the mirrored picture, from the card's"
                " score on"
            )

    def look(self, sample: Sample) -> None:
        """Take one frame, if it is known what is to be seen."""
        truth = self._mirrored(sample) if self._labels is None else None
        if self._labels is not None:
            truth = self._labels.of(sample)
        self._truths.append(truth)
        if truth is not None:
            before = _detect(self._before, sample.image)
            if len(self._answers) < SEVERAL:
                self._answers.add(before.score.tobytes() + before.xyxy.tobytes())
            self._frames[0].append(match(_captured(before, sample), truth))
            boxes = _captured(_detect(self._after, sample.image), sample)
            self._frames[1].append(match(boxes, truth))
            if self._found is not None:
                self._found(sample, boxes)

    @property
    def is_blind(self) -> bool:
        """See :class:`Judge`."""
        return len(self._frames[0]) > 1 and len(self._answers) < SEVERAL

    def again(self, int8: Engine, samples: Sequence[Sample]) -> None:
        """See :class:`Judge`."""
        self._after = _detector(self._card, int8)
        self._frames[1][:] = [
            _matched(self._after, sample, truth)
            for sample, truth in zip(samples, self._truths, strict=True)
            if truth is not None
        ]

    def drop(self, seed: int) -> Drop | None:
        """With labels by the mean over classes; the table is always by class."""
        before, after = self._frames
        if not any(len(frame.objects) for frame in before):
            return None
        if self._labels is not None:
            return drop_of_precision(before, after, seed=seed)
        pooled = as_one_class(before), as_one_class(after)
        drop = drop_of_precision(*pooled, seed=seed)
        return replace(drop, classes=by_class(before, after))

    def _mirrored(self, sample: Sample) -> Truth:
        left = sample.letterbox.pad_x
        width = round(sample.size[0] * sample.letterbox.scale_x)
        seen = _detect(self._before, mirror_image(sample.image, left, width))
        back = mirror_back(seen, left, width)
        return truth_from(_captured(back, sample), self._score)


class _Classifiers:
    """Both classifiers, on whole pictures; FP32 is right."""

    def __init__(self, card: ModelCard, fp32: Engine, int8: Engine) -> None:
        self._card = card
        self._both = Classifier(card, fp32), Classifier(card, int8)
        self._classes: list[int] = []
        self._same: list[bool] = []
        self.kind: Kind = "top-1"
        self.metric = "pictures whose first class is FP32's, per cent"
        self.reference = "no labels: what FP32 says"

    def look(self, sample: Sample) -> None:
        """Take one picture."""
        image = sample.image[np.newaxis]
        before, after = (each.classify(image).class_id[0] for each in self._both)
        self._classes.append(int(before))
        self._same.append(bool(before == after))

    @property
    def is_blind(self) -> bool:
        """See :class:`Judge`."""
        return len(self._classes) > 1 and len({*self._classes}) < SEVERAL

    def again(self, int8: Engine, samples: Sequence[Sample]) -> None:
        """See :class:`Judge`."""
        tested = Classifier(self._card, int8)
        found = [
            tested.classify(each.image[np.newaxis]).class_id[0] for each in samples
        ]
        self._same = [bool(a == b) for a, b in zip(found, self._classes, strict=True)]

    def drop(self, seed: int) -> Drop | None:
        """How often they differ."""
        return _agreed(self._same, seed)


class _Keypoints:
    """Both keypoint networks, on whole pictures; FP32 is right."""

    def __init__(self, card: ModelCard, fp32: Engine, int8: Engine) -> None:
        self._card = card
        self._before, self._after = (
            KeypointFinder(card, fp32),
            KeypointFinder(card, int8),
        )
        self._points: list[NDArray[np.float32]] = []
        self._same: list[bool] = []
        self.kind: Kind = "keypoints"
        self.metric = (
            f"pictures with every keypoint within {NEAR:.0%} of the input's longer side"
            f" of FP32's, per cent"
        )
        self.reference = "no labels: where FP32 sees them"

    def look(self, sample: Sample) -> None:
        """Take one picture."""
        self._points.append(self._find(self._before, sample))
        self._same.append(self._is_near(self._points[-1], sample))

    @property
    def is_blind(self) -> bool:
        """See :class:`Judge`."""
        points = self._points
        return len(points) > 1 and all(
            np.array_equal(points[0], each, equal_nan=True) for each in points[1:]
        )

    def again(self, int8: Engine, samples: Sequence[Sample]) -> None:
        """See :class:`Judge`."""
        self._after = KeypointFinder(self._card, int8)
        self._same = [
            self._is_near(points, sample)
            for points, sample in zip(self._points, samples, strict=True)
        ]

    def drop(self, seed: int) -> Drop | None:
        """How often they differ."""
        return _agreed(self._same, seed)

    def _is_near(self, points: NDArray[np.float32], sample: Sample) -> bool:
        """Whether INT8 finds the same; a point that only one of them finds is not."""
        found = self._find(self._after, sample)
        missing = np.isnan(points[:, 0])
        if (missing != np.isnan(found[:, 0])).any():
            return False
        away = np.linalg.norm(found[~missing] - points[~missing], axis=1)
        return bool((away <= NEAR * max(self._card.width, self._card.height)).all())

    @staticmethod
    def _find(finder: KeypointFinder, sample: Sample) -> NDArray[np.float32]:
        points = finder.find(sample.image[np.newaxis])
        return np.array(points.xy[0], np.float32)


def _agreed(same: list[bool], seed: int) -> Drop | None:
    return drop_of_agreement(np.array(same), seed=seed) if same else None


def _detector(card: ModelCard, engine: Engine) -> Detector:
    """One that gives unsure detections, too."""
    return Detector(
        card,
        engine,
        score=min(LOWEST_SCORE, card.score_threshold),
        iou=card.iou_threshold,
        max_detections=MOST_DETECTIONS,
        class_agnostic=card.class_agnostic,
    )


def _detect(detector: Detector, image: NDArray[np.uint8]) -> Boxes:
    """What it finds, in network pixels; nothing in a frame that comes out as NaN."""
    (found,) = detector.detect_each(image[np.newaxis])
    if isinstance(found, BadOutputError):
        return NOTHING
    return Boxes(found.xyxy, found.score, found.class_id)


def _matched(detector: Detector, sample: Sample, truth: Truth) -> Matches:
    return match(_captured(_detect(detector, sample.image), sample), truth)


def _captured(found: Boxes, sample: Sample) -> Boxes:
    return replace(found, xyxy=sample.letterbox.to_captured(found.xyxy))
