import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from edgepipe.errors import EdgepipeError
from edgepipe.telemetry.clock import ManualClock
from edgepipe.telemetry.frame_log import FRAMES, read_frames
from edgepipe.telemetry.recorder import Recorder
from edgepipe.telemetry.records import FrameRecord, RecorderFacts

MakeFrame = Callable[..., FrameRecord]

SECOND = 1_000_000_000


class Disk:
    """Stands before the real disk; takes ``room`` bytes more, then is full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room: int | None = None
        self._write = os.pwrite
        monkeypatch.setattr(os, "pwrite", self.pwrite)

    def pwrite(self, fd: int, data: bytes, at: int) -> int:
        if self.room is None:
            return self._write(fd, data, at)
        if self.room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = self._write(fd, data[: self.room], at)
        self.room -= written
        return written


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "frames.arrow"


def recorded(path: Path) -> list[int]:
    return [record.sequence for record in read_frames(path).records()]


def test_records_are_in_the_file_after_a_flush_and_the_log_ends_on_close(
    path: Path, make_frame: MakeFrame
) -> None:
    recorder = Recorder(path, ManualClock(), FRAMES)
    recorder.add(make_frame(0))
    assert recorder.flush()
    assert recorded(path) == [0]
    assert "not closed" in read_frames(path).warning
    recorder.add(make_frame(1))
    assert recorder.close() == RecorderFacts(written=2, lost=0, write_failures=0)
    assert recorded(path) == [0, 1]
    assert read_frames(path).warning == ""


def test_a_run_without_frames_leaves_an_empty_log(path: Path) -> None:
    Recorder(path, ManualClock(), FRAMES).close()
    assert recorded(path) == []
    assert read_frames(path).warning == ""


def test_a_flush_writes_everything_however_much_waits(
    path: Path, make_frame: MakeFrame
) -> None:
    recorder = Recorder(path, ManualClock(), FRAMES)
    for sequence in range(2500):
        recorder.add(make_frame(sequence, spans=()))
    recorder.flush()
    assert recorded(path) == list(range(2500))
    recorder.close()


def test_beyond_the_capacity_the_oldest_waiting_records_are_lost_and_counted(
    path: Path, make_frame: MakeFrame
) -> None:
    recorder = Recorder(path, ManualClock(), FRAMES, capacity=3)
    for sequence in range(10):
        recorder.add(make_frame(sequence))
    assert recorder.statistics() == RecorderFacts(0, 7, 0)
    assert recorder.close() == RecorderFacts(3, 7, 0)
    assert recorded(path) == [7, 8, 9]


def test_what_a_full_disk_refused_is_written_once_there_is_room(
    path: Path, make_frame: MakeFrame, disk: Disk
) -> None:
    recorder = Recorder(path, ManualClock(), FRAMES)
    recorder.add(make_frame(0))
    recorder.flush()
    disk.room = 100  # part of a batch
    recorder.add(make_frame(1))
    assert not recorder.flush()
    recorder.add(make_frame(2))
    assert not recorder.flush()
    assert recorded(path) == [0]
    disk.room = None
    assert recorder.flush()
    assert recorder.close() == RecorderFacts(written=3, lost=0, write_failures=2)
    assert recorded(path) == [0, 1, 2]
    assert read_frames(path).warning == ""


def test_a_disk_that_stays_full_costs_the_records_and_leaves_a_readable_log(
    path: Path, make_frame: MakeFrame, disk: Disk
) -> None:
    recorder = Recorder(path, ManualClock(), FRAMES)
    recorder.add(make_frame(0))
    recorder.flush()
    disk.room = 100
    recorder.add(make_frame(1))
    assert recorder.close() == RecorderFacts(written=1, lost=1, write_failures=1)
    assert recorded(path) == [0]
    assert "not closed" in read_frames(path).warning


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_device_that_is_always_full_never_raises(make_frame: MakeFrame) -> None:
    recorder = Recorder(Path("/dev/full"), ManualClock(), FRAMES)
    recorder.add(make_frame())
    assert not recorder.flush()
    assert recorder.close() == RecorderFacts(written=0, lost=1, write_failures=2)


def test_a_failing_disk_is_told_once_a_minute(
    path: Path, make_frame: MakeFrame, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    clock = ManualClock()
    recorder = Recorder(path, clock, FRAMES)
    disk.room = 0
    recorder.add(make_frame())
    for _ in range(90):
        recorder.flush()
        clock.advance(SECOND)
    assert len(caplog.records) == 2
    assert "No space left on device" in caplog.text
    assert recorder.statistics().write_failures == 90
    recorder.close()


def test_a_record_that_no_column_can_hold_is_lost_alone_with_its_batch(
    path: Path, make_frame: MakeFrame, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder(path, ManualClock(), FRAMES)
    recorder.add(make_frame(0, variant="\ud800"))
    recorder.flush()
    recorder.add(make_frame(1))
    assert recorder.close() == RecorderFacts(written=1, lost=1, write_failures=0)
    assert recorded(path) == [1]
    assert "surrogates not allowed" in caplog.text


def test_records_that_come_after_the_end_are_lost_and_counted(
    path: Path, make_frame: MakeFrame
) -> None:
    recorder = Recorder(path, ManualClock(), FRAMES)
    recorder.close()
    recorder.add(make_frame())
    assert recorder.close() == RecorderFacts(written=0, lost=1, write_failures=0)


def test_a_started_recorder_has_written_the_head_and_flushes_on_close(
    path: Path, make_frame: MakeFrame
) -> None:
    recorder = Recorder(path, ManualClock(), FRAMES)
    recorder.start()
    assert recorded(path) == []
    recorder.add(make_frame())
    assert recorder.close().written == 1
    assert recorded(path) == [0]


def test_a_place_that_cannot_be_written_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(EdgepipeError, match=r"none/frames\.arrow: cannot be writ"):
        Recorder(tmp_path / "none" / "frames.arrow", ManualClock(), FRAMES)


def test_a_recorder_for_nothing_is_refused(path: Path) -> None:
    with pytest.raises(ValueError, match="at least 1, got 0"):
        Recorder(path, ManualClock(), FRAMES, capacity=0)
