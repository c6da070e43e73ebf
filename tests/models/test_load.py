"""From a card to a running engine, or to one line that says why not."""

import os
import platform
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from edgepipe.errors import EngineError, ModelError
from edgepipe.models.batch import images_profile
from edgepipe.models.card import ModelCard, ModelFile
from edgepipe.models.engine import Engine, EngineInfo, Outputs
from edgepipe.models.load import ENGINES, LOADERS, load_engine

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
    with pytest.raises(ModelError, match="unknown head 'rcnn'"):
        load(make_card(Path("missing.onnx"), head="rcnn"))


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


class Fake:
    """An engine that answers the same to whatever it is shown, or what it sees."""

    opened: ClassVar[list["Fake"]] = []

    def __init__(
        self, name: str, card: ModelCard, because: str, *, blind: bool
    ) -> None:
        self.info = EngineInfo(name, "1", "none", "int8", "int8", 1, 1, because)
        self.closed = False
        self.profile = images_profile(card, 1)
        self._blind = blind
        self._shape = card.height // 8, card.width // 8
        self.opened.append(self)

    def infer(self, images: NDArray[np.uint8], request: int = 0) -> Outputs:
        """Scores are the colours of the corners of cells of 8 pixels."""
        assert request == 0
        rows, columns = self._shape
        scores = np.zeros((1, rows * columns, 3), np.float32)
        if not self._blind:
            scores[0] = images[0, ::8, ::8].reshape(-1, 3) / 255
        return {"scores": scores, "dist": np.ones((1, rows * columns, 4), np.float32)}

    def submit(self, images: NDArray[np.uint8], request: int = 0) -> None:
        """Loading begins nothing that it does not wait for."""
        raise NotImplementedError

    def wait(self, request: int = 0) -> Outputs:
        """As submit."""
        raise NotImplementedError

    def cancel(self, request: int = 0) -> None:
        """As submit."""
        raise NotImplementedError

    def renew(self, request: int) -> None:
        """There is nothing to make anew."""

    def close(self) -> None:
        """Remember it."""
        self.closed = True


@pytest.fixture
def pretend(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., list[Fake]]:
    """Replaces engines by fakes; those named are blind when they load INT8."""

    def replace_with(*blind: str) -> list[Fake]:
        monkeypatch.setattr(Fake, "opened", [])
        for name in ENGINES:

            def loader(
                card: ModelCard,
                file: ModelFile,
                requests: int,
                threads: int,
                because: str,
                batch_max: int,
                *,
                name: str = name,
            ) -> Engine:
                assert (requests, threads, batch_max) == (1, 1, 1)
                is_blind = name in blind and file.precision == "int8"
                return Fake(name, card, because, blind=is_blind)

            monkeypatch.setitem(LOADERS, name, loader)
        return Fake.opened

    return replace_with


@pytest.fixture
def both(make_card: MakeCard, tmp_path: Path) -> ModelCard:
    """A card with an INT8 and an FP32 file, which no fake opens."""
    files = [
        ModelFile(precision, tmp_path / f"{precision}.onnx", None)
        for precision in ("int8", "fp32")
    ]
    for file in files:
        file.path.touch()
    return replace(make_card(), files=tuple(files))


def test_an_engine_that_computes_rubbish_is_refused_with_what_to_do(
    both: ModelCard, pretend: Callable[..., list[Fake]]
) -> None:
    opened = pretend("openvino")
    with pytest.raises(
        EngineError,
        match=r"openvino computes rubbish from .*int8\.onnx .* 100% off from that of "
        r".*fp32\.onnx .*; use precision fp32 or another engine",
    ):
        load(both, "openvino", "int8")
    assert [engine.closed for engine in opened] == [True, True]


def test_auto_goes_on_from_an_engine_that_computes_rubbish_and_says_why(
    both: ModelCard, pretend: Callable[..., list[Fake]]
) -> None:
    opened = pretend("openvino")
    engine = load(both, "auto", "int8")
    assert engine.info.engine == "onnxruntime"
    because = engine.info.chosen_because
    assert because.startswith("auto; openvino computes rubbish")
    assert because.endswith("; first that works")
    assert [each.closed for each in opened] == [True, True, False, True]


def test_auto_with_nothing_but_rubbish_refuses_to_start(
    both: ModelCard, pretend: Callable[..., list[Fake]]
) -> None:
    pretend(*ENGINES)
    with pytest.raises(
        EngineError, match=r"openvino computes rubbish.*; onnxruntime computes rubbish"
    ):
        load(both, "auto", "int8")


def test_a_right_engine_stays_and_what_it_was_compared_with_goes(
    both: ModelCard, pretend: Callable[..., list[Fake]]
) -> None:
    opened = pretend()
    assert load(both, "auto", "int8").info.chosen_because == "auto; first that works"
    assert [engine.closed for engine in opened] == [False, True]


def test_fp32_is_compared_with_nothing(
    both: ModelCard, pretend: Callable[..., list[Fake]]
) -> None:
    opened = pretend("openvino")
    load(both, "auto", "fp32")
    assert [engine.closed for engine in opened] == [False]


def test_int8_without_an_fp32_file_is_taken_as_it_is(
    both: ModelCard, pretend: Callable[..., list[Fake]]
) -> None:
    pretend("openvino")
    both.files[1].path.unlink()
    alone = replace(both, files=both.files[:1])
    for card in (both, alone):
        assert load(card, "auto", "int8").info.engine == "openvino"


# Signed pairs as OpenVINO 2026.4 takes them by itself on a processor without AMX, which
# "AVX2" makes of any x86. A release that has learned it is welcome to pass.
UNREPAIRED = """
import numpy as np
from edgepipe.configs.model_card import read_card
from edgepipe.models import openvino_engine, zoo
from edgepipe.models.load import load_engine
from edgepipe.models.self_check import probe_image

openvino_engine.join_signed_pairs = lambda model: None
card, _ = read_card(zoo.card_path("nanodet-g"))
engine = load_engine(card, "int8", requests=1, threads=1)
truth = load_engine(card, "fp32", requests=1, threads=1)
image = probe_image(card.height, card.width)
difference = engine.infer(image)["scores"] - truth.infer(image)["scores"]
assert np.abs(difference).max() < 0.15
print(engine.info.engine, engine.info.chosen_because)
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="seen on x86-64 only")
def test_the_rubbish_that_openvino_made_of_the_default_model_is_not_used() -> None:
    run = subprocess.run(
        [sys.executable, "-c", UNREPAIRED],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2"},
    )
    assert run.stdout.startswith(
        (
            "onnxruntime auto; openvino computes rubbish",
            "openvino auto; first that works",
        )
    )
