"""TensorRT for RTX, whose parser and builder need no GPU, where it is installed."""

import sys
from pathlib import Path

import pytest

from edgepipe.errors import EngineError
from edgepipe.models.tensorrt.api import TensorRt
from edgepipe.models.tensorrt.library import RTX, import_tensorrt


@pytest.fixture(scope="session")
def wheels(root: Path) -> Path:
    """The folder into which ``make tensorrt`` puts releases beside each other."""
    return root / ".tensorrt"


@pytest.fixture(scope="session")
def rtx(wheels: Path) -> TensorRt:
    """The library; what it is not installed for is skipped."""
    place = str(wheels / "rtx")
    if place not in sys.path:
        sys.path.append(place)
    try:
        return import_tensorrt(RTX)
    except EngineError as error:
        pytest.skip(f"{error} (or make tensorrt)")
