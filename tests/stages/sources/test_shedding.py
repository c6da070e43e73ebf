"""A decoder that cannot keep up, played with a scripted codec and a clock by hand."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from av.packet import Packet
from av.video.frame import VideoFrame
from hypothesis import given, settings
from hypothesis import strategies as st

from edgepipe.pipeline.source import SkippedError
from edgepipe.stages.sources.decoder import Decoder, Key
from edgepipe.stages.sources.pressure import (
    LONGEST_WAIT_NS,
    SHORTEST_WAIT_NS,
    Costs,
    Level,
    Pressure,
)
from edgepipe.stages.sources.recording import VideoPacket
from edgepipe.telemetry.clock import ManualClock

MS = 1_000_000
KEY, P, B = b"K" * 9, b"P" * 9, b"\0\0\1\xb6\x80aaaa"
"""``B`` is what nothing refers to in MPEG-4."""


@dataclass
class Codec:
    """Takes its time, and gives out every frame at once."""

    clock: ManualClock
    cost_ns: dict[bytes, int]
    codec: str = "mpeg4"
    ordered: bool = True
    intra_only: bool = False
    extradata: bytes | None = None
    decoded: list[int] = field(default_factory=list[int])
    fresh: bool = True

    def decode(self, packet: VideoPacket | None) -> list[VideoFrame]:
        if packet is None:
            return []
        data = bytes(packet)
        self.clock.advance(self.cost_ns[data])
        assert data == KEY or not self.fresh, "begun in the middle"
        self.fresh = False
        stamp = cast(int, packet.pts)
        if data == P:
            self.check_references(stamp)
        self.decoded.append(stamp)
        frame = SimpleNamespace(pts=stamp, dts=stamp, is_corrupt=False, key_frame=False)
        return [cast(VideoFrame, frame)]

    def check_references(self, stamp: int) -> None:
        before = [s for s in range(self.decoded[-1] + 1, stamp) if not is_b(s)]
        assert not before, f"{before} were left out, and {stamp} refers to them"

    def forget(self) -> None:
        self.fresh = True


def is_b(stamp: int) -> bool:
    return USES_B[0] and stamp % 3 != 0


USES_B = [False]


class Camera:
    """Frames at a rate; asks for the newest one, as a full queue does."""

    def __init__(
        self,
        gop: int,
        cost_ns: int,
        *,
        key_cost_ns: int | None = None,
        period_ns: int = 6_666_667,
        deadline_ns: int = 100 * MS,
        b_frames: bool = False,
    ) -> None:
        USES_B[0] = b_frames
        self.clock = ManualClock()
        costs = {KEY: key_cost_ns or 2 * cost_ns, P: cost_ns, B: cost_ns}
        self.codec = Codec(self.clock, costs)
        self.decoder = Decoder(lambda: False)
        self.gop, self.period_ns, self.deadline_ns = gop, period_ns, deadline_ns
        self.offered, self.last = 0, -1
        self.ages_ns: list[int] = []
        self.shown: list[int] = []
        self.skipped: list[int] = []
        self.levels: list[Level] = []

    def kind(self, stamp: int) -> bytes:
        return KEY if stamp % self.gop == 0 else B if is_b(stamp) else P

    def catch_up(self) -> None:
        while self.offered * self.period_ns <= self.clock.now_ns():
            stamp = self.offered
            packet = cast(VideoPacket, Packet(self.kind(stamp)))
            packet.pts = packet.dts = stamp
            packet.is_keyframe = self.kind(stamp) == KEY
            self.decoder.make_room()
            self.decoder.offer(cast(Any, self.codec), Key(0, stamp), packet)
            self.decoder.announce(stamp, Key(0, stamp))
            self.offered += 1

    def run(self, seconds: float, other_work_ns: int = 0) -> None:
        end_ns = self.clock.now_ns() + round(seconds * 1e9)
        while self.clock.now_ns() < end_ns:
            self.catch_up()
            stamp = self.offered - 1
            if stamp == self.last:
                self.clock.advance(self.period_ns // 4)
                continue
            self.last = stamp
            captured_ns = stamp * self.period_ns
            now_ns = self.clock.now_ns()
            until_ns = now_ns + (captured_ns + self.deadline_ns - now_ns) // 2
            try:
                self.decoder.frame(stamp, until_ns, self.clock.now_ns)
            except SkippedError:
                self.skipped.append(stamp)
                self.clock.advance(10_000)
            else:
                self.ages_ns.append(self.clock.now_ns() - captured_ns)
                self.shown.append(stamp)
                self.clock.advance(other_work_ns)
            if not self.levels or self.levels[-1] is not self.decoder.level:
                self.levels.append(self.decoder.level)


def test_a_decoder_that_keeps_up_leaves_nothing_out() -> None:
    camera = Camera(gop=30, cost_ns=3 * MS)
    camera.run(5)
    assert camera.skipped == []
    assert camera.shown == list(range(len(camera.shown)))
    assert camera.levels == [Level.ALL]


@pytest.mark.parametrize("gop", [30, 60, 250])
@pytest.mark.parametrize("cost_ms", [7, 9, 15, 40])
@pytest.mark.parametrize("b_frames", [False, True])
def test_age_stays_bounded_and_something_is_always_shown(
    gop: int, cost_ms: int, b_frames: bool
) -> None:
    camera = Camera(gop=gop, cost_ns=cost_ms * MS, b_frames=b_frames)
    camera.run(30)
    # Half of the deadline is the decoder's; the last packet was already begun then,
    # and a key frame is always tried.
    assert max(camera.ages_ns) <= camera.deadline_ns + 2 * cost_ms * MS
    seconds = {stamp * camera.period_ns // 10**9 for stamp in camera.shown}
    gops = 30 / (gop * camera.period_ns / 1e9)
    assert len(seconds) >= min(28, gops - 1)


@pytest.mark.parametrize("gop", [60, 250])
def test_the_level_falls_to_key_frames_and_is_tried_again_ever_more_seldom(
    gop: int,
) -> None:
    camera = Camera(gop=gop, cost_ns=45 * MS)
    camera.run(60)
    assert camera.levels[:2] == [Level.ALL, Level.KEYS]
    tries = camera.levels.count(Level.ALL) - 1
    # Half a second, one, two, four, and then the longest wait, or two key frames.
    assert 1 <= tries <= 60 / (LONGEST_WAIT_NS / 1e9) + 10


def test_with_disposable_frames_these_are_left_out_first() -> None:
    camera = Camera(gop=30, cost_ns=25 * MS, b_frames=True)
    camera.run(20)
    assert camera.levels[:2] == [Level.ALL, Level.REFERENCES]
    assert all(not is_b(s) or s in camera.shown for s in camera.codec.decoded)


def test_everything_is_decoded_again_when_the_load_is_gone() -> None:
    camera = Camera(gop=60, cost_ns=20 * MS)
    camera.run(10)
    assert camera.levels[-1:] == [Level.KEYS]
    camera.codec.cost_ns = {KEY: 3 * MS, P: 2 * MS, B: 2 * MS}
    camera.run(LONGEST_WAIT_NS / 1e9 + 1)
    assert camera.levels[-1:] == [Level.ALL]
    camera.skipped.clear()
    camera.run(5)
    assert camera.skipped == []


def test_a_short_stall_is_caught_up_with_and_the_level_stays() -> None:
    """With a long way to the next key frame, decoding what was missed is quicker."""
    camera = Camera(gop=2000, cost_ns=2 * MS)
    camera.run(2)
    camera.clock.advance(400 * MS)
    begin = len(camera.shown)
    camera.run(2)
    assert camera.levels == [Level.ALL]
    assert 0 < len(camera.skipped) < 20
    assert len(camera.shown) - begin > 200


def test_without_a_time_limit_nothing_is_left_out() -> None:
    camera = Camera(gop=30, cost_ns=50 * MS)
    camera.clock.advance(10**9)
    camera.catch_up()
    frame = camera.decoder.frame(camera.offered - 1, None, camera.clock.now_ns)
    assert frame.pts == camera.offered - 1


@given(
    gop=st.integers(1, 120),
    costs=st.lists(st.integers(1, 60), min_size=1, max_size=6),
    b_frames=st.booleans(),
    work_ms=st.integers(0, 60),
)
@settings(deadline=None, max_examples=60)
def test_whatever_the_load_no_reference_is_left_out_and_age_is_bounded(
    gop: int, costs: list[int], b_frames: bool, work_ms: int
) -> None:
    camera = Camera(gop=gop, cost_ns=MS, b_frames=b_frames)
    for cost_ms in costs:
        camera.codec.cost_ns = {KEY: cost_ms * MS, P: cost_ms * MS, B: cost_ms * MS}
        camera.run(0.7, other_work_ns=work_ms * MS)
    # A cost that jumps is known only when the packets have been decoded.
    bound_ns = camera.deadline_ns + 16 * max(costs) * MS
    assert max(camera.ages_ns, default=0) <= bound_ns
    assert camera.shown == sorted(set(camera.shown))


def test_a_step_up_that_fails_doubles_the_wait_and_one_that_lasts_halves_it() -> None:
    pressure = Pressure()
    now_ns = 10**9
    overload(pressure, now_ns)
    assert level_of(pressure) is Level.KEYS
    pressure.at_key_frame(now_ns + SHORTEST_WAIT_NS - 1, has_disposable=False)
    assert level_of(pressure) is Level.KEYS
    pressure.at_key_frame(now_ns + SHORTEST_WAIT_NS, has_disposable=False)
    assert level_of(pressure) is Level.ALL
    again_ns = now_ns + SHORTEST_WAIT_NS + 1
    overload(pressure, again_ns)
    pressure.at_key_frame(again_ns + SHORTEST_WAIT_NS, has_disposable=False)
    assert level_of(pressure) is Level.KEYS
    pressure.at_key_frame(again_ns + 2 * SHORTEST_WAIT_NS, has_disposable=False)
    assert level_of(pressure) is Level.ALL


def level_of(pressure: Pressure) -> Level:
    return pressure.level


def overload(pressure: Pressure, now_ns: int, *, b_frames: bool = False) -> None:
    """A group of pictures of which only the first could be shown."""
    pressure.shown()
    for _ in range(29):
        pressure.left_out()
    pressure.at_key_frame(now_ns, has_disposable=b_frames)


def test_disposable_frames_go_first() -> None:
    pressure = Pressure()
    overload(pressure, 0, b_frames=True)
    assert level_of(pressure) is Level.REFERENCES
    overload(pressure, 1, b_frames=True)
    assert level_of(pressure) is Level.KEYS


def test_where_many_frames_can_be_shown_the_level_stays() -> None:
    pressure = Pressure()
    for k in range(30):
        pressure.shown()
        pressure.left_out()
        pressure.at_key_frame(k, has_disposable=False)
    assert level_of(pressure) is Level.ALL


def test_waiting_is_better_when_decoding_can_never_catch_up() -> None:
    costs = Costs()
    for k in range(20):
        costs.took(10 * MS, is_key=False)
        costs.asked(k, k * 20 * MS)
    costs.saw_key_distance(100)
    assert not costs.better_wait(100 * MS, since_key=10)  # 200 ms against 1.8 s
    assert costs.better_wait(100 * MS, since_key=95)  # against 100 ms
    for k in range(20, 60):
        costs.asked(k, 400 * MS + (k - 20) * 5 * MS)
    assert costs.better_wait(100 * MS, since_key=10)
