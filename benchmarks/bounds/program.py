"""A linear program over time that yields a bound which rounding cannot spoil."""

import math
from array import array
from collections.abc import Iterable
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

# SciPy ships no types.
optimize: Any = import_module("scipy.optimize")
sparse: Any = import_module("scipy.sparse")

MS = 1e6
"""Programs are in milliseconds: solvers like numbers near one."""

Terms = Iterable[tuple[int, float]]
"""Columns and their coefficients."""


class Program:
    """Maximise a sum over bounded columns under rows of the form "at most".

    Columns and rows have a place in time, by which a long program is solved in pieces.

    **Why the bound holds.** For prices p >= 0 of the rows, any x with A x <= b and
    0 <= x <= u has c x <= p b + sum of u_i max(0, c_i - (A^T p)_i): weak duality. This
    is true of *any* prices, however they were found, so neither the tolerance of the
    solver nor the stitching of prices from overlapping pieces can make the bound too
    low; they only decide how tight it is (Neumaier and Shcherbina, 2004).
    """

    def __init__(self) -> None:
        self._worth = array("d")
        self._most = array("d")
        self._column_at = array("q")
        self._limit = array("d")
        self._row_at = array("q")
        self._rows = array("q")
        self._columns = array("q")
        self._values = array("d")

    def column(self, at_ns: int, most: float, worth: float = 0.0) -> int:
        """A variable between 0 and ``most``; returns its number."""
        self._worth.append(worth)
        self._most.append(most)
        self._column_at.append(at_ns)
        return len(self._worth) - 1

    def row(self, at_ns: int, terms: Terms, at_most: float = 0.0) -> None:
        """The sum of the terms is at most so much."""
        number = len(self._limit)
        for column, value in terms:
            self._rows.append(number)
            self._columns.append(column)
            self._values.append(value)
        self._limit.append(at_most)
        self._row_at.append(at_ns)

    def bound(self, piece_ns: int, margin_ns: int) -> float:
        """An upper bound, from pieces of time solved with their surroundings."""
        if not self._worth:
            return 0.0
        scale = max(self._worth)
        matrix, worth = self._matrix(), np.array(self._worth) / scale
        limit, most = np.array(self._limit), np.array(self._most)
        prices = np.zeros(len(limit))
        row_at, column_at = np.array(self._row_at), np.array(self._column_at)
        first, last = int(column_at.min()), int(column_at.max())
        count = max(1, round((last - first) / piece_ns))
        edges = [-math.inf, *(first + i * piece_ns for i in range(1, count)), math.inf]
        for begin, end in pairwise(edges):
            near = (column_at >= begin - margin_ns) & (column_at < end + margin_ns)
            mine = (row_at >= begin) & (row_at < end)
            found = _prices(matrix[:, near], worth[near], limit, most[near])
            prices[mine] = found[mine]
        gain = worth - matrix.T @ prices
        return scale * float(prices @ limit + most @ np.maximum(gain, 0.0))

    def _matrix(self) -> Any:
        shape = (len(self._limit), len(self._worth))
        places = (np.array(self._rows), np.array(self._columns))
        return sparse.csc_array((np.array(self._values), places), shape=shape)


def _prices(
    matrix: Any,
    worth: NDArray[np.float64],
    limit: NDArray[np.float64],
    most: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Prices of all rows by the columns at hand; 0 where none of them is."""
    prices = np.zeros(len(limit))
    rows = sparse.csr_array(matrix)
    touched = np.flatnonzero(np.diff(rows.indptr))
    bounds = np.column_stack((np.zeros(len(most)), most))
    # The interior point method is the fastest on these programs; the simplex method
    # takes over if it gives up.
    for method in ("highs-ipm", "highs-ds"):
        found = optimize.linprog(
            -worth,
            A_ub=rows[touched],
            b_ub=limit[touched],
            bounds=bounds,
            method=method,
        )
        if found.status == 0:
            prices[touched] = np.maximum(0.0, -found.ineqlin.marginals)
            return prices
    raise RuntimeError(f"no solution: {found.message}")


def whole(bound: float) -> int:
    """The largest whole number that the bound allows, worths being whole numbers."""
    return math.floor(bound + 1e-6 * max(1.0, abs(bound) / 1e3))
