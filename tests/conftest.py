"""What more than one folder of tests needs."""

import os
from pathlib import Path

import pytest

from .colour_model import ColourModel
from .telemetry.boards import Boards


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return Path(__file__).parent.parent


@pytest.fixture(scope="session")
def cases() -> Path:
    """The folder of recorded failures, which is not part of the project."""
    folder = os.environ.get("EDGEPIPE_CASES")
    if not folder:
        pytest.skip("EDGEPIPE_CASES does not name the folder of recorded failures")
    return Path(folder)


@pytest.fixture(scope="session")
def foreign_models(cases: Path) -> Path:
    """The folder of networks that others trained, which is not part of the project."""
    folder = cases.parent / "assets/models"
    if not folder.is_dir():
        pytest.skip("no trained networks lie beside the recorded failures")
    return folder


@pytest.fixture(scope="session")
def colour_model() -> ColourModel:
    """Writes a classifier that can be checked by eye."""
    return ColourModel()


@pytest.fixture(scope="session")
def boards(tmp_path_factory: pytest.TempPathFactory) -> Boards:
    """Ten machines as trees of files: ``boards("nano-jp4").tree()``."""
    return Boards(tmp_path_factory.mktemp("boards"))
