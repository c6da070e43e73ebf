"""A camera as a source: a thread reads it, and nobody who is slow delays it."""

import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from queue import Queue
from random import Random

import pytest

from edgepipe.errors import InputError
from edgepipe.pipeline.source import (
    Arrival,
    DamagedError,
    EventKind,
    Interruptible,
    SourceEvent,
    SourceInfo,
    Watchable,
)
from edgepipe.stages.sources.camera import CameraError, CameraFacts, Decoded, Shot
from edgepipe.stages.sources.life import Patience
from edgepipe.stages.sources.live import AWAY_NS, MOST_READY, MOST_UNWANTED, LiveSource
from edgepipe.telemetry.clock import Clock, ManualClock

from .scripted_camera import FlatDecoder, Silence

QUICK = Patience(retry_min_ns=1000, retry_max_ns=1000)


class Fed:
    """A camera whose connections send what a test puts into a queue."""

    def __init__(self, decoder: FlatDecoder | None = None) -> None:
        self.shots: Queue[Shot | Exception | None] = Queue()
        self.decoder = decoder or FlatDecoder()
        self.facts = CameraFacts(2, 2, 30.0, "raw", ("a note",))
        self.opened = self.closed = 0

    def connect(self) -> "Fed":
        self.opened += 1
        if self.opened > 1:
            self.decoder = FlatDecoder()
        return self

    def is_there(self) -> bool | None:
        return None

    def read(self) -> Shot | None:
        item = self.shots.get()
        if isinstance(item, Exception):
            raise item
        return item

    def interrupt(self) -> None:
        self.shots.put(None)

    def close(self) -> None:
        self.closed += 1


@contextmanager
def source(
    camera: Fed | Silence, patience: Patience = QUICK, clock: Clock | None = None
) -> Generator[LiveSource]:
    info = SourceInfo("test://x", 0, 0, None, "", live=True)
    live = LiveSource(camera, info, patience, clock, Random(1))
    try:
        yield live
    finally:
        live.close()


def frame(level: int, *, key: bool = True, lost: int = 0, damage: str = "") -> Shot:
    return Shot(level, level, 1, key, level, None, lost, damage)


def arrivals(live: LiveSource, count: int) -> tuple[list[Arrival], list[EventKind]]:
    """So many frames, and the events before the last one."""
    found, kinds = list[Arrival](), list[EventKind]()
    while len(found) < count:
        item = live.next_arrival()
        assert item is not None
        if isinstance(item, SourceEvent):
            kinds.append(item.kind)
        else:
            found.append(item)
    return found, kinds


def test_a_camera_is_a_source_that_can_be_interrupted_and_watched() -> None:
    with source(Fed()) as live:
        assert isinstance(live, Interruptible)
        assert isinstance(live, Watchable)


def test_frames_come_after_the_news_that_the_camera_is_live() -> None:
    camera = Fed()
    with source(camera) as live:
        camera.shots.put(frame(7))
        (arrival,), kinds = arrivals(live, 1)
        assert kinds == [EventKind.CONNECTING, EventKind.LIVE]
        assert arrival == Arrival(0, None, captured_ns=7)
        assert live.decode(0).planes[0][0, 0] == 7
        assert (live.info.width, live.info.fps, live.info.codec) == (2, 30.0, "raw")
        assert live.warnings == ("a note",)
        assert live.status.state == "live"


def test_numbers_go_on_after_a_reconnect() -> None:
    camera = Fed()
    with source(camera) as live:
        for item in (frame(0), frame(1), CameraError("unplugged"), frame(0)):
            camera.shots.put(item)
        found, kinds = arrivals(live, 3)
        assert [arrival.index for arrival in found] == [0, 1, 2]
        assert kinds[2:] == [
            EventKind.BACKING_OFF,
            EventKind.CONNECTING,
            EventKind.LIVE,
            EventKind.DISCONTINUITY,
        ]
        assert live.status.reconnects == 1
        assert [int(live.decode(n).planes[0][0, 0]) for n in range(3)] == [0, 1, 0]


def test_a_bug_in_a_library_costs_a_connection_not_the_camera(
    caplog: pytest.LogCaptureFixture,
) -> None:
    camera = Fed()
    with source(camera) as live:
        camera.shots.put(ZeroDivisionError("in a driver"))
        camera.shots.put(frame(3))
        _, kinds = arrivals(live, 1)
        assert EventKind.BACKING_OFF in kinds
    assert "a camera could not be read" in caplog.text


