"""Lines of numbers, each mistake with its place."""

import math
from collections.abc import Sequence

import numpy as np

from edgepipe.errors import InputError
from edgepipe.models.evaluate.truths import Objects

Row = tuple[float, float, float, float, int, bool]
"""x1, y1, x2, y2, label, ignore."""


_MOST = 1 << 31


def numbers_of(words: Sequence[str], where: str) -> list[float]:
    """The words as finite numbers.

    Raises:
        InputError: One is none.
    """
    values: list[float] = []
    for word in words:
        try:
            value = float(word)
        except ValueError:
            raise InputError(f"{where}: expected a number, got {word!r}") from None
        if not math.isfinite(value):
            raise InputError(f"{where}: expected a finite number, got {word!r}")
        values.append(value)
    return values


def whole(value: float, where: str, what: str) -> int:
    """A whole number of 0 or more, small enough to be counted with.

    Raises:
        InputError: It is none.
    """
    if value != int(value) or not 0 <= value < _MOST:
        raise InputError(
            f"{where}: {what}: expected a whole number of 0 or more, got {value:g}"
        )
    return int(value)


def objects_of(rows: Sequence[Row]) -> Objects:
    """Arrays of rows."""
    return Objects(
        np.array([row[:4] for row in rows], np.float64).reshape(-1, 4),
        np.array([row[4] for row in rows], np.int64),
        np.array([row[5] for row in rows], np.bool_),
        np.zeros(len(rows), np.bool_),
        None,
    )
