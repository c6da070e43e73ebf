"""``edgepipe model inspect`` from file to card."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgepipe.cli import main
from edgepipe.configs.model_card import read_card
from edgepipe.errors import ConfigError
from edgepipe.models import zoo
from tests.models.inspect.networks import Net, yolov8

Told = tuple[int, dict[str, Any]]
Inspect = Callable[..., Told]
ULTRALYTICS = {
    "names": "{0: 'cat', 1: 'dog'}",
    "stride": "32",
    "task": "detect",
    "imgsz": "[128, 128]",
    "license": "AGPL-3.0",
}


@pytest.fixture
def inspect(capsys: pytest.CaptureFixture[str]) -> Inspect:
    """Exit code and document."""

    def ask(*words: str | Path) -> Told:
        code = main(["model", "inspect", *map(str, words), "--json"])
        out = capsys.readouterr().out
        return code, json.loads(out) if out else {}

    return ask


@pytest.fixture
def detector(tmp_path: Path) -> Path:
    """A network that says all of itself."""
    net = Net()
    return net.save(tmp_path / "cats.onnx", [yolov8(net, 2)], metadata=ULTRALYTICS)


def origins(told: dict[str, Any]) -> dict[str, str]:
    return {item["key"]: item["origin"] for item in told["card"]}


def test_every_key_says_where_it_comes_from(detector: Path, inspect: Inspect) -> None:
    code, told = inspect(detector)
    assert code == 0
    assert told["complete"]
    assert origins(told) == {
        "name": "from the file",
        "precision": "from the file",
        "input.name": "from the file",
        "input.height": "from the file",
        "input.width": "from the file",
        "input.color": "default of this family",
        "input.mean": "default of this family",
        "input.std": "default of this family",
        "input.align": "default of this family",
        "head.kind": "from the file",
        "head.outputs": "from the file",
        "classes.names": "from metadata",
        "score_threshold": "default of this family",
        "iou_threshold": "default of this family",
        "licence": "from metadata",
        "provenance": "default of every card",
    }


def test_a_complete_card_is_written_and_proved(
    detector: Path, inspect: Inspect
) -> None:
    card = detector.with_suffix(".yaml")
    assert inspect(detector, "--write", card)[0] == 0
    read, warnings = read_card(card)
    assert not warnings
    assert (read.head, read.class_names) == ("yolov8", ("cat", "dog"))
    assert [file.path for file in read.files] == [detector]


def test_what_is_not_known_is_a_comment_and_such_a_card_is_refused(
    tmp_path: Path, inspect: Inspect
) -> None:
    net = Net()
    model = net.save(tmp_path / "m.onnx", [yolov8(net, 2)])
    card = tmp_path / "m.yaml"
    code, told = inspect(model, "--write", card)
    assert code == 1
    assert origins(told)["classes.names"] == "NOT KNOWN: asked for"
    text = card.read_text()
    assert "# names: NOT KNOWN: asked for: 2 names in class order" in text
    with pytest.raises(ConfigError, match="classes"):
        read_card(card)


def test_the_card_that_ships_is_found_again_but_for_what_no_file_says(
    tmp_path: Path, inspect: Inspect
) -> None:
    ships = zoo.card_path("nanodet-g")
    wanted, _ = read_card(ships)
    for name in ("fp32.onnx", "coco80.txt"):
        (tmp_path / name).write_bytes((ships.parent / name).read_bytes())
    card = tmp_path / "card.yaml"
    words = ["--size", "416x320", "--names", tmp_path / "coco80.txt"]
    code, _ = inspect(
        tmp_path / "fp32.onnx", *words, "--align", "top_left", "--write", card
    )
    assert code == 0
    read, _ = read_card(card)
    for key in ("head", "outputs", "color", "mean", "std", "align", "class_names"):
        assert getattr(read, key) == getattr(wanted, key)


def test_a_card_that_is_there_is_not_written_over(
    detector: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card = detector.with_suffix(".yaml")
    card.write_text("mine")
    assert main(["model", "inspect", str(detector), "--write", str(card)]) == 2
    assert "--force" in capsys.readouterr().err
    assert card.read_text() == "mine"


def test_a_wrong_answer_leaves_no_card(
    detector: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card = detector.with_suffix(".yaml")
    words = ["--head", "yolov5", "--write", str(card)]
    assert main(["model", "inspect", str(detector), *words]) == 2
    assert "head 'yolov5'" in capsys.readouterr().err
    assert [path.name for path in detector.parent.iterdir()] == [detector.name]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--size", "64x64"], "the input is 128 high, not 64"),
        (["--size", "64"], "--size: expected WIDTHxHEIGHT"),
        (["--mean", "1,2"], "--mean: expected one number or three"),
        (["--score", "2"], "--score: expected a number from 0 to 1"),
        (["--head", "magic"], "--head: unknown head 'magic'"),
        (["--outputs", "nothing"], "no output 'nothing'"),
        (["--set", "color=rgb"], "--set: expected head.KEY=VALUE"),
        (["--names", "nowhere.txt"], "nowhere.txt"),
    ],
)
def test_an_answer_that_cannot_be_is_one_line_by_its_option(
    words: list[str], error: str, detector: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["model", "inspect", str(detector), *words]) == 2
    err = capsys.readouterr().err
    assert error in err
    assert err.count("\n") == 1


def test_without_onnx_one_line_says_what_to_install(
    detector: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "onnx"]:
        monkeypatch.setitem(sys.modules, name, None)
    for name in [name for name in sys.modules if "models.inspect" in name]:
        monkeypatch.delitem(sys.modules, name)
    assert main(["model", "inspect", str(detector)]) == 2
    err = capsys.readouterr().err
    assert "pip install 'edgepipe[models]'" in err
    assert err.count("\n") == 1


def test_names_are_checked_against_the_outputs_before_anything_is_written(
    cases: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = cases / "C17"
    expected = json.loads((folder / "expected.json").read_text())
    model = zoo.card_path("nanodet-g").with_name("fp32.onnx")
    told: dict[str, tuple[int, str]] = {}
    for path in sorted(folder.glob("*.txt")):
        code = main(["model", "inspect", str(model), "--names", str(path)])
        told[path.name] = (code, capsys.readouterr().err)
    assert {name for name, (code, _) in told.items() if code} == set(expected["refuse"])
    warned = {name for name, (code, err) in told.items() if not code and err}
    assert warned == set(expected["warn"])
