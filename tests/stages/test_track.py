"""The iou tracker: identities that last, by time and not by frame count."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.pipeline.detections import UNTRACKED, Detections
from edgepipe.pipeline.frame import Frame
from edgepipe.pipeline.source_events import EventKind, SourceEvent
from edgepipe.pipeline.stage import FrameError
from edgepipe.scheduler.fates import Reason
from edgepipe.stages.association import assign, iou_matrix
from edgepipe.stages.track import IouTracker

SECOND_NS = 1_000_000_000
PERIOD_NS = SECOND_NS // 30
Box = Sequence[float]


def detections(*boxes: Box, classes: Sequence[int] = ()) -> Detections:
    return Detections.of(
        np.array(boxes),
        np.full(len(boxes), 0.9),
        np.array(classes or [0] * len(boxes)),
    )


def frame(at_ns: int, found: Detections | None) -> Frame:
    return Frame("front", 0, at_ns, at_ns + SECOND_NS, detections=found)


def ids(tracker: IouTracker, at_ns: int, *boxes: Box, **options: Any) -> list[int]:
    found = tracker.process(frame(at_ns, detections(*boxes, **options)), 0).detections
    assert found is not None
    return [int(i) for i in found.track_id]


def box(x: float, y: float = 100.0, width: float = 40.0) -> Box:
    return (x, y, x + width, y + 40.0)


def test_a_track_gets_its_id_with_the_hit_that_confirms_it() -> None:
    tracker = IouTracker(min_hits=3)
    assert [ids(tracker, k * PERIOD_NS, box(k)) for k in range(4)] == [
        [-1],
        [-1],
        [1],
        [1],
    ]


def test_an_unconfirmed_track_dies_with_its_first_miss() -> None:
    tracker = IouTracker(min_hits=2)
    ids(tracker, 0, box(0))
    ids(tracker, PERIOD_NS)
    assert ids(tracker, 2 * PERIOD_NS, box(0)) == [-1]


def test_detections_keep_their_order_and_everything_but_the_id() -> None:
    tracker = IouTracker(min_hits=1)
    found = detections(box(300), box(0), box(150), classes=[2, 0, 1])
    ids(tracker, 0, box(0))
    out = tracker.process(frame(PERIOD_NS, found), 0).detections
    assert out is not None
    assert out.xyxy is found.xyxy
    assert out.score is found.score
    assert out.class_id is found.class_id
    assert out.track_id.tolist() == [2, 1, 3]
    assert found.track_id.tolist() == [-1, -1, -1]


@pytest.mark.parametrize("nothing", [None, Detections.empty()])
def test_frames_without_detections_age_the_tracks_and_give_empty_results(
    nothing: Detections | None,
) -> None:
    tracker = IouTracker(min_hits=1)
    ids(tracker, 0, box(0))
    for k in range(1, 6):
        out = tracker.process(frame(k * PERIOD_NS, nothing), 0).detections
        assert out is not None
        assert out.xyxy.shape == (0, 4)
    assert ids(tracker, 6 * PERIOD_NS, box(1)) == [1]


def test_a_class_is_never_continued_by_another_class() -> None:
    tracker = IouTracker(min_hits=1)
    ids(tracker, 0, box(0), classes=[0])
    assert ids(tracker, PERIOD_NS, box(0), classes=[1]) == [2]


def test_two_boxes_on_one_spot_keep_apart_by_class() -> None:
    tracker = IouTracker(min_hits=1)
    ids(tracker, 0, box(0), box(0), classes=[0, 1])
    assert ids(tracker, PERIOD_NS, box(1), box(1), classes=[1, 0]) == [2, 1]


def test_the_assignment_is_the_best_one_and_not_the_first_best_pair() -> None:
    overlap = np.array([[0.6, 0.5], [0.55, 0.0]])
    rows, columns = assign(overlap, 0.3)
    assert list(zip(rows, columns, strict=True)) == [(0, 1), (1, 0)]


def test_a_pair_below_the_least_overlap_is_never_made() -> None:
    rows, columns = assign(np.array([[0.29]]), 0.3)
    assert (rows.tolist(), columns.tolist()) == ([], [])


def test_overlap_is_shared_area_over_joint_area() -> None:
    a = np.array([[0.0, 0.0, 2.0, 2.0]])
    b = np.array([[1.0, 0.0, 3.0, 2.0], [0.0, 0.0, 2.0, 2.0], [2.0, 2.0, 3.0, 3.0]])
    np.testing.assert_allclose(iou_matrix(a, b), [[1 / 3, 1.0, 0.0]])


def test_a_moving_object_keeps_its_id_over_frames_that_never_came() -> None:
    tracker = IouTracker()
    for k in range(15):
        ids(tracker, k * PERIOD_NS, box(10 * k))
    assert ids(tracker, 22 * PERIOD_NS, box(220)) == [1]


def test_prediction_uses_the_time_between_stamps_and_not_the_frame_count() -> None:
    tracker = IouTracker()
    for k in range(15):
        ids(tracker, k * PERIOD_NS, box(10 * k))
    np.testing.assert_allclose(tracker.tracks.velocity, [[300.0, 0.0]], atol=30.0)


def test_an_object_that_turned_while_it_was_missed_is_found_where_it_was_seen() -> None:
    tracker = IouTracker(iou=0.5)
    for k in range(15):
        ids(tracker, k * PERIOD_NS, box(8 * k))
    assert ids(tracker, 18 * PERIOD_NS, box(8 * 14 - 4)) == [1]


def test_a_track_is_forgotten_by_time_and_its_id_is_not_used_again() -> None:
    tracker = IouTracker(max_age_ns=SECOND_NS, min_hits=1)
    ids(tracker, 0, box(0))
    ids(tracker, SECOND_NS // 2)
    assert ids(tracker, SECOND_NS, box(0)) == [1]
    ids(tracker, SECOND_NS + 1)
    ids(tracker, 2 * SECOND_NS)
    assert ids(tracker, 2 * SECOND_NS + 1, box(0)) == [2]


@pytest.mark.parametrize("jump_ns", [SECOND_NS + 1, -SECOND_NS - 1, -(10**15)])
def test_a_jump_of_time_beyond_the_age_limit_ends_every_track(jump_ns: int) -> None:
    tracker = IouTracker(min_hits=1)
    start_ns = 5 * SECOND_NS
    ids(tracker, start_ns, box(0), box(200))
    assert ids(tracker, start_ns + jump_ns, box(0), box(200)) == [3, 4]


def test_stamps_that_repeat_or_slip_back_a_little_are_no_movement() -> None:
    tracker = IouTracker()
    stamps_ns = [100, 100, 90, 100, 100 + PERIOD_NS, 100 + PERIOD_NS]
    seen = [ids(tracker, at_ns, box(0)) for at_ns in stamps_ns]
    assert seen == [[-1], [1], [1], [1], [1], [1]]
    assert np.isfinite(tracker.tracks.velocity).all()


def test_every_tracker_counts_its_own_ids_from_one() -> None:
    left, right = IouTracker(min_hits=1), IouTracker(min_hits=1)
    assert ids(left, 0, box(0)) == [1]
    assert ids(right, 0, box(0), box(100)) == [1, 2]
    assert ids(left, PERIOD_NS, box(0), box(100)) == [1, 2]


def test_boxes_without_area_or_not_finite_stay_untracked_and_harm_nobody() -> None:
    tracker = IouTracker(min_hits=1)
    broken = [(5, 5, 5, 9), (9, 9, 5, 5), (0, 0, float("nan"), 9), (0, 0, np.inf, 9)]
    assert ids(tracker, 0, *broken, box(0)) == [-1, -1, -1, -1, 1]
    assert ids(tracker, PERIOD_NS, box(1), *broken) == [1, -1, -1, -1, -1]


def test_one_frame_objects_do_not_pile_up() -> None:
    tracker = IouTracker(min_hits=1)
    for k in range(3000):
        ids(tracker, k * PERIOD_NS, box(200 * (k % 50), 200 * (k % 7)))
    assert tracker.statistics().issued == 3000
    assert tracker.statistics().peak_live <= 32


def test_the_longest_lost_make_room_when_the_table_is_full() -> None:
    tracker = IouTracker(min_hits=1, max_tracks=3)
    ids(tracker, 0, box(0))
    ids(tracker, 1, box(100))
    ids(tracker, 2, box(200))
    assert ids(tracker, 3, box(300), box(200)) == [4, 3]
    assert ids(tracker, 4, box(100)) == [2]
    statistics = tracker.statistics()
    assert (statistics.live, statistics.capacity, statistics.evicted) == (3, 3, 1)


def test_what_finds_no_room_stays_untracked() -> None:
    tracker = IouTracker(min_hits=1, max_tracks=2)
    assert ids(tracker, 0, box(0), box(100), box(200)) == [1, 2, -1]
    assert tracker.statistics().evicted == 1


def test_closing_forgets_the_tracks_but_never_an_issued_id() -> None:
    tracker = IouTracker(min_hits=1)
    ids(tracker, 0, box(0))
    tracker.close()
    tracker.close()
    assert ids(tracker, 1, box(0)) == [2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"iou": 0.0}, "iou: must be above 0 and at most 1, got 0.0"),
        ({"iou": float("nan")}, "iou: must be above 0 and at most 1, got nan"),
        ({"max_age_ns": 0}, "max_age_ns: must be at least 1, got 0"),
        ({"min_hits": 0}, "min_hits: must be at least 1, got 0"),
        ({"max_tracks": 0}, "max_tracks: must be at least 1, got 0"),
    ],
)
def test_arguments_out_of_range_are_refused(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        IouTracker(**arguments)


coordinates = st.floats(-1e6, 1e6, width=32) | st.sampled_from([np.nan, np.inf])
frames = st.lists(
    st.tuples(
        st.integers(-2 * SECOND_NS, 2 * SECOND_NS),
        st.lists(
            st.tuples(
                st.tuples(coordinates, coordinates, coordinates, coordinates)
                | st.builds(box, st.integers(0, 300)),
                st.integers(0, 1),
            ),
            max_size=6,
        ),
    ),
    max_size=12,
)


@given(frames, st.integers(1, 3), st.integers(1, 5))
def test_whatever_comes_ids_are_unique_bounded_and_the_same_again(
    arrivals: list[tuple[int, list[tuple[Box, int]]]], min_hits: int, max_tracks: int
) -> None:
    def run() -> tuple[list[list[int]], int]:
        tracker = IouTracker(min_hits=min_hits, max_tracks=max_tracks)
        now_ns = 0
        seen: list[list[int]] = []
        for step_ns, objects in arrivals:
            now_ns += step_ns
            boxes, classes = [b for b, _ in objects], [c for _, c in objects]
            seen.append(ids(tracker, now_ns, *boxes, classes=classes))
            assert len(tracker.tracks) <= max_tracks
            assert np.isfinite(tracker.tracks.boxes()).all()
        return seen, tracker.statistics().issued

    seen, issued = run()
    assert run() == (seen, issued)
    assert [len(row) for row in seen] == [len(objects) for _, objects in arrivals]
    given_out = [[i for i in row if i != UNTRACKED] for row in seen]
    assert all(len(row) == len(set(row)) for row in given_out)
    assert {i for row in given_out for i in row} == set(range(1, issued + 1))


def unseen(tracker: IouTracker, at_ns: int) -> Frame:
    return tracker.process(frame(at_ns, None).with_changes(track_only=True), 0)


def test_a_track_only_frame_has_its_objects_where_their_speed_brought_them() -> None:
    tracker = IouTracker()
    for k in range(15):
        ids(tracker, k * PERIOD_NS, box(10 * k))
    out = unseen(tracker, 16 * PERIOD_NS)
    assert out.detections is not None
    np.testing.assert_allclose(out.detections.xyxy, [box(160)], atol=3)
    assert out.detections.track_id.tolist() == [1]
    np.testing.assert_allclose(out.detections.score, [0.9])
    assert (out.variant, out.looked_ns) == ("track_only", 14 * PERIOD_NS)


def test_a_frame_that_the_network_saw_rests_on_itself() -> None:
    tracker = IouTracker()
    out = tracker.process(frame(7, detections(box(0))), 0)
    assert (out.variant, out.looked_ns) == ("", 7)


def test_track_only_frames_end_no_track_and_confirm_none() -> None:
    tracker = IouTracker(min_hits=2)
    ids(tracker, 0, box(0))
    for k in (1, 2):
        found = unseen(tracker, k * PERIOD_NS).detections
        assert found is not None
        assert found.track_id.tolist() == [-1]
    assert ids(tracker, 3 * PERIOD_NS, box(0)) == [1]


def test_what_was_lost_already_is_not_expected_either() -> None:
    tracker = IouTracker(min_hits=1)
    ids(tracker, 0, box(0), box(300))
    ids(tracker, PERIOD_NS, box(0))
    found = unseen(tracker, 2 * PERIOD_NS).detections
    assert found is not None
    assert found.track_id.tolist() == [1]


@pytest.mark.parametrize("seen", [True, False])
def test_a_track_only_result_that_rests_on_nothing_recent_is_a_miss(
    seen: bool,
) -> None:
    tracker = IouTracker(track_only_max_age_ns=3 * PERIOD_NS)
    if seen:
        ids(tracker, 0, box(0))
        unseen(tracker, 3 * PERIOD_NS)
    with pytest.raises(FrameError) as caught:
        unseen(tracker, 3 * PERIOD_NS + 1)
    assert caught.value.reason is Reason.UNSEEN


def test_a_jump_in_time_leaves_a_track_only_frame_nothing_to_rest_on() -> None:
    tracker = IouTracker(max_age_ns=SECOND_NS, track_only_max_age_ns=5 * SECOND_NS)
    ids(tracker, 10 * SECOND_NS, box(0))
    with pytest.raises(FrameError):
        unseen(tracker, 8 * SECOND_NS)


# --- what befalls a source ------------------------------------------------------------


def ids_after(tracker: IouTracker, kind: EventKind, at_ns: int) -> list[int]:
    """The ids of the same box in the first frame after an event."""
    after = frame(at_ns, detections(box(0))).with_changes(events=(SourceEvent(kind),))
    found = tracker.process(after, 0).detections
    assert found is not None
    return [int(i) for i in found.track_id]


@pytest.mark.parametrize(
    "kind",
    [
        EventKind.LOOP,
        EventKind.DISCONTINUITY,
        EventKind.RESOLUTION,
        EventKind.ROTATION,
    ],
)
def test_nobody_is_taken_for_somebody_of_another_scene(kind: EventKind) -> None:
    tracker = IouTracker(min_hits=1)
    assert ids(tracker, 0, box(0)) == [1]
    assert ids_after(tracker, kind, PERIOD_NS) == [2]
    assert ids(tracker, 2 * PERIOD_NS, box(0)) == [2]


@pytest.mark.parametrize(
    "kind", [EventKind.DUPLICATE, EventKind.WRAP, EventKind.DAMAGE, EventKind.DECODING]
)
def test_what_leaves_the_scene_as_it_was_ends_no_track(kind: EventKind) -> None:
    tracker = IouTracker(min_hits=1)
    ids(tracker, 0, box(0))
    assert ids_after(tracker, kind, PERIOD_NS) == [1]


@pytest.mark.parametrize(("gap_ns", "then"), [(SECOND_NS // 2, 1), (2 * SECOND_NS, 2)])
def test_a_gap_ages_tracks_by_media_time(gap_ns: int, then: int) -> None:
    tracker = IouTracker(min_hits=1)
    ids(tracker, 0, box(0))
    assert ids_after(tracker, EventKind.GAP, gap_ns) == [then]


def test_boxes_in_pixels_of_another_size_are_not_compared() -> None:
    """Also when so much befell the source that the event itself was left out."""
    tracker = IouTracker(min_hits=1)
    sizes = [(640, 480), None, (640, 480), (320, 240), (320, 240)]
    found: list[int] = []
    for k, size in enumerate(sizes):
        seen = frame(k * PERIOD_NS, detections(box(0))).with_changes(size=size)
        out = tracker.process(seen, 0).detections
        assert out is not None
        found += out.track_id.tolist()
    assert found == [1, 1, 1, 2, 2]


def test_after_a_loop_a_track_only_frame_has_nothing_to_rest_on() -> None:
    tracker = IouTracker(min_hits=1)
    ids(tracker, 0, box(0))
    after = frame(PERIOD_NS, None).with_changes(
        track_only=True, events=(SourceEvent(EventKind.LOOP),)
    )
    with pytest.raises(FrameError) as caught:
        tracker.process(after, 0)
    assert caught.value.reason is Reason.UNSEEN
