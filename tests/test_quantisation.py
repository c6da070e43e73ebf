"""From a shipped FP32 network and drawn scenes to INT8 files."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from edgepipe import cli
from edgepipe.cards import card_named
from edgepipe.errors import ModelError
from edgepipe.models import zoo
from edgepipe.models.card import ModelCard
from edgepipe.models.quantise.ranges import METHODS
from edgepipe.models.quantise.table import read_table
from edgepipe.quantisation import Quantisation, int8_path
from edgepipe.samples import spread
from edgepipe.trials import Trials

SCENES = "synthetic:?seed=5&width=320&height=192&frames=40"
OTHERS = "synthetic:?seed=6&width=320&height=192&frames=40"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A card of an FP32 file alone, as a user begins."""
    shipped = zoo.card_path("scene-tiny")
    shutil.copy(shipped.parent / "fp32.onnx", tmp_path / "scene.onnx")
    text = shipped.read_text()
    start, end = text.index("files:"), text.index("input:")
    files = "files: [{precision: fp32, path: scene.onnx}]\n"
    (tmp_path / "scene.yaml").write_text(text[:start] + files + text[end:])
    return tmp_path


@pytest.fixture
def card(folder: Path) -> ModelCard:
    return card_named(str(folder / "scene.yaml"))[0]


def work_on(card: ModelCard, images: int = 24, uri: str = SCENES) -> Quantisation:
    return Quantisation(card, spread(card, [uri], images), uri)


class SignalError(Exception):
    """What a signal raises."""


def interrupt_at(image: int) -> Callable[[int, int], None]:
    def progress(done: int, total: int) -> None:
        del total
        if done == image:
            raise SignalError

    return progress


# --- calibration ----------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_every_layers_input_has_a_range(
    card: ModelCard, folder: Path, method: str
) -> None:
    work = work_on(card)
    table = work.calibrate(method, folder / "t.json")
    assert set(table.ranges) == work.tensors
    assert all(value > 0 for value in table.ranges.values())
    assert table.ranges["images"] <= 2.01, "pixels are normalised to about two"


def test_an_interrupted_calibration_goes_on_and_ends_the_same(
    card: ModelCard, folder: Path
) -> None:
    whole = work_on(card).calibrate("mse", folder / "whole.json")
    with pytest.raises(SignalError):
        work_on(card).calibrate("mse", folder / "t.json", progress=interrupt_at(19))
    assert not (folder / "t.json").exists()
    seen: list[int] = []
    table = work_on(card).calibrate(
        "mse", folder / "t.json", progress=lambda done, _: seen.append(done)
    )
    assert seen[0] == 19, "it began again"
    assert table == whole


def test_a_second_method_counts_nothing_again(card: ModelCard, folder: Path) -> None:
    work_on(card).calibrate("mse", folder / "t.json")
    seen: list[int] = []
    work_on(card).calibrate(
        "minmax", folder / "t.json", progress=lambda done, _: seen.append(done)
    )
    assert seen == [24]


def test_a_table_of_other_images_is_told_and_made_again(
    card: ModelCard, folder: Path
) -> None:
    first = work_on(card).calibrate("mse", folder / "t.json")
    said: list[str] = []
    second = work_on(card, uri=OTHERS).calibrate(
        "mse", folder / "t.json", say=said.append
    )
    assert "data sha256 is" in said[0]
    assert first.ranges != second.ranges
    assert read_table(folder / "t.json") == second


def test_a_table_of_another_preprocessing_is_made_again(
    card: ModelCard, folder: Path
) -> None:
    from dataclasses import replace

    work_on(card).calibrate("mse", folder / "t.json")
    said: list[str] = []
    changed = replace(card, mean=(0.0, 0.0, 0.0))
    work_on(changed).calibrate("mse", folder / "t.json", say=said.append)
    assert "preprocessing sha256 is" in said[0]


def test_a_recording_without_a_frame_is_refused(
    card: ModelCard,
) -> None:
    with pytest.raises(ModelError, match="no usable frame"):
        Quantisation(card, [], "nothing.mp4")


