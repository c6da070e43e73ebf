"""The same frames judged by pycocotools itself."""

import contextlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pycocotools.coco import COCO  # type: ignore[import-untyped, unused-ignore]
from pycocotools.cocoeval import COCOeval  # type: ignore[import-untyped, unused-ignore]

from edgepipe.models.evaluate.labels_coco import results_of
from edgepipe.models.evaluate.matching import Detected, Truth


def coco_precision(
    frames: Sequence[tuple[Detected, Truth]], classes: int
) -> NDArray[np.float64]:
    """(IoU, recalls, classes, ranges of area) precision; -1 without objects.

    There are 10, 101, as many as given, and 4.
    """
    found, truths = [each for each, _ in frames], [truth for _, truth in frames]
    annotations: list[Any] = [
        {
            "id": 0,
            "image_id": image,
            "category_id": int(truth.class_id[k]),
            "bbox": _xywh(truth.xyxy[k]),
            "area": float(truth.area[k]),
            "iscrowd": int(truth.crowd[k]),
        }
        for image, truth in enumerate(truths)
        for k in range(len(truth.xyxy))
    ]
    for number, annotation in enumerate(annotations):
        annotation["id"] = number + 1
    results: Any = [
        result
        for image, each in enumerate(found)
        for result in results_of(image, each, list(range(classes)))
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        truth_set: Any = COCO()
        truth_set.dataset = {
            "info": {},
            "images": [{"id": image} for image in range(len(truths))],
            "categories": [{"id": k, "name": str(k)} for k in range(classes)],
            "annotations": annotations,
        }
        truth_set.createIndex()
        judge = COCOeval(truth_set, truth_set.loadRes(results), "bbox")
        judge.evaluate()
        judge.accumulate()
    precision: NDArray[np.float64] = judge.eval["precision"][..., -1]
    return precision


def coco_ap(labels: Path, results: Path) -> float:
    """AP of a file of results against a file of labels, as pycocotools reads them."""
    with contextlib.redirect_stdout(io.StringIO()):
        truth: Any = COCO(str(labels))
        judge: Any = COCOeval(truth, truth.loadRes(str(results)), "bbox")
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    return float(judge.stats[0])


def _xywh(box: NDArray[np.generic]) -> list[float]:
    x1, y1, x2, y2 = (float(value) for value in box)
    return [x1, y1, x2 - x1, y2 - y1]
