"""Operators that compute."""

# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# PyTorch is an optional extra: without it there are no types to check lambdas by.

import math
from typing import Any

from edgepipe.models.pytorch.library import (
    Attributes,
    F,
    Make,
    Parameters,
    Run,
    ints,
    number,
    torch,
)


def gemm(attributes: Attributes, parameters: Parameters) -> Run:
    """Gemm of a node."""
    alpha, beta = attributes.get("alpha", 1.0), attributes.get("beta", 1.0)

    def run(a: Any, b: Any, c: Any = None) -> Any:
        a = a.t() if attributes.get("transA") else a
        b = b.t() if attributes.get("transB") else b
        y = alpha * (a @ b)
        return y if c is None else y + beta * c

    return run


def norm(attributes: Attributes, parameters: Parameters) -> Run:
    """Norm of a node."""
    epsilon = attributes.get("epsilon", 1e-5)
    return lambda x, scale, bias, mean, var: F.batch_norm(
        x, mean, var, scale, bias, training=False, eps=epsilon
    )


def instance_norm(attributes: Attributes, parameters: Parameters) -> Run:
    """Instance norm of a node."""
    epsilon = attributes.get("epsilon", 1e-5)
    return lambda x, scale, bias: F.instance_norm(
        x, weight=scale, bias=bias, eps=epsilon
    )


def layer_norm(attributes: Attributes, parameters: Parameters) -> Run:
    """Layer norm of a node."""
    axis, epsilon = attributes.get("axis", -1), attributes.get("epsilon", 1e-5)
    return lambda x, scale, bias=None: F.layer_norm(
        x, x.shape[axis % x.dim() :], scale, bias, epsilon
    )


def reduce(function: Run) -> Make:
    """A reduction over axes, all of them where none is named."""

    def make(attributes: Attributes, parameters: Parameters) -> Run:
        axes = ints(parameters, 0, attributes.get("axes"))
        keeps = bool(attributes.get("keepdims", 1))
        if axes is None and attributes.get("noop_with_empty_axes"):
            return lambda x: x
        return lambda x: function(x, axes or tuple(range(x.dim())), keeps)

    return make


def clip(attributes: Attributes, parameters: Parameters) -> Run:
    """Clip of a node."""
    low = number(parameters, 0, attributes.get("min"))
    high = number(parameters, 1, attributes.get("max"))
    return lambda x: x if low is None and high is None else torch.clamp(x, low, high)


def divide(a: Any, b: Any) -> Any:
    """A quotient; of whole numbers a whole one."""
    whole = not a.is_floating_point() and not b.is_floating_point()
    return torch.div(a, b, rounding_mode="trunc") if whole else a / b


def softmax(attributes: Attributes, parameters: Parameters) -> Run:
    """Softmax of a node."""
    if attributes["opset"] >= 13:
        return lambda x: torch.softmax(x, attributes.get("axis", -1))
    axis = attributes.get("axis", 1)

    def over_the_rest(x: Any) -> Any:
        rows = x.reshape(math.prod(x.shape[: axis % x.dim()]), -1)
        return torch.softmax(rows, 1).reshape(x.shape)

    return over_the_rest


def prelu(x: Any, slope: Any) -> Any:
    """As PyTorch's own, with slopes of any shape."""
    return torch.where(x < 0, x * slope, x)


def hard_sigmoid(attributes: Attributes, parameters: Parameters) -> Run:
    """Hard sigmoid of a node."""
    alpha, beta = attributes.get("alpha", 0.2), attributes.get("beta", 0.5)
    return lambda x: torch.clamp(alpha * x + beta, 0, 1)


def cast(attributes: Attributes, parameters: Parameters) -> Run:
    """Cast of a node."""
    kind = {
        1: torch.float32,
        2: torch.uint8,
        3: torch.int8,
        6: torch.int32,
        7: torch.int64,
        9: torch.bool,
        10: torch.float16,
        11: torch.float64,
    }[attributes["to"]]
    return lambda x: x.to(kind)


def concat(attributes: Attributes, parameters: Parameters) -> Run:
    """Concat of a node."""
    return lambda *parts: torch.cat(parts, attributes["axis"])


def arg_max(attributes: Attributes, parameters: Parameters) -> Run:
    """Arg max of a node."""
    axis, keeps = attributes.get("axis", 0), bool(attributes.get("keepdims", 1))
    return lambda x: torch.argmax(x, axis, keeps)


def top_k(attributes: Attributes, parameters: Parameters) -> Run:
    """Top k of a node."""
    count = number(parameters, 0, attributes.get("k"))
    axis, largest = attributes.get("axis", -1), bool(attributes.get("largest", 1))
    return lambda x: tuple(torch.topk(x, int(count), axis, largest, True))


def gather_elements(attributes: Attributes, parameters: Parameters) -> Run:
    """Gather elements of a node."""
    axis = attributes.get("axis", 0)
    return lambda x, index: torch.gather(
        x, axis, torch.where(index < 0, index + x.shape[axis], index)
    )


def fold(function: Run) -> Run:
    """A function of two for any number."""

    def run(first: Any, *others: Any) -> Any:
        for other in others:
            first = function(first, other)
        return first

    return run


def gelu(attributes: Attributes, parameters: Parameters) -> Run:
    """Gelu of a node."""
    return lambda x: F.gelu(x, approximate=attributes.get("approximate", "none"))
