"""Convolutions, pooling and scaling."""

# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# PyTorch is an optional extra: without it there are no types to check lambdas by.

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.pytorch.library import Attributes, F, Parameters, Run, ints, torch


def _pads(
    attributes: Attributes, x: Any, kernel: Sequence[int], fill: float
) -> tuple[Any, Any]:
    """What padding PyTorch can do itself, and the tensor with the rest of it."""
    n = len(kernel)
    pads = list(attributes.get("pads", [0] * 2 * n))
    auto = attributes.get("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        pads = _same(attributes, x.shape[2:], kernel, upper=auto == "SAME_UPPER")
    begin, end = pads[:n], pads[n:]
    if begin == end:
        return tuple(begin), x
    both = [side for pair in zip(begin, end, strict=True) for side in reversed(pair)]
    return (0,) * n, F.pad(x, both[::-1], value=fill)


def _same(
    attributes: Attributes, sizes: Sequence[int], kernel: Sequence[int], *, upper: bool
) -> list[int]:
    n = len(kernel)
    strides = attributes.get("strides", [1] * n)
    dilations = attributes.get("dilations", [1] * n)
    begin, end = [], []
    for size, k, stride, dilation in zip(
        sizes, kernel, strides, dilations, strict=True
    ):
        whole = max((math.ceil(size / stride) - 1) * stride + (k - 1) * dilation + 1, 0)
        more = max(whole - size, 0)
        small, large = more // 2, more - more // 2
        begin.append(small if upper else large)
        end.append(large if upper else small)
    return begin + end


def conv(attributes: Attributes, parameters: Parameters) -> Run:
    """Conv of a node."""

    def run(x: Any, weight: Any, bias: Any = None) -> Any:
        kernel = weight.shape[2:]
        padding, x = _pads(attributes, x, kernel, 0.0)
        function = (F.conv1d, F.conv2d, F.conv3d)[len(kernel) - 1]
        return function(
            x,
            weight,
            bias,
            tuple(attributes.get("strides", [1] * len(kernel))),
            padding,
            tuple(attributes.get("dilations", [1] * len(kernel))),
            attributes.get("group", 1),
        )

    return run


def conv_transpose(attributes: Attributes, parameters: Parameters) -> Run:
    """Conv transpose of a node."""

    def run(x: Any, weight: Any, bias: Any = None) -> Any:
        n = weight.dim() - 2
        pads = list(attributes.get("pads", [0] * 2 * n))
        if pads[:n] != pads[n:] or attributes.get("auto_pad", "NOTSET") != "NOTSET":
            raise ValueError("its padding is not the same on both sides")
        function = (F.conv_transpose1d, F.conv_transpose2d)[n - 1]
        return function(
            x,
            weight,
            bias,
            tuple(attributes.get("strides", [1] * n)),
            tuple(pads[:n]),
            tuple(attributes.get("output_padding", [0] * n)),
            attributes.get("group", 1),
            tuple(attributes.get("dilations", [1] * n)),
        )

    return run


def max_pool(attributes: Attributes, parameters: Parameters) -> Run:
    """Max pool of a node."""
    kernel = attributes["kernel_shape"]
    function = (F.max_pool1d, F.max_pool2d)[len(kernel) - 1]

    def run(x: Any) -> Any:
        padding, x = _pads(attributes, x, kernel, -math.inf)
        return function(
            x,
            tuple(kernel),
            tuple(attributes.get("strides", [1] * len(kernel))),
            padding,
            tuple(attributes.get("dilations", [1] * len(kernel))),
            bool(attributes.get("ceil_mode", 0)),
        )

    return run


def average_pool(attributes: Attributes, parameters: Parameters) -> Run:
    """Average pool of a node."""
    kernel = attributes["kernel_shape"]
    function = (F.avg_pool1d, F.avg_pool2d)[len(kernel) - 1]

    def run(x: Any) -> Any:
        padding, padded = _pads(attributes, x, kernel, 0.0)
        counts = bool(attributes.get("count_include_pad", 0))
        if padded is not x and not counts:
            raise ValueError("its padding is not the same on both sides")
        return function(
            padded,
            tuple(kernel),
            tuple(attributes.get("strides", [1] * len(kernel))),
            padding,
            bool(attributes.get("ceil_mode", 0)),
            counts,
        )

    return run


def resize(attributes: Attributes, parameters: Parameters) -> Run:
    """Resize of a node."""
    if attributes["opset"] < 11:  # scales come first, and nothing else was to choose
        parameters = [None, *parameters]
        old = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        attributes = {**old, **attributes}
    mode = attributes.get("mode", "nearest")
    where = attributes.get("coordinate_transformation_mode", "half_pixel")
    scales = parameters[1] if len(parameters) > 1 else None
    sizes = ints(parameters, 2)

    def target(x: Any) -> tuple[list[int], list[float]]:
        if sizes is not None:
            return list(sizes), [s / d for s, d in zip(sizes, x.shape, strict=True)]
        if scales is None or not scales.size:
            raise ValueError("it names neither sizes nor scales")
        factors = [float(each) for each in scales]
        return [int(d * f) for d, f in zip(x.shape, factors, strict=True)], factors

    def nearest(x: Any) -> Any:
        wanted, factors = target(x)
        for axis, (size, factor) in enumerate(zip(wanted, factors, strict=True)):
            if size != x.shape[axis]:
                index = _nearest(attributes, where, size, x.shape[axis], factor)
                x = x.index_select(axis, torch.from_numpy(index).to(x.device))
        return x

    def linear(x: Any) -> Any:
        wanted, _ = target(x)
        if x.dim() != 4 or wanted[:2] != list(x.shape[:2]):
            raise ValueError("only images are scaled linearly")
        if where not in ("half_pixel", "pytorch_half_pixel", "align_corners"):
            raise ValueError(f"linear with {where}")
        corners = where == "align_corners"
        return F.interpolate(x, wanted[2:], mode="bilinear", align_corners=corners)

    if mode not in ("nearest", "linear"):
        raise ValueError(f"mode {mode}")
    return nearest if mode == "nearest" else linear


def _nearest(
    attributes: Attributes, where: str, size: int, given: int, factor: float
) -> NDArray[np.int64]:
    """Which of ``given`` values each of ``size`` new ones is."""
    place = np.arange(size, dtype=np.float64)
    if where == "asymmetric":
        place = place / factor
    elif where in ("half_pixel", "pytorch_half_pixel"):
        place = (place + 0.5) / factor - 0.5
    elif where == "align_corners":
        place = place * (given - 1) / max(size - 1, 1)
    else:
        raise ValueError(f"nearest with {where}")
    rounding = attributes.get("nearest_mode", "round_prefer_floor")
    place = place + {"round_prefer_floor": -0.5, "round_prefer_ceil": 0.5}.get(
        rounding, 0
    )
    up = rounding in ("round_prefer_floor", "ceil")
    rounded = np.ceil(place) if up else np.floor(place)
    return np.clip(rounded, 0, given - 1).astype(np.int64)
