from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from edgepipe.models.evaluate.agreement import (
    as_one_class,
    mirror_back,
    mirror_image,
    truth_from,
)
from edgepipe.models.evaluate.matching import Matches, Truth, match
from edgepipe.models.evaluate.verdict import (
    Drop,
    drop_of_agreement,
    drop_of_precision,
    why_not,
)
from tests.models.evaluate.drawn import Boxed, boxed

PASSABLE = Drop(50.0, 49.9, 0.1, 0.3, 100, 500, {}, 1, 1000, 0)


def frames_of(
    rng: np.random.Generator, missed: float, frames: int = 60, classes: int = 2
) -> list[Matches]:
    """Ten objects in each frame, of which some are missed."""
    made: list[Matches] = []
    for _ in range(frames):
        corner = np.arange(10)[:, np.newaxis] * [30.0, 0.0]
        boxes = np.concatenate([corner, corner + 20.0], axis=1)
        class_id = np.arange(10) % classes
        seen = rng.random(10) >= missed
        found = boxed(
            boxes[seen].tolist(),
            (0.5 + 0.5 * rng.random(10))[seen].tolist(),
            class_id[seen].tolist(),
        )
        made.append(match(found, Truth.of(boxes, class_id)))
    return made


def test_a_network_that_is_the_same_loses_nothing_with_certainty() -> None:
    frames = frames_of(np.random.default_rng(0), 0.2)
    drop = drop_of_precision(frames, frames)
    assert (drop.drop, drop.upper) == (0.0, 0.0)
    assert why_not(drop, 0.5) == ""


def test_what_is_missed_is_lost_and_the_bound_lies_above() -> None:
    rng = np.random.default_rng(0)
    drop = drop_of_precision(frames_of(rng, 0.1), frames_of(rng, 0.2))
    assert 5 < drop.drop < 15
    assert drop.drop < drop.upper < drop.drop + 6
    assert (drop.frames, drop.objects, set(drop.classes)) == (60, 600, {0, 1})
    assert "loses" in why_not(drop, 0.5)


def test_the_bound_comes_from_its_seed_alone() -> None:
    rng = np.random.default_rng(0)
    pair = frames_of(rng, 0.1), frames_of(rng, 0.15)
    bounds = [drop_of_precision(*pair, seed=seed).upper for seed in (4, 4, 5)]
    assert bounds[0] == bounds[1] != bounds[2]


def test_without_an_object_there_is_no_drop() -> None:
    empty = [match(boxed([], []), Truth.of([], []))]
    with pytest.raises(ValueError, match="no object"):
        drop_of_precision(empty, empty)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, ""),
        ({"drop": 0.7, "upper": 0.9}, "loses 0.70 points"),
        ({"upper": 0.51}, "may lose 0.51 points"),
        ({"upper": float("nan")}, "may lose nan"),
        ({"upper": float("inf")}, "may lose inf"),
        ({"objects": 99}, "cannot say: 99 objects in 100 frames"),
        ({"frames": 19, "drop": 2.0, "upper": 3.0}, "cannot say: 500 objects in 19"),
        ({"objects": 5, "int8": 20.0, "drop": 30.0}, "loses 30.00 points"),
        ({"frames": 19}, "cannot say: 500 objects in 19 frames"),
        ({"fp32": 9.9}, "cannot say: FP32 itself reaches 9.9"),
    ],
)
def test_why_a_network_does_not_pass(change: dict[str, float], words: str) -> None:
    assert why_not(replace(PASSABLE, **change), 0.5).startswith(  # type: ignore[arg-type]
        words if not words.startswith(("loses", "may")) else f"INT8 {words}"
    )


def test_too_few_objects_do_not_hide_that_all_are_gone() -> None:
    box = [[0.0, 0.0, 9.0, 9.0]]
    truth = Truth.of(box, [0])
    gone = drop_of_precision(
        [match(boxed(box, [0.9]), truth)], [match(boxed([], []), truth)]
    )
    assert why_not(gone, 0.5) == "INT8 loses 100.00 points (at most 0.5)"


