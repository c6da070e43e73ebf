"""Decoding a YOLO head and NMS, on one core: edgepipe's against other libraries'.

    python benchmarks/nms.py --peers /path/to/venv/bin/python

The environment of the peers needs numpy, opencv-python-headless, torch, torchvision,
supervision and ultralytics (AGPL: it is run in a process of its own, and nothing of it
is imported here); what is missing there is left out. Scenes are drawn: objects of 80
classes with six likely cells each, for 0, 50, 300 and 1,000 cells above the threshold;
and harder ones, of one class, with 1,000 and more. All ways take turns, again and
again: what else the machine does hits all alike. A turn's time is the shortest of ten
calls; the table has the median of the turns and, in brackets, the least and the most,
in microseconds, and in parentheses how many boxes are kept.
"""

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from nms_peer import IOU as IOU
from nms_peer import MOST, best_of
from nms_peer import SCORE as SCORE
from numpy.typing import NDArray

from edgepipe.models.card import Align, ColorOrder, ModelCard
from edgepipe.models.heads_yolo import YoloV8Head
from edgepipe.models.nms import suppress

CLASSES = 80
PEERS = ("cv2.dnn", "torchvision", "supervision", "ultralytics")
CALLS = 10
WARM_UP = 2
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

Output = NDArray[np.float32]


def a_card(side: int) -> ModelCard:
    """Of a YOLOv8 head whose input has this side."""
    return ModelCard(
        name="drawn",
        files=(),
        input_name="images",
        height=side,
        width=side,
        color=ColorOrder.RGB,
        mean=(0.0, 0.0, 0.0),
        std=(1.0, 1.0, 1.0),
        align=Align.CENTER,
        pad_value=(0, 0, 0),
        head="yolov8",
        outputs=("out",),
        class_names=tuple(map(str, range(CLASSES))),
        score_threshold=SCORE,
        iou_threshold=IOU,
        max_detections=MOST,
        class_agnostic=False,
        licence="",
        provenance="",
    )


def scene(
    side: int, likely: int, *, each: int = 6, one_class: bool = False, seed: int = 0
) -> Output:
    """(84, cells) of a head in which so many cells are above the threshold.

    Args:
        side: Of the input in pixels: 640 has 8,400 cells, 320 has 2,100.
        likely: How many cells.
        each: How many of them belong to one object, a few pixels apart.
        one_class: Whether all objects are of one class.
        seed: Of the drawing.
    """
    random = np.random.default_rng(seed)
    cells = sum((side // stride) ** 2 for stride in (8, 16, 32))
    output = random.uniform(0, 0.2, (4 + CLASSES, cells)).astype(np.float32)
    objects = -(-likely // each)
    centre = random.uniform(0, side, (objects, 2))
    size = random.uniform(0.03, 0.15, (objects, 2)) * side
    class_id = np.zeros(objects, int)
    if not one_class:
        class_id = random.integers(0, CLASSES, objects)
    of = np.repeat(np.arange(objects), each)[:likely]
    places = random.choice(cells, likely, replace=False)
    jitter = random.normal(0, 0.05, (2, likely, 2)) * size[of]
    output[:2, places] = (centre[of] + jitter[0]).T
    output[2:4, places] = np.abs(size[of] + jitter[1]).T
    output[4 + class_id[of], places] = random.uniform(0.3, 0.95, likely)
    return output


def edgepipe(side: int) -> Callable[[Output], int]:
    """The head of edgepipe, with its check for NaN, and its NMS."""
    head = YoloV8Head(a_card(side))

    def run(output: Output) -> int:
        found = head.decode({"out": output[np.newaxis]}, 0, SCORE)
        kept = suppress(
            found.xyxy,
            found.score,
            found.class_id,
            iou_threshold=IOU,
            max_detections=MOST,
        )
        return len(kept.indices)

    return run


class Peers:
    """The process that runs the other libraries."""

    def __init__(self, python: str, scenes: Path) -> None:
        script = Path(__file__).with_name("nms_peer.py")
        self._process = subprocess.Popen(
            [python, str(script), str(scenes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **ONE_THREAD, "PYTHONPATH": ""},
        )

    def __enter__(self) -> "Peers":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.wait()

    def best_of(self, way: str, name: str, times: int) -> dict[str, Any]:
        """As :func:`nms_peer.best_of`, of a scene by name."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{way} {name} {times}\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


def scenes() -> dict[str, Output]:
    """Every scene by its name: cells, likely cells, and what is hard about it."""
    drawn = {
        f"{cells}/{likely}": scene(side, likely)
        for cells, side in ((8400, 640), (2100, 320))
        for likely in (0, 50, 300, 1000)
    }
    drawn["8400/1000-one-class"] = scene(640, 1000, one_class=True)
    drawn["8400/3000-one-class"] = scene(640, 3000, one_class=True)
    drawn["8400/1000-one-object"] = scene(640, 1000, each=1000)
    return drawn


def measure(rounds: int, python: str) -> Iterator[tuple[str, str, list[float], int]]:
    """Scene, way, microseconds of each turn, and how many boxes it keeps."""
    drawn = scenes()
    ours = {side: edgepipe(side) for side in (640, 320)}
    times: dict[tuple[str, str], list[float]] = {}
    kept: dict[tuple[str, str], int] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scenes.npz"
        np.savez(path, allow_pickle=False, **drawn)
        with Peers(python, path) as peers:
            for turn in range(rounds + WARM_UP):
                for name, output in drawn.items():
                    side = 640 if output.shape[1] == 8400 else 320
                    for way in ("edgepipe", *PEERS):
                        if way == "edgepipe":
                            answer = best_of(ours[side], output, CALLS)
                        else:
                            answer = peers.best_of(way, name, CALLS)
                        if "us" in answer and turn >= WARM_UP:
                            times.setdefault((name, way), []).append(answer["us"])
                            kept[name, way] = answer["kept"]
    for (name, way), turns in times.items():
        yield name, way, turns, kept[name, way]


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peers", required=True, help="python of the peers' venv")
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    os.environ.update(ONE_THREAD)
    rows: dict[str, dict[str, str]] = {}
    for name, way, turns, kept in measure(args.rounds, args.peers):
        spread = f"{min(turns):.0f}, {max(turns):.0f}"
        cell = f"{np.median(turns):.0f} [{spread}] ({kept})"
        rows.setdefault(name, {})[way] = cell
    ways = ("edgepipe", *PEERS)
    print(f"| cells/likely | {' | '.join(ways)} |")
    print(f"| --- |{' --- |' * len(ways)}")
    for name, cells in rows.items():
        print(f"| {name} | {' | '.join(cells.get(way, '-') for way in ways)} |")


if __name__ == "__main__":
    main()
