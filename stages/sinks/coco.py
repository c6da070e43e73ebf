"""Detections as COCO results."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from edgepipe.pipeline.frame import Frame
from edgepipe.stages.sinks.per_stream import PerStream
from edgepipe.stages.sinks.rows import RowFile

_COCO_NAMES = """
person|bicycle|car|motorcycle|airplane|bus|train|truck|boat|traffic light|fire hydrant|
stop sign|parking meter|bench|bird|cat|dog|horse|sheep|cow|elephant|bear|zebra|giraffe|
backpack|umbrella|handbag|tie|suitcase|frisbee|skis|snowboard|sports ball|kite|
baseball bat|baseball glove|skateboard|surfboard|tennis racket|bottle|wine glass|cup|
fork|knife|spoon|bowl|banana|apple|sandwich|orange|broccoli|carrot|hot dog|pizza|donut|
cake|chair|couch|potted plant|bed|dining table|toilet|tv|laptop|mouse|remote|keyboard|
cell phone|microwave|oven|toaster|sink|refrigerator|book|clock|vase|scissors|teddy bear|
hair drier|toothbrush
"""
_UNUSED = {12, 26, 29, 30, 45, 66, 68, 69, 71, 83}
"""Numbers from 1 to 90 that COCO gives to no class."""
_NAMES: Sequence[str] = _COCO_NAMES.replace("\n", "").split("|")
_COCO_IDS: dict[str, int] = dict(
    zip(_NAMES, sorted(set(range(1, 91)) - _UNUSED), strict=True)
)


def category_ids(class_names: Sequence[str]) -> list[int]:
    """COCO's own numbers if it knows every name, otherwise class_id + 1."""
    if all(name in _COCO_IDS for name in class_names):
        return [_COCO_IDS[name] for name in class_names]
    return list(range(1, len(class_names) + 1))


class _ResultFile:
    """A JSON array that grows in ``PATH.partial`` and gets its name when complete."""

    def __init__(self, path: Path) -> None:
        # What lies there is of an earlier run: nobody should take it for this one's.
        path.unlink(missing_ok=True)
        self._path = path
        self._partial = path.with_name(path.name + ".partial")
        self._rows = RowFile(self._partial)
        self._lead = b"["
        self._closed = False

    def append(self, items: Sequence[str]) -> None:
        """Add items, all or none of them."""
        text = ",".join(f"{item}\n" for item in items)
        self._rows.write(self._lead + text.encode())
        self._lead = b","

    def close(self) -> None:
        """End the array and rename the file."""
        if self._closed:
            return
        self._closed = True
        try:
            self._rows.write(b"[]\n" if self._lead == b"[" else b"]\n")
            os.fsync(self._rows.fileno())
        finally:
            self._rows.close()
        self._partial.replace(self._path)


class CocoSink:
    """Writes ``[{image_id, category_id, bbox, score}]``, as COCO's tools read it.

    ``image_id`` is sequence + 1, so each stream needs a file of its own; ``bbox`` is
    x, y, width, height in pixels of the captured image. ``category_id`` is COCO's own
    number (1..90) when it knows all the class names, otherwise class_id + 1. Objects
    with numbers that are not finite are left out.

    The file appears under its name when the sink is closed. Until then, and after a
    SIGKILL, the rows so far lie in ``PATH.partial``: add ``]`` to read them. Memory
    does not grow with the run.

    Raises:
        OSError: The file cannot be opened.
    """

    def __init__(
        self, path: Path, class_names: Sequence[str], name: str = "coco"
    ) -> None:
        self.name = name
        self._category_ids = dict(enumerate(category_ids(class_names)))
        self._files = PerStream(path, _ResultFile)

    def write(self, frame: Frame, now_ns: int) -> None:
        """Append the objects of one frame, all or none of them.

        Raises:
            OSError: They could not be written.
        """
        del now_ns
        file = self._files.of(frame.stream)
        found = frame.detections
        if found is None:
            return
        numbers = np.column_stack([found.xyxy, found.score]).astype(np.float64)
        usable = np.isfinite(numbers).all(axis=1)
        items = [
            f'{{"image_id":{frame.sequence + 1},'
            f'"category_id":{self._category_ids.get(class_id, class_id + 1)},'
            f'"bbox":[{x1:.2f},{y1:.2f},{x2 - x1:.2f},{y2 - y1:.2f}],'
            f'"score":{score:.4f}}}'
            for class_id, (x1, y1, x2, y2, score) in zip(
                found.class_id[usable].tolist(), numbers[usable].tolist(), strict=True
            )
        ]
        if items:
            file.append(items)

    def close(self) -> None:
        """Complete the files; calling it again does nothing.

        Raises:
            OSError: A file could not be completed; its rows stay in ``PATH.partial``.
        """
        self._files.close()
