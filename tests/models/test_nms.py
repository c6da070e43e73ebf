"""Which boxes survive non-maximum suppression."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from edgepipe.models import nms
from edgepipe.models.nms import BLOCK, Kept, best_first, suppress

Box = tuple[float, float, float, float]


def naive(
    xyxy: list[Box], score: list[float], class_id: list[int], iou: float, agnostic: bool
) -> list[int]:
    """Greedy suppression, one pair at a time."""
    kept: list[int] = []
    for i in sorted(range(len(score)), key=lambda i: (-score[i], i)):
        rivals = (k for k in kept if agnostic or class_id[k] == class_id[i])
        if all(overlap(xyxy[i], xyxy[k]) <= iou for k in rivals):
            kept.append(i)
    return kept


def overlap(a: Box, b: Box) -> float:
    width = max(0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0, min(a[3], b[3]) - max(a[1], b[1]))
    areas = sum(max(0, x[2] - x[0]) * max(0, x[3] - x[1]) for x in (a, b))
    union = areas - width * height
    return width * height / union if union else 0.0


def as_boxes(xyxy: NDArray[Any]) -> list[Box]:
    return [(x1, y1, x2, y2) for x1, y1, x2, y2 in xyxy.tolist()]


def run(
    xyxy: list[Box],
    score: list[float],
    class_id: list[int],
    *,
    iou: float = 0.5,
    agnostic: bool = False,
    limit: int = 100_000,
) -> Kept:
    return suppress(
        np.reshape(np.array(xyxy, np.float32), (-1, 4)),
        np.array(score, np.float32),
        np.array(class_id, np.int32),
        iou_threshold=iou,
        max_detections=limit,
        class_agnostic=agnostic,
    )


# A small world, so that boxes meet, scores tie and overlaps hit the threshold.
edges = st.tuples(
    st.integers(-9, 9), st.integers(-9, 9), st.integers(-1, 7), st.integers(-1, 7)
).map(lambda b: (b[0], b[1], b[0] + b[2], b[1] + b[3]))
boxes = st.lists(
    st.tuples(edges, st.sampled_from([0.25, 0.5, 0.75, 1.0]), st.integers(0, 2)),
    max_size=2 * BLOCK,
)
thresholds = st.sampled_from([0.0, 0.2, 0.5, 0.6, 1.0])


@pytest.mark.parametrize(("block", "pairs"), [(64, 50_000), (4, 50_000), (4, 1)])
@given(boxes, thresholds, st.booleans())
@settings(deadline=None)
def test_the_boxes_of_the_greedy_rule_survive_in_its_order(
    block: int,
    pairs: int,
    found: list[tuple[Box, float, int]],
    iou: float,
    agnostic: bool,
) -> None:
    xyxy = [box for box, _, _ in found]
    score, class_id = [row[1] for row in found], [row[2] for row in found]
    with pytest.MonkeyPatch.context() as patch:
        # With small blocks few boxes are swept, with few pairs blocks go first.
        patch.setattr(nms, "BLOCK", block)
        patch.setattr(nms, "PAIRS", pairs)
        kept = run(xyxy, score, class_id, iou=iou, agnostic=agnostic)
    assert kept.indices.tolist() == naive(xyxy, score, class_id, iou, agnostic)


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(BLOCK + 1, 6 * BLOCK),
    spread=st.sampled_from([0.0, 5.0, 60.0, 600.0]),
    scale=st.sampled_from([1e-6, 1.0, 1e6]),
    far=st.sampled_from([0.0, 1e6, 1e30]),
    classes=st.sampled_from([1, 3, 80]),
    iou=thresholds,
)
@settings(max_examples=40, deadline=None)
def test_the_rule_holds_for_boxes_of_any_size_and_place(
    seed: int,
    n: int,
    spread: float,
    scale: float,
    far: float,
    classes: int,
    iou: float,
) -> None:
    random = np.random.default_rng(seed)
    corner = random.normal(0, spread, (n, 2))
    xyxy = np.concatenate([corner, corner + random.exponential(40, (n, 2))], axis=1)
    # One box far away stretches all that is measured by the whole.
    xyxy[-1] += far
    boxes = (xyxy * scale).astype(np.float32)
    score = random.integers(1, 50, n) / 64
    class_id = random.integers(0, classes, n)
    listed = as_boxes(boxes)
    kept = run(listed, score.tolist(), class_id.tolist(), iou=iou)
    wanted = naive(listed, score.tolist(), class_id.tolist(), iou, agnostic=False)
    assert kept.indices.tolist() == wanted


def test_a_box_at_exactly_the_threshold_stays() -> None:
    kept = run([(0, 0, 10, 10), (0, 0, 6, 10)], [0.9, 0.8], [0, 0], iou=0.6)
    assert kept.indices.tolist() == [0, 1]


def test_boxes_of_two_classes_stay_apart_even_left_of_the_image() -> None:
    xyxy: list[Box] = [(600, 0, 640, 40), (-41, 0, -1, 40)]
    assert run(xyxy, [0.9, 0.8], [0, 1]).indices.tolist() == [0, 1]


def test_boxes_without_area_remove_nothing() -> None:
    assert len(run([(5, 5, 5, 5)] * 3, [0.9, 0.8, 0.7], [0, 0, 0]).indices) == 3


def test_no_boxes_give_no_boxes() -> None:
    assert run([], [], []).indices.tolist() == []


@pytest.mark.parametrize("agnostic", [False, True])
def test_the_rule_holds_for_twenty_thousand_boxes(agnostic: bool) -> None:
    # Pairs of equal boxes far from each other pair, the twin in another class.
    n = 10_000
    corner = np.arange(n) % 100, np.arange(n) // 100
    one = np.stack([*corner, *corner], axis=1) * 50 + np.array([0, 0, 40, 40])
    xyxy = np.concatenate([one, one]).astype(np.float32)
    score = np.linspace(1.0, 0.5, 2 * n).astype(np.float32)
    class_id = (np.arange(2 * n) % 80 + np.arange(2 * n) // n).astype(np.int32)
    kept = suppress(
        xyxy,
        score,
        class_id,
        iou_threshold=0.5,
        max_detections=2 * n,
        class_agnostic=agnostic,
    )
    assert kept.indices.tolist() == list(range(n if agnostic else 2 * n))


def test_what_is_cut_after_suppression_is_counted() -> None:
    xyxy: list[Box] = [(i * 20.0, 0, i * 20 + 10, 10) for i in range(5)]
    xyxy.append((0, 0, 10, 9))
    kept = run(xyxy, [0.5, 0.6, 0.7, 0.8, 0.9, 0.4], [0] * 6, limit=3)
    assert (kept.indices.tolist(), kept.truncated) == ([4, 3, 2], 2)


@pytest.mark.parametrize("n", [1000, 20_000])
def test_a_crowd_on_one_place_leaves_one_box_whatever_its_size(n: int) -> None:
    random = np.random.default_rng(5)
    xyxy = np.array([100, 100, 200, 200]) + random.integers(0, 9, (n, 4))
    score = random.permutation(n)
    kept = suppress(
        xyxy.astype(np.float32),
        (score / n).astype(np.float32),
        np.zeros(n, np.int32),
        iou_threshold=0.5,
        max_detections=9,
    )
    assert kept.indices.tolist() == [int(score.argmax())]


def test_many_boxes_that_touch_in_a_crowd_are_those_of_the_plain_rule() -> None:
    random = np.random.default_rng(8)
    corner = random.integers(0, 300, (900, 2))
    xyxy = np.concatenate([corner, corner + random.integers(30, 90, (900, 2))], axis=1)
    listed = as_boxes(xyxy)
    score = (random.integers(0, 200, 900) / 256).tolist()
    kept = run(listed, score, [0] * 900, iou=0.45)
    assert kept.indices.tolist() == naive(listed, score, [0] * 900, 0.45, True)


@given(st.lists(st.sampled_from([0.25, 0.5, 0.75])), st.integers(1, 5))
def test_without_suppression_order_and_cut_are_the_same(
    score: list[float], limit: int
) -> None:
    apart: list[Box] = [(20 * k, 0, 20 * k + 9, 9) for k in range(len(score))]
    wanted = run(apart, score, [0] * len(score), limit=limit)
    kept = best_first(np.array(score, np.float32), limit)
    assert kept.indices.tolist() == wanted.indices.tolist()
    assert kept.truncated == wanted.truncated


def recorded(
    rows: list[list[float]], *, limit: int = 100, agnostic: bool = False
) -> Kept:
    xyxy = [(a, b, c, d) for a, b, c, d, *_ in rows]
    score, class_id = [row[4] for row in rows], [int(row[5]) for row in rows]
    return run(xyxy, score, class_id, limit=limit, agnostic=agnostic)


def test_a_recorded_picture_gives_the_agreed_boxes_in_both_modes(cases: Path) -> None:
    data = json.loads((cases / "C14/boxes.json").read_text())
    expected = json.loads((cases / "C14/expected.json").read_text())
    rows = data["boxes_x1y1x2y2_score_cls"]
    assert recorded(rows).indices.tolist() == expected["class_aware"]
    agnostic = recorded(rows, agnostic=True)
    assert agnostic.indices.tolist() == expected["class_agnostic"]


def test_a_recorded_crowd_is_cut_at_the_limit_and_says_by_how_many(cases: Path) -> None:
    rows = json.loads((cases / "C15/boxes400.json").read_text())
    expected = json.loads((cases / "C15/expected.json").read_text())
    kept = recorded(rows, limit=expected["max_det"])
    assert len(kept.indices) == expected["returned"]
    assert kept.truncated == expected["truncated"]
    assert rows[kept.indices[-1]][4] == pytest.approx(expected["lowest_score"])