@pytest.mark.parametrize(
    ("away_ns", "most"), [(AWAY_NS, MOST_READY), (AWAY_NS + 1, MOST_UNWANTED)]
)
def test_frames_that_are_not_taken_are_left_out_oldest_first(
    away_ns: int, most: int
) -> None:
    camera, clock = Fed(), ManualClock()
    with source(camera, clock=clock) as live:
        camera.shots.put(frame(0))
        arrivals(live, 1)
        clock.advance(away_ns)
        done = threading.Event()

        class LastError(CameraError):
            def __str__(self) -> str:
                done.set()
                return "enough"

        count = MOST_READY + 5
        for level in range(1, count + 1):
            camera.shots.put(frame(level))
        camera.shots.put(LastError("enough"))
        assert done.wait(60)
        item = live.next_arrival()
        assert isinstance(item, SourceEvent)
        assert item.kind is EventKind.GAP
        assert item.detail == f"{count - most} frames were not taken in time"
        found, _ = arrivals(live, most)
        assert [a.index for a in found] == list(range(count - most + 1, count + 1))


def test_what_the_camera_lost_is_told() -> None:
    camera = Fed()
    with source(camera) as live:
        camera.shots.put(frame(0))
        camera.shots.put(frame(4, lost=3))
        arrivals(live, 1)
        gap = live.next_arrival()
        assert isinstance(gap, SourceEvent)
        assert gap == SourceEvent(
            EventKind.GAP,
            "the camera or the way from it lost 3 frames",
            amount_ns=100_000_000,
        )


def test_after_damage_nothing_is_passed_on_up_to_the_next_key_frame() -> None:
    camera = Fed()
    with source(camera) as live:
        script = [
            frame(0),
            frame(1, key=False),
            frame(3, key=False, damage="1 is missing"),
            frame(4, key=False),
            frame(5),
        ]
        seen: list[int | None] = []
        for index, shot in enumerate(script):
            camera.shots.put(shot)
            arrivals(live, 1)
            try:
                seen.append(int(live.decode(index).planes[0][0, 0]))
            except DamagedError:
                seen.append(None)
        assert seen == [0, 1, None, None, 5]


def test_a_decoder_that_holds_frames_back_gets_what_it_needs() -> None:
    class Reordering(FlatDecoder):
        held: tuple[int, object] | None = None

        def feed(self, tag: int, payload: object) -> Sequence[Decoded]:
            held, self.held = self.held, (tag, payload)
            return super().feed(*held) if held is not None else ()

    camera = Fed(Reordering())
    with source(camera) as live:
        for stamp in range(4):
            camera.shots.put(Shot(stamp, stamp, 1, stamp == 0, stamp, stamp - 1))
        found, _ = arrivals(live, 3)
        assert [int(live.decode(a.index).planes[0][0, 0]) for a in found] == [0, 1, 2]


def test_a_picture_that_never_changes_is_told() -> None:
    camera = Fed()
    with source(camera, Patience(frozen_after_ns=1)) as live:
        told = list[EventKind]()
        for stamp in range(3):
            camera.shots.put(Shot(9, stamp, 1, True, stamp))
            _, kinds = arrivals(live, 1)
            told += kinds
            live.decode(stamp)
        camera.shots.put(Shot(9, 3, 1, True, 3))
        told += arrivals(live, 1)[1]
        assert EventKind.FROZEN in told
        assert live.status.frozen


def test_whoever_waits_for_a_frame_comes_back_when_it_is_interrupted() -> None:
    with source(Fed()) as live:
        seen: Queue[object] = Queue()

        def wait() -> None:
            while isinstance(item := live.next_arrival(), SourceEvent):
                pass
            seen.put(item)

        thread = threading.Thread(target=wait)
        thread.start()
        live.interrupt()
        assert seen.get(timeout=60) is None
        assert live.next_arrival() is None
        thread.join(60)


def test_a_camera_that_is_given_up_is_told_and_then_an_error() -> None:
    with source(Silence(), Patience(retry_max_ns=1000, retries=1)) as live:
        kinds = list[EventKind]()
        while EventKind.GONE not in kinds:
            item = live.next_arrival()
            assert isinstance(item, SourceEvent)
            kinds.append(item.kind)
        with pytest.raises(InputError, match="test://x: given up: connection refused"):
            live.next_arrival()
        assert live.status.state == "gone"


def test_a_camera_that_is_required_must_be_there() -> None:
    info = SourceInfo("test://x", 0, 0, None, "", live=True)
    with pytest.raises(InputError, match="test://x: connection refused"):
        LiveSource(Silence(), info, QUICK, required=True)
    camera = Fed()
    camera.shots.put(frame(0))
    live = LiveSource(camera, info, QUICK, required=True)
    assert live.info.width == 2
    live.close()


def test_twenty_reconnects_leave_no_thread_and_close_what_they_opened() -> None:
    before = threading.active_count()
    camera = Fed()
    with source(camera) as live:
        for number in range(21):
            if number:
                camera.shots.put(CameraError("closed"))
            camera.shots.put(frame(0))
            (arrival,), _ = arrivals(live, 1)
            assert arrival.index == number
        assert threading.active_count() == before + 1
        assert live.status.reconnects == 20
    assert threading.active_count() == before
    assert camera.opened == camera.closed == 21
