"""Entering a file in a card that a person wrote."""

from pathlib import Path

import pytest

from edgepipe.configs.card_files import with_file
from edgepipe.configs.model_card import read_card
from edgepipe.errors import ConfigError

HEAD = "# A yard.\nname: yard # mine\n"
REST = """
input: # as trained
  {name: images, height: 64, width: 64, color: rgb, mean: [0, 0, 0], std: [1, 1, 1]}
head: {kind: yolov8, outputs: [out]}
classes: {names: [a]}
score_threshold: 0.25  # low
iou_threshold: 0.5
"""
FORMS = [
    "files: [{precision: fp32, path: yard.onnx}]",
    "files:\n  - precision: fp32\n    path: yard.onnx",
    "files:\n- {precision: fp32, path: yard.onnx}",
    "files:\n  - {precision: fp32, path: yard.onnx}\n  - precision: int8\n"
    "    path: old.onnx\n    sha256: " + "0" * 64,
    "files: [\n  {precision: fp32,\n   path: yard.onnx}]  # one",
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("last", [False, True])
def test_a_file_is_listed_and_the_rest_is_as_it_was(
    tmp_path: Path, form: str, last: bool
) -> None:
    path = tmp_path / "yard.yaml"
    text = HEAD + REST.lstrip() + form + "\n" if last else HEAD + form + REST
    path.write_text(text)
    path.write_text(with_file(path, "int8", "yard int8: #1.onnx", "a" * 64))
    card, _ = read_card(path)
    found = {file.precision: (file.path.name, file.sha256) for file in card.files}
    assert found == {
        "int8": ("yard int8: #1.onnx", "a" * 64),
        "fp32": ("yard.onnx", None),
    }
    written = path.read_text()
    assert written.startswith(HEAD)
    for line in REST.strip().splitlines():
        assert line in written.splitlines()


def test_doing_it_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "yard.yaml"
    path.write_text(HEAD + FORMS[0] + REST)
    once = with_file(path, "int8", "x.onnx", "b" * 64)
    path.write_text(once)
    assert with_file(path, "int8", "x.onnx", "b" * 64) == once


def test_a_card_without_files_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "yard.yaml"
    path.write_text(HEAD)
    with pytest.raises(ConfigError, match="files"):
        with_file(path, "int8", "x.onnx", "b" * 64)
