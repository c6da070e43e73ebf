"""What is changed in a network before OpenVINO compiles it."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.openvino_library import import_openvino

ov: Any = import_openvino()


def join_signed_pairs(model: Any) -> None:
    """Make each signed QuantizeLinear/DequantizeLinear pair one FakeQuantize, in place.

    The network computes the same. OpenVINO (2025.4 to 2026.4) gets the pairs wrong
    where two branches meet in a Concat on a processor without AMX: signed activations
    become unsigned ones there, and the branches are rounded to whole numbers instead of
    to steps of their scale. The one node is the form that OpenVINO's own tools write.
    A pair that looks otherwise than expected is left as it is.
    """
    for quantize in model.get_ordered_ops():
        if quantize.get_type_name() != "FakeQuantize":
            continue
        for stored in _readers(quantize, "Convert"):
            if stored.get_output_element_type(0) != ov.Type.i8:
                continue
            for widened in _readers(stored, "Convert"):
                _join(quantize, widened)
    model.validate_nodes_and_infer_types()


def _join(quantize: Any, widened: Any) -> None:
    """Replace (integer - zero point) * scale behind ``widened`` by one node."""
    last, zero_point = widened, np.zeros((), np.float32)
    for subtract in _readers(widened, "Subtract"):
        constant = _constant(subtract.input_value(1))
        if constant is not None:
            last, zero_point = subtract, constant
    ends = [_constant(quantize.input_value(port)) for port in (3, 4)]
    for multiply in _readers(last, "Multiply"):
        scale = _constant(multiply.input_value(1))
        if scale is None or any(end is None for end in ends):
            continue
        low, high = ((end - zero_point) * scale for end in ends if end is not None)
        joined = ov.opset13.fake_quantize(
            *(quantize.input_value(port) for port in range(3)),
            ov.opset13.constant(low),
            ov.opset13.constant(high),
            quantize.get_levels(),
        )
        joined.set_friendly_name(multiply.get_friendly_name())
        multiply.output(0).replace(joined.output(0))


def _readers(node: Any, kind: str) -> Iterator[Any]:
    """The nodes of a kind that read a node's only output."""
    for port in node.output(0).get_target_inputs():
        reader = port.get_node()
        if reader.get_type_name() == kind:
            yield reader


def _constant(output: Any) -> NDArray[np.float32] | None:
    """The value of a constant, through conversions; None if it is none."""
    node = output.get_node()
    while node.get_type_name() == "Convert":
        node = node.input_value(0).get_node()
    if node.get_type_name() != "Constant":
        return None
    return np.asarray(node.data, np.float32)
