"""The same network, rewritten so that it quantises and executes well.

Every rewriting is exact: the outputs differ by rounding in FP32 at most.
"""

import logging
import tempfile
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from edgepipe.errors import ModelError
from edgepipe.models.quantise.focus import fold_focus
from edgepipe.models.quantise.onnx_library import import_onnx

onnx: Any = import_onnx()

OPSET = 17
"""What INT8 files are written in: the first with per-channel scales is 13, and all of
OpenVINO, onnxruntime and TensorRT 8.6 and later read 17."""
QUANTISED = frozenset({"QuantizeLinear", "DequantizeLinear"})


def prepare(source: Path) -> Any:
    """An onnx.ModelProto that computes what the file computes.

    Constants are computed, weights stored in FP16 are FP32 again, a batch norm is part
    of its convolution, each node has a name of its own, and a space-to-depth made of
    slices is part of the convolution that follows it.

    Raises:
        ModelError: The file is no FP32 network, or not one that can be converted.
    """
    try:
        model = onnx.load(str(source))
    except Exception as error:  # protobuf's own errors have no common base
        raise ModelError(
            f"{source}: not an ONNX model: {_first_line(error)}"
        ) from error
    already = sum(node.op_type in QUANTISED for node in model.graph.node)
    if already:
        raise ModelError(
            f"{source}: is quantised already ({already} QuantizeLinear and"
            f" DequantizeLinear nodes): INT8 is made from the FP32 file"
        )
    # Both first: onnxruntime refuses two nodes of one name, and would turn the slices
    # into another pattern.
    _name_nodes(model.graph)
    try:
        fold_focus(model.graph)
    except ValueError as error:
        raise ModelError(
            f"{source}: a constant is not what it says: {_first_line(error)}"
        ) from error
    model = _in_opset(_folded(model, source), source)
    _require_finite(model.graph, source)
    _name_nodes(model.graph)
    return onnx.shape_inference.infer_shapes(model)


def _folded(model: Any, source: Path) -> Any:
    """Constants computed and batch norms folded, by onnxruntime."""
    ort: Any = import_module("onnxruntime")
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "folded.onnx"
        options.optimized_model_filepath = str(target)
        try:
            ort.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime's errors have no common base
            raise ModelError(
                f"{source}: onnxruntime cannot load it: {_first_line(error)}"
            ) from error
        return onnx.load(str(target))


def _in_opset(model: Any, source: Path) -> Any:
    """In the operator set that the INT8 file is written in."""
    version = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    # What onnxruntime declares besides its own operators is never used.
    used = {node.domain for node in model.graph.node}
    for entry in [o for o in model.opset_import if o.domain not in (used | {""})]:
        model.opset_import.remove(entry)
    if version < OPSET:
        logging.getLogger("onnx").setLevel(logging.ERROR)
        try:
            model = onnx.version_converter.convert_version(model, OPSET)
        except Exception as error:  # the converter's errors have no common base
            raise ModelError(
                f"{source}: cannot be converted from operator set {version} to {OPSET}:"
                f" {_first_line(error)}"
            ) from error
    model.ir_version = min(model.ir_version, 10)
    return model


def _require_finite(graph: Any, source: Path) -> None:
    """Refuse weights that no scale can hold."""
    layers = (n for n in graph.node if n.op_type in ("Conv", "Gemm", "MatMul"))
    read = {name: node.name for node in layers for name in node.input}
    for tensor in graph.initializer:
        if tensor.name in read:
            values = onnx.numpy_helper.to_array(tensor)
            if not np.isfinite(values).all():
                raise ModelError(
                    f"{source}: layer {read[tensor.name]!r} has NaN or infinity among"
                    f" its weights: train or export it again"
                )


def _name_nodes(graph: Any) -> None:
    """Give each node a name of its own: layers are named in tables and cards."""
    seen: Counter[str] = Counter(node.name for node in graph.node)
    for index, node in enumerate(graph.node):
        if not node.name or seen[node.name] > 1:
            node.name = f"{node.op_type}_{index}"


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
