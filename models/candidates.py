"""What a head makes of raw output tensors, and the errors it may raise."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.engine import Outputs

Shape = tuple[int | None, ...] | None
"""Sizes of an output without the batch; None: any size, or any shape at all."""
_FLAGS_BYTES = 32 * 1024
"""Most flags that are held at once while scores are compared."""


class BadOutputError(ValueError):
    """The network put out NaN or infinity: nothing in this frame can be trusted."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Boxes above the score threshold, before NMS, in no particular order."""

    xyxy: NDArray[np.float32]
    """(n, 4): x1, y1, x2, y2 in pixels of the network's input."""
    score: NDArray[np.float32]
    """(n,) score of the best class."""
    class_id: NDArray[np.int32]
    """(n,) index of the best class; the lower one when two are equal."""


class Reader(Protocol):
    """Reads one model's outputs. It keeps no state between calls."""

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """Shape of each of the card's outputs, in their order, without the batch."""
        ...

    def classes_in(self, shape: tuple[int, ...]) -> int:
        """How many classes the first output has if its shape (no batch) is this."""
        ...


class Head(Reader, Protocol):
    """Decodes a detector's outputs. Any object with these members is a head.

    Several threads may use it at once.
    """

    def decode(
        self, outputs: Outputs, image_index: int, score_threshold: float
    ) -> Candidates:
        """Boxes of one image of the batch whose best score is >= the threshold.

        Raises:
            BadOutputError: Any output of this image is NaN or infinite.
        """
        ...


def require_finite(values: NDArray[np.float32], name: str) -> None:
    """Raise if any element is NaN or infinite.

    NaN passes through a maximum and infinity is one (or a minimum): two passes without
    an array of flags.
    """
    if not (np.isfinite(values.max()) and np.isfinite(values.min())):
        bad = int(np.count_nonzero(~np.isfinite(values)))
        raise BadOutputError(f"output {name!r}: {bad} of {values.size} are NaN or inf")


def rows_reaching(scores: NDArray[np.float32], threshold: float) -> NDArray[np.intp]:
    """Indices of the rows of (n, classes) scores with any score >= the threshold.

    Comparing everything and looking at the few hits is six times faster than the
    maximum of each short row.
    """
    classes = scores.shape[1]
    step = max(1, _FLAGS_BYTES // classes)
    hits = [
        np.flatnonzero(scores[start : start + step] >= np.float32(threshold)) // classes
        + start
        for start in range(0, len(scores), step)
    ]
    return np.unique(np.concatenate(hits)) if hits else np.empty(0, np.intp)


def anchor_grid(
    height: int, width: int, strides: tuple[int, ...]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Cell centres (n, 2) as x, y in network pixels, and each cell's stride (n,).

    Cells run row by row, the finest stride first. A size that a stride does not
    divide is rounded up, as a convolution with padding does.
    """
    centres: list[NDArray[np.float32]] = []
    cells: list[NDArray[np.float32]] = []
    for stride in strides:
        rows, columns = -(-height // stride), -(-width // stride)
        centre = np.empty((rows, columns, 2), np.float32)
        centre[..., 0] = (np.arange(columns) + 0.5) * stride
        centre[..., 1] = ((np.arange(rows) + 0.5) * stride)[:, np.newaxis]
        centres.append(np.reshape(centre, (-1, 2)))
        cells.append(np.full(rows * columns, stride, np.float32))
    return np.concatenate(centres), np.concatenate(cells)
