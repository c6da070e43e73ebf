"""One output of a network with all that is known of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.inspect.columns import Columns, columns_of
from edgepipe.models.inspect.graph import Graph, Shape

LEVELS = ((8, 16, 32), (8, 16, 32, 64), (4, 8, 16, 32), (16, 32), (8, 16), (8,), (16,))
"""Strides of the pyramids that detectors have, the usual one first."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An output: its shape from a run if there was one, else from the graph."""

    name: str
    dtype: str
    shape: Shape | None
    """With the batch, which is 1; None if not even the dimensions are known."""
    by_axis: tuple[tuple[Columns, ...], ...]
    """Of each axis, where its columns come from."""
    values: NDArray[Any] | None
    """What a run gave."""

    @property
    def rank(self) -> int:
        """Number of dimensions with the batch; 0 if not known."""
        return len(self.shape or ())

    def size(self, axis: int) -> int | None:
        """Of one axis."""
        return self.shape[axis] if self.shape and axis < len(self.shape) else None

    @property
    def last(self) -> int | None:
        """Size of the last axis."""
        return self.shape[-1] if self.shape else None

    def columns(self, axis: int) -> tuple[Columns, ...]:
        """Where the columns of an axis come from; none if that is not known."""
        return (
            self.by_axis[axis] if -len(self.by_axis) <= axis < len(self.by_axis) else ()
        )

    @property
    def is_whole(self) -> bool:
        """Whether it holds integers by its type."""
        return self.dtype.startswith(("int", "uint"))

    def holds_numbers_of_classes(self) -> bool | None:
        """Whether a run's values are whole and not all the same; None: no telling."""
        if self.values is None or self.values.size < 2:
            return None
        flat = self.values.ravel()
        if np.any(flat != np.rint(flat)):
            return False
        return True if np.any(flat != flat[0]) and flat.max() > 1 else None


def see(graph: Graph, values: Mapping[str, NDArray[Any]]) -> tuple[Seen, ...]:
    """The outputs of a network.

    Args:
        graph: With every size of its input known, and simplified where possible.
        values: What a run gave.
    """
    found: list[Seen] = []
    for output in graph.outputs:
        ran = values.get(output.name)
        shape = ran.shape if ran is not None else graph.shape(output.name)
        rank = len(shape or ())
        found.append(
            Seen(
                output.name,
                output.dtype,
                shape,
                tuple(columns_of(graph, output.name, axis) for axis in range(rank)),
                ran,
            )
        )
    return tuple(found)


def cells(height: int, width: int, strides: tuple[int, ...]) -> int:
    """How many cells a pyramid over an image has; sizes are rounded up."""
    return sum(
        prod(-(-side // stride) for side in (height, width)) for stride in strides
    )


def pyramid(
    count: int | None, height: int, width: int
) -> tuple[tuple[int, ...], int] | None:
    """The strides, and the boxes for each cell, that make so many; None if none do."""
    for each in (1, 3):
        for strides in LEVELS:
            if count == each * cells(height, width, strides):
                return strides, each
    return None
