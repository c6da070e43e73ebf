"""Real-time edge vision with deadline-aware scheduling."""

from importlib import import_module
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
    __version__: str

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


def _version() -> str:
    """Of the installed distribution; looking for it takes half of a bare start."""
    from importlib import metadata

    try:
        return metadata.version("edgepipe")
    except metadata.PackageNotFoundError:  # a checkout that was never installed
        return "0+unknown"


def __getattr__(name: str) -> object:
    if name == "__version__":
        return _version()
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'edgepipe' has no attribute {name!r}")
