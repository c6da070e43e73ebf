"""What a library reaches at best on this machine: a product as large as it likes.

The product runs in the same engine, with the same threads, as the network that is
judged by it. It is a chain of 1x1 convolutions, which are matrix products of 1024 x
1024 by 1024 x 1024.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import EdgepipeError
from edgepipe.models.card import Align, ColorOrder, ModelCard, ModelFile
from edgepipe.models.engine import AsyncEngine
from edgepipe.telemetry.clock import Clock

Load = Callable[[ModelCard, ModelFile], AsyncEngine]
"""The engine to measure, with one request."""

SIDE = 32
WIDTH = 1024
LAYERS = 4
OPERATIONS = 2 * LAYERS * (SIDE * SIDE) * WIDTH * WIDTH
"""In one image; the three channels before and the mean behind are 0.1 % of it."""
RUNS = 7
LEAST_NS = 500_000_000
"""So many runs or so long, whichever is more, after one to warm up; the shortest
counts: on a shared machine the others tell of the neighbours."""
INT8, F32 = "int8", "fp32"

PRODUCT_CARD = ModelCard(
    name="ceiling",
    files=(),
    input_name="images",
    height=SIDE,
    width=SIDE,
    color=ColorOrder.RGB,
    mean=(0.0, 0.0, 0.0),
    std=(255.0, 255.0, 255.0),
    align=Align.STRETCH,
    pad_value=(0, 0, 0),
    head="classifier",
    outputs=("mean",),
    class_names=(),
    score_threshold=0.0,
    iou_threshold=0.0,
    max_detections=1,
    class_agnostic=False,
    licence="",
    provenance="",
)


def ceilings(load: Load, precision: str, clock: Clock) -> dict[str, float | str]:
    """Operations a second by precision, or why that is not known.

    INT8 is tried with signed and with unsigned activations: libraries are fast with one
    of the two, and the better one is the ceiling.

    Args:
        load: The engine.
        precision: ``int8`` measures both precisions, ``fp32`` only that.
        clock: Of the machine.
    """
    found: dict[str, float | str] = {F32: _best(load, F32, (True,), clock)}
    if precision == INT8:
        found[INT8] = _best(load, INT8, (True, False), clock)
    return found


def _best(
    load: Load, precision: str, signs: tuple[bool, ...], clock: Clock
) -> float | str:
    try:
        times_ns = [_time_ns(load, precision, signed, clock) for signed in signs]
    except (EdgepipeError, ImportError) as error:
        return str(error)
    return OPERATIONS * 1e9 / min(times_ns)


def _time_ns(load: Load, precision: str, signed: bool, clock: Clock) -> int:
    """The shortest time of a run."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "product.onnx"
        path.write_bytes(product(precision, signed=signed))
        file = ModelFile(precision, path, None)
        engine = load(replace(PRODUCT_CARD, files=(file,)), file)
    try:
        images: NDArray[np.uint8] = np.random.default_rng(0).integers(
            0, 256, (1, SIDE, SIDE, 3), np.uint8
        )
        engine.infer(images)
        times_ns: list[int] = []
        while len(times_ns) < RUNS or sum(times_ns) < LEAST_NS:
            begun_ns = clock.now_ns()
            engine.infer(images)
            times_ns.append(clock.now_ns() - begun_ns)
    finally:
        engine.close()
    return min(times_ns)


def product(precision: str, *, signed: bool) -> bytes:
    """The ONNX file of the product.

    Raises:
        ImportError: The onnx package is missing.
    """
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(0)
    stored: dict[str, Any] = {}
    nodes = [helper.make_node("Conv", ["images", "w"], ["x0"])]
    stored["w"] = random.standard_normal((WIDTH, 3, 1, 1), np.float32)
    for layer in range(LAYERS):
        here, kernel = f"x{layer}", f"w{layer}"
        nodes.append(helper.make_node("Relu", [here], [f"{here}r"]))
        here = f"{here}r"
        weights = random.integers(-63, 64, (WIDTH, WIDTH, 1, 1)).astype(np.int8)
        if precision == INT8:
            scale, zero = f"s{layer}", f"z{layer}"
            stored[scale] = np.float32(0.03)
            stored[zero] = np.zeros((), np.int8 if signed else np.uint8)
            stored[f"{kernel}8"] = weights
            stored[f"{kernel}s"] = np.full(WIDTH, 1 / WIDTH, np.float32)
            stored[f"{kernel}z"] = np.zeros(WIDTH, np.int8)
            pair = [scale, zero]
            kernels = [f"{kernel}8", f"{kernel}s", f"{kernel}z"]
            nodes += [
                helper.make_node("QuantizeLinear", [here, *pair], [f"{here}q"]),
                helper.make_node("DequantizeLinear", [f"{here}q", *pair], [f"{here}d"]),
                helper.make_node("DequantizeLinear", kernels, [kernel], axis=0),
            ]
            here = f"{here}d"
        else:
            stored[kernel] = weights.astype(np.float32) / WIDTH
        nodes.append(helper.make_node("Conv", [here, kernel], [f"x{layer + 1}"]))
    nodes.append(helper.make_node("GlobalAveragePool", [f"x{LAYERS}"], ["mean"]))
    size = [1, 3, SIDE, SIDE]
    images = helper.make_tensor_value_info("images", TensorProto.FLOAT, size)
    mean = helper.make_tensor_value_info("mean", TensorProto.FLOAT, [1, WIDTH, 1, 1])
    tensors = [numpy_helper.from_array(np.asarray(v), k) for k, v in stored.items()]
    graph = helper.make_graph(nodes, "product", [images], [mean], tensors)
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    return bytes(model.SerializeToString())
