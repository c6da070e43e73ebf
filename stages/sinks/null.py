"""A sink that keeps nothing."""

from edgepipe.pipeline.frame import Frame


class NullSink:
    """Counts the frames it is given."""

    def __init__(self, name: str = "null") -> None:
        self.name = name
        self.frames = 0
        """Frames taken so far."""

    def write(self, frame: Frame, now_ns: int) -> None:
        """Take a frame."""
        del frame, now_ns
        self.frames += 1

    def close(self) -> None:
        """There is nothing to release."""
