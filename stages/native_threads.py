"""OpenCV's threads. The other libraries are told theirs where they are loaded."""

import cv2


def keep_opencv_single_threaded() -> None:
    """Make every OpenCV call of this process run on the thread that calls it."""
    cv2.setNumThreads(1)


def opencv_threads() -> int:
    """Threads that OpenCV uses for one call, as it says itself."""
    return cv2.getNumThreads()
