"""Operators that move values and compute none."""

# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# PyTorch is an optional extra: without it there are no types to check lambdas by.

import math
from typing import Any

import numpy as np

from edgepipe.models.pytorch.library import (
    Attributes,
    F,
    Parameters,
    Run,
    ints,
    number,
    torch,
)


def reshape(attributes: Attributes, parameters: Parameters) -> Run:
    """Reshape of a node."""
    sizes = ints(parameters, 0)
    keeps = not attributes.get("allowzero", 0)

    def run(x: Any) -> Any:
        return x.reshape(
            [
                x.shape[i] if size == 0 and keeps else size
                for i, size in enumerate(sizes)
            ]
        )

    return run


def flatten(attributes: Attributes, parameters: Parameters) -> Run:
    """Flatten of a node."""
    axis = attributes.get("axis", 1)

    def run(x: Any) -> Any:
        at = axis + x.dim() if axis < 0 else axis
        return x.reshape(math.prod(x.shape[:at]), -1)

    return run


def slice_of(attributes: Attributes, parameters: Parameters) -> Run:
    """Slice of a node."""

    def given(name: str, index: int) -> Any:
        return ints(parameters, index, attributes.get(name))

    starts, ends = given("starts", 0), given("ends", 1)
    axes = given("axes", 2) or range(len(starts))
    steps = given("steps", 3) or [1] * len(starts)

    def run(x: Any) -> Any:
        for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
            if step < 0:
                chosen = range(x.shape[axis])[slice(start, end, step)]
                # An end beyond the front is written as a very negative number.
                if end < -x.shape[axis]:
                    chosen = range(x.shape[axis])[slice(start, None, step)]
                index = torch.tensor(list(chosen), device=x.device)
                x = x.index_select(axis, index)
            else:
                place = [slice(None)] * x.dim()
                place[axis] = slice(start, end, step)
                x = x[tuple(place)]
        return x

    return run


def split(attributes: Attributes, parameters: Parameters) -> Run:
    """Split of a node."""
    axis = attributes.get("axis", 0)
    sizes = ints(parameters, 0, attributes.get("split"))
    count = attributes["num_outputs"]

    def run(x: Any) -> Any:
        parts = sizes or math.ceil(x.shape[axis] / count)
        return torch.split(x, list(sizes) if sizes else parts, axis)

    return run


def squeeze(attributes: Attributes, parameters: Parameters) -> Run:
    """Squeeze of a node."""
    axes = ints(parameters, 0, attributes.get("axes"))
    return lambda x: x.squeeze() if axes is None else torch.squeeze(x, axes)


def unsqueeze(attributes: Attributes, parameters: Parameters) -> Run:
    """Unsqueeze of a node."""
    axes = ints(parameters, 0, attributes.get("axes"))

    def run(x: Any) -> Any:
        rank = x.dim() + len(axes)
        for axis in sorted(axis % rank for axis in axes):
            x = x.unsqueeze(axis)
        return x

    return run


def pad(attributes: Attributes, parameters: Parameters) -> Run:
    """Pad of a node."""
    mode = attributes.get("mode", "constant")
    pads = ints(parameters, 0, attributes.get("pads"))
    fill = number(parameters, 1, attributes.get("value", 0.0))
    if mode not in ("constant", "reflect", "edge") or ints(parameters, 2):
        raise ValueError(f"mode {mode}, or axes that are named")
    how = "replicate" if mode == "edge" else mode

    def run(x: Any) -> Any:
        n = len(pads) // 2
        sides = [pads[axis + side] for axis in reversed(range(n)) for side in (0, n)]
        if mode == "constant":
            return F.pad(x, sides, value=fill)
        return F.pad(x, sides[:-4], mode=how)

    return run


def transpose(attributes: Attributes, parameters: Parameters) -> Run:
    """Transpose of a node."""
    order = attributes.get("perm")
    return lambda x: x.permute(*(order or range(x.dim() - 1, -1, -1)))


def gather(attributes: Attributes, parameters: Parameters) -> Run:
    """Gather of a node."""
    axis = attributes.get("axis", 0)

    def run(x: Any, index: Any) -> Any:
        index = index.to(x.device)
        index = torch.where(index < 0, index + x.shape[axis], index)
        found = x.index_select(axis, index.reshape(-1))
        at = axis % x.dim()
        return found.reshape(*x.shape[:at], *index.shape, *x.shape[at + 1 :])

    return run


def space_to_depth(attributes: Attributes, parameters: Parameters) -> Run:
    """Space to depth of a node."""
    size = attributes["blocksize"]

    def run(x: Any) -> Any:
        n, c, h, w = x.shape
        x = x.reshape(n, c, h // size, size, w // size, size)
        x = x.permute(0, 3, 5, 1, 2, 4)
        return x.reshape(n, c * size * size, h // size, w // size)

    return run


def depth_to_space(attributes: Attributes, parameters: Parameters) -> Run:
    """Depth to space of a node."""
    size = attributes["blocksize"]
    crd = attributes.get("mode", "DCR") == "CRD"

    def run(x: Any) -> Any:
        n, c, h, w = x.shape
        deep = c // size**2
        if crd:
            x = x.reshape(n, deep, size, size, h, w).permute(0, 1, 4, 2, 5, 3)
        else:
            x = x.reshape(n, size, size, deep, h, w).permute(0, 3, 4, 1, 5, 2)
        return x.reshape(n, deep, h * size, w * size)

    return run


def expand(attributes: Attributes, parameters: Parameters) -> Run:
    """Expand of a node."""
    shape = ints(parameters, 0)
    return lambda x: x.broadcast_to(torch.broadcast_shapes(tuple(x.shape), shape))


def constant(attributes: Attributes, parameters: Parameters) -> Run:
    """Constant of a node."""
    name, value = next(
        item for item in attributes.items() if item[0].startswith("value")
    )
    kinds: dict[str, Any] = {"value_int": np.int64, "value_float": np.float32}
    array = np.array(value, kinds.get(name.rstrip("s")))
    return lambda: torch.from_numpy(array)


def constant_of_shape(attributes: Attributes, parameters: Parameters) -> Run:
    """Constant of shape of a node."""
    value = np.asarray(attributes.get("value", np.zeros(1, np.float32))).reshape(-1)[0]
    kind = torch.from_numpy(np.array(value)).dtype
    return lambda shape: torch.full(tuple(shape.tolist()), value.item(), dtype=kind)
