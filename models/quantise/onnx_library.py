"""Importing onnx, which comes with an optional extra."""

from importlib import import_module
from typing import Any

from edgepipe.errors import ModelError


def import_onnx() -> Any:
    """The onnx package and the parts of it that are used.

    Raises:
        ModelError: It is not installed.
    """
    try:
        onnx: Any = import_module("onnx")
        for part in ("version_converter", "shape_inference", "numpy_helper", "helper"):
            import_module(f"onnx.{part}")
    except ImportError as error:
        raise ModelError(
            f"this needs the onnx package ({error}): pip install 'edgepipe[models]'"
        ) from error
    return onnx
