"""Heads of networks that find the keypoints of one object that fills their input."""

from dataclasses import dataclass
from math import prod
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import ModelError
from edgepipe.models.candidates import (
    BadOutputError,
    Reader,
    Shape,
    anchor_grid,
    require_finite,
)
from edgepipe.models.card import ModelCard
from edgepipe.models.engine import Outputs
from edgepipe.models.scores import ScoreRule


@dataclass(frozen=True, slots=True)
class Points:
    """The keypoints of each image of a batch."""

    xy: NDArray[np.float32]
    """(n, keypoints, 2) in pixels of the network's input; the caller's own memory."""
    score: NDArray[np.float32] | None
    """(n, keypoints) in 0..1; None where the network gives none."""


class KeypointHead(Reader, Protocol):
    """Reads the keypoints of a batch."""

    @property
    def scores(self) -> bool:
        """Whether keypoints have scores."""
        ...

    def points(self, outputs: Outputs) -> Points:
        """Every keypoint of every image.

        Raises:
            BadOutputError: A value is NaN or infinite.
        """
        ...


class RegressedHead:
    """One output of ``keypoints`` times 2 or 3 values: x and y, and perhaps a score.

    Dimensions of one, and whether it is flat, do not matter.
    """

    def __init__(self, card: ModelCard) -> None:
        (self._output,) = card.outputs
        options = card.head_options
        self._format = options.keypoints or "xy"
        self._rule = ScoreRule(options)
        self._points = len(card.class_names)
        sides = (card.width, card.height) if options.normalized else (1, 1)
        self._scale = np.array(sides, np.float32)
        self._values = len(self._format)
        self.scores = self._format.endswith("s")
        self.shapes: tuple[Shape, ...] = (None,)

    def classes_in(self, shape: tuple[int, ...]) -> int:
        """As many as there should be.

        Raises:
            ModelError: There are more or fewer values than that.
        """
        size = prod(shape)
        if size != self._points * self._values:
            raise ModelError(
                f"output {self._output!r} has {size} values, not {self._values} "
                f"({self._format}) for each of {self._points} keypoints"
            )
        return self._points

    def points(self, outputs: Outputs) -> Points:
        """See :class:`KeypointHead`."""
        output = outputs[self._output]
        require_finite(output, self._output)
        values = output.reshape(len(output), self._points, self._values)
        order = [1, 0] if self._format.startswith("y") else [0, 1]
        score = None
        if self.scores:
            score = self._rule.shares(values[..., 2].copy())
        with np.errstate(over="ignore"):
            xy = np.asarray(values[..., order] * self._scale, np.float32)
        return Points(finite_points(xy, self._output), score)


class HeatmapHead:
    """One output (keypoints, rows, columns): the highest cell is the keypoint.

    It is moved by a quarter of a cell towards the higher neighbour on each axis, as
    the authors of these networks do (Xiao et al., 2018).
    """

    scores = True

    def __init__(self, card: ModelCard) -> None:
        (self._output,) = card.outputs
        self._rule = ScoreRule(card.head_options)
        self._size = np.array([card.width, card.height], np.float32)
        self.shapes: tuple[Shape, ...] = ((len(card.class_names), None, None),)

    def classes_in(self, shape: tuple[int, ...]) -> int:
        """One map for each keypoint."""
        return shape[0]

    def points(self, outputs: Outputs) -> Points:
        """See :class:`KeypointHead`."""
        maps = outputs[self._output]
        require_finite(maps, self._output)
        n, points, rows, columns = maps.shape
        flat = maps.reshape(n, points, -1)
        y, x = np.divmod(flat.argmax(axis=2), columns)
        cell = np.stack([x, y], axis=2).astype(np.float32)
        cell[..., 0] += _quarter(maps, y, x, columns, axis=1)
        cell[..., 1] += _quarter(maps, y, x, rows, axis=0)
        sides = self._size / np.array([columns, rows], np.float32)
        xy = np.asarray(cell * sides, np.float32)
        return Points(xy, self._rule.shares(flat.max(axis=2)))


