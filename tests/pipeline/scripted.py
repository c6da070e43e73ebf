"""Sources and stages that do what a test tells them."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from edgepipe.errors import InputError
from edgepipe.pipeline.frame import Frame, Picture, PixelFormat
from edgepipe.pipeline.source import Arrival, SourceInfo
from edgepipe.scheduler.job import Resource

MS = 1_000_000
PERIOD_NS = 40 * MS
PICTURE = Picture(PixelFormat.GRAY, (np.zeros((2, 2), np.uint8),), 2, 2)
CPU = (Resource("cpu"),)


@dataclass
class ScriptedSource:
    """``count`` frames, then the end; may be made to block or to fail."""

    count: int
    fail_at: int | None = None
    gate: threading.Event | None = None
    given: int = 0
    closed: bool = False
    info: SourceInfo = field(
        default_factory=lambda: SourceInfo("test:", 2, 2, 25.0, "raw", live=False)
    )
    end_state: tuple[str, str] = ("ended", "")
    warnings: tuple[str, ...] = ()

    def next_arrival(self) -> Arrival | None:
        if self.gate is not None:
            self.gate.wait()
        if self.given == self.fail_at:
            raise InputError("the cable is out")
        if self.given == self.count:
            return None
        self.given += 1
        return Arrival(self.given - 1, (self.given - 1) * PERIOD_NS)

    def decode(self, index: int) -> Picture:
        return PICTURE

    def close(self) -> None:
        self.closed = True


@dataclass
class Do:
    """A stage that calls a function."""

    name: str
    work: Callable[[Frame, int], Frame | None]

    def process(self, frame: Frame, worker: int) -> Frame:
        return self.work(frame, worker) or frame

    def close(self) -> None:
        pass


def nothing(frame: Frame, worker: int) -> None:
    pass
