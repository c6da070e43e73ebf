"""Three ways to INT8 side by side: edgepipe's, onnxruntime's own, NNCF's.

    python benchmarks/models/quantisers.py CARD CALIBRATION JUDGED [--frames 100]

All calibrate on the same images of CALIBRATION and are judged on the same frames of
JUDGED as the gate judges. ``edgepipe`` is `edgepipe model build` with no layer kept:
exact rewriting, ranges by percentile, scales in front of convolutions and pooling.
``+ joins`` quantises Concat, Resize and Add as well. ``onnxruntime`` is its
quantize_static as it comes but for symmetric signed activations and a scale for each
channel, ``u8`` the same with unsigned activations. ``nncf`` needs that package.
Time is processor time of one thread in OpenVINO, all files in turn.
"""

import argparse
import logging
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from edgepipe.cards import card_named
from edgepipe.judges import judge_of
from edgepipe.models.card import ModelFile
from edgepipe.models.load import LOADERS
from edgepipe.models.quantise.observe import network_input
from edgepipe.models.quantise.placement import Layer, layers_of
from edgepipe.models.quantise.ranges import METHODS
from edgepipe.models.quantise.write import write_int8
from edgepipe.models.self_check import probe_image
from edgepipe.quantisation import Quantisation
from edgepipe.samples import spread

JOINS = ("Concat", "Resize", "Add")
Write = Callable[[Quantisation, Path], None]


def edgepipe(work: Quantisation, path: Path) -> None:
    """As it is built."""
    table = work.calibrate("percentile", path.with_suffix(".json"))
    work.write(path, table)


def with_joins(work: Quantisation, path: Path) -> None:
    """Scales at what joins branches, too."""
    from edgepipe.models.quantise.observe import Observer

    joins = [
        Layer(node.name, node.op_type, name, "", 0)
        for node in work.network.graph.node
        if node.op_type in JOINS
        for name in node.input[: 1 if node.op_type == "Resize" else None]
    ]
    layers = (*layers_of(work.network), *joins)
    observer = Observer(work.network, {layer.reads for layer in layers}, work.card)
    for image in work.images:
        observer.look(image)
    counted = observer.histograms.items()
    ranges = {name: METHODS["percentile"](each) for name, each in counted}
    path.write_bytes(write_int8(work.network, layers, ranges).SerializeToString())


def onnxruntime(work: Quantisation, path: Path, *, signed: bool = True) -> None:
    """Its own static quantisation, every operator it knows."""
    tool: Any = import_module("onnxruntime.quantization")
    kind: Any = tool.QuantType
    prepared = path.with_suffix(".prepared")
    prepared.write_bytes(work.network.SerializeToString())

    class Images(tool.CalibrationDataReader):  # type: ignore[misc]
        """Feeds the images."""

        def __init__(self) -> None:
            self._inputs: Iterator[Any] = iter(_inputs(work))

        def get_next(self) -> Any:
            return next(self._inputs, None)

    tool.quantize_static(
        prepared,
        path,
        Images(),
        quant_format=tool.QuantFormat.QDQ,
        per_channel=True,
        activation_type=kind.QInt8 if signed else kind.QUInt8,
        weight_type=kind.QInt8,
        extra_options={"ActivationSymmetric": signed},
    )


def unsigned(work: Quantisation, path: Path) -> None:
    """The same with unsigned activations, which TensorRT refuses."""
    onnxruntime(work, path, signed=False)


def nncf(work: Quantisation, path: Path) -> None:
    """NNCF on the ONNX file, symmetric activations, with its bias correction."""
    tool: Any = import_module("nncf")
    onnx: Any = import_module("onnx")
    made = tool.quantize(
        work.network,
        tool.Dataset(_inputs(work)),
        preset=tool.QuantizationPreset.PERFORMANCE,
        subset_size=len(work.images),
    )
    onnx.save(made, path)


WAYS: dict[str, Write] = {
    "edgepipe": edgepipe,
    "edgepipe + joins": with_joins,
    "onnxruntime": onnxruntime,
    "onnxruntime u8": unsigned,
    "nncf": nncf,
}


def _inputs(work: Quantisation) -> list[dict[str, Any]]:
    name = work.card.input_name
    return [{name: network_input(work.card, image)} for image in work.images]


def main() -> None:
    """Make the files, judge them, time them."""
    logging.getLogger().setLevel(logging.ERROR)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("card")
    parser.add_argument("calibration")
    parser.add_argument("judged")
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--frames", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=100)
    args = parser.parse_args()
    card, _ = card_named(args.card)
    work = Quantisation(card, spread(card, [args.calibration], args.images), "a test")
    samples = list(spread(card, [args.judged], args.frames, between=True))
    with tempfile.TemporaryDirectory() as folder:
        engines = {"FP32": _engine(card, work.file)}
        for name, write in WAYS.items():
            path = Path(folder) / f"{len(engines)}.onnx"
            try:
                write(work, path)
            except ImportError as error:
                print(f"{name}: left out ({error})")
                continue
            engines[name] = _engine(card, ModelFile("int8", path, None))
        _print(card, engines, samples, args.rounds)


def _engine(card: Any, file: ModelFile) -> Any:
    alone = replace(card, files=(file,))
    return LOADERS["openvino"](alone, file, 1, 1, "measured", 1)


def _print(card: Any, engines: dict[str, Any], samples: Any, rounds: int) -> None:
    judge = judge_of(card, engines["FP32"], engines["FP32"], None)
    for sample in samples:
        judge.look(sample)
    times: dict[str, list[float]] = {name: [] for name in engines}
    image = probe_image(card.height, card.width)
    for number in range(rounds + 10):
        for name, engine in engines.items():
            begun_ns = time.process_time_ns()
            engine.infer(image)
            if number >= 10:
                times[name].append((time.process_time_ns() - begun_ns) / 1e6)
    for name, engine in engines.items():
        judge.again(engine, samples)
        drop = judge.drop(0)
        low, middle, high = np.percentile(times[name], [2.5, 50, 97.5])
        lost = (
            "nothing seen" if drop is None else f"{drop.drop:6.2f} ({drop.upper:.2f})"
        )
        print(f"{name:17} {middle:6.2f} [{low:.2f}, {high:.2f}] CPU ms, loses {lost}")


if __name__ == "__main__":
    main()
