"""Outputs that hold boxes and scores side by side: YOLO's and its look-alikes."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.inspect.backwards import LAYERS
from edgepipe.models.inspect.boxes import (
    box_values,
    format_of,
    is_centre_by_graph,
    is_normalised,
    is_normalised_by_graph,
    lie_on_cells,
)
from edgepipe.models.inspect.columns import Columns
from edgepipe.models.inspect.seen import LEVELS, Seen, pyramid
from edgepipe.models.inspect.verdict import Reading

PLUS_BINS = 32
"""Columns behind the scores of a NanoDet-Plus."""
BOX, OBJECT = 4, 5
"""Columns in front of the scores without and with objectness."""


def readings(seen: Seen, height: int, width: int) -> Iterator[Reading | str]:
    """The heads that could read one output (1, rows, columns) or (1, columns, rows).

    Yields readings, and texts for what is seen that no head reads.
    """
    for axis in (1, 2):
        found = pyramid(seen.size(axis), height, width)
        rows, columns = seen.size(axis), seen.size(3 - axis)
        if found is None or rows is None or columns is None:
            continue
        # By chance there may be as many columns as some pyramid has cells.
        if OBJECT <= columns <= rows:
            layout = _Layout(seen, 3 - axis, columns, *found, height, width)
            yield from layout.readings()


class _Layout:
    """One way to see the output: which axis holds the columns."""

    def __init__(
        self,
        seen: Seen,
        axis: int,
        columns: int,
        strides: tuple[int, ...],
        each: int,
        height: int,
        width: int,
    ) -> None:
        self._seen, self._axis, self._columns = seen, axis, columns
        self._strides, self._each = strides, each
        self._groups = seen.columns(axis)
        self._side, self._size = max(height, width), (height, width)

    def readings(self) -> Iterator[Reading | str]:
        """Of this layout."""
        edges = {group.start for group in self._groups}
        if len(self._groups) < (1 if self._each == 3 else 2):
            yield from self._by_shape()
        elif self._is_nanodet_plus():
            yield self._nanodet_plus()
        elif self._strange():
            yield self._strange()
        elif {BOX, OBJECT} <= edges or self._each == 3:
            yield from self._with_objectness()
        elif BOX in edges:
            yield from self._without_objectness()
        else:
            yield from self._by_shape()

    def _is_nanodet_plus(self) -> bool:
        """Scores first, then bins of distances as they come from the layer."""
        if self._axis != 2 or self._each != 1 or len(self._groups) != 2:
            return False
        scores, bins = self._groups
        plain = not any(path.steps for path in bins.paths)
        return plain and bins.count == PLUS_BINS and scores.has("Sigmoid")

    def _nanodet_plus(self) -> Reading:
        scores = self._groups[0].count
        strides = self._strides
        return Reading(
            "nanodet-plus",
            (self._seen.name,),
            scores,
            f"{self._said()}; {scores} scores, then 4 x {PLUS_BINS // 4} bins of "
            f"distances without a softmax",
            certain=all(path.source in LAYERS for path in self._groups[1].paths),
            options={} if strides == LEVELS[1] else {"strides": list(strides)},
        )

    def _scores(self) -> Sequence[Columns]:
        return [group for group in self._groups if group.start >= BOX]

    def _boxes(self) -> Sequence[Columns]:
        return [group for group in self._groups if group.start < BOX]

    def _strange(self) -> str:
        """Columns behind the scores that come another way; empty if there are none."""
        first = self._groups[0]
        if first.count > OBJECT and first.has("Sigmoid", "Softmax"):
            return (
                f"output {self._seen.name!r}: the first {first.count} columns are "
                f"scores, what follows are no scores: no head reads that"
            )
        tail = [group for group in self._groups if group.start >= BOX]
        marks = [group.has("Sigmoid", "Softmax") for group in tail]
        odd = [
            group for group, mark in zip(tail, marks, strict=True) if mark != marks[0]
        ]
        moved = [group for group in tail[1:] if group.has("Add", "Sub", "Exp")]
        if len(tail) > 1 and (odd or moved):
            first = (odd or moved)[0]
            return (
                f"output {self._seen.name!r}: columns {first.start} to "
                f"{self._columns - 1} are made otherwise than the scores in front of "
                f"them: masks, keypoints or angles, which no head reads"
            )
        return ""

    def _options(self, reading_strides: bool = True) -> dict[str, object]:
        found: dict[str, object] = {}
        if reading_strides and self._strides != LEVELS[0]:
            found["strides"] = list(self._strides)
        if not all(group.has("Sigmoid", "Softmax") for group in self._scores()):
            found["scores"] = "sigmoid"
        return found

    def _from_layers(self) -> bool:
        """Whether the trace of the boxes came to its end."""
        paths = [path for group in self._boxes() for path in group.paths]
        return bool(paths) and all(path.source in LAYERS for path in paths)

    def _is_normalised(self, boxes: NDArray[np.float64] | None) -> bool:
        by_graph = is_normalised_by_graph(self._groups)
        if by_graph is not None:
            return by_graph
        return bool(is_normalised(boxes, self._side))

    def _said(self) -> str:
        strides = ", ".join(map(str, self._strides))
        each = "one" if self._each == 1 else "three"
        rows = self._seen.size(3 - self._axis)
        return f"{rows} boxes, {each} for each cell of strides {strides}"

    def _with_objectness(self) -> Iterator[Reading | str]:
        where = f"output {self._seen.name!r}"
        if self._axis == 1:
            yield f"{where}: rows with objectness, columns first: no head reads that"
            return
        if self._each == 3:
            yield from self._yolov5(where)
            return
        shape = [group for group in self._boxes() if group.stop > 2]
        exp = bool(shape) and all(group.has("Exp") for group in shape)
        plain = not any(path.steps for group in self._boxes() for path in group.paths)
        options = self._options()
        words = (
            "exp of width and height in the graph" if exp else "boxes left as they are"
        )
        if exp:
            options["decoded"] = True
        yield Reading(
            "yolox",
            (self._seen.name,),
            self._columns - OBJECT,
            f"{self._said()}; columns 4, 1 and {self._columns - OBJECT} made apart, "
            f"{words}",
            certain=self._from_layers() and (exp or plain),
            options=options,
        )

    def _yolov5(self, where: str) -> Iterator[Reading | str]:
        moved = all(any(g.has(op) for g in self._boxes()) for op in ("Mul", "Add"))
        if self._from_layers() and not moved:
            yield f"{where}: three boxes for each cell, not decoded: no head reads that"
            return
        boxes = box_values(self._seen.values, slice(0, BOX), self._axis)
        options = self._options()
        if self._groups and self._groups[0].has("Sigmoid"):
            options.pop("scores", None)
        if self._is_normalised(boxes):
            options["normalized"] = True
        certain = moved and self._from_layers()
        because = "strides and anchors are multiplied in the graph"
        if not certain:
            certain = lie_on_cells(self._seen.values, *self._size, self._strides)
            because = "in a run all centres lie on their cells"
        if not certain:
            because = "if boxes are decoded in the graph"
        yield Reading(
            "yolov5",
            (self._seen.name,),
            self._columns - OBJECT,
            f"{self._said()}; {because}",
            certain=certain,
            options=options,
        )

    def _without_objectness(self) -> Iterator[Reading | str]:
        classes = self._columns - BOX
        where = f"output {self._seen.name!r}"
        if self._axis == 2:
            yield (
                f"{where}: a row is {BOX} + {classes} columns, rows first: no head "
                f"reads that; export it as (1, {self._columns}, {self._seen.size(1)})"
            )
            return
        boxes = box_values(self._seen.values, slice(0, BOX), self._axis)
        options = self._options()
        centre = is_centre_by_graph(self._groups)
        by_values = format_of(boxes)
        if centre is False or (centre is None and by_values == "xyxy"):
            options["box_format"] = "xyxy"
        if self._is_normalised(boxes):
            options["normalized"] = True
        moved = any(group.has("Mul") for group in self._boxes())
        if not moved and any(not path.steps for g in self._boxes() for path in g.paths):
            yield f"{where}: boxes are not decoded in the graph: no head reads that"
            return
        yield Reading(
            "yolov8",
            (self._seen.name,),
            classes,
            f"{self._said()}; {BOX} columns of boxes, decoded in the graph, and "
            f"{classes} of scores, no objectness",
            certain=self._from_layers()
            and (centre is not None or by_values is not None),
            options=options,
        )

    def _by_shape(self) -> Iterator[Reading | str]:
        """All that the shape allows."""
        name, columns = self._seen.name, self._columns
        paths = [path for group in self._groups for path in group.paths]
        raw = bool(paths) and not any(path.steps for path in paths)
        if raw and self._axis == 1 and all(path.source in LAYERS for path in paths):
            yield (
                f"output {name!r}: {columns} columns as they come from the layers, "
                f"boxes are not decoded: no head reads that"
            )
            return
        options = {} if self._strides == LEVELS[0] else {"strides": list(self._strides)}
        if self._axis == 1 and self._each == 1:
            because = f"{self._said()}, if a column is 4 + {columns - BOX} classes"
            heads = [("yolov8", columns - BOX, because)]
        elif self._axis == 2:
            head = "yolov5" if self._each == 3 else "yolox"
            because = f"{self._said()}, if a row is 5 + {columns - OBJECT} classes"
            heads = [(head, columns - OBJECT, because)] if columns > OBJECT else []
        else:
            heads = []
        for head, classes, because in heads:
            yield Reading(
                head, (name,), classes, because, certain=False, options=options
            )
