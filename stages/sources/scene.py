"""Drawn scenes: how their objects move and how they look, exactly and repeatably.

Three kinds of things on a soft background: walkers, carts and drones. The model
``scene-tiny`` knows them.
"""

from collections.abc import Sequence
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

from edgepipe.pipeline.detections import Detections
from edgepipe.stages.sources.figures import DRAW, Pen

CLASS_NAMES = ("walker", "cart", "drone")
_REFERENCE_HEIGHT = 192.0
"""Height of the picture for which the sizes and speeds below are."""
_HEIGHTS = ((24.0, 70.0), (16.0, 44.0), (16.0, 44.0))
_ASPECTS = ((0.35, 0.5), (1.5, 2.4), (1.3, 1.9))
_SPEEDS = (0.4, 4.0)
_HIDDEN = 0.75
"""An object covered by one nearer object to more than this share is not there."""

Image = NDArray[np.uint8]
Boxes = NDArray[np.float64]


class Scene:
    """Everything that a seed decides. Any frame can be had without those before it.

    Args:
        seed: Equal seeds give equal scenes.
        width: Of the picture, in pixels.
        height: Of the picture, in pixels.
        objects: How many things move about; all of them stay inside the picture.
    """

    def __init__(self, seed: int, width: int, height: int, objects: int) -> None:
        self.width, self.height = width, height
        rng = np.random.default_rng(seed)
        unit = height / _REFERENCE_HEIGHT
        self.class_id = rng.integers(0, len(CLASS_NAMES), objects).astype(np.int32)
        tall = _uniform(rng, _HEIGHTS, self.class_id) * unit
        wide = np.minimum(tall * _uniform(rng, _ASPECTS, self.class_id), 0.9 * width)
        self._size = np.stack([wide, tall], axis=1)
        room = np.array([width, height]) - self._size
        self._room = np.maximum(room, 1e-6)
        self._start = rng.uniform(0, 1, (objects, 2)) * room
        # What stands lower in the picture is nearer and is drawn later.
        order = np.argsort(self._start[:, 1] + tall, kind="stable")
        self.class_id = self.class_id[order]
        self._size, self._room = self._size[order], self._room[order]
        self._start = self._start[order]
        angle = rng.uniform(0, 2 * np.pi, objects)
        speed = rng.uniform(*_SPEEDS, objects) * unit
        self._velocity = np.stack(
            [speed * np.cos(angle), speed * np.sin(angle) * 0.4], axis=1
        )
        self._phase = rng.uniform(0, 2 * np.pi, objects)
        self._colors = rng.uniform(0, 255, (objects, 2, 3))
        self._rng_seed = (seed, 1)

    def boxes(self, index: int) -> Boxes:
        """(objects, 4): x1, y1, x2, y2 of all objects in a frame, also hidden ones."""
        # Moving to and fro between two walls is a triangle wave of the way gone.
        way = (self._start + self._velocity * index) % (2 * self._room)
        corner = self._room - np.abs(way - self._room)
        return np.concatenate([corner, corner + self._size], axis=1)

    def truth(self, index: int) -> Detections:
        """The visible objects with their identities, which count from 1."""
        boxes = self.boxes(index)
        seen = np.flatnonzero(_covered(boxes) <= _HIDDEN)
        found = Detections.of(boxes[seen], np.ones(len(seen)), self.class_id[seen])
        return found.tracked(seen + 1)

    def image(self, index: int) -> Image:
        """(height, width, 3) BGR, the caller's own."""
        image: Image = self.background.copy()
        for k, box in enumerate(self.boxes(index)):
            first, second = self._colors[k].tolist()
            pen = Pen(image, box, first, second)
            DRAW[self.class_id[k]](pen, self._phase[k] + 0.6 * index)
        return image

    @cached_property
    def background(self) -> Image:
        """A colour gradient with soft spots and a few plain rectangles."""
        rng = np.random.default_rng(self._rng_seed)
        width, height = self.width, self.height
        above, below = rng.uniform(20, 220, (2, 3))
        down = np.linspace(0, 1, height)[:, None, None]
        image = np.repeat(above * (1 - down) + below * down, width, axis=1)
        coarse = (max(2, height // 8), max(2, width // 8), 3)
        spots = rng.normal(0, rng.uniform(3, 25), coarse).astype(np.float32)
        image += cv2.resize(spots, (width, height), interpolation=cv2.INTER_CUBIC)
        for _ in range(rng.integers(2, 7)):
            x, y = int(rng.integers(0, width)), int(rng.integers(0, height))
            w, h = rng.uniform(0.03, 0.28) * width, rng.uniform(0.04, 0.3) * height
            filled = -1 if rng.random() < 0.6 else 2
            color = rng.uniform(10, 240, 3).tolist()
            cv2.rectangle(image, (x, y), (int(x + w), int(y + h)), color, filled)
        return np.asarray(cv2.convertScaleAbs(np.maximum(image, 0)), np.uint8)


def _uniform(
    rng: np.random.Generator,
    bounds: Sequence[tuple[float, float]],
    class_id: NDArray[np.int32],
) -> NDArray[np.float64]:
    """One number for each object, between the bounds of its class."""
    limits: Boxes = np.array(bounds, np.float64)[class_id]
    return np.asarray(rng.uniform(limits[:, 0], limits[:, 1]), np.float64)


def _covered(boxes: Boxes) -> NDArray[np.float64]:
    """For each box, the largest share that one box drawn after it covers."""
    low = np.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    common = np.prod(np.maximum(high - low, 0), axis=2)
    share = common / np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)[:, None]
    return np.asarray(np.triu(share, k=1).max(axis=1, initial=0.0), np.float64)
