"""What a second network is given: the objects of a frame, cut out and scaled."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.candidates import BadOutputError
from edgepipe.models.card import ModelCard
from edgepipe.pipeline.detections import Detections
from edgepipe.pipeline.frame import Frame, Letterbox, Picture
from edgepipe.pipeline.stage import FrameError
from edgepipe.scheduler.fates import Reason
from edgepipe.stages.crop import crop
from edgepipe.stages.letterbox import letterbox_for
from edgepipe.stages.planes import Scratch, render

LOOKED_AT, LEFT_OUT, TOO_SMALL = "looked_at", "left_out", "too_small"
T = TypeVar("T")


class Place(NamedTuple):
    """Where an object's input came from."""

    letterbox: Letterbox
    left: int
    """Of the part of the picture that was cut out, in captured pixels."""
    top: int

    def to_captured(self, points: NDArray[np.float32]) -> NDArray[np.float32]:
        """Map (n, 2) points in network pixels to pixels of the captured image."""
        box = self.letterbox
        pad = np.array([box.pad_x, box.pad_y], np.float32)
        scale = np.array([box.scale_x, box.scale_y], np.float32)
        return (points - pad) / scale + np.array([self.left, self.top], np.float32)


class Batch(NamedTuple):
    """Some objects as the network wants them."""

    rows: NDArray[np.intp]
    """Which of the frame's detections they are."""
    images: NDArray[np.uint8]
    """(n, height, width, 3); the worker's memory, until the next batch."""
    places: list[Place]


class _Bench:
    """One worker's own memory and counts."""

    def __init__(self, card: ModelCard, most: int) -> None:
        self.images = np.zeros((most, card.height, card.width, 3), np.uint8)
        self.scratch = Scratch(card.height * card.width)
        self.counts: Counter[str] = Counter()


def detections_of(frame: Frame) -> Detections:
    """What the detector found.

    Raises:
        ValueError: It has not looked yet.
    """
    if frame.detections is None:
        raise ValueError("a second network needs a frame with detections")
    return frame.detections


class Crops:
    """Cuts objects out of pictures and scales them as a network's card says.

    The surest detections go first; those that are too small or too many are not looked
    at, which is counted.

    Args:
        card: Of the network.
        classes: Only objects of these classes of the detector; None: all.
        max_crops: Most objects of a frame that are looked at.
        batch: Most images that the network is given in one call.
        min_side: Shorter sides than this, in pixels, are too small.
        margin: How much of its width and height is added to each side of a box.
    """

    def __init__(
        self,
        card: ModelCard,
        *,
        classes: Collection[int] | None = None,
        max_crops: int = 8,
        batch: int = 1,
        min_side: int = 16,
        margin: float = 0.0,
    ) -> None:
        self._card = card
        self._classes = None if classes is None else np.array(sorted(classes), np.int32)
        self._max_crops = max_crops
        self._batch = max(1, min(batch, max_crops))
        self._min_side = min_side
        self._margin = margin
        self._benches: dict[int, _Bench] = {}
        self._lost: Counter[str] = Counter()

    def each(
        self, frame: Frame, worker: int, look: Callable[[NDArray[np.uint8], int], T]
    ) -> Iterator[tuple[Batch, T]]:
        """What the network says of each batch of the frame's objects.

        Args:
            frame: With its picture and its detections.
            worker: Who asks; each worker has memory of its own.
            look: Given images and the worker.

        Raises:
            FrameError: ``bad_output``: the network's output cannot be used.
            ValueError: The frame has no picture or no detections.
        """
        found, picture = detections_of(frame), frame.picture
        if picture is None:
            raise ValueError("a second network needs a decoded frame")
        bench = self._benches.get(worker)
        if bench is None:
            bench = self._benches[worker] = _Bench(self._card, self._batch)
        rows = self._chosen(found, picture, bench.counts)
        for begin in range(0, len(rows), self._batch):
            some = rows[begin : begin + self._batch]
            batch = Batch(some, *self._cut_out(picture, found.xyxy[some], bench))
            try:
                said = look(batch.images, worker)
            except BadOutputError as error:
                raise FrameError(Reason.BAD_OUTPUT, str(error)) from error
            yield batch, said
        bench.counts[LOOKED_AT] += len(rows)

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
    ) -> tuple[NDArray[np.uint8], list[Place]]:
        """(n, height, width, 3): each box as the network wants it, and where it is."""
        card, images = self._card, bench.images[: len(boxes)]
        places: list[Place] = []
        grow = self._margin * (boxes[:, 2:] - boxes[:, :2])
        grown = np.concatenate([boxes[:, :2] - grow, boxes[:, 2:] + grow], axis=1)
        for image, (left, top, right, bottom) in zip(
            images, grown.tolist(), strict=True
        ):
            found = crop(picture, (left, top, right, bottom))
            assert found is not None  # it has sides inside the picture
            part = found.picture
            place = letterbox_for(
                part.width, part.height, card.width, card.height, card.align
            )
            image[...] = card.pad_value
            render(part, image[place.rows, place.columns], card.color, bench.scratch)
            places.append(Place(place.letterbox, found.left, found.top))
        return images, places

    @property
    def counts(self) -> dict[str, int]:
        """Objects so far: ``looked_at``, ``left_out`` (too many) and ``too_small``."""
        total = self._lost.copy()
        for bench in list(self._benches.values()):
            total += bench.counts
        return {name: total[name] for name in (LOOKED_AT, LEFT_OUT, TOO_SMALL)}

    def forget(self, worker: int) -> None:
        """Other memory for the worker of this number; what it counted stays."""
        lost = self._benches.pop(worker, None)
        if lost is not None:
            self._lost += lost.counts
