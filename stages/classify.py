"""A second network that looks at each object that was found."""

from collections import Counter
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.candidates import BadOutputError
from edgepipe.models.card import ModelCard
from edgepipe.models.classifier import Classifier
from edgepipe.pipeline.detections import NOT_LOOKED_AT, Attribute, Detections
from edgepipe.pipeline.frame import Frame, Picture
from edgepipe.pipeline.stage import FrameError
from edgepipe.scheduler.fates import Reason
from edgepipe.stages.crop import crop
from edgepipe.stages.letterbox import letterbox_for
from edgepipe.stages.planes import Scratch, render

LOOKED_AT, LEFT_OUT, TOO_SMALL = "looked_at", "left_out", "too_small"


class _Bench:
    """One worker's own memory and counts."""

    def __init__(self, card: ModelCard, most: int) -> None:
        self.images = np.zeros((most, card.height, card.width, 3), np.uint8)
        self.scratch = Scratch(card.height * card.width)
        self.counts: Counter[str] = Counter()


class Classify:
    """Adds an :class:`Attribute` to a frame's detections. Stateless.

    Cuts objects out of the picture, scales them to the network's input as its card
    says, and classifies them. The surest detections go first; those that are too small
    or too many are not looked at, which is counted and shown in the result.

    Args:
        classifier: Shared by all streams; closed by whoever made it.
        card: Of its network.
        name: What to call the attribute.
        classes: Only objects of these classes of the detector; None: all.
        max_crops: Most objects of a frame that are looked at.
        batch: Most images that the network is given in one call.
        min_side: Shorter sides than this, in pixels, are too small.
        margin: How much of its width and height is added to each side of a box.
    """

    def __init__(
        self,
        classifier: Classifier,
        card: ModelCard,
        name: str,
        *,
        classes: Collection[int] | None = None,
        max_crops: int = 8,
        batch: int = 1,
        min_side: int = 16,
        margin: float = 0.0,
    ) -> None:
        self.name = f"classify-{name}"
        self._attribute = name
        self._classifier = classifier
        self._card = card
        self._classes = None if classes is None else np.array(sorted(classes), np.int32)
        self._max_crops = max_crops
        self._batch = max(1, min(batch, max_crops))
        self._min_side = min_side
        self._margin = margin
        self._benches: dict[int, _Bench] = {}
        self._lost: Counter[str] = Counter()

    def process(self, frame: Frame, worker: int) -> Frame:
        """Describe the objects of the frame.

        Raises:
            FrameError: ``bad_output``: the network's output is not finite, or no
                probabilities.
        """
        found, picture = frame.detections, frame.picture
        if found is None or picture is None:
            raise ValueError(f"{self.name} needs a decoded frame with detections")
        bench = self._benches.get(worker)
        if bench is None:
            bench = self._benches[worker] = _Bench(self._card, self._batch)
        class_id = np.full(len(found), NOT_LOOKED_AT, np.int32)
        score = np.zeros(len(found), np.float32)
        rows = self._chosen(found, picture, bench.counts)
        for begin in range(0, len(rows), self._batch):
            some = rows[begin : begin + self._batch]
            images = self._cut_out(picture, found.xyxy[some], bench)
            try:
                classes = self._classifier.classify(images, worker)
            except BadOutputError as error:
                raise FrameError(Reason.BAD_OUTPUT, str(error)) from error
            class_id[some], score[some] = classes.class_id, classes.score
        bench.counts[LOOKED_AT] += len(rows)
        labels = self._card.class_names
        attribute = Attribute(self._attribute, labels, class_id, score)
        return frame.with_changes(detections=found.described(attribute))

    def _chosen(
        self, found: Detections, picture: Picture, counts: Counter[str]
    ) -> NDArray[np.intp]:
        """Rows of the objects to look at, the surest first."""
        high = np.array([picture.width, picture.height] * 2, np.float32)
        # NaN compares false: such a box has no side that is long enough.
        inside = np.clip(found.xyxy, 0, high)
        sides = (inside[:, 2:] - inside[:, :2]).min(axis=1)
        wanted = np.ones(len(found), np.bool_)
        if self._classes is not None:
            wanted = np.isin(found.class_id, self._classes)
        rows = np.flatnonzero(wanted & (sides >= self._min_side))
        counts[TOO_SMALL] += int(np.count_nonzero(wanted)) - len(rows)
        if len(rows) > self._max_crops:
            counts[LEFT_OUT] += len(rows) - self._max_crops
            best = np.argsort(-found.score[rows], kind="stable")
            rows = rows[best[: self._max_crops]]
        return rows

    def _cut_out(
        self, picture: Picture, boxes: NDArray[np.float32], bench: _Bench
    ) -> NDArray[np.uint8]:
        """(n, height, width, 3): each box as the network wants it."""
        card, images = self._card, bench.images[: len(boxes)]
        grow = self._margin * (boxes[:, 2:] - boxes[:, :2])
        boxes = np.concatenate([boxes[:, :2] - grow, boxes[:, 2:] + grow], axis=1)
        for image, (left, top, right, bottom) in zip(
            images, boxes.tolist(), strict=True
        ):
            part = crop(picture, (left, top, right, bottom))
            assert part is not None  # it has sides inside the picture
            place = letterbox_for(
                part.width, part.height, card.width, card.height, card.align
            )
            image[...] = card.pad_value
            render(part, image[place.rows, place.columns], card.color, bench.scratch)
        return images

    @property
    def counts(self) -> dict[str, int]:
        """Objects so far: ``looked_at``, ``left_out`` (too many) and ``too_small``."""
        total = self._lost.copy()
        for bench in list(self._benches.values()):
            total += bench.counts
        return {name: total[name] for name in (LOOKED_AT, LEFT_OUT, TOO_SMALL)}

    def renew(self, worker: int) -> None:
        """Another request and other memory for the worker of this number.

        Raises:
            EngineError: The engine has no more requests.
        """
        lost = self._benches.pop(worker, None)
        if lost is not None:
            self._lost += lost.counts
        self._classifier.renew(worker)

    def close(self) -> None:
        """The classifier is closed by whoever made it."""
