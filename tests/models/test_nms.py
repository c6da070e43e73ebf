"""Which boxes survive non-maximum suppression."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.models.nms import BLOCK, Kept, suppress

Box = tuple[int, int, int, int]


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
    st.integers(-9, 9), st.integers(-9, 9), st.integers(0, 7), st.integers(0, 7)
).map(lambda b: (b[0], b[1], b[0] + b[2], b[1] + b[3]))
boxes = st.lists(
    st.tuples(edges, st.sampled_from([0.25, 0.5, 0.75, 1.0]), st.integers(0, 2)),
    max_size=3 * BLOCK,
)


@given(boxes, st.sampled_from([0.0, 0.2, 0.5, 0.6, 1.0]), st.booleans())
def test_the_boxes_of_the_greedy_rule_survive_in_its_order(
    found: list[tuple[Box, float, int]], iou: float, agnostic: bool
) -> None:
    xyxy = [box for box, _, _ in found]
    score, class_id = [row[1] for row in found], [row[2] for row in found]
    kept = run(xyxy, score, class_id, iou=iou, agnostic=agnostic)
    assert kept.indices.tolist() == naive(xyxy, score, class_id, iou, agnostic)


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
    xyxy: list[Box] = [(i * 20, 0, i * 20 + 10, 10) for i in range(5)] + [(0, 0, 10, 9)]
    kept = run(xyxy, [0.5, 0.6, 0.7, 0.8, 0.9, 0.4], [0] * 6, limit=3)
    assert (kept.indices.tolist(), kept.truncated) == ([4, 3, 2], 2)


def recorded(
    rows: list[list[float]], *, limit: int = 100, agnostic: bool = False
) -> Kept:
    xyxy = [(int(a), int(b), int(c), int(d)) for a, b, c, d, *_ in rows]
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