def test_names_of_int8_files_follow_those_of_fp32(card: ModelCard) -> None:
    from dataclasses import replace

    from edgepipe.models.card import ModelFile

    for name, wanted in {
        "yard.onnx": "yard-int8.onnx",
        "yard-fp32.onnx": "yard-int8.onnx",
        "fp32.onnx": "int8.onnx",
    }.items():
        files = (ModelFile("fp32", Path("/m") / name, None),)
        path = int8_path(replace(card, files=files), Path("/m/yard.yaml"))
        assert path == Path("/m") / wanted
    both = (*card.files, ModelFile("int8", Path("/m/own.onnx"), None))
    assert int8_path(replace(card, files=both), Path("/m/x.yaml")) == Path(
        "/m/own.onnx"
    )


# --- trials ---------------------------------------------------------------------------


def test_int8_by_each_channel_agrees_and_by_far_too_small_ranges_does_not(
    card: ModelCard, folder: Path
) -> None:
    from dataclasses import replace

    work = work_on(card)
    table = work.calibrate("mse", folder / "t.json")
    images = [s.image for s in spread(card, [SCENES], 12, between=True)]
    with Trials(work, table, images) as trials:
        good = trials.of(frozenset())
        clipped = replace(table, ranges={k: v / 50 for k, v in table.ranges.items()})
        bad = trials.of(frozenset(), clipped)
        kept = trials.of(frozenset(layer.name for layer in work.layers), clipped)
    assert good.drop < 25
    assert bad.drop > 60
    assert abs(kept.drop) < 0.5, "with every layer in FP32 it is the network itself"
    assert good.ms > 0


def test_frames_without_any_object_cannot_judge(card: ModelCard, folder: Path) -> None:
    work = work_on(card)
    table = work.calibrate("mse", folder / "t.json")
    grey = np.full((card.height, card.width, 3), 128, np.uint8)
    with pytest.raises(ModelError, match="finds nothing"):
        Trials(work, table, [grey])


# --- commands -------------------------------------------------------------------------


def test_calibrating_from_the_command_line_writes_the_table_beside_the_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(folder / "scene.yaml")
    arguments = ["model", "calibrate", model, "--source", SCENES, "--images", "10"]
    assert cli.main(arguments) == 0
    said = capsys.readouterr().out
    table = read_table(folder / "scene-int8.calibration.json")
    assert table.key.images == 10
    assert f"{len(table.ranges)} ranges by mse of 10 frames" in said
    assert cli.main([*arguments, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["ranges"] == table.ranges


def test_sensitivity_ranks_layers_draws_the_curve_and_ends_without_a_drop(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(folder / "scene.yaml")
    numbers = ["--images", "10", "--frames", "6"]
    arguments = ["model", "sensitivity", model, "--source", SCENES, *numbers]
    assert cli.main(arguments) == 0
    said = capsys.readouterr().out
    facts = json.loads((folder / "sensitivity.json").read_text())
    drops = [each["drop"] for each in facts["layers"]]
    assert len(drops) == 11
    assert drops == sorted(drops, reverse=True)
    assert [point["kept"] for point in facts["curve"]] == [0, 1, 2, 4, 8, 11]
    assert abs(facts["curve"][-1]["drop"]) < 0.5
    assert facts["layers"][0]["layer"] in said
    svg = ElementTree.fromstring((folder / "sensitivity.svg").read_text())
    circles = svg.findall(".//{http://www.w3.org/2000/svg}circle")
    assert len(circles) == 6


def test_sensitivity_of_a_model_that_ships_leaves_the_installation_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    zoo_folder = zoo.card_path("scene-tiny").parent
    before = sorted(zoo_folder.iterdir())
    numbers = ["--images", "2", "--frames", "2"]
    arguments = ["model", "sensitivity", "scene-tiny", "--source", SCENES, *numbers]
    assert cli.main(arguments) == 0
    assert sorted(zoo_folder.iterdir()) == before
    assert (tmp_path / "sensitivity.svg").is_file()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["missing.yaml", "--source", SCENES], "no such card or model"),
        (["scene-tiny", "--source", "missing.mp4"], "missing.mp4"),
        (["scene-tiny", "--source", SCENES, "--images", "0"], "--images"),
    ],
)
def test_a_users_mistake_is_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["model", "calibrate", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.strip().splitlines()) == 1


def test_a_run_may_name_the_card_itself(folder: Path) -> None:
    config = folder / "run.yaml"
    config.write_text(
        "version: 1\n"
        f"streams: [{{id: yard, source: {{uri: '{SCENES}', pace: fast}}}}]\n"
        f"model: {{path: {folder / 'scene.yaml'}, precision: fp32}}\n"
        f"telemetry: {{dir: {folder / 'runs'}}}\n"
    )
    assert cli.main(["run", str(config)]) == 0
