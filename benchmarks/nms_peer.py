"""The other libraries of benchmarks/nms.py, in a process of their own.

    python benchmarks/nms_peer.py SCENES.npz

Imports nothing of edgepipe. Reads lines ``way scene times`` and answers each with one
line of JSON: the shortest time of so many calls in microseconds, and how many boxes
were kept; or why the way cannot be had here.
"""

import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

Output = NDArray[np.float32]
SCORE, IOU, MOST = 0.25, 0.45, 10_000


def likely(output: Output) -> tuple[NDArray[np.float32], ...]:
    """cx, cy, w, h, score and class of a YOLOv8 head's cells above the threshold.

    The fastest way in NumPy that is known to us: the maximum first, then its index for
    the few that are left.
    """
    best = output[4:].max(axis=0)
    kept = np.flatnonzero(best >= SCORE)
    return output[:4, kept].T, best[kept], output[4:, kept].argmax(axis=0)


def edges(boxes: NDArray[np.float32]) -> NDArray[np.float32]:
    """x1, y1, x2, y2 of cx, cy, w, h."""
    half = boxes[:, 2:] / 2
    found = np.concatenate([boxes[:, :2] - half, boxes[:, :2] + half], axis=1)
    return np.asarray(found, np.float32)


def opencv() -> Callable[[Output], int]:
    """cv2.dnn.NMSBoxesBatched."""
    cv2: Any = import_module("cv2")
    cv2.setNumThreads(1)

    def run(output: Output) -> int:
        boxes, score, class_id = likely(output)
        corner = np.concatenate([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, 2:]], axis=1)
        kept = cv2.dnn.NMSBoxesBatched(corner, score, class_id, SCORE, IOU)
        return len(kept)

    return run


def torchvision() -> Callable[[Output], int]:
    """torchvision.ops.batched_nms."""
    torch, ops = import_module("torch"), import_module("torchvision.ops")
    torch.set_num_threads(1)

    def run(output: Output) -> int:
        boxes, score, class_id = likely(output)
        with torch.inference_mode():
            kept = ops.batched_nms(
                torch.from_numpy(edges(boxes)),
                torch.from_numpy(score),
                torch.from_numpy(class_id),
                IOU,
            )
        return len(kept)

    return run


def supervision() -> Callable[[Output], int]:
    """supervision.Detections.with_nms."""
    sv = import_module("supervision")

    def run(output: Output) -> int:
        boxes, score, class_id = likely(output)
        found = sv.Detections(xyxy=edges(boxes), confidence=score, class_id=class_id)
        return len(found.with_nms(threshold=IOU))

    return run


def ultralytics() -> Callable[[Output], int]:
    """The non_max_suppression of ultralytics, which decodes as well."""
    torch = import_module("torch")
    torch.set_num_threads(1)
    nms = import_module("ultralytics.utils.nms").non_max_suppression

    def run(output: Output) -> int:
        with torch.inference_mode():
            found = nms(
                torch.from_numpy(output[None]), SCORE, IOU, max_det=MOST, max_nms=30_000
            )
        return len(found[0])

    return run


WAYS = {
    "cv2.dnn": opencv,
    "torchvision": torchvision,
    "supervision": supervision,
    "ultralytics": ultralytics,
}


def best_of(run: Callable[[Output], int], output: Output, times: int) -> dict[str, Any]:
    """The shortest of so many calls, and how many boxes were kept."""
    shortest, kept = float("inf"), 0
    for _ in range(times):
        begun = time.perf_counter()
        kept = run(output)
        shortest = min(shortest, time.perf_counter() - begun)
    return {"us": 1e6 * shortest, "kept": kept}


def main() -> None:
    """Answer what is asked on standard input."""
    # A library that greets whoever imports it does not speak between the answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    scenes = dict(np.load(sys.argv[1]))
    built: dict[str, Callable[[Output], int]] = {}
    for line in sys.stdin:
        way, scene, times = line.split()
        try:
            if way not in built:
                built[way] = WAYS[way]()
            answer = best_of(built[way], scenes[scene], int(times))
        except (ImportError, RuntimeError) as error:  # a torchvision of another torch
            answer = {"missing": str(error)}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