def _quarter(
    maps: NDArray[np.float32],
    y: NDArray[np.intp],
    x: NDArray[np.intp],
    size: int,
    axis: int,
) -> NDArray[np.float32]:
    """A quarter towards the higher neighbour; nothing in the first and last cell."""
    along = x if axis else y
    inside = (along > 0) & (along < size - 1)
    step = np.where(inside, 1, 0)
    n, k = np.indices(y.shape)
    if axis:
        after, before = maps[n, k, y, x + step], maps[n, k, y, x - step]
    else:
        after, before = maps[n, k, y + step, x], maps[n, k, y - step, x]
    return np.asarray(0.25 * np.sign(after - before), np.float32)


class AnchoredHead:
    """Scores and offsets for anchors, as BlazeFace has them; the likeliest wins.

    Outputs are the scores (anchors, 1) of each level, then the offsets (anchors,
    4 + 2 x keypoints) of each level, or both for all levels at once. An offset is in
    network pixels from the centre of the anchor's cell: centre, width and height of the
    box, which is not used, then x and y of each keypoint.

    Raises:
        ModelError: The card does not give as many ``anchors_per_cell`` as ``strides``,
            or another number of outputs.
    """

    scores = True

    def __init__(self, card: ModelCard) -> None:
        options = card.head_options
        strides, each = options.strides or (), options.anchors_per_cell or ()
        if not strides or len(strides) != len(each):
            raise ModelError(
                f"model {card.name!r}: head {card.head!r} needs head.strides and "
                f"head.anchors_per_cell, as many of the one as of the other"
            )
        grids = [anchor_grid(card.height, card.width, (s,))[0] for s in strides]
        levels = [np.repeat(g, n, axis=0) for g, n in zip(grids, each, strict=True)]
        self._centres = np.concatenate(levels)
        half = len(card.outputs) // 2
        if len(card.outputs) not in (2, 2 * len(levels)):
            raise ModelError(
                f"model {card.name!r}: head {card.head!r} reads 2 or "
                f"{2 * len(levels)} outputs (scores, then offsets, at once or of each "
                f"level), the card names {len(card.outputs)}"
            )
        self._names, self._offset_names = card.outputs[:half], card.outputs[half:]
        self._rule = ScoreRule(options, "sigmoid")
        self._points = len(card.class_names)
        sizes = [len(level) for level in levels] if half > 1 else [len(self._centres)]
        columns = 4 + 2 * self._points
        self.shapes: tuple[Shape, ...] = (
            *((size, 1) for size in sizes),
            *((size, columns) for size in sizes),
        )

    def classes_in(self, shape: tuple[int, ...]) -> int:
        """The scores do not tell how many keypoints there are."""
        return self._points

    def points(self, outputs: Outputs) -> Points:
        """See :class:`KeypointHead`."""
        for name in (*self._names, *self._offset_names):
            require_finite(outputs[name], name)
        scores = np.concatenate([outputs[name] for name in self._names], axis=1)
        offsets = np.concatenate([outputs[name] for name in self._offset_names], axis=1)
        images, best = np.arange(len(scores)), scores[..., 0].argmax(axis=1)
        moved = offsets[images, best, 4:].reshape(len(images), self._points, 2)
        xy = moved + self._centres[best, np.newaxis]
        score = self._rule.shares(scores[images, best])
        return Points(xy, np.repeat(score, self._points, axis=1))


def finite_points(xy: NDArray[np.float32], name: str) -> NDArray[np.float32]:
    """The same points.

    Raises:
        BadOutputError: A point made of finite values is not finite.
    """
    if not np.isfinite(xy).all():
        raise BadOutputError(f"output {name!r}: a keypoint is too far for a number")
    return xy
