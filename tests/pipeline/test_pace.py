from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.pipeline.pace import Epoch, MediaClock, Pace


def test_fast_replay_captures_when_asked() -> None:
    media = MediaClock(Pace.FAST, yields=True)
    assert [media.capture_ns(n * 40, now_ns=7 + n) for n in range(3)] == [7, 8, 9]


def test_realtime_replay_keeps_its_schedule_when_it_is_looked_at_late() -> None:
    media = MediaClock(Pace.REALTIME, yields=False)
    assert media.capture_ns(100, now_ns=1000) == 1000
    assert media.capture_ns(140, now_ns=1500) == 1040


def test_a_source_that_was_kept_waiting_moves_its_epoch() -> None:
    media = MediaClock(Pace.REALTIME, yields=True)
    media.capture_ns(0, now_ns=1000)
    assert media.capture_ns(40, now_ns=1500) == 1500
    assert media.capture_ns(80, now_ns=1501) == 1540


@pytest.mark.parametrize(("speed", "spacing"), [("4", 10), ("0.5", 80), ("1", 40)])
def test_a_recording_may_be_played_faster_or_slower(speed: str, spacing: int) -> None:
    media = MediaClock(Pace.REALTIME, yields=False, speed=Fraction(speed))
    due = [media.capture_ns(1000 + 40 * k, now_ns=500) for k in range(3)]
    assert due == [500, 500 + spacing, 500 + 2 * spacing]


def test_speed_brings_no_drift() -> None:
    media = MediaClock(Pace.REALTIME, yields=False, speed=Fraction(3))
    media.capture_ns(0, now_ns=7)
    assert media.capture_ns(3 * 10**18 + 1, now_ns=9) == 7 + 10**18


def test_streams_of_one_recording_share_its_beginning() -> None:
    epoch = Epoch()
    left, right = (
        MediaClock(Pace.REALTIME, yields=False, epoch=epoch) for _ in range(2)
    )
    # Whoever looks first, and however late the other: 250 stays 250 after 0.
    assert right.capture_ns(250, now_ns=1000) == 1250
    assert left.capture_ns(0, now_ns=1003) == 1000


def test_a_stream_that_waits_holds_up_the_others_of_its_recording() -> None:
    epoch = Epoch()
    left = MediaClock(Pace.REALTIME, yields=True, epoch=epoch)
    right = MediaClock(Pace.REALTIME, yields=False, epoch=epoch)
    left.capture_ns(0, now_ns=1000)
    assert left.capture_ns(40, now_ns=1500) == 1500
    assert right.capture_ns(80, now_ns=1500) == 1540


def test_a_frame_without_a_stamp_is_captured_when_it_arrives() -> None:
    assert MediaClock(Pace.REALTIME, yields=False).capture_ns(None, now_ns=5) == 5


@given(st.lists(st.integers(1, 10**9), min_size=2), st.booleans())
def test_replay_on_time_keeps_the_spacing(gaps: list[int], yields: bool) -> None:
    media, now, pts = MediaClock(Pace.REALTIME, yields=yields), 77, 0
    before = media.capture_ns(pts, now)
    for gap in gaps:
        pts += gap
        due = media.capture_ns(pts, before)
        assert due - before == gap
        before = due
