from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from edgepipe.pipeline.frame import Frame, Picture, PixelFormat
from edgepipe.pipeline.source import (
    DamagedError,
    EventKind,
    SkippedError,
    SourceEvent,
    SourceInfo,
)
from edgepipe.pipeline.stage import FrameError
from edgepipe.scheduler.fates import Reason
from edgepipe.stages.decode import Decode
from edgepipe.telemetry.clock import ManualClock

CLOCK = ManualClock()
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
    found = Decode(Gallery([picture(8, 6)]), CLOCK.now_ns).process(frame(0), 0)
    assert found.picture is not None
    assert found.size == (8, 6)
    assert found.events == ()


def test_another_size_or_rotation_is_told_with_the_first_picture_that_has_it() -> None:
    shapes = [(8, 6, 0), (4, 6, 0), (4, 6, 0), (6, 4, 90), (6, 4, 0)]
    decode = Decode(Gallery([picture(*shape) for shape in shapes]), CLOCK.now_ns)
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
    decode = Decode(Gallery([good, None, None, good, None]), CLOCK.now_ns)
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
        Decode(Gallery([None]), CLOCK.now_ns).process(frame(0), 0)


@dataclass
class Hurried(Gallery):
    """Leaves out what its list says, and tells which frames it decodes."""

    words: Sequence[str] = ()
    decoding: str = "all"
    until_ns: list[int] = field(default_factory=list[int])

    def decode_in_time(
        self, index: int, until_ns: int, now_ns: Callable[[], int]
    ) -> Picture:
        assert now_ns() == CLOCK.now_ns()
        self.until_ns.append(until_ns)
        self.decoding = self.words[index]
        if index % 2:
            raise SkippedError("no time")
        return self.decode(index)


def test_a_frame_that_the_decoder_left_out_is_dropped_for_that() -> None:
    good = picture(8, 6)
    source = Hurried([good] * 4, words=["all", "keys", "keys", "all"])
    decode = Decode(source, CLOCK.now_ns)
    assert decode.process(frame(0), 0).picture is good
    with pytest.raises(FrameError, match="no time") as caught:
        decode.process(frame(1), 0)
    assert caught.value.reason is Reason.DECODER_SKIP
    assert caught.value.events == (SourceEvent(EventKind.DECODING, "keys", 1),)
    assert decode.process(frame(2), 0).events == ()
    with pytest.raises(FrameError) as caught:
        decode.process(frame(3), 0)
    assert caught.value.events == (SourceEvent(EventKind.DECODING, "all", 3),)


def test_the_decoder_has_half_of_the_time_that_is_left() -> None:
    source = Hurried([picture(8, 6)], words=["all"])
    clock = ManualClock(2)
    CLOCK.advance(2)
    Decode(source, clock.now_ns).process(frame(0), 0)
    assert source.until_ns == [6]


def test_where_late_results_are_wanted_nothing_is_left_out() -> None:
    source = Hurried([picture(8, 6)] * 2, words=["all"] * 2)
    decode = Decode(source, CLOCK.now_ns, sheds=False)
    assert decode.process(frame(1), 0).picture is not None
    assert source.until_ns == []
