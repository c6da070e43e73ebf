"""How near the drop without labels is to the drop with them.

    python benchmarks/models/mirror_against_labels.py

The small model that ships is made worse in eight ways: its weights rounded to so many
bits, with a scale for each channel or for the whole layer. Drawn scenes have exact
labels, so each is judged three ways: by labels, by what FP32 sees in the mirrored
picture (what the gate does without labels), and by FP32's own detections.
"""

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from edgepipe.cards import card_named
from edgepipe.evaluation import judge
from edgepipe.models.card import ModelCard, ModelFile
from edgepipe.models.detector import Detector
from edgepipe.models.evaluate.agreement import Boxes, truth_from
from edgepipe.models.evaluate.matching import Truth
from edgepipe.models.load import load_engine
from edgepipe.samples import Sample
from edgepipe.truth import FrameTruth, truth_of

WAYS = [(bits, True) for bits in (7, 6, 5, 4)] + [
    (bits, False) for bits in (8, 7, 6, 5)
]


class OwnDetections:
    """FP32's detections as the truth, for which it is always right."""

    name, sha256, notes = "its own detections", None, ()

    def __init__(self, card: ModelCard) -> None:
        self._score = card.score_threshold
        self._detector = Detector(
            card,
            load_engine(card, "fp32", requests=1, threads=1),
            score=0.05,
            iou=card.iou_threshold,
            max_detections=300,
            class_agnostic=card.class_agnostic,
        )

    def image_id(self, sample: Sample) -> int:
        """Counted from 1."""
        return sample.sequence + 1

    def category_ids(self) -> list[int]:
        """None is asked for."""
        return []

    def of(self, sample: Sample) -> Truth:
        """What FP32 finds in the very same picture."""
        (found,) = self._detector.detect(sample.image[np.newaxis])
        xyxy = sample.letterbox.to_captured(found.xyxy)
        return truth_from(Boxes(xyxy, found.score, found.class_id), self._score)


def rounded(source: Path, target: Path, bits: int, *, per_channel: bool) -> ModelFile:
    """A copy of a network with its convolutions' weights in so many bits."""
    model = onnx.load(source)
    weights = {node.input[1] for node in model.graph.node if node.op_type == "Conv"}
    for tensor in model.graph.initializer:
        if tensor.name not in weights:
            continue
        values = numpy_helper.to_array(tensor)
        axes = tuple(range(1, values.ndim)) if per_channel else None
        largest = np.abs(values).max(axis=axes, keepdims=per_channel)
        step = np.maximum(largest / (2 ** (bits - 1) - 1), 1e-9)
        rough = (np.round(values / step) * step).astype(np.float32)
        tensor.CopyFrom(numpy_helper.from_array(rough, tensor.name))
    onnx.save(model, target)
    return ModelFile("int8", target, None)


def drop(card: ModelCard, scenes: list[str], kind: str) -> float:
    """Mean drop over the scenes, in points."""
    own = OwnDetections(card) if kind == "own" else None
    found: list[float] = []
    for scene in scenes:
        truths: dict[str, FrameTruth | None] = {
            "labels": truth_of(scene, None, card),
            "mirror": None,
            "own": own,
        }
        found.append(judge(card, scene, labels=truths[kind]).drop)
    return float(np.mean(found))


def main() -> None:
    """Print one row for each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenes", type=int, default=12)
    parser.add_argument("--frames", type=int, default=40)
    args = parser.parse_args()
    scenes = [
        f"synthetic:?seed={20 + k}&width=640&height=384&objects=8&frames={args.frames}"
        for k in range(args.scenes)
    ]
    card, _ = card_named("scene-tiny")
    fp32 = next(file for file in card.files if file.precision == "fp32")
    int8 = next(file for file in card.files if file.precision == "int8")
    print("network                 labels  mirror     own")
    with tempfile.TemporaryDirectory() as folder:
        rows = [("INT8 as it ships", int8)] + [
            (
                f"{bits} bits, {'channel' if per_channel else 'layer'}",
                rounded(
                    fp32.path,
                    Path(folder) / f"{bits}{per_channel}.onnx",
                    bits,
                    per_channel=per_channel,
                ),
            )
            for bits, per_channel in WAYS
        ]
        for name, file in rows:
            one = replace(card, files=(file, fp32))
            drops = [drop(one, scenes, kind) for kind in ("labels", "mirror", "own")]
            print(f"{name:<22}" + "".join(f"{each:8.2f}" for each in drops), flush=True)


if __name__ == "__main__":
    main()
