"""TensorRT, imported when it is wanted, and refused where it is too old."""

import ctypes
import re
from importlib import import_module
from pathlib import Path
from typing import cast

from edgepipe.errors import EngineError
from edgepipe.models.tensorrt.api import TensorRt

TENSORRT = "tensorrt"
RTX = "tensorrt_rtx"
"""TensorRT for RTX: its plans are for several generations of GPUs at once, and neither
parsing nor building needs one."""
_OLDEST = 10
_RTX_LIBRARIES = ("libtensorrt_rtx.so", "libtensorrt_onnxparser_rtx.so")


def import_tensorrt(name: str = TENSORRT) -> TensorRt:
    """The library of one of the two names.

    Raises:
        EngineError: It is not installed, does not load here, or is older than 10.
    """
    try:
        library = cast(TensorRt, _load(name))
    except (ImportError, OSError) as error:
        raise EngineError(
            f"{name} cannot be imported ({error}): {_hint(name)}"
        ) from None
    require_version(name, getattr(library, "__version__", None))
    return library


def require_version(name: str, version: str | None) -> None:
    """Refuse what cannot build strongly typed networks the way edgepipe does.

    Raises:
        EngineError: The version is unknown or too old.
    """
    if version is None:
        # Stubs for type checkers are a package without a module.
        raise EngineError(f"{name} is not installed, only its types: {_hint(name)}")
    major = re.match(r"\d+", version)
    if name == TENSORRT and (major is None or int(major.group()) < _OLDEST):
        raise EngineError(
            f"TensorRT {version} is too old: edgepipe builds with {_OLDEST} or newer "
            f"(JetPack 6 brings 10.3); on older boards use engine onnxruntime"
        )


def _load(name: str) -> object:
    if name == TENSORRT:
        return import_module("tensorrt")
    folder = Path(str(import_module("tensorrt_rtx_libs").__file__)).parent
    for start in _RTX_LIBRARIES:
        for path in sorted(folder.glob(f"{start}*")):
            # The extension finds them by name among what is loaded for everybody.
            ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    return import_module("tensorrt_rtx_bindings")


def _hint(name: str) -> str:
    if name == RTX:
        return "pip install tensorrt-rtx-cu13-libs tensorrt-rtx-cu13-bindings"
    return "JetPack brings it; elsewhere pip install 'edgepipe[tensorrt]'"
