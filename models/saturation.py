"""Whether this processor cuts sums of INT8 products, and which files that hurts.

Without VNNI, x86 processors add two products of an unsigned and a signed byte in
sixteen bits. 255 x 127 twice does not fit. With weights of seven bits it always does.
"""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.card import ModelCard, ModelFile
from edgepipe.models.ceiling import PRODUCT_CARD, Load

SEVEN_BITS = 64
"""Largest weight of which two products fit: 2 x 255 x 64 < 32768."""
_CHANNELS = 64
_SIDE = 32


def exact_sum(unsigned: NDArray[np.uint8], signed: NDArray[np.int8]) -> int:
    """The sum of products as 32 bits hold it."""
    return int(unsigned.astype(np.int32) @ signed.astype(np.int32))


def pairwise_sum(unsigned: NDArray[np.uint8], signed: NDArray[np.int8]) -> int:
    """The same, where two neighbours at a time are added in 16 bits and cut there."""
    products = unsigned.astype(np.int32) * signed.astype(np.int32)
    pairs = np.add.reduceat(products, np.arange(0, len(products), 2))
    return int(np.clip(pairs, -(2**15), 2**15 - 1).sum())


def saturates(load: Load) -> bool:
    """Whether an engine cuts sums on this machine: one product tells.

    Raises:
        ImportError: The onnx package is missing.
        EdgepipeError: The engine failed.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / "white.onnx"
        path.write_bytes(_white())
        file = ModelFile("int8", path, None)
        card: ModelCard = replace(
            PRODUCT_CARD, files=(file,), height=_SIDE, width=_SIDE, outputs=("sum",)
        )
        engine = load(card, file)
    white: NDArray[np.uint8] = np.full((1, _SIDE, _SIDE, 3), 255, np.uint8)
    try:
        found = float(engine.infer(white)["sum"].mean())
    finally:
        engine.close()
    return found < 0.9 * _CHANNELS * 255 * 127


def _white() -> bytes:
    """Sums 255 x 127 over the channels at each place of a white image."""
    from onnx import TensorProto, helper, numpy_helper

    stored: dict[str, Any] = {
        "spread": np.full((_CHANNELS, 3, 1, 1), 255 / 3, np.float32),
        "one": np.float32(1),
        "zero": np.uint8(0),
        "bytes": np.full((_CHANNELS, _CHANNELS, 1, 1), 127, np.int8),
        "ones": np.ones(_CHANNELS, np.float32),
        "zeros": np.zeros(_CHANNELS, np.int8),
    }
    nodes = [
        helper.make_node("Conv", ["images", "spread"], ["x"]),
        helper.make_node("QuantizeLinear", ["x", "one", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "one", "zero"], ["d"]),
        helper.make_node("DequantizeLinear", ["bytes", "ones", "zeros"], ["w"], axis=0),
        helper.make_node("Conv", ["d", "w"], ["sum"]),
    ]
    shapes = {"images": [1, 3, _SIDE, _SIDE], "sum": [1, _CHANNELS, _SIDE, _SIDE]}
    images, total = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
    )
    tensors = [numpy_helper.from_array(np.asarray(v), k) for k, v in stored.items()]
    graph = helper.make_graph(nodes, "white", [images], [total], tensors)
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    return bytes(model.SerializeToString())


def wide_layers(path: Path) -> tuple[str, ...]:
    """Layers of unsigned activations by weights of more than seven bits.

    Raises:
        ImportError: The onnx package is missing.
        ModelError: The file cannot be read.
    """
    from edgepipe.models.inspect import reading
    from edgepipe.models.inspect.counting import is_layer

    graph = reading.graph_of(reading.read(path))
    wide: list[str] = []
    for node in filter(is_layer, graph.nodes):
        makers = [graph.producer.get(name) for name in node.inputs[:2]]
        if not all(each and each.op == "DequantizeLinear" for each in makers):
            continue
        stored = graph.constant(node.inputs[1])
        if stored is not None and np.abs(stored.astype(np.int32)).max() > SEVEN_BITS:
            wide.append(node.name or node.outputs[0])
    return tuple(wide)
