import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgepipe.models.evaluate.matching import (
    ALL_AREAS,
    LARGE,
    MEDIUM,
    SMALL,
    Matches,
    Truth,
    match,
)
from edgepipe.models.evaluate.precision import average_precisions, precision, rank
from tests.models.evaluate.coco_reference import coco_precision
from tests.models.evaluate.drawn import boxed, drawn_frame

CLASSES = 4


@pytest.mark.parametrize("seed", range(6))
def test_it_is_what_pycocotools_says_in_every_range_of_areas(seed: int) -> None:
    rng = np.random.default_rng(seed)
    frames = [drawn_frame(rng, CLASSES) for _ in range(25)]
    theirs = coco_precision(frames, CLASSES)
    for k, area in enumerate((ALL_AREAS, SMALL, MEDIUM, LARGE)):
        for ranking in rank([match(*frame, area=area) for frame in frames]):
            ours = average_precisions(ranking)[0]
            wanted = theirs[:, :, ranking.class_id, k].mean(axis=1)
            np.testing.assert_allclose(ours, wanted, rtol=0, atol=1e-12)


def test_its_means_are_those_of_pycocotools() -> None:
    rng = np.random.default_rng(9)
    frames = [drawn_frame(rng, CLASSES) for _ in range(30)]
    ours = precision([match(*frame) for frame in frames])
    theirs = coco_precision(frames, CLASSES)[..., 0]
    assert ours.ap == pytest.approx(theirs.mean(), abs=1e-12)
    assert ours.ap50 == pytest.approx(theirs[0].mean(), abs=1e-12)
    assert ours.ap75 == pytest.approx(theirs[5].mean(), abs=1e-12)


def test_only_the_best_hundred_of_a_class_count_as_in_pycocotools() -> None:
    rng = np.random.default_rng(3)
    corner = rng.integers(0, 400, (250, 2))
    boxes = np.concatenate([corner, corner + 20], axis=1).tolist()
    found = boxed(boxes, rng.random(250).tolist(), [0] * 150 + [1] * 100)
    truth = Truth.of(boxes, [0] * 150 + [1] * 100)
    theirs = coco_precision([(found, truth)], 2)[..., 0]
    assert precision([match(found, truth)]).ap == pytest.approx(
        theirs.mean(), abs=1e-12
    )


def test_classes_without_an_object_are_left_out_and_nothing_at_all_is_no_number() -> (
    None
):
    stray = match(boxed([[0, 0, 9, 9]], [0.9], [2]), Truth.of([], []))
    assert precision([stray]).ap is None
    assert precision([]).per_class == {}
    right = match(boxed([[0, 0, 9, 9]], [0.9]), Truth.of([[0, 0, 9, 9]], [0]))
    assert precision([stray, right]).per_class == {0: pytest.approx(1.0)}


@given(
    seed=st.integers(0, 10_000),
    weights=st.lists(st.integers(0, 3), min_size=8, max_size=8),
)
@settings(max_examples=40, deadline=None)
def test_a_frame_of_weight_three_is_that_frame_three_times(
    seed: int, weights: list[int]
) -> None:
    rng = np.random.default_rng(seed)
    # Equal scores of one frame would alternate when it is repeated.
    frames = [match(*drawn_frame(rng, 2, digits=9)) for _ in range(8)]
    repeated = [
        frame
        for frame, times in zip(frames, weights, strict=True)
        for _ in range(times)
    ]
    wanted = {each.class_id: average_precisions(each)[0] for each in rank(repeated)}
    for ranking in rank(frames):
        (ours,) = average_precisions(ranking, np.array([weights], float))
        if ranking.class_id in wanted:
            np.testing.assert_allclose(ours, wanted[ranking.class_id], atol=1e-12)
        else:
            assert np.isnan(ours).all()


def test_many_weightings_at_once_are_each_what_it_is_alone() -> None:
    rng = np.random.default_rng(1)
    frames = [match(*drawn_frame(rng, 1)) for _ in range(10)]
    (ranking,) = rank(frames)
    weights = rng.integers(0, 3, (50, 10)).astype(float)
    together = average_precisions(ranking, weights)
    alone = [average_precisions(ranking, weights[k : k + 1])[0] for k in range(50)]
    np.testing.assert_array_equal(together, alone)


def test_a_frame_without_detections_lowers_the_recall() -> None:
    seen = match(boxed([[0, 0, 9, 9]], [0.9]), Truth.of([[0, 0, 9, 9]], [0]))
    missed: Matches = match(boxed([], []), Truth.of([[0, 0, 9, 9]], [0]))
    assert precision([seen, missed]).ap == pytest.approx(51 / 101)
