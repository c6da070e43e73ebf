"""The thread budget of the native libraries, set in one place."""

from dataclasses import dataclass

import cv2


@dataclass(frozen=True, slots=True)
class ThreadBudget:
    """Threads that each library may use for one call, as really set."""

    worker_threads: int
    """Threads that run stages: one for each slot of each resource."""
    opencv: int
    ffmpeg_decoder: int
    inference_per_request: int
    blas: int | None
    """None when the process was started without a limit on it."""


def grant_threads(worker_threads: int) -> ThreadBudget:
    """Make every library run its calls on the thread that calls it.

    Parallelism comes from the scheduler's slots and from nowhere else: a library that
    adds threads of its own takes them from another frame.
    """
    cv2.setNumThreads(1)
    return ThreadBudget(worker_threads, cv2.getNumThreads(), 1, 1, _blas_limit())


def _blas_limit() -> int | None:
    import os

    text = os.environ.get("OPENBLAS_NUM_THREADS", "")
    return int(text) if text.isdigit() else None
