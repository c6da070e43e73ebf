"""How four columns say a box, by the values of a run and by what made them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.candidates import anchor_grid
from edgepipe.models.inspect.columns import Columns, Path

_FEW = 8
"""With fewer boxes than this their values prove nothing."""
_SHARE = 0.02
"""Of the boxes: what more of them do is not rounding."""
_LEAST_STRIDE = 4
_MOST_CELLS_AWAY = 1.5
LARGEST_SHARE = 1.6
"""Boxes in shares of the input reach a little beyond its edge."""


def box_values(
    values: NDArray[Any] | None, columns: slice, axis: int
) -> NDArray[np.float64] | None:
    """(n, 4) of a run, None if there was none or too few are finite."""
    if values is None or values.ndim < 2:
        return None
    moved = np.moveaxis(values.astype(np.float64), axis, -1)[..., columns]
    if moved.shape[-1] != 4:
        return None
    rows = moved.reshape(-1, 4)
    rows = rows[np.isfinite(rows).all(axis=1) & (np.abs(rows).max(axis=1) > 0)]
    return rows if len(rows) >= _FEW else None


def is_normalised(boxes: NDArray[np.float64] | None, side: int) -> bool | None:
    """Whether the values are shares of the input; None if that cannot be told."""
    if boxes is None:
        return None
    largest = float(np.quantile(np.abs(boxes), 0.999))
    if largest <= LARGEST_SHARE:
        return True
    return False if largest > side / 8 else None


def format_of(boxes: NDArray[np.float64] | None) -> str | None:
    """``xyxy`` or ``cxcywh`` by the values, which of x and y comes first is not seen.

    Edges never have the second before the first; a centre, and a width that does not
    reach that far, often do.
    """
    if boxes is None:
        return None
    turned = (boxes[:, 2] < boxes[:, 0]) | (boxes[:, 3] < boxes[:, 1])
    if np.mean(turned) > _SHARE:
        return None if np.mean(boxes[:, 2:] < 0) > _SHARE else "cxcywh"
    return "xyxy"


def is_centre_by_graph(groups: Sequence[Columns]) -> bool | None:
    """Whether the first columns are the mean of two edges; None: no edges are seen."""
    first = [path for group in groups if group.start == 0 for path in group.paths]
    if not first or not all(path.has("Sub", "Add") for path in first):
        return None
    return any(
        value.size == 1 and float(value.ravel()[0]) in (2.0, 0.5)
        for path in first
        for value in path.values("Div", "Mul")
    )


def is_normalised_by_graph(groups: Sequence[Columns]) -> bool | None:
    """Whether a centre in cells is multiplied up to pixels or to shares, by constants.

    None where the graph has no such factors, or they are between the two.
    """
    first = [path for group in groups if group.start == 0 for path in group.paths]
    factors = [_factor(path) for path in first if path.values("Mul")]
    if not factors:
        return None
    if max(factors) <= 1:
        return True
    return False if max(factors) >= _LEAST_STRIDE else None


def _factor(path: Path) -> float:
    """The product of all that a column is multiplied by, the largest of each."""
    found = 1.0
    for step in path.steps:
        if step.value is None or not step.value.size:
            continue
        most = float(np.abs(step.value.astype(np.float64)).max())
        if step.op == "Mul":
            found *= most
        elif step.op == "Div" and most not in (0.0, 2.0):
            found /= most
    return found


def lie_on_cells(
    values: NDArray[Any] | None, height: int, width: int, strides: tuple[int, ...]
) -> bool:
    """Whether rows (1, n, columns) begin with centres in pixels next to their cells.

    Three boxes for each cell, a level and an anchor after the other, as YOLOv5 has
    them: only a network that decodes its boxes has such values.
    """
    if values is None:
        return False
    levels = [anchor_grid(height, width, (stride,)) for stride in strides]
    centres = np.concatenate([np.tile(where, (3, 1)) for where, _ in levels])
    reach = np.concatenate([np.tile(stride, 3) for _, stride in levels])[:, np.newaxis]
    found = values[0, :, :2].astype(np.float64)
    return len(found) == len(centres) and bool(
        np.all(np.abs(found - centres) <= _MOST_CELLS_AWAY * reach)
    )
