"""Frames, and a full disk, for the tests of sinks."""

import resource
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager

import numpy as np
import pytest

from edgepipe.pipeline.detections import Detections
from edgepipe.pipeline.frame import Frame, Picture, PixelFormat

MS = 1_000_000
Object = tuple[Sequence[float], float, int, int]
"""xyxy, score, class_id, track_id."""
MakeFrame = Callable[..., Frame]
Limit = Callable[[int], AbstractContextManager[None]]


def _detections(objects: Sequence[Object], truncated: int) -> Detections:
    return Detections.of(
        np.array([xyxy for xyxy, *_ in objects]),
        np.array([score for _, score, *_ in objects]),
        np.array([class_id for *_, class_id, _ in objects]),
        truncated=truncated,
    ).tracked(np.array([track_id for *_, track_id in objects]))


def _picture(width: int, height: int) -> Picture:
    plane = np.full((height, width, 3), 100, np.uint8)
    plane.flags.writeable = False
    return Picture(PixelFormat.BGR, (plane,), width, height)


@pytest.fixture
def make_frame() -> MakeFrame:
    """Frames captured 40 ms apart, due 100 ms after their capture."""

    def make(
        sequence: int = 0,
        *objects: Object,
        stream: str = "front",
        pts_ns: int | None = None,
        capture_ns: int | None = None,
        size: tuple[int, int] | None = None,
        truncated: int = 0,
    ) -> Frame:
        at_ns = 40 * MS * sequence if capture_ns is None else capture_ns
        return Frame(
            stream=stream,
            sequence=sequence,
            capture_ns=at_ns,
            deadline_ns=at_ns + 100 * MS,
            pts_ns=pts_ns,
            detections=_detections(objects, truncated),
            picture=None if size is None else _picture(*size),
            variant="nanodet-g",
        )

    return make


@pytest.fixture
def disk_of() -> Limit:
    """Inside ``with disk_of(n):`` no file can grow beyond n bytes."""

    @contextmanager
    def limit(size_bytes: int) -> Generator[None, None, None]:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    return limit
