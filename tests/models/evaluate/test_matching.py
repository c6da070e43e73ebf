import numpy as np

from edgepipe.models.evaluate.agreement import truth_from
from edgepipe.models.evaluate.matching import SMALL, Truth, match
from tests.models.evaluate.drawn import boxed

BOX = [0.0, 0.0, 10.0, 10.0]


def test_the_surer_of_two_detections_takes_the_object() -> None:
    judged = match(boxed([BOX, BOX], [0.4, 0.9]), Truth.of([BOX], [0]))
    assert judged.score.tolist() == [np.float32(0.9), np.float32(0.4)]
    assert judged.hit[0].tolist() == [True, False]
    assert not judged.ignored.any()


def test_an_overlap_is_a_hit_up_to_the_threshold_that_it_reaches() -> None:
    found = boxed([[0, 0, 10, 6]], [0.9])
    assert match(found, Truth.of([BOX], [0])).hit[:, 0].tolist() == (
        [True] * 3 + [False] * 7
    )


def test_a_detection_of_another_class_is_no_hit() -> None:
    assert not match(boxed([BOX], [0.9], [1]), Truth.of([BOX], [0])).hit.any()


def test_an_ignored_object_takes_one_detection_and_a_crowd_takes_all() -> None:
    found = boxed([BOX, BOX], [0.9, 0.8])
    once = match(found, Truth.of([BOX], [0], ignore=[True]))
    assert once.ignored[0].tolist() == [True, False]
    always = match(found, Truth.of([BOX], [0], crowd=[True]))
    assert always.ignored[0].tolist() == [True, True]
    assert len(once.objects) == len(always.objects) == 0


def test_an_object_that_counts_is_taken_before_one_that_is_ignored() -> None:
    near = [0.0, 0.0, 10.0, 8.0]
    judged = match(boxed([BOX], [0.9]), Truth.of([BOX, near], [0, 0], ignore=[1, 0]))
    # At .85 and above only the ignored one fits.
    assert judged.ignored[:, 0].tolist() == [False] * 7 + [True] * 3
    assert judged.hit.all()


def test_what_is_of_another_size_is_ignored() -> None:
    large = [0.0, 0.0, 90.0, 90.0]
    judged = match(boxed([BOX, large], [0.9, 0.8]), Truth.of([BOX], [0]), area=SMALL)
    assert judged.ignored[0].tolist() == [False, True]


def test_boxes_without_area_hit_nothing_and_break_nothing() -> None:
    point = [5.0, 5.0, 5.0, 5.0]
    judged = match(boxed([point], [0.9]), Truth.of([point], [0]))
    assert not judged.hit.any()


def test_detections_below_the_working_score_are_neither_missed_nor_invented() -> None:
    other = [50.0, 0.0, 60.0, 10.0]
    truth = truth_from(boxed([BOX, other], [0.46, 0.44]), working_score=0.45)
    missed = match(boxed([BOX], [0.6]), truth)
    shown = match(boxed([BOX, other], [0.6, 0.47]), truth)
    assert missed.objects.tolist() == shown.objects.tolist() == [0]
    assert shown.ignored[0].tolist() == [False, True]
