"""QuantizeLinear and DequantizeLinear, simulated: values stay floats."""

# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# PyTorch is an optional extra: without it there are no types to check lambdas by.

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.pytorch.library import Attributes, Parameters, Run, torch

_LIMITS = {"int8": (-128, 127), "uint8": (0, 255), "int32": (-(2**31), 2**31 - 1)}


def _per_channel(values: NDArray[Any] | None, dims: int, axis: int) -> Any:
    """Scales or zero points, shaped so that they meet their axis."""
    if values is None:
        return 0.0
    if values.size == 1:
        return float(values.reshape(-1)[0])
    shape = [1] * dims
    shape[axis] = -1
    return torch.from_numpy(values.astype(np.float32).reshape(shape))


class _Pair:
    """The numbers of a QuantizeLinear or DequantizeLinear, on the right device."""

    def __init__(self, attributes: Attributes, parameters: Parameters) -> None:
        self._scale, self._zero = (*parameters, None)[:2]
        self._axis = attributes.get("axis", 1)
        self._ready: tuple[Any, Any] | None = None
        kind = "uint8" if self._zero is None else str(self._zero.dtype)
        self.low, self.high = _LIMITS[kind]

    def on(self, x: Any) -> tuple[Any, Any]:
        """Scale and zero point for a tensor."""
        if self._ready is None or _device(self._ready[0]) not in (None, x.device):
            pair = (
                _per_channel(each, x.dim(), self._axis)
                for each in (self._scale, self._zero)
            )
            scale, zero = (e.to(x.device) if hasattr(e, "to") else e for e in pair)
            self._ready = scale, zero
        return self._ready


def _device(value: Any) -> Any:
    return getattr(value, "device", None)


def quantise(attributes: Attributes, parameters: Parameters) -> Run:
    """Quantise of a node."""
    pair = _Pair(attributes, parameters)

    def run(x: Any) -> Any:
        scale, zero = pair.on(x)
        return torch.clamp(torch.round(x / scale) + zero, pair.low, pair.high)

    return run


def dequantise(attributes: Attributes, parameters: Parameters) -> Run:
    """Dequantise of a node."""
    pair = _Pair(attributes, parameters)

    def run(x: Any) -> Any:
        scale, zero = pair.on(x)
        return (x.to(torch.float32) - zero) * scale

    return run
