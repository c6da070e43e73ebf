"""What of an ONNX file TensorRT can take, found out and put right before it is asked.

TensorRT reads QuantizeLinear and DequantizeLinear with signed bytes and zero points of
0, and no other integers. Quantisers write biases as 32-bit integers: those become what
they stand for, with the same numbers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import EngineError, ModelError
from edgepipe.models.shape_profile import Free

_PAIR = ("QuantizeLinear", "DequantizeLinear")
_HEAVY = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_NAMED = 3
"""So many nodes are named in a message; of the others the number is said."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A network as TensorRT takes it."""

    data: bytes
    """An ONNX model."""
    inputs: dict[str, tuple[Free, ...]]
    """Shape of each input; names are free dimensions."""
    int8_layers: int
    """Convolutions and matrix products whose both operands are quantised."""
    heavy_layers: int
    """All convolutions and matrix products."""
    folded_biases: int
    """How many biases were written as integers."""

    @property
    def precision(self) -> str:
        """``int8 (37 of 37 layers)`` or ``fp32``."""
        if not self.int8_layers:
            return "fp32"
        return f"int8 ({self.int8_layers} of {self.heavy_layers} layers)"


def prepare(data: bytes, name: str, folder: Path | None = None) -> Prepared:
    """Read an ONNX model for TensorRT.

    Args:
        data: The file.
        name: What to call it in messages.
        folder: Where other files with weights lie; None: there are none.

    Raises:
        ModelError: It is no ONNX model, or is quantised in a way that TensorRT refuses;
            the message names the nodes.
        EngineError: The ``onnx`` package is missing.
    """
    onnx = _import_onnx()
    model = _parse(onnx, data, name)
    try:
        onnx.load_weights(model, str(folder or ""))
        return _prepare(onnx, model, name)
    except (OSError, TypeError, ValueError, onnx.wrong) as error:
        reason = " ".join(str(error).split())
        raise ModelError(f"{name}: cannot read its weights: {reason}") from error


