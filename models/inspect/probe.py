"""One run of a network through onnxruntime: real shapes, and what the values look like.

onnxruntime is the only thing here that executes anything of a file.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.models.self_check import probe_image

SIMPLIFIED = "simplified.onnx"


@dataclass(frozen=True, slots=True)
class Probe:
    """What a run gave, or why there was none."""

    values: Mapping[str, NDArray[Any]]
    """Outputs by name."""
    failure: str | None = None


def probe_input(
    shape: tuple[int, int, int, int], dtype: str, *, channels_last: bool, top: float
) -> NDArray[Any]:
    """A drawn image as the network is given it, with values from 0 to ``top``."""
    height, width = shape[1:3] if channels_last else shape[2:]
    channels = shape[3] if channels_last else shape[1]
    image = probe_image(height, width)[0]
    image = image[..., np.arange(channels) % 3]
    tensor = image if channels_last else np.moveaxis(image, 2, 0)
    scaled = (
        tensor[np.newaxis] * (top / 255) if dtype != "uint8" else tensor[np.newaxis]
    )
    return np.ascontiguousarray(np.repeat(scaled, shape[0], axis=0).astype(dtype))


def run(path: Path, inputs: Mapping[str, NDArray[Any]]) -> Probe:
    """Run a file once with these inputs."""
    try:
        ort: Any = import_module("onnxruntime")
    except ImportError as error:
        return Probe({}, f"onnxruntime cannot be imported: {error}")
    try:
        session = ort.InferenceSession(
            str(path), _options(ort), providers=["CPUExecutionProvider"]
        )
        names = [output.name for output in session.get_outputs()]
        arrays: list[Any] = session.run(names, dict(inputs))
    except Exception as error:  # noqa: BLE001 - its errors have no base but Exception
        return Probe({}, " ".join(str(error).split()))
    return Probe(
        {
            name: array
            for name, array in zip(names, arrays, strict=True)
            if hasattr(array, "dtype")
        }
    )


def simplified(content: bytes, folder: Path) -> bytes | None:
    """The same network with all that does not depend on the image computed.

    Exporters leave the arithmetic of grids and strides in the graph; onnxruntime folds
    it. None where it cannot load the network.

    Args:
        content: The model with every size of its input fixed.
        folder: Where the model's external data lies.
    """
    try:
        ort: Any = import_module("onnxruntime")
    except ImportError:
        return None
    with tempfile.TemporaryDirectory() as scratch:
        target = Path(scratch) / SIMPLIFIED
        options = _options(ort)
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = str(target)
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", str(folder)
        )
        try:
            ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except Exception:  # noqa: BLE001 - as above; the probe says what it was
            return None
        return target.read_bytes() if target.exists() else None


def _options(ort: Any) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return options
