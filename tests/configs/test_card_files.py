"""Entering a file in a card that a person wrote."""

import json
from pathlib import Path

import pytest
import yaml

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
    "files:\n  - {precision: fp32, path: yard.onnx, sha256: null}",
    "files:\n  - precision: fp32\n    path: >-\n      yard.onnx\n\n# about the rest\n",
    "'files': &here\n  - {precision: fp32, path: yard.onnx}\n# about the rest",
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
    for line in (*REST.strip().splitlines(), *form.splitlines()):
        if line in REST or line.startswith("#"):
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


def test_a_card_in_json_stays_json(tmp_path: Path) -> None:
    path = tmp_path / "yard.yaml"
    path.write_text(HEAD + FORMS[0] + REST)
    for indent in (None, 2):
        path.write_text(json.dumps(yaml.safe_load(path.read_text()), indent=indent))
        path.write_text(with_file(path, "int8", "yard-int8.onnx", "a" * 64))
        files = json.loads(path.read_text())["files"]
        assert [each["path"] for each in files] == ["yard-int8.onnx", "yard.onnx"]
        assert len(read_card(path)[0].files) == 2


def test_names_that_look_like_numbers_and_line_ends_stay_as_they_are(
    tmp_path: Path,
) -> None:
    path = tmp_path / "yard.yaml"
    text = (HEAD + "files: [{precision: fp32, path: 0123}]" + REST).replace(
        "\n", "\r\n"
    )
    path.write_bytes(text.encode())
    written = with_file(path, "int8", "x.onnx", "b" * 64)
    assert written.count("\n") == written.count("\r\n")
    path.write_bytes(written.encode())
    assert [file.path.name for file in read_card(path)[0].files] == ["x.onnx", "0123"]


def test_what_only_its_author_can_change_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "yard.yaml"
    path.write_text(HEAD + "? files\n: - {precision: fp32, path: yard.onnx}" + REST)
    with pytest.raises(ConfigError, match=r"enter \{precision: int8, path: x.onnx"):
        with_file(path, "int8", "x.onnx", "b" * 64)
