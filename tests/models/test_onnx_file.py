"""What is refused before any library reads a model file."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgepipe.errors import ModelError
from edgepipe.models import zoo
from edgepipe.models.card import ModelFile
from edgepipe.models.onnx_file import require_model_file

TINY = zoo.card_path("scene-tiny").parent / "int8.onnx"
WHOLE = TINY.read_bytes()


@pytest.fixture
def refused(tmp_path: Path) -> Callable[[bytes], str]:
    """Writes bytes as a model and returns what is said against it."""

    def check(data: bytes) -> str:
        path = tmp_path / "model.onnx"
        path.write_bytes(data)
        with pytest.raises(ModelError) as caught:
            require_model_file(ModelFile("int8", path, None))
        message = str(caught.value)
        assert message.startswith(f"{path}: ")
        assert "\n" not in message
        return message

    return check


def test_a_whole_model_passes() -> None:
    require_model_file(ModelFile("int8", TINY, hashlib.sha256(WHOLE).hexdigest()))


def test_an_empty_file_is_called_empty(refused: Callable[[bytes], str]) -> None:
    assert "empty" in refused(b"")


@pytest.mark.parametrize(
    "data",
    [b"this is a text file\n" * 50, b"\x00" * 64, b"\x89PNG\r\n\x1a\n", b"\xff" * 64],
    ids=["text", "zeros", "picture", "ones"],
)
def test_another_kind_of_file_is_not_a_model(
    data: bytes, refused: Callable[[bytes], str]
) -> None:
    assert "not an ONNX model" in refused(data)


@pytest.mark.parametrize("share", [0.001, 0.25, 0.5, 0.9, 0.99])
def test_a_download_that_stopped_is_not_a_model(
    share: float, refused: Callable[[bytes], str]
) -> None:
    assert "cut short" in refused(WHOLE[: int(len(WHOLE) * share)])


@given(data=st.binary(max_size=200))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_bytes_make_the_check_itself_fail(
    data: bytes, refused: Callable[[bytes], str]
) -> None:
    refused(data)


def test_a_folder_is_not_a_model(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot read the model file: Is a directory"):
        require_model_file(ModelFile("int8", tmp_path, None))


def test_another_model_than_the_card_says_is_named_by_both_hashes() -> None:
    with pytest.raises(
        ModelError, match=r"expected sha256 0{64}, the file has [0-9a-f]"
    ):
        require_model_file(ModelFile("int8", TINY, "0" * 64))
