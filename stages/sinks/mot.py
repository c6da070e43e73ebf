"""Tracks as MOTChallenge text."""

from pathlib import Path

import numpy as np

from edgepipe.pipeline.detections import UNTRACKED
from edgepipe.pipeline.frame import Frame
from edgepipe.stages.sinks.per_stream import PerStream
from edgepipe.stages.sinks.rows import RowFile


class MotSink:
    """Writes ``frame,id,left,top,width,height,conf,-1,-1,-1`` for each tracked object.

    ``frame`` counts from 1 (sequence + 1) and keeps its gaps; left and top are the box
    edges in pixels of the captured image, from 0. Objects without a confirmed track or
    with coordinates that are not finite are left out, classes too: the format has
    none.

    Raises:
        OSError: The file cannot be opened.
    """

    def __init__(self, path: Path, name: str = "mot") -> None:
        self.name = name
        self._files = PerStream(path, RowFile)

    def write(self, frame: Frame, now_ns: int) -> None:
        """Append the rows of one frame, all or none of them.

        Raises:
            OSError: They could not be written.
        """
        del now_ns
        found = frame.detections
        file = self._files.of(frame.stream)
        if found is None:
            return
        xyxy = found.xyxy.astype(np.float64)
        usable = (found.track_id != UNTRACKED) & np.isfinite(xyxy).all(axis=1)
        rows = [
            f"{frame.sequence + 1},{track_id},{x1:.2f},{y1:.2f},{x2 - x1:.2f},"
            f"{y2 - y1:.2f},{score:.4f},-1,-1,-1\n"
            for track_id, (x1, y1, x2, y2), score in zip(
                found.track_id[usable].tolist(),
                xyxy[usable].tolist(),
                found.score[usable].tolist(),
                strict=True,
            )
        ]
        if rows:
            file.write("".join(rows).encode())

    def close(self) -> None:
        """Close the files; calling it again does nothing."""
        self._files.close()
