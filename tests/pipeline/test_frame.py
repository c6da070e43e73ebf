import numpy as np
import pytest

from edgepipe.pipeline.detections import UNTRACKED, Detections
from edgepipe.pipeline.frame import Frame, Letterbox


def test_slack_is_what_is_left_until_the_deadline() -> None:
    frame = Frame("front", 7, 100, 200)
    assert frame.slack_ns(now_ns=150) == 50
    assert frame.slack_ns(now_ns=250) == -50


def test_a_changed_frame_leaves_the_first_one_alone() -> None:
    frame = Frame("front", 7, 100, 200)
    changed = frame.with_changes(variant="small")
    assert (frame.variant, changed.variant, changed.sequence) == ("", "small", 7)


def test_boxes_map_back_with_each_axis_on_its_own() -> None:
    letterbox = Letterbox(scale_x=0.5, scale_y=0.25, pad_x=10, pad_y=20)
    boxes = np.array([[10, 20, 60, 45]], np.float32)
    assert letterbox.to_captured(boxes).tolist() == [[0, 0, 100, 100]]


def test_detections_begin_untracked_and_keep_their_order() -> None:
    found = Detections.of(np.zeros((2, 4)), np.array([0.9, 0.5]), np.array([1, 0]))
    assert found.track_id.tolist() == [UNTRACKED, UNTRACKED]
    assert found.tracked(np.array([4, 5])).track_id.tolist() == [4, 5]
    assert found.score.dtype == np.float32
    assert len(Detections.empty()) == 0


def test_arrays_of_different_lengths_are_refused_with_their_shapes() -> None:
    with pytest.raises(ValueError, match=r"score: expected shape \(2,\), got \(1,\)"):
        Detections.of(np.zeros((2, 4)), np.zeros(1), np.zeros(2))
