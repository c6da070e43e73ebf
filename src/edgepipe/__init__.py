"""Real-time edge vision with deadline-aware scheduling."""

from importlib import import_module, metadata
from typing import TYPE_CHECKING

from edgepipe.errors import (
    ConfigError,
    EdgepipeError,
    EngineError,
    InputError,
    ModelError,
    StageError,
    StoppedError,
)

if TYPE_CHECKING:
    from edgepipe.assemble import Pipeline
    from edgepipe.pipeline.detections import Detections
    from edgepipe.pipeline.frame import Frame

# What needs NumPy or more is only imported when somebody asks for it by name.
_LAZY = {
    "Detections": "edgepipe.pipeline.detections",
    "Frame": "edgepipe.pipeline.frame",
    "Pipeline": "edgepipe.assemble",
}

__all__ = [
    "ConfigError",
    "Detections",
    "EdgepipeError",
    "EngineError",
    "Frame",
    "InputError",
    "ModelError",
    "Pipeline",
    "StageError",
    "StoppedError",
    "__version__",
]

try:
    __version__ = metadata.version("edgepipe")
except metadata.PackageNotFoundError:  # a checkout that was never installed
    __version__ = "0+unknown"


def __getattr__(name: str) -> object:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'edgepipe' has no attribute {name!r}")
