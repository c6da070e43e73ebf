"""Three ways to INT8 side by side: edgepipe's, onnxruntime's own, NNCF's.

    python benchmarks/models/quantisers.py CARD CALIBRATION JUDGED [--frames 100]

All calibrate on the same images of CALIBRATION and are judged on the same frames of
JUDGED as the gate judges. ``edgepipe`` is `edgepipe model build` with no layer kept:
exact rewriting, ranges by percentile, scales in front of convolutions and pooling.
``+ joins`` quantises Concat, Resize and Add as well. ``onnxruntime`` is its
quantize_static as it comes but for symmetric signed activations and a scale for each
channel, ``u8`` the same with unsigned activations. ``nncf`` needs that package.
Files given with ``--int8`` take part as they are. Time is processor time of a thread in
OpenVINO, all in turn; ``BF16`` is FP32 with OpenVINO's leave to round to 16 bits.
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
from numpy.typing import NDArray

from edgepipe.cards import card_named
from edgepipe.judges import judge_of
from edgepipe.models import openvino_engine
from edgepipe.models.card import ModelCard, ModelFile
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
        for name in (
            *node.input[: 1 if node.op_type == "Resize" else None],
            *node.output,
        )
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
    parser.add_argument("--int8", type=Path, action="append", default=[])
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=list(WAYS))
    parser.add_argument("--rounds", type=int, default=100)
    args = parser.parse_args()
    card, _ = card_named(args.card)
    work = Quantisation(card, spread(card, [args.calibration], args.images), "a test")
    samples = list(spread(card, [args.judged], args.frames, between=True))
    with tempfile.TemporaryDirectory() as folder:
        engines = {"FP32": _engine(card, work.file)}
        for path in args.int8:
            engines[path.name] = _engine(card, ModelFile("int8", path, None))
        for name in args.ways:
            write = WAYS[name]
            path = Path(folder) / f"{len(engines)}.onnx"
            try:
                write(work, path)
            except ImportError as error:
                print(f"{name}: left out ({error})")
                continue
            engines[name] = _engine(card, ModelFile("int8", path, None))
        _print(work, engines, samples, args.rounds)


class Rounded:
    """FP32 in 16 bits; only its time is of interest."""

    def __init__(self, card: ModelCard, file: ModelFile) -> None:
        options = {
            "NUM_STREAMS": 1,
            "INFERENCE_NUM_THREADS": 1,
            "INFERENCE_PRECISION_HINT": "bf16",
        }
        network = openvino_engine._compile(
            openvino_engine.ov.Core(), file, card, 1, options
        )
        self._request = network.create_infer_request()

    def infer(self, image: NDArray[np.uint8]) -> None:
        """Run it."""
        tensor = openvino_engine.ov.Tensor(image, shared_memory=True)
        self._request.set_input_tensor(tensor)
        self._request.start_async()
        self._request.wait()


def _engine(card: Any, file: ModelFile) -> Any:
    alone = replace(card, files=(file,))
    return LOADERS["openvino"](alone, file, 1, 1, "measured", 1)


def _print(
    work: Quantisation, engines: dict[str, Any], samples: Any, rounds: int
) -> None:
    card = work.card
    judge = judge_of(card, engines["FP32"], engines["FP32"], None)
    for sample in samples:
        judge.look(sample)
    runs = {"BF16": Rounded(card, work.file), **engines}
    times: dict[str, list[float]] = {name: [] for name in runs}
    image = probe_image(card.height, card.width)
    for number in range(rounds + 10):
        for name, engine in runs.items():
            begun_ns = time.process_time_ns()
            engine.infer(image)
            if number >= 10:
                times[name].append((time.process_time_ns() - begun_ns) / 1e6)
    for name, values in times.items():
        line = f"{name:17} {_interval(values)} CPU ms"
        if name in engines:
            judge.again(engines[name], samples)
            drop = judge.drop(0)
            if drop is not None:
                line += f", loses {drop.drop:6.2f} (at most {drop.upper:.2f}) points"
        print(line, flush=True)


def _interval(values: list[float]) -> str:
    """The median and its 95 % interval, by resampling."""
    random = np.random.default_rng(0)
    medians = np.median(random.choice(values, (2000, len(values))), axis=1)
    low, high = np.percentile(medians, [2.5, 97.5])
    return f"{np.median(values):6.2f} [{low:.2f}, {high:.2f}]"


if __name__ == "__main__":
    main()
