"""``edgepipe model plan``, from the command line to the files."""

import json
import shutil
from pathlib import Path

import pytest

from edgepipe.cli import main
from edgepipe.models import zoo
from edgepipe.models.tensorrt.api import TensorRt
from edgepipe.models.tensorrt.host import Gpu


@pytest.fixture
def card(tmp_path: Path) -> Path:
    """The default model, where something may be written beside it."""
    folder = tmp_path / "nanodet"
    shutil.copytree(zoo.card_path("nanodet-g").parent, folder)
    return folder / "card.yaml"


def plan(card: Path, *args: str) -> int:
    return main(["model", "plan", str(card), *args])


def test_a_plan_is_built_beside_the_model_and_found_to_fit(
    rtx: TensorRt,
    card: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    targets = ("--target", "86", "--target", "89")
    assert plan(card, *targets, "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["trt"] == rtx.__version__
    assert facts["sm"] == ["86", "89"]
    assert facts["precision"].startswith("int8")
    assert Path(facts["plan"]).stat().st_size == facts["plan_bytes"]
    assert json.loads((card.parent / "int8.plan.json").read_text())["plan_sha256"]

    monkeypatch.setattr(
        "edgepipe.models.tensorrt.host.gpu", lambda: Gpu("L4", "89", "13.0")
    )
    assert plan(card, *targets, "--check") == 0
    assert "compute capability 86, 89" in capsys.readouterr().out
    monkeypatch.setattr(
        "edgepipe.models.tensorrt.host.gpu", lambda: Gpu("H200", "90", "13.0")
    )
    assert plan(card, *targets, "--check") == 2
    error = capsys.readouterr().err
    assert "for compute capability 86, 89, this machine has 90" in error
    rebuild = f"edgepipe model plan {card} --target 86 --target 89"
    assert f"rebuild it here with {rebuild!r}" in error


def test_a_plan_of_another_model_does_not_fit(
    rtx: TensorRt, card: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del rtx
    assert plan(card, "--target", "86") == 0
    shutil.copy(card.parent / "fp32.onnx", card.parent / "int8.onnx")
    assert plan(card, "--target", "86", "--check") == 2
    assert "from a model with sha256" in capsys.readouterr().err


def test_a_plan_is_built_again_only_where_it_is_needed(
    rtx: TensorRt, card: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del rtx
    built: list[bool] = []
    for name in ("int8", "int8", "fp32"):
        if name == "fp32":
            shutil.copy(card.parent / "fp32.onnx", card.parent / "int8.onnx")
        assert plan(card, "--target", "86", "--if-needed", "--json") == 0
        built.append(json.loads(capsys.readouterr().out)["built"])
    assert built == [True, False, True]
    assert len(list(card.parent.glob("*.plan"))) == 1


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--target", "86", "--check"), "there is no plan for it: build it with"),
        (("--target", "1"), "no target 1: this release builds for"),
        (("--precision", "fp16"), "has no 'fp16' file (the card lists: int8, fp32)"),
        (("--batch-max", "0"), "--batch-max: expected 1 or more, got 0"),
        (
            ("--target", "86", "--batch-max", "2"),
            "2x3x320x416) does not fit the model's 1x3xheightxwidth",
        ),
        (("--target", "86", "--dla", "0"), "tensorrt_rtx knows no DLA"),
        ((), "tensorrt"),  # not installed, too old, or without a GPU
    ],
)
def test_what_cannot_be_built_is_one_line(
    args: tuple[str, ...],
    said: str,
    rtx: TensorRt,
    card: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    del rtx
    assert plan(card, *args) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
