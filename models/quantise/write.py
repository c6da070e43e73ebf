"""Writing INT8: QuantizeLinear and DequantizeLinear around the layers that have it.

onnxruntime's quantiser writes them (why that one: docs/quantisation.md); ranges and
layers are ours.
"""

import copy
import logging
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from edgepipe.errors import ModelError
from edgepipe.models.quantise.placement import WEIGHTED, Layer


def write_int8(
    model: Any,
    layers: Sequence[Layer],
    ranges: Mapping[str, float],
    *,
    per_channel: bool = True,
    weight_bits: int = 8,
) -> Any:
    """The INT8 version of a prepared network, as an onnx.ModelProto.

    Activations are symmetric signed INT8 with one scale, which is the only kind that
    TensorRT takes; weights are symmetric signed INT8 with a scale for each channel. A
    layer's output is not quantised before its activation function: engines compute
    both in one go.

    Args:
        model: From :func:`edgepipe.models.quantise.prepare.prepare`; is not changed.
        layers: Those that become INT8.
        ranges: Largest value that each layer's input shall hold, by tensor.
        per_channel: False: one scale for all of a layer's weights.
        weight_bits: 7 keeps processors without VNNI from overflowing when they add two
            products in sixteen bits.

    Raises:
        ModelError: A range is missing, or the quantiser failed.
    """
    if weight_bits not in (7, 8):
        raise ValueError(f"weights have 7 or 8 bits, not {weight_bits}")
    missing = sorted({layer.reads for layer in layers} - set(ranges))
    if missing:
        raise ModelError(f"no range for tensor {', '.join(map(repr, missing))}")
    quantization: Any = import_module("onnxruntime.quantization")
    type_: Any = quantization.QuantType
    quantizer = quantization.QDQQuantizer(
        copy.deepcopy(model),
        per_channel,
        weight_bits == 7,
        type_.QInt8,
        type_.QInt8,
        _tensors_data(layers, ranges),
        [layer.name for layer in layers],
        [],
        sorted({layer.kind for layer in layers}),
        {
            "ActivationSymmetric": True,
            "WeightSymmetric": True,
            "OpTypesToExcludeOutputQuantization": list(WEIGHTED),
        },
    )
    quieter, level = logging.getLogger(), logging.getLogger().level
    quieter.setLevel(logging.ERROR)
    try:
        quantizer.quantize_model()
    except Exception as error:  # the quantiser's errors have no common base
        raise ModelError(f"the network cannot be written as INT8: {error}") from error
    finally:
        quieter.setLevel(level)
    written: Any = quantizer.model.model
    written.producer_name = "edgepipe"
    _sort(written.graph)
    return written


def _sort(graph: Any) -> None:
    """Each node behind those that it reads, as ONNX wants it; in place.

    The quantiser appends what it adds, and not every reader puts up with that.
    """
    makers = {name: node for node in graph.node for name in node.output}
    ordered: list[Any] = []
    placed: set[str] = set()
    for node in graph.node:
        # Depth first without recursion: a network is deeper than Python's stack.
        waiting = [node]
        while waiting:
            wanted = [makers[n] for n in waiting[-1].input if n in makers]
            missing = [each for each in wanted if each.output[0] not in placed]
            if missing:
                waiting += missing
                continue
            ready = waiting.pop()
            if ready.output[0] not in placed:
                placed.add(ready.output[0])
                ordered.append(ready)
    sorted_ = [copy.deepcopy(node) for node in ordered]
    del graph.node[:]
    graph.node.extend(sorted_)


def note_origin(model: Any, facts: Mapping[str, str]) -> None:
    """Write into a file what it was made of, as ``edgepipe.NAME`` in its metadata."""
    del model.metadata_props[:]
    for name, value in sorted(facts.items()):
        entry = model.metadata_props.add()
        entry.key, entry.value = f"edgepipe.{name}", value


def _tensors_data(layers: Sequence[Layer], ranges: Mapping[str, float]) -> Any:
    """The ranges in the quantiser's own form."""
    # onnxruntime 1.23, the last for Python 3.10, has these names here only.
    calibrate: Any = import_module("onnxruntime.quantization.calibrate")
    data = {
        name: calibrate.TensorData(
            lowest=np.float32(-ranges[name]), highest=np.float32(ranges[name])
        )
        for name in {layer.reads for layer in layers}
    }
    return calibrate.TensorsData(calibrate.CalibrationMethod.MinMax, data)
