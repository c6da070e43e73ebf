"""From a card to a running engine, or to one line that says why not."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgepipe.errors import EngineError, ModelError
from edgepipe.models.card import ModelCard, ModelFile
from edgepipe.models.load import load_engine

MakeCard = Callable[..., ModelCard]
MakeModel = Callable[..., Path]
OPENVINO = "edgepipe.models.openvino_engine"
ONNXRUNTIME = "edgepipe.models.onnxruntime_engine"


@pytest.fixture
def forget(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes an engine's module fail to import, as when its library is missing."""

    def hide(module: str) -> None:
        monkeypatch.setitem(sys.modules, module, None)

    return hide


@pytest.fixture
def card(make_model: MakeModel, make_card: MakeCard) -> ModelCard:
    """A model that fits its card."""
    return make_card(make_model())


def load(card: ModelCard, engine: str = "auto", precision: str = "fp32") -> Any:
    return load_engine(card, precision, engine, requests=1, threads=1)


@pytest.mark.parametrize("name", ["openvino", "onnxruntime"])
def test_an_engine_asked_for_by_name_is_that_engine(name: str, card: ModelCard) -> None:
    engine = load(card, name)
    assert engine.info.engine == name
    assert engine.info.chosen_because == "asked for by name"
    engine.close()


def test_auto_takes_openvino_and_says_so(card: ModelCard) -> None:
    engine = load(card)
    assert engine.info.engine == "openvino"
    assert engine.info.chosen_because == "auto; first that works"
    engine.close()


def test_auto_goes_on_without_openvino_and_says_why(
    card: ModelCard, forget: Callable[[str], None]
) -> None:
    forget(OPENVINO)
    engine = load(card)
    assert engine.info.engine == "onnxruntime"
    assert "openvino cannot be imported" in engine.info.chosen_because
    engine.close()


def test_auto_without_any_engine_says_how_to_get_one(
    card: ModelCard, forget: Callable[[str], None]
) -> None:
    forget(OPENVINO)
    forget(ONNXRUNTIME)
    with pytest.raises(EngineError, match=r"openvino;.*'edgepipe\[models\]'"):
        load(card)


@pytest.mark.parametrize(
    ("name", "module", "hint"),
    [
        ("openvino", OPENVINO, "pip install openvino"),
        ("onnxruntime", ONNXRUNTIME, r"pip install 'edgepipe\[models\]'"),
    ],
)
def test_a_named_engine_that_is_missing_is_never_replaced(
    name: str, module: str, hint: str, card: ModelCard, forget: Callable[[str], None]
) -> None:
    forget(module)
    with pytest.raises(EngineError, match=hint):
        load(card, name)


def test_an_unknown_engine_is_refused_with_those_that_exist(card: ModelCard) -> None:
    with pytest.raises(EngineError, match=r"'tpu' .known: auto, openvino, onnxruntime"):
        load(card, "tpu")


def test_an_unknown_head_is_refused_before_anything_is_loaded(
    make_card: MakeCard,
) -> None:
    with pytest.raises(ModelError, match="unknown head 'ssd'"):
        load(make_card(Path("missing.onnx"), head="ssd"))


def test_a_precision_without_a_file_is_refused_with_those_there_are(
    card: ModelCard,
) -> None:
    with pytest.raises(ModelError, match=r"no 'int8' file \(the card lists: fp32\)"):
        load(card, precision="int8")


@pytest.mark.parametrize("content", [None, b"", b"not a model at all"])
def test_an_unusable_file_is_named(
    content: bytes | None, card: ModelCard, tmp_path: Path
) -> None:
    path = tmp_path / "broken.onnx"
    if content is not None:
        path.write_bytes(content)
    broken = replace(card, files=(ModelFile("fp32", path, None),))
    with pytest.raises(ModelError, match=r"broken\.onnx"):
        load(broken)


@pytest.mark.parametrize("count", [2, 79, 81])
def test_a_wrong_number_of_class_names_is_found_at_load(
    count: int, card: ModelCard
) -> None:
    names = tuple(f"class {index}" for index in range(count))
    with pytest.raises(ModelError, match=f"has 3 classes, the card has {count} class"):
        load(replace(card, class_names=names))


def test_an_output_of_another_shape_is_found_at_load(
    make_model: MakeModel, make_card: MakeCard
) -> None:
    path = make_model(zeros={"scores": (1, 96, 3), "dist": (1, 95, 4)})
    with pytest.raises(
        ModelError, match=r"'dist' has shape \(95, 4\).* needs \(96, 4\)"
    ):
        load(make_card(path))


def test_outputs_are_bound_by_name_and_not_by_place(
    make_model: MakeModel, make_card: MakeCard
) -> None:
    path = make_model(zeros={"dist": (1, 96, 4), "scores": (1, 96, 3)})
    engine = load(make_card(path))
    outputs = engine.infer(np.zeros((1, 64, 96, 3), np.uint8))
    assert outputs["scores"].shape == (1, 96, 3)
    engine.close()
