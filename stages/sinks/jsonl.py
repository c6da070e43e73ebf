"""One JSON object a line for every delivered frame."""

import json
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.pipeline.detections import UNTRACKED, Detections
from edgepipe.pipeline.frame import Frame
from edgepipe.scheduler.fates import Fate
from edgepipe.stages.sinks.per_stream import PerStream
from edgepipe.stages.sinks.rows import RowFile


class JsonlSink:
    """Writes each frame as one line of strict JSON, readable while it grows.

    Keys: ``stream``, ``seq``, ``pts_ns`` (or null), ``capture_ns``, ``deadline_ns``,
    ``done_ns`` (delivery), ``age_ms`` (capture to delivery), ``fate`` (``completed``,
    or ``late`` after the deadline), ``warm_up``, ``variant``, ``truncated`` and
    ``objects``, each with ``track_id`` (null without), ``class_id``, ``label`` (null
    for a class without a name), ``score`` and ``xyxy`` in pixels of the captured
    image. A number that is not finite becomes null.

    Raises:
        OSError: The file cannot be opened.
    """

    def __init__(
        self, path: Path, class_names: Sequence[str], name: str = "jsonl"
    ) -> None:
        self.name = name
        self._labels = {k: json.dumps(label) for k, label in enumerate(class_names)}
        self._files = PerStream(path, RowFile)

    def write(self, frame: Frame, now_ns: int) -> None:
        """Append one line.

        Raises:
            OSError: It could not be written.
        """
        # The objects are put together by hand, which halves the cost of a frame.
        head = _encode(_facts(frame, now_ns)).removesuffix("}")
        objects = "" if frame.detections is None else self._objects(frame.detections)
        line = f'{head},"objects":[{objects}]}}\n'
        self._files.of(frame.stream).write(line.encode())

    def close(self) -> None:
        """Close the files; calling it again does nothing."""
        self._files.close()

    def _objects(self, found: Detections) -> str:
        rows = zip(
            found.track_id.tolist(),
            found.class_id.tolist(),
            _rounded(found.score, 4),
            _rounded(found.xyxy, 2),
            strict=True,
        )
        return ",".join(
            f'{{"track_id":{"null" if track_id == UNTRACKED else track_id},'
            f'"class_id":{class_id},"label":{self._labels.get(class_id, "null")},'
            f'"score":{score},"xyxy":{xyxy}}}'
            for track_id, class_id, score, xyxy in rows
        )


_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def _facts(frame: Frame, now_ns: int) -> dict[str, str | int | float | None]:
    """Everything of a line but the objects."""
    on_time = now_ns <= frame.deadline_ns
    return {
        "stream": frame.stream,
        "seq": frame.sequence,
        "pts_ns": frame.pts_ns,
        "capture_ns": frame.capture_ns,
        "deadline_ns": frame.deadline_ns,
        "done_ns": now_ns,
        "age_ms": round((now_ns - frame.capture_ns) / 1e6, 3),
        "fate": (Fate.COMPLETED if on_time else Fate.LATE).value,
        "warm_up": frame.warm_up,
        "variant": frame.variant,
        "truncated": 0 if frame.detections is None else frame.detections.truncated,
    }


def _rounded(values: NDArray[np.float32], decimals: int) -> list[Any]:
    """The values as lists that print as JSON does."""
    # In double precision: a float32 of two decimals prints as eight.
    exact = np.round(values.astype(np.float64), decimals)
    if np.isfinite(exact).all():
        return list(exact.tolist())
    return [_encode(_nulled(value)) for value in exact.tolist()]


def _nulled(value: float | list[float]) -> float | list[float | None] | None:
    """The same with None for what is not finite."""
    if isinstance(value, list):
        return [part if isfinite(part) else None for part in value]
    return value if isfinite(value) else None
