"""Outputs that hold scores and boxes apart."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.inspect.boxes import box_values, format_of, is_normalised
from edgepipe.models.inspect.columns import Columns
from edgepipe.models.inspect.seen import LEVELS, Seen, pyramid
from edgepipe.models.inspect.verdict import Reading

_NANODET_BINS = 11
_POSITIVE = ("Relu", "Softplus", "Exp", "Clip", "Abs", "Sigmoid")


def readings(seen: Sequence[Seen], height: int, width: int) -> Iterator[Reading | str]:
    """The heads that could read two outputs (1, n, classes) and (1, n, 4 or more)."""
    first, second = seen
    for scores, boxes in ((first, second), (second, first)):
        if boxes.last == 4 and _is_turned(scores, boxes):
            yield (
                f"output {scores.name!r}: scores with a row for each class, and boxes "
                f"with one for each box: no head reads that; export the scores as (1, "
                f"{boxes.size(1)}, {scores.size(1)})"
            )
        pair = _Pair(scores, boxes, height, width)
        if pair.fits():
            yield from pair.readings()


class _Pair:
    """Two outputs of as many rows."""

    def __init__(self, scores: Seen, boxes: Seen, height: int, width: int) -> None:
        self._scores, self._boxes = scores, boxes
        self._side = max(height, width)
        self._rows = scores.size(1)
        self._pyramid = pyramid(self._rows, height, width)
        self._box_groups = boxes.columns(2)
        self._score_groups = scores.columns(2)

    def fits(self) -> bool:
        """Whether the shapes allow it."""
        if not (self._scores.rank == self._boxes.rank == 3):
            return False
        last = self._boxes.last
        if self._rows is None or self._rows != self._boxes.size(1) or last is None:
            return False
        if last == 4:
            # Of two outputs of four columns, the one with probabilities has the scores.
            if self._scores.last == 4 and not _has(
                self._score_groups, "Sigmoid", "Softmax"
            ):
                return _neither(self._score_groups, self._box_groups)
            return True
        bins = last % 4 == 0 and last >= 4 * 8 and self._scores.last != 4
        return bins and not _has(self._box_groups, "Sigmoid")

    def readings(self) -> Iterator[Reading | str]:
        """Of these two, in this order."""
        if self._boxes.last != 4:
            yield from self._binned()
        elif self._pyramid is not None and self._pyramid[1] == 1:
            yield from self._cells()
        else:
            yield from self._queries_or_anchors()

    def _reading(
        self,
        head: str,
        because: str,
        *,
        certain: bool,
        options: dict[str, object] | None = None,
        asked: dict[str, str] | None = None,
    ) -> Reading:
        return Reading(
            head,
            (self._scores.name, self._boxes.name),
            self._scores.last,
            because,
            certain=certain,
            options=options or {},
            asked=asked or {},
        )

    def _strides(self) -> dict[str, object]:
        if self._pyramid is None or self._pyramid[0] == LEVELS[0]:
            return {}
        return {"strides": list(self._pyramid[0])}

    def _shares(self) -> dict[str, object]:
        """What is still to be done to the scores of cells."""
        done = not self._score_groups or _has(self._score_groups, "Sigmoid")
        return {} if done else {"scores": "sigmoid"}

    def _binned(self) -> Iterator[Reading | str]:
        bins = (self._boxes.last or 0) // 4
        if self._pyramid is None or self._pyramid[1] != 1:
            return
        if bins != _NANODET_BINS:
            yield (
                f"output {self._boxes.name!r}: 4 x {bins} bins of distances; head "
                f"nanodet reads 4 x {_NANODET_BINS}"
            )
            return
        raw = bool(self._box_groups) and not _has(self._box_groups, "Softmax", "Mul")
        yield self._reading(
            "nanodet",
            f"{self._rows} cells; 4 x {bins} bins of distances without a softmax",
            certain=raw,
            options={**self._strides(), **self._shares()},
        )

    def _cells(self) -> Iterator[Reading | str]:
        """A row for each cell: distances from its centre, or finished boxes."""
        boxes = box_values(self._boxes.values, slice(0, 4), 2)
        placed = _has_grid(self._box_groups)
        scaled = _has(self._box_groups, "Mul") and _has(self._box_groups, *_POSITIVE)
        options = self._shares()
        if placed:
            yield self._finished(boxes, options)
        elif scaled:
            strides = self._pyramid[0] if self._pyramid else ()
            if strides != (8,):
                options["strides"] = list(strides)
            yield self._reading(
                "distances",
                f"{self._rows} cells; 4 distances that are never negative, multiplied "
                f"by the stride in the graph, no place added",
                certain=True,
                options=options,
            )
        else:
            why = f"{self._rows} cells, if the 4 columns are"
            yield self._reading(
                "distances",
                f"{why} distances in pixels from the cell's centre",
                certain=False,
                options=options,
            )
            yield self._reading(
                "boxes", f"{why} finished boxes", certain=False, options=options
            )

    def _finished(
        self, boxes: NDArray[np.float64] | None, options: dict[str, object]
    ) -> Reading:
        asked: dict[str, str] = {}
        found = format_of(boxes)
        if found is None:
            asked["box_format"] = "xyxy, yxyx, cxcywh or cycxhw"
        elif found != "xyxy":
            options["box_format"] = found
        share = is_normalised(boxes, self._side)
        if share is None:
            asked["normalized"] = (
                "true if boxes are shares of the input, false if pixels"
            )
        elif share:
            options["normalized"] = True
        return self._reading(
            "boxes",
            f"{self._rows} boxes that are placed in the graph"
            + (f"; in a run they are {found}" if found else ""),
            certain=True,
            options=options,
            asked=asked,
        )

    def _queries_or_anchors(self) -> Iterator[Reading | str]:
        boxes = box_values(self._boxes.values, slice(0, 4), 2)
        options, asked = self._softmax_or_sigmoid()
        if self._made_by("MatMul", "Gemm") and _has(self._box_groups, "Sigmoid"):
            yield self._detr(options, asked)
        elif _has_grid(self._box_groups) or _has(self._box_groups, "Exp"):
            found = self._finished(boxes, options)
            yield Reading(
                found.head,
                found.outputs,
                found.classes,
                found.because,
                certain=True,
                options=found.options,
                asked={**found.asked, **asked},
            )
        elif self._box_groups and not any(
            path.steps for group in self._box_groups for path in group.paths
        ):
            asked["anchors"] = (
                f"the {self._rows} anchors (cx, cy, w, h) that the offsets refer to"
            )
            yield self._reading(
                "ssd",
                f"{self._rows} offsets as they come from the layer, no place added",
                certain=True,
                options=options,
                asked=asked,
            )
        else:
            for head, what in _POSSIBLE:
                yield self._reading(
                    head,
                    f"{self._rows} rows of 4, if they are {what}",
                    certain=False,
                    options=dict(options),
                    asked=dict(asked),
                )

    def _detr(self, options: dict[str, object], asked: dict[str, str]) -> Reading:
        if not _has(self._score_groups, "Sigmoid", "Softmax"):
            asked["scores"] = (
                'sigmoid (RT-DETR: no column for "no object") or softmax (DETR, with '
                "background: last)"
            )
        return self._reading(
            "detr",
            f"{self._rows} queries from matrix products, boxes through a sigmoid",
            certain=True,
            options=options,
            asked=asked,
        )

    def _softmax_or_sigmoid(self) -> tuple[dict[str, object], dict[str, str]]:
        """What the scores are, and what is to be asked."""
        if _has(self._score_groups, "Sigmoid"):
            return {"scores": "probabilities"}, {}
        if _has(self._score_groups, "Softmax"):
            place = self._background()
            if place is None:
                words = "first, last or none: the column that stands for no object"
                return {"scores": "probabilities"}, {"background": words}
            return {"scores": "probabilities", "background": place}, {}
        if self._made_by("MatMul", "Gemm"):
            return {}, {}
        words = "probabilities, sigmoid or softmax: what the scores still need"
        return {}, {"scores": words}

    def _background(self) -> str | None:
        """Which column wins nearly everywhere in a run; None if neither end does."""
        values = self._scores.values
        if values is None:
            return None
        best = np.asarray(values).reshape(-1, values.shape[-1]).argmax(axis=1)
        for place, column in (("first", 0), ("last", values.shape[-1] - 1)):
            if np.mean(best == column) > 0.5:
                return place
        return None

    def _made_by(self, *ops: str) -> bool:
        return any(
            path.source in ops for group in self._box_groups for path in group.paths
        )


_POSSIBLE = (
    ("boxes", "finished boxes"),
    ("ssd", "offsets to anchors"),
    ("detr", "boxes of queries"),
)


def _has(groups: Sequence[Columns], *ops: str) -> bool:
    return any(group.has(*ops) for group in groups)


def _is_turned(scores: Seen, boxes: Seen) -> bool:
    rows = boxes.size(1)
    return scores.rank == 3 and rows == scores.size(2) != scores.size(1)


def _neither(one: Sequence[Columns], other: Sequence[Columns]) -> bool:
    return not _has(one, "Sigmoid", "Softmax") and not _has(other, "Sigmoid", "Softmax")


def _has_grid(groups: Sequence[Columns]) -> bool:
    """Whether something that differs from row to row, or is computed, is added."""
    return any(
        step.fixed and (step.value is None or np.unique(step.value).size > 2)
        for group in groups
        for path in group.paths
        for step in path.steps
        if step.op in ("Add", "Sub")
    )
