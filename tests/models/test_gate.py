import json
import shutil
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from edgepipe.configs.model_card import read_card
from edgepipe.errors import ModelError
from edgepipe.models import zoo
from edgepipe.models.card import ModelCard, ModelFile
from edgepipe.models.gate import (
    GateCheck,
    GateKey,
    check_gate,
    gate_path,
    read_gate,
    write_gate,
)

KEYS = [each.name for each in fields(GateKey)]
SHORT = '{"schema": "edgepipe.gate/1"}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model that has passed."""
    target = tmp_path / "tiny"
    shutil.copytree(zoo.card_path("scene-tiny").parent, target)
    return target


def card_in(folder: Path) -> ModelCard:
    return read_card(folder / "card.yaml")[0]


def int8_of(card: ModelCard) -> ModelFile:
    return next(file for file in card.files if file.precision == "int8")


def check(folder: Path, card: ModelCard | None = None) -> GateCheck:
    found = card or card_in(folder)
    return check_gate(found, int8_of(found), "tiny/card.yaml")


def edit(folder: Path, **changes: object) -> None:
    path = folder / "int8.gate.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize("name", zoo.names())
def test_what_ships_in_int8_has_passed(name: str) -> None:
    card, _ = read_card(zoo.card_path(name))
    assert check_gate(card, int8_of(card), name).problem == ""


@pytest.mark.parametrize("name", zoo.names())
def test_the_page_about_accuracy_has_the_figures_of_what_ships(
    name: str, root: Path
) -> None:
    result = read_gate(zoo.card_path(name).parent / "int8.gate.json")
    figures = (result.fp32, result.int8, result.drop, result.upper)
    cells = [*(f"{each:.2f}" for each in figures), f"{result.allowed:g}"]
    row = " | ".join([*cells, str(result.objects), str(result.frames)])
    assert f" | {row} |" in (root / "docs/accuracy.md").read_text()


def test_without_a_gate_it_says_which_command_makes_one(folder: Path) -> None:
    gate_path(folder / "int8.onnx").unlink()
    found = check(folder)
    assert found.problem == (
        f"{folder}/int8.onnx: has no accuracy gate; edgepipe model eval tiny/card.yaml"
        f" --source RECORDING --write makes one"
    )
    assert found.summary() == {"passed": False, "reason": found.problem}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"mean": (0.0, 0.0, 0.0)}, "another preprocessing"),
        ({"width": 416}, "another preprocessing"),
        ({"score_threshold": 0.2}, "another head"),
        ({"class_names": ("a", "b", "c")}, "another head"),
        ({"head": "nanodet"}, "another head"),
    ],
)
def test_a_card_that_says_something_else_has_no_gate(
    folder: Path, change: dict[str, Any], what: str
) -> None:
    problem = check(folder, replace(card_in(folder), **change)).problem
    assert f"was made for {what}" in problem
    assert "edgepipe model eval tiny/card.yaml" in problem


@pytest.mark.parametrize(
    ("file", "what"), [("int8", "another INT8 file"), ("fp32", "another FP32 file")]
)
def test_a_file_that_changed_by_a_byte_has_no_gate(
    folder: Path, file: str, what: str
) -> None:
    path = folder / f"{file}.onnx"
    path.write_bytes(path.read_bytes() + b"\0")
    assert f"was made for {what}" in check(folder).problem


def test_names_of_files_licence_and_provenance_may_change(folder: Path) -> None:
    (folder / "int8.onnx").rename(folder / "other.onnx")
    (folder / "int8.gate.json").rename(folder / "other.gate.json")
    card = replace(card_in(folder), name="other", licence="MIT", provenance="")
    files = (ModelFile("int8", folder / "other.onnx", None), card.files[1])
    assert check(folder, replace(card, files=files)).problem == ""


def test_a_board_needs_no_fp32_file(folder: Path) -> None:
    (folder / "fp32.onnx").unlink()
    assert check(folder).problem == ""


def test_a_gate_that_was_not_passed_says_why(folder: Path) -> None:
    edit(folder, passed=False, reason="INT8 loses 40 points")
    found = check(folder)
    assert found.problem.endswith("not passed: INT8 loses 40 points")
    assert found.summary()["passed"] is False


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema": "edgepipe.gate/2"}, "schema 'edgepipe.gate/2'"),
        ({"upper": None}, "upper: expected a number"),
        ({"upper": "0.1"}, "upper: expected a number"),
        ({"upper": 7.0}, "it says passed, and INT8 may lose 7.00 points"),
        ({"frames": 1}, "it says passed, and cannot say: "),
        ({"objects": 0}, "it says passed, and cannot say: "),
        ({"frames": "many"}, "frames: expected a whole number"),
        ({"source": 5}, "source: expected a text"),
        ({"fp32": 0.0, "int8": 0.0, "drop": 0.0}, "it says passed, and cannot say: "),
        ({"int8": 1.0}, "are not the drop of"),
        ({"allowed": 1000.0}, "are no drop to be allowed"),
        ({"allowed": -1.0, "upper": -2.0}, "are no drop to be allowed"),
        ({"key": dict.fromkeys(KEYS)}, "int8_sha256: expected a text"),
        ({"passed": 1}, "no known value"),
        ({"kind": "guess"}, "no known value"),
        ({"key": {}}, "GateKey"),
        ({"classes": {"a": 3}}, "no accuracy gate"),
        ({"classes": []}, "no accuracy gate"),
    ],
)
def test_a_gate_that_was_edited_is_none(
    folder: Path, change: dict[str, Any], words: str
) -> None:
    edit(folder, **change)
    found = check(folder)
    assert found.result is None
    assert words in found.problem


@pytest.mark.parametrize("text", ["", "no", "[]", "3", "{}", SHORT, "[" * 9999, "\x00"])
def test_what_is_no_gate_is_one_line(folder: Path, text: str) -> None:
    gate_path(folder / "int8.onnx").write_text(text)
    problem = check(folder).problem
    assert "int8.gate.json: no accuracy gate: " in problem
    assert "\n" not in problem


def test_later_fields_are_passed_over(folder: Path) -> None:
    edit(folder, weather="fine")
    assert check(folder).problem == ""


def test_what_was_written_is_read_again(folder: Path, tmp_path: Path) -> None:
    result = read_gate(folder / "int8.gate.json")
    path = tmp_path / "again.gate.json"
    write_gate(path, result)
    assert read_gate(path) == result
    assert path.read_bytes() == (folder / "int8.gate.json").read_bytes()


def test_a_folder_that_cannot_be_written_is_one_line(folder: Path) -> None:
    result = read_gate(folder / "int8.gate.json")
    with pytest.raises(ModelError, match=r"nowhere.* cannot be written"):
        write_gate(folder / "nowhere" / "x.gate.json", result)
