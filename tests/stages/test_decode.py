from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from edgepipe.pipeline.frame import Frame, Picture, PixelFormat
from edgepipe.pipeline.source import DamagedError, EventKind, SourceEvent, SourceInfo
from edgepipe.pipeline.stage import FrameError
from edgepipe.scheduler.fates import Reason
from edgepipe.stages.decode import Decode

GAP = SourceEvent(EventKind.GAP)


def picture(width: int, height: int, rotation: int = 0) -> Picture:
    plane = np.zeros((height, width), np.uint8)
    return Picture(PixelFormat.GRAY, (plane,), width, height, rotation=rotation)


@dataclass
class Gallery:
    """Gives the pictures that it was made with; None is damaged."""

    pictures: Sequence[Picture | None]
    info: SourceInfo = field(
        default_factory=lambda: SourceInfo("test:", 8, 6, 25.0, "raw", live=False)
    )
    end_state: tuple[str, str] = ("ended", "")
    warnings: tuple[str, ...] = ()

    def next_arrival(self) -> None:
        return None

    def decode(self, index: int) -> Picture:
        found = self.pictures[index]
        if found is None:
            raise DamagedError(f"{index} is grey")
        return found

    def close(self) -> None:
        pass


def frame(sequence: int) -> Frame:
    events = (GAP,) if sequence == 1 else ()
    return Frame("front", sequence, 0, 10, pts_ns=sequence, events=events)


def test_a_picture_comes_with_its_size() -> None:
    found = Decode(Gallery([picture(8, 6)])).process(frame(0), 0)
    assert found.picture is not None
    assert found.size == (8, 6)
    assert found.events == ()


def test_another_size_or_rotation_is_told_with_the_first_picture_that_has_it() -> None:
    shapes = [(8, 6, 0), (4, 6, 0), (4, 6, 0), (6, 4, 90), (6, 4, 0)]
    decode = Decode(Gallery([picture(*shape) for shape in shapes]))
    found = [decode.process(frame(k), 0).events for k in range(5)]
    assert found == [
        (),
        (GAP, SourceEvent(EventKind.RESOLUTION, "8x6 becomes 4x6", 1)),
        (),
        (
            SourceEvent(EventKind.RESOLUTION, "4x6 becomes 6x4", 3),
            SourceEvent(EventKind.ROTATION, "turned by 90 degrees instead of 0", 3),
        ),
        (SourceEvent(EventKind.ROTATION, "turned by 0 degrees instead of 90", 4),),
    ]


def test_damaged_frames_in_a_row_are_told_once() -> None:
    good = picture(8, 6)
    decode = Decode(Gallery([good, None, None, good, None]))
    told: list[tuple[SourceEvent, ...]] = []
    for sequence in range(5):
        if sequence in (0, 3):
            decode.process(frame(sequence), 0)
            continue
        with pytest.raises(FrameError) as caught:
            decode.process(frame(sequence), 0)
        assert caught.value.reason is Reason.DAMAGED
        told.append(caught.value.events)
    assert told == [
        (SourceEvent(EventKind.DAMAGE, "1 is grey", 1),),
        (),
        (SourceEvent(EventKind.DAMAGE, "4 is grey", 4),),
    ]


def test_a_damaged_frame_says_why() -> None:
    with pytest.raises(FrameError, match="0 is grey"):
        Decode(Gallery([None])).process(frame(0), 0)