def inputs_of(path: Path) -> dict[str, tuple[Free, ...]]:
    """Shape of each input of a file; names are free dimensions.

    Raises:
        ModelError: It cannot be read or is no ONNX model.
        EngineError: The ``onnx`` package is missing.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise ModelError(f"{path}: cannot read the model file: {reason}") from error
    return dict(_inputs(_parse(_import_onnx(), data, str(path))))


def _parse(onnx: "_Onnx", data: bytes, name: str) -> Any:
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except onnx.google_decode_error as error:
        raise ModelError(f"{name}: not an ONNX model, or cut short") from error
    return model


class _Onnx:
    """The parts of the onnx package that are needed."""

    def __init__(self) -> None:
        package = import_module("onnx")
        self.numpy: Any = import_module("onnx.numpy_helper")
        self.ModelProto: Any = package.ModelProto
        data: Any = import_module("onnx.external_data_helper")
        self.load_weights: Any = data.load_external_data_for_model
        checker: Any = import_module("onnx.checker")
        self.wrong: type[Exception] = checker.ValidationError
        message: Any = import_module("google.protobuf.message")
        self.google_decode_error: type[Exception] = message.DecodeError


def _import_onnx() -> _Onnx:
    try:
        return _Onnx()
    except ImportError as error:
        raise EngineError(
            f"onnx cannot be imported ({error}): pip install 'edgepipe[tensorrt]'"
        ) from error


def _prepare(onnx: _Onnx, model: Any, name: str) -> Prepared:
    constants = {
        tensor.name: onnx.numpy.to_array(tensor) for tensor in model.graph.initializer
    }
    for node in model.graph.node:
        if node.op_type == "Constant":
            for attribute in node.attribute:
                if attribute.name == "value":
                    constants[node.output[0]] = onnx.numpy.to_array(attribute.t)
    _require_signed(model, constants, name)
    folded = _fold_biases(onnx, model, constants)
    heavy, quantised = _count(model)
    return Prepared(
        model.SerializeToString(), dict(_inputs(model)), quantised, heavy, folded
    )


def _inputs(model: Any) -> Iterator[tuple[str, tuple[Free, ...]]]:
    constants = {tensor.name for tensor in model.graph.initializer}
    for value in model.graph.input:
        if value.name not in constants:
            shape = value.type.tensor_type.shape
            yield (
                value.name,
                tuple(
                    int(size.dim_value)
                    if size.HasField("dim_value")
                    else str(size.dim_param) or None
                    for size in shape.dim
                ),
            )


# --- quantisation that TensorRT does not know ---------------------------------------


def _require_signed(model: Any, constants: dict[str, NDArray[Any]], name: str) -> None:
    wrong = [
        f"{node.name or node.output[0]!r} {problem}"
        for node in model.graph.node
        if node.op_type in _PAIR
        and node.input
        and (problem := _problem(node, constants))
    ]
    if wrong:
        more = len(wrong) - _NAMED
        others = f" and {more} more" if more > 0 else ""
        raise ModelError(
            f"{name}: TensorRT takes signed INT8 with zero points of 0 only: "
            f"{'; '.join(wrong[:_NAMED])}{others}; quantise with symmetric signed "
            "activations and weights"
        )


def _problem(node: Any, constants: dict[str, NDArray[Any]]) -> str:
    """What is wrong with a QuantizeLinear or DequantizeLinear; empty: nothing."""
    zero = constants.get(node.input[2]) if len(node.input) > 2 else None
    if zero is None:
        return _problem_without_zero(node, constants)
    if zero.dtype == np.uint8:
        return f"({node.op_type}) is uint8 with zero point {_one(zero)}"
    if zero.dtype == np.int8 or zero.dtype == np.int32:
        return f"({node.op_type}) has zero point {_one(zero)}" if zero.any() else ""
    return ""  # types that are none of integers: TensorRT's parser knows best


def _problem_without_zero(node: Any, constants: dict[str, NDArray[Any]]) -> str:
    """A zero point that is left out is a uint8 of 0, unless something else is said."""
    if any(attribute.name == "output_dtype" for attribute in node.attribute):
        return ""
    if node.op_type == "QuantizeLinear":
        return "(QuantizeLinear) is uint8: it names no zero point"
    stored = constants.get(node.input[0])
    if stored is not None and stored.dtype == np.uint8:
        return "(DequantizeLinear) is uint8"
    return ""


def _one(values: NDArray[Any]) -> str:
    """A number, or the range of several."""
    low, high = int(values.min()), int(values.max())
    return str(low) if low == high else f"{low} to {high}"


def _fold_biases(onnx: _Onnx, model: Any, constants: dict[str, NDArray[Any]]) -> int:
    """Put floats in the place of 32-bit integers and their DequantizeLinear."""
    folded = [
        node
        for node in model.graph.node
        if node.op_type == "DequantizeLinear"
        and len(node.input) > 1
        and node.input[0] in constants
        and node.input[1] in constants
        and constants[node.input[0]].dtype == np.int32
    ]
    for node in folded:
        stored, scale = constants[node.input[0]], constants[node.input[1]]
        if scale.ndim == 1 and stored.ndim > 1:
            scale = scale.reshape(-1, *[1] * (stored.ndim - 1 - _axis(node)))
        floats = (stored.astype(np.float64) * scale).astype(np.float32)
        model.graph.initializer.append(onnx.numpy.from_array(floats, node.output[0]))
        model.graph.node.remove(node)
    return len(folded)


def _axis(node: Any) -> int:
    return next((int(each.i) for each in node.attribute if each.name == "axis"), 1)


def _count(model: Any) -> tuple[int, int]:
    """Convolutions and matrix products, and how many of them are quantised."""
    made_by = {out: node.op_type for node in model.graph.node for out in node.output}
    heavy = [node for node in model.graph.node if node.op_type in _HEAVY]
    quantised = [
        node
        for node in heavy
        if all(made_by.get(name) == "DequantizeLinear" for name in node.input[:2])
    ]
    return len(heavy), len(quantised)
