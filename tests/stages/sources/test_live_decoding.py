"""A camera that sends more than can be decoded is kept up with, and nothing is guessed.

A decoder here takes time by moving the clock, and notes what it was given.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Condition
from typing import NamedTuple

import numpy as np
import pytest

from edgepipe.pipeline.frame import Picture, PixelFormat
from edgepipe.pipeline.source import DamagedError, SkippedError
from edgepipe.stages.sources.backlog import Backlog
from edgepipe.stages.sources.camera import Decoded, Shot
from edgepipe.stages.sources.live_decoding import LiveDecoding
from edgepipe.stages.sources.pressure import Level
from edgepipe.telemetry.clock import ManualClock

MS = 1_000_000
PERIOD_NS = 33 * MS
PLANE = np.zeros((2, 2), np.uint8)
PICTURE = Picture(PixelFormat.GRAY, (PLANE,), 2, 2)


class Coded(NamedTuple):
    number: int
    is_key: bool
    is_disposable: bool
    refers_to: int


@dataclass
class Slow:
    """Refuses what does not follow what it was given before."""

    clock: ManualClock
    cost_ns: int
    fed: list[int] = field(default_factory=list[int])
    references: list[int] = field(default_factory=list[int])

    def feed(self, tag: int, payload: object) -> Sequence[Decoded]:
        assert isinstance(payload, Coded)
        number, is_key, is_disposable, refers_to = payload
        assert is_key or self.references[-1] == refers_to
        self.clock.advance(self.cost_ns)
        self.fed.append(number)
        if not is_disposable:
            self.references.append(number)
        return [Decoded(tag, PICTURE)]

    def forget(self) -> None:
        pass


@dataclass
class Play:
    """What became of the frames of a camera, by their numbers."""

    shown: list[int] = field(default_factory=list[int])
    skipped: list[int] = field(default_factory=list[int])
    damaged: list[int] = field(default_factory=list[int])
    ages_ns: list[int] = field(default_factory=list[int])
    levels: list[Level] = field(default_factory=list[Level])
    fed: list[int] = field(default_factory=list[int])


def play(
    seconds: int, cost_ns: int, *, gop: int = 60, disposable: bool = False
) -> Play:
    """Frames come at 30 fps; the newest is asked for whenever the decoder is free."""
    clock, backlog = ManualClock(), Backlog()
    decoder = Slow(clock, cost_ns)
    decoding = LiveDecoding(backlog, Condition())
    result = Play(fed=decoder.fed)
    came, newest, refers_to = 0, -1, -1
    count = seconds * 30
    while came < count:
        clock.advance(max(0, came * PERIOD_NS - clock.now_ns()))
        while came < count and came * PERIOD_NS <= clock.now_ns():
            is_key = came % gop == 0
            is_disposable = disposable and came % 2 == 1
            payload = Coded(came, is_key, is_disposable, refers_to)
            shot = Shot(
                payload,
                came * PERIOD_NS,
                1000,
                is_key,
                came,
                is_disposable=is_disposable,
            )
            for frame in backlog.push(shot, decoder):
                newest = frame.number
            decoding.saw(shot)
            refers_to = refers_to if is_disposable else came
            came += 1
        until_ns = clock.now_ns() + 50 * MS
        try:
            decoding.picture(newest, until_ns, clock.now_ns)
        except SkippedError:
            result.skipped.append(newest)
        except DamagedError:
            result.damaged.append(newest)
        else:
            result.shown.append(newest)
            result.ages_ns.append(clock.now_ns() - newest * PERIOD_NS)
        result.levels.append(decoding.level)
    return result


def test_a_decoder_that_is_fast_enough_shows_every_frame() -> None:
    result = play(10, 20 * MS)
    assert result.shown == list(range(300))
    assert max(result.ages_ns) == 20 * MS
    assert set(result.levels) == {Level.ALL}


@pytest.mark.parametrize("cost_ms", [40, 60, 120])
def test_one_that_is_too_slow_never_falls_behind(cost_ms: int) -> None:
    """Without leaving frames out the last would be seconds old."""
    result = play(20, cost_ms * MS)
    assert not result.damaged
    assert len(result.shown) >= 10
    assert max(result.ages_ns) <= 50 * MS + 3 * cost_ms * MS
    assert len(result.skipped) > len(result.shown) / 4


def test_frames_that_nothing_refers_to_are_left_out_first() -> None:
    result = play(20, 45 * MS, disposable=True)
    assert not result.damaged
    assert {number for number in result.fed if number % 2} <= set(result.shown)
    assert len(result.shown) > len(play(20, 45 * MS).shown)


def test_what_was_not_needed_in_time_is_still_there_for_later_frames() -> None:
    clock, backlog = ManualClock(), Backlog()
    decoder = Slow(clock, 30 * MS)
    decoding = LiveDecoding(backlog, Condition())
    for number in range(5):
        coded = Coded(number, number == 0, False, number - 1)
        shot = Shot(coded, 0, 1, coded.is_key, number)
        backlog.push(shot, decoder)
        decoding.saw(shot)
    decoding.picture(0, 10**12, clock.now_ns)
    clock.advance(1000 * MS)  # a slow camera: it is worth catching up
    with pytest.raises(SkippedError, match="catching up"):
        decoding.picture(3, clock.now_ns() + 40 * MS, clock.now_ns)
    assert decoder.fed == [0, 1, 2]
    decoding.picture(4, None, clock.now_ns)
    assert decoder.fed == [0, 1, 2, 3, 4]
