"""From an FP32 file to INT8 that passes its gate, as a user does it."""

import json
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

from edgepipe import cli
from edgepipe.configs.model_card import read_card
from edgepipe.errors import ModelError
from edgepipe.evaluation import judge
from edgepipe.models import zoo
from edgepipe.models.gate import check_gate

SCENES = "synthetic:?seed=5&width=320&height=192&frames=60"
onnx: Any = import_module("onnx")  # its types are partial
LAYER = "/m/reg/Conv"
OTHERS = "synthetic:?seed=6&width=320&height=192&frames=80"
NUMBERS = ["--images", "12", "--frames", "20", "--max-drop", "2", "--weight-bits", "8"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A card of an FP32 file alone."""
    shipped = zoo.card_path("scene-tiny")
    shutil.copy(shipped.parent / "fp32.onnx", tmp_path / "scene.onnx")
    text = shipped.read_text()
    start, end = text.index("files:"), text.index("input:")
    files = "files: [{precision: fp32, path: scene.onnx}]\n"
    (tmp_path / "scene.yaml").write_text(text[:start] + files + text[end:])
    return tmp_path


def build(folder: Path, *more: str) -> int:
    model = str(folder / "scene.yaml")
    sources = ["--source", SCENES, "--judge", OTHERS]
    return cli.main(["model", "build", model, *sources, *NUMBERS, *more])


def run(folder: Path, *more: str) -> int:
    """A run with the model as its card lists it."""
    config = folder / "run.yaml"
    config.write_text(
        "version: 1\n"
        f"streams: [{{id: yard, source: {{uri: '{SCENES}', pace: fast}}}}]\n"
        f"model: {{path: {folder / 'scene.yaml'}}}\n"
        f"telemetry: {{dir: {folder / 'runs'}}}\n"
    )
    return cli.main(["run", str(config), *more])


def one_channel_much_larger(path: Path, by: float) -> str:
    """Change a network so that it computes the same, but not in INT8.

    One channel that a layer puts out is made larger and the next layer's weights for
    it smaller: behind a ReLU that changes nothing. The name of the tensor between.
    """
    model = onnx.load(path)
    values = {item.name: item for item in model.graph.initializer}
    convolutions = [node for node in model.graph.node if node.op_type == "Conv"]
    makers = {name: node for node in model.graph.node for name in node.output}
    for second in convolutions[2:]:
        relu = makers.get(second.input[0])
        if relu is None or relu.op_type != "Relu":
            continue
        first = makers[relu.input[0]]
        readers = [n for n in model.graph.node if relu.output[0] in n.input]
        if first.op_type == "Conv" and len(readers) == 1:
            _scale(values[first.input[1]], np.s_[0], by)
            _scale(values[first.input[2]], np.s_[0], by)
            _scale(values[second.input[1]], np.s_[:, 0], 1 / by)
            onnx.save(model, path)
            return str(relu.output[0])
    raise AssertionError("the network has no two convolutions with a ReLU between")


def _scale(item: Any, where: Any, by: float) -> None:
    array = numpy_helper.to_array(item).copy()
    array[where] *= by
    item.CopyFrom(numpy_helper.from_array(array, item.name))


def test_what_is_built_passes_is_listed_and_runs(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build(folder) == 0
    said = capsys.readouterr().out
    assert "scene-tiny INT8 passed" in said
    assert "11 of 11 layers INT8" in said
    card, _ = read_card(folder / "scene.yaml")
    file = next(each for each in card.files if each.precision == "int8")
    check = check_gate(card, file, "scene.yaml")
    assert check.problem == ""
    assert check.result is not None
    assert check.result.kind == "ap", "a drawn scene is known exactly"
    assert check.result.frames == 80
    written = onnx.load(file.path)
    facts = {entry.key: entry.value for entry in written.metadata_props}
    assert json.loads(facts["edgepipe.kept_in_fp32"]) == []
    assert facts["edgepipe.model_sha256"] == check.result.key.fp32_sha256
    assert run(folder) == 0


def test_a_layer_that_int8_ruins_is_found_and_kept(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tensor = one_channel_much_larger(folder / "scene.onnx", 2000.0)
    assert build(folder, "--method", "minmax", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    network = onnx.load(folder / "scene-int8.onnx")
    readers = [n.name for n in network.graph.node if tensor in n.input]
    assert len(document["kept_in_fp32"]) == 1
    assert readers == document["kept_in_fp32"]
    assert document["gate"]["passed"]
    drops = [point["expected_upper"] for point in document["tried"]]
    assert max(drops) > 20, "all layers INT8 would have cost most of the accuracy"


def test_a_layer_that_was_named_is_kept(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build(folder, "--method", "minmax", "--json", "--keep", LAYER) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["kept_in_fp32"] == [LAYER]


def test_what_does_not_pass_ends_with_1_and_does_not_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = "synthetic:?seed=7&width=320&height=192&frames=22&objects=1"
    assert build(folder, "--judge", few, "--method", "minmax") == 1
    said = capsys.readouterr().out
    assert "NOT PASSED: cannot say" in said
    assert run(folder) == 2
    assert "cannot say" in capsys.readouterr().err
    assert run(folder, "--set", "model.gate=warn") == 0


def test_what_ships_is_not_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["model", "build", "scene-tiny", "--source", SCENES]) == 2
    assert "copy " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--max-drop", "0"], "--max-drop"),
        (["--out", "/elsewhere.onnx"], "--out"),
        (["--out", "FOLDER/scene.onnx"], "--out"),
        (["--out", "FOLDER/scene.yaml"], "--out"),
        (["--out", "FOLDER/nowhere/scene-int8.onnx"], "no such folder"),
        (["--frames", "0"], "--frames"),
        (["--keep", "nothing"], "--keep"),
        (["--labels", "none.json"], "none.json"),
    ],
)
def test_a_users_mistake_is_one_line_before_any_work(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    said: str,
) -> None:
    before = {each.name: each.read_bytes() for each in folder.iterdir()}
    assert build(folder, *[x.replace("FOLDER", str(folder)) for x in arguments]) == 2
    assert {each.name: each.read_bytes() for each in folder.iterdir()} == before
    error = capsys.readouterr().err
    assert said in error
    assert len(error.strip().splitlines()) == 1
    assert not (folder / "scene-int8.onnx").exists()


def files_in(folder: Path) -> dict[str, bytes]:
    """What a run would read."""
    names = ("scene.yaml", "scene-int8.onnx", "scene-int8.gate.json")
    return {name: (folder / name).read_bytes() for name in names}


class _KilledError(BaseException):
    """As a signal ends a program."""


@pytest.mark.parametrize("moment", ["judging", "keeping"])
def test_a_build_that_is_ended_leaves_the_engine_that_was_there_working(
    folder: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    assert build(folder, "--method", "minmax") == 0
    before = files_in(folder)

    def killed(*_: object, **__: object) -> None:
        raise _KilledError

    if moment == "judging":
        monkeypatch.setattr("edgepipe.building.judge", killed)
    else:
        monkeypatch.setattr("edgepipe.commands.model_build._keep", killed)
    with pytest.raises(_KilledError):
        build(folder, "--method", "percentile", "--images", "6")
    assert files_in(folder) == before
    assert run(folder) == 0


@pytest.mark.parametrize("out", ["scene-int8.onnx", "other-int8.onnx"])
def test_what_does_not_pass_does_not_replace_what_has(
    folder: Path, capsys: pytest.CaptureFixture[str], out: str
) -> None:
    assert build(folder, "--method", "minmax") == 0
    before = files_in(folder)
    few = "synthetic:?seed=7&width=320&height=192&frames=22&objects=1"
    where = ("--out", str(folder / out))
    assert build(folder, "--judge", few, "--method", "percentile", *where) == 1
    assert "has passed its gate and stays" in capsys.readouterr().err
    assert files_in(folder) == before


def test_a_file_swapped_while_it_is_judged_gets_no_gate(folder: Path) -> None:
    assert build(folder, "--method", "minmax") == 0
    file, card = folder / "scene-int8.onnx", read_card(folder / "scene.yaml")[0]
    other = onnx.load(file)
    other.producer_name = "somebody else"

    def swap(done: int, total: int) -> None:
        if done == 30:
            onnx.save(other, file)

    with pytest.raises(ModelError, match="replaced while it was judged"):
        judge(card, OTHERS, progress=swap)
