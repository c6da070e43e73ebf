"""Sources into a recording, with a disk that is slow, full or fine."""

import errno
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest

from edgepipe.errors import InputError
from edgepipe.pipeline.frame import Picture, PixelFormat
from edgepipe.pipeline.source import (
    Arrival,
    DamagedError,
    EventKind,
    SourceEvent,
    SourceInfo,
)
from edgepipe.stages.recordings.byte_queue import ByteQueue
from edgepipe.stages.recordings.kept_stream import Made, keep
from edgepipe.stages.recordings.mcap_file import McapFile
from edgepipe.stages.recordings.recorder import (
    Account,
    Handover,
    Input,
    Recorder,
)
from edgepipe.stages.recordings.segments import Entry, Limits, Segments
from edgepipe.telemetry.clock import MonotonicClock


@dataclass
class Scripted:
    """Gives what it is told to give; raises what is an error."""

    script: Sequence[Arrival | SourceEvent | Exception]
    live: bool = False
    damaged: frozenset[int] = frozenset()
    warnings: tuple[str, ...] = ()
    end_state: tuple[str, str] = ("ended", "")
    stopped: Event = field(default_factory=Event)

    def __post_init__(self) -> None:
        self.info = SourceInfo("test:", 8, 4, 10.0, "raw", live=self.live)
        self._left = iter(self.script)

    def next_arrival(self) -> Arrival | SourceEvent | None:
        found = next(self._left, None)
        if isinstance(found, Exception):
            raise found
        if found is None and self.live:
            self.stopped.wait()
        return found

    def interrupt(self) -> None:
        self.stopped.set()

    def decode(self, index: int) -> Picture:
        if index in self.damaged:
            raise DamagedError("scripted")
        image = np.full((4, 8, 3), index, np.uint8)
        return Picture(PixelFormat.BGR, (image,), 8, 4)

    def close(self) -> None:
        pass


def frames(count: int) -> list[Arrival]:
    return [Arrival(k, k * 10**8) for k in range(count)]


def recorder(folder: Path, **sources: Scripted) -> Recorder:
    inputs = [
        Input(name, each, keep(each, name, clock="media", raw=True))
        for name, each in sources.items()
    ]
    channels = [each.kept.channel for each in inputs]
    path = folder / "a.mcap"
    segments = Segments(path, "", channels, {}, "test", Limits())
    return Recorder(inputs, segments, MonotonicClock())


def recorded(folder: Path) -> dict[str, int | None]:
    file = McapFile(folder / "a.mcap")
    file.close()
    return {topic.name: topic.messages for topic in file.topics}


def test_every_frame_of_every_source_is_recorded(tmp_path: Path) -> None:
    made = recorder(tmp_path, left=Scripted(frames(5)), right=Scripted(frames(3)))
    made.run(lambda: False)
    assert recorded(tmp_path) == {"/left": 5, "/right": 3}
    assert made.accounts["left"].state == "ended"
    assert not made.failure


def test_damage_and_events_are_counted_and_the_rest_is_recorded(
    tmp_path: Path,
) -> None:
    gap = SourceEvent(EventKind.GAP)
    script: list[Arrival | SourceEvent] = [*frames(2), gap, gap, *frames(5)[2:]]
    source = Scripted(script, damaged=frozenset({1}))
    made = recorder(tmp_path, front=source)
    made.run(lambda: False)
    account = made.accounts["front"]
    assert (account.frames, account.messages, account.damaged) == (5, 4, 1)
    assert account.events == {"gap": 2}


def test_a_source_that_fails_costs_the_others_nothing(tmp_path: Path) -> None:
    bad = Scripted([*frames(2), InputError("it is gone")])
    worse = Scripted([*frames(1), RuntimeError("a bug")])
    made = recorder(tmp_path, bad=bad, good=Scripted(frames(6)), worse=worse)
    made.run(lambda: False)
    assert recorded(tmp_path) == {"/bad": 2, "/good": 6, "/worse": 1}
    states = {name: each.state for name, each in made.accounts.items()}
    assert states == {"bad": "failed", "good": "ended", "worse": "failed"}
    assert made.accounts["bad"].detail == "it is gone"


def test_a_camera_that_waits_is_interrupted_when_it_is_time_to_stop(
    tmp_path: Path,
) -> None:
    camera = Scripted(frames(3), live=True)
    made = recorder(tmp_path, camera=camera)
    made.run(lambda: made.accounts["camera"].frames == 3)
    assert camera.stopped.is_set()
    assert recorded(tmp_path) == {"/camera": 3}


def test_a_disk_that_fails_stops_recording_and_every_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = recorder(tmp_path, camera=Scripted(frames(3), live=True))

    def full(self: Segments, entry: Entry) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Segments, "add", full)
    made.run(lambda: False)
    assert made.failure.endswith("No space left on device")


# --- between the threads --------------------------------------------------------------


def made(*keys: bool) -> Iterator[Made]:
    return (Made(k, bytes(40), is_key) for k, is_key in enumerate(keys))


def test_a_camera_loses_frames_up_to_its_next_key_frame_when_the_disk_is_slow() -> None:
    queue, account = ByteQueue[Entry](100), Account()
    put = Handover(queue, 0, account, waits=False)
    for message in made(True, False, False, False, True):
        put(message)
        if message.log_ns == 2:
            while queue.get(0) is not None:
                pass
    taken = [queue.get(0)]
    assert [entry.log_ns for entry in taken if entry is not None] == [4]
    assert (account.messages, account.lost) == (3, 2)


def test_what_comes_before_the_first_key_frame_is_of_no_use() -> None:
    queue, account = ByteQueue[Entry](1000), Account()
    put = Handover(queue, 0, account, waits=False)
    for message in made(False, False, True):
        put(message)
    entry = queue.get(0)
    assert entry is not None
    assert (entry.log_ns, entry.sequence) == (2, 0)


def test_a_queue_is_bounded_by_bytes_and_one_item_always_fits() -> None:
    queue = ByteQueue[int](10)
    assert queue.put(1, 50, wait=False)
    assert not queue.put(2, 1, wait=False)
    assert queue.get(0) == 1
    assert queue.put(3, 6, wait=False)
    assert queue.put(4, 4, wait=False)
    assert not queue.put(5, 1, wait=False)
    assert [queue.get(0) for _ in range(3)] == [3, 4, None]


def test_who_waits_for_room_gets_it_or_is_sent_away() -> None:
    queue, taken = ByteQueue[int](10), list[bool]()
    queue.put(0, 10, wait=True)
    thread = Thread(
        target=lambda: taken.extend(queue.put(k, 10, wait=True) for k in (1, 2))
    )
    thread.start()
    assert queue.get(1) == 0
    assert queue.get(1) == 1
    thread.join()
    assert taken == [True, True]
    other = Thread(target=lambda: taken.append(queue.put(3, 10, wait=True)))
    other.start()
    queue.close()
    other.join()
    assert taken == [True, True, False]
