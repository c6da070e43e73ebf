from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from edgepipe.pipeline.source_events import EventKind, SourceEvent
from edgepipe.stages.sources.stamps import Stamped
from edgepipe.stages.sources.timeline import GAP_FRAMES, Timeline

MS = 1_000_000


def timeline(frame_ms: int = 40) -> Timeline:
    """With ticks of a millisecond."""
    return Timeline(Fraction(MS), frame_ms * MS)


def play(line: Timeline, *stamps_ms: int) -> tuple[list[float], list[SourceEvent]]:
    """Media times in milliseconds, and everything that befell."""
    placed = [line.place(Stamped(stamp, stamp)) for stamp in stamps_ms]
    return [pts / MS for pts, _ in placed], [e for _, events in placed for e in events]


def test_media_time_begins_at_zero_and_follows_the_stamps() -> None:
    assert play(timeline(), 583, 616, 700, 733) == ([0, 33, 117, 150], [])


def test_ticks_add_up_without_drift() -> None:
    line = Timeline(Fraction(10**9 * 1001, 30_000), 33_366_666)
    placed = [line.place(Stamped(k, k)) for k in range(30_000)]
    assert placed[-1][0] == 29_999 * 10**9 * 1001 // 30_000


def test_a_stamp_that_comes_again_is_moved_up_by_half_of_what_is_left() -> None:
    line = timeline()
    times, events = play(line, 0, 40, 40, 40, 80)
    assert times == [0, 40, 60, 70, 80]
    assert [(e.kind, e.pts_ns) for e in events] == [
        (EventKind.DUPLICATE, 60 * MS),
        (EventKind.DUPLICATE, 70 * MS),
    ]
    assert line.repaired == 2


@given(st.lists(st.integers(0, 3), min_size=1, max_size=300))
def test_media_time_rises_whatever_comes_again(steps: list[int]) -> None:
    line, stamp, last = timeline(), 0, -1
    for step in steps:
        stamp += step
        pts_ns, _ = line.place(Stamped(stamp, stamp))
        assert pts_ns > last
        last = pts_ns
    assert line.repaired == steps[1:].count(0)


def test_a_pause_of_more_than_a_few_frames_is_a_gap() -> None:
    _, events = play(timeline(), 0, 40, 80, 80 + GAP_FRAMES * 40, 1240, 1280)
    (gap,) = events
    assert gap == SourceEvent(EventKind.GAP, "nothing for 1.000 s", 1240 * MS, 960 * MS)


def test_what_is_usual_is_learned_and_not_believed_beforehand() -> None:
    """The header says 1000 frames per second, the file has 15."""
    assert play(timeline(1), *(k * 67 for k in range(30)))[1] == []
    assert timeline(1).usual_ns == MS


def test_a_lap_begins_one_usual_frame_after_the_last_and_is_told_once() -> None:
    line = timeline(1000)
    play(line, 0, 40, 80)
    line.begin_lap()
    times, events = play(line, 5, 45)
    assert times == [120, 160]
    assert events == [SourceEvent(EventKind.LOOP, "lap 2", 120 * MS)]


def test_what_is_known_of_a_stamp_becomes_an_event_with_its_time() -> None:
    line = timeline()
    play(line, 0, 40)
    back = Stamped(40, 40, 0, EventKind.REGRESSION, "back", 500)
    assert line.place(back) == (
        60 * MS,
        [SourceEvent(EventKind.REGRESSION, "back", 60 * MS, 500 * MS)],
    )
    anew = Stamped(80, 80, 0, EventKind.DISCONTINUITY, "jump", 9)
    assert line.place(anew)[1][0].kind is EventKind.DISCONTINUITY
    assert line.repaired == 1


def test_a_counter_that_ran_over_is_told_once_for_each_time() -> None:
    line = timeline()
    told = [line.place(Stamped(k * 40, None, k // 3))[1] for k in range(8)]
    assert [len(events) for events in told] == [0, 0, 0, 1, 0, 0, 1, 0]
    assert told[3][0].kind is EventKind.WRAP