def test_a_classifier_that_never_differs_may_still_differ_in_three_of_n() -> None:
    drop = drop_of_agreement(np.ones(100, np.bool_))
    assert (drop.drop, drop.upper) == (0.0, 3.0)
    assert why_not(drop, 0.5).startswith("INT8 may lose 3.00")
    assert why_not(drop_of_agreement(np.ones(600, np.bool_)), 0.5) == ""


def test_a_classifier_that_differs_loses_as_much() -> None:
    same = np.arange(200) % 10 != 0
    drop = drop_of_agreement(same)
    assert drop.drop == pytest.approx(10.0)
    assert drop.int8 == pytest.approx(90.0)
    assert drop.upper >= 10.0


def test_a_mirrored_picture_leaves_the_letterbox_where_it_is() -> None:
    image = np.arange(2 * 7 * 3, dtype=np.uint8).reshape(2, 7, 3)
    mirrored = mirror_image(image, 1, 4)
    np.testing.assert_array_equal(mirrored[:, 1:5], image[:, 4:0:-1])
    np.testing.assert_array_equal(mirrored[:, [0, 5, 6]], image[:, [0, 5, 6]])


def test_boxes_are_mirrored_back_to_where_they_were() -> None:
    found = boxed([[12, 5, 20, 9]], [0.5])
    (box,) = mirror_back(found, left=10, width=30).xyxy.tolist()
    assert box == [30.0, 5.0, 38.0, 9.0]
    again = mirror_back(mirror_back(found, 10, 30), 10, 30)
    np.testing.assert_array_equal(again.xyxy, found.xyxy)


def test_as_one_class_every_object_has_the_same_weight() -> None:
    box, other = [0.0, 0.0, 9.0, 9.0], [50.0, 0.0, 59.0, 9.0]
    truth = Truth.of([box] * 1 + [other], [0, 1])
    # The class decides what is a hit, not how much that is worth.
    frames = [match(boxed([box, other], [0.9, 0.8], [0, 0]), truth)]
    (pooled,) = as_one_class(frames)
    assert pooled.hit[0].tolist() == [True, False]
    assert pooled.objects.tolist() == [0, 0]


def decoded(head: NDArray[np.float32]) -> Boxed:
    """What a head of 80 classes shows from .25 on, as YOLOv8 lays it out."""
    best = head[4:].max(axis=0)
    rows = np.flatnonzero(best >= 0.25)
    centre, size = head[:2, rows].T, head[2:4, rows].T
    xyxy = np.concatenate([centre - size / 2, centre + size / 2], axis=1)
    class_id = head[4:, rows].argmax(axis=0).astype(np.int32)
    return Boxed(xyxy.astype(np.float32), best[rows], class_id)


def one_scale(head: NDArray[np.float32]) -> NDArray[np.float32]:
    """Boxes in pixels and scores in one tensor with one scale: the scores vanish."""
    scale = np.float32(np.abs(head).max() / 127)
    return np.asarray(np.round(head / scale) * scale, np.float32)


def two_scales(head: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.concatenate([one_scale(head[:4]), one_scale(head[4:])])


@pytest.mark.parametrize("copies", [1, 60])
def test_detections_that_vanish_fail_however_few_they_are(
    cases: Path, copies: int
) -> None:
    head = np.load(cases / "C05" / "head_84x200.npy").reshape(84, -1)
    fp32, lost, kept = (
        decoded(each) for each in (head, one_scale(head), two_scales(head))
    )
    assert [len(each.score) for each in (fp32, lost, kept)] == [5, 0, 5]
    truth = truth_from(fp32, 0.25)
    before, gone, there = ([match(each, truth)] * copies for each in (fp32, lost, kept))
    assert why_not(drop_of_precision(before, gone), 0.5).startswith("INT8 loses 100")
    # Boxes in steps of five pixels are worse, and found.
    assert drop_of_precision(before, there).int8 > 20
