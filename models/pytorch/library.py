"""PyTorch, imported in one place, and what its operators here are made of."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

torch: Any = import_module("torch")
F: Any = import_module("torch.nn.functional")

Attributes = Mapping[str, Any]
"""Of a node; with them ``opset``, the version of the operators, and ``num_outputs``."""
Parameters = Sequence[NDArray[Any] | None]
"""Inputs of a node that are numbers rather than pictures."""
Run = Callable[..., Any]
"""An operator: a function of tensors alone."""
Make = Callable[[Attributes, Parameters], Run]
"""Makes an operator of one node."""


def ints(parameters: Parameters, index: int, otherwise: Any = None) -> Any:
    """A parameter as a tuple of whole numbers."""
    value = parameters[index] if index < len(parameters) else None
    if value is None:
        return None if otherwise is None else tuple(otherwise)
    return tuple(int(each) for each in np.asarray(value).reshape(-1))


def number(parameters: Parameters, index: int, otherwise: float | None) -> Any:
    """A parameter as one number."""
    value = parameters[index] if index < len(parameters) else None
    return otherwise if value is None else np.asarray(value).reshape(-1)[0].item()


def plain(function: Run) -> Make:
    """An operator without attributes."""
    return lambda attributes, parameters: function
