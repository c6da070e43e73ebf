"""INT8 against FP32 on recordings, the gate that comes of it, and who is let run."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from edgepipe.cards import card_named
from edgepipe.cli import main
from edgepipe.errors import InputError, ModelError
from edgepipe.evaluation import judge
from edgepipe.models import zoo
from edgepipe.models.card import ModelCard, ModelFile
from edgepipe.models.gate import GateResult, gate_path
from edgepipe.quantisation import Quantisation, Scheme
from edgepipe.samples import spread
from edgepipe.stages.sources.scene import CLASS_NAMES, Scene
from edgepipe.truth import LabelTruth, truth_of
from tests.models.evaluate.coco_reference import coco_ap

if TYPE_CHECKING:
    from tests.colour_model import ColourModel

FRAMES = 30
SCENE = f"synthetic:?seed=11&objects=8&frames={FRAMES}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model of a user's own, with no gate."""
    target = tmp_path / "tiny"
    shutil.copytree(zoo.card_path("scene-tiny").parent, target)
    gate_path(target / "int8.onnx").unlink()
    return target


def card_in(folder: Path) -> ModelCard:
    return card_named(str(folder / "card.yaml"))[0]


def break_int8(folder: Path, bits: int) -> None:
    """Weights in so few bits, and one scale for each layer."""
    model: Any = onnx.load_model_from_string((folder / "fp32.onnx").read_bytes())
    weights = {node.input[1] for node in model.graph.node if node.op_type == "Conv"}
    for tensor in model.graph.initializer:
        if tensor.name in weights:
            values = np.asarray(numpy_helper.to_array(tensor), np.float32)
            step = float(np.abs(values).max()) / (2 ** (bits - 1) - 1)
            rough = np.asarray(np.round(values / step) * step, np.float32)
            tensor.CopyFrom(numpy_helper.from_array(rough, tensor.name))
    (folder / "int8.onnx").write_bytes(model.SerializeToString())
    text = (folder / "card.yaml").read_text().splitlines()
    kept = [line for line in text if "sha256" not in line]
    (folder / "card.yaml").write_text("\n".join(kept))


def judged(card: ModelCard, source: str = SCENE, **how: Any) -> GateResult:
    return judge(card, source, labels=truth_of(source, None, card), **how)


def test_a_scene_knows_what_was_drawn_and_int8_passes(folder: Path) -> None:
    seen: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        seen.append((done, total))

    result = judged(card_in(folder), max_drop=5, progress=progress)
    assert (result.passed, result.kind, result.reason) == (True, "ap", "")
    assert result.reference == "labels: what the scene was drawn of"
    assert result.fp32 - result.int8 == pytest.approx(result.drop)
    assert set(result.classes) <= set(CLASS_NAMES)
    assert seen[-1] == (FRAMES, FRAMES)
    again = judged(card_in(folder), max_drop=5)
    assert again == result


def test_int8_that_lost_its_accuracy_does_not_pass(folder: Path) -> None:
    break_int8(folder, bits=3)
    result = judged(card_in(folder))
    assert not result.passed
    assert result.reason.startswith("INT8 loses ")
    assert result.drop > 10


def test_without_labels_agreement_finds_it_too(folder: Path) -> None:
    card = replace(card_in(folder), class_names=("a", "b", "c"))
    good = judged(card, max_drop=5)
    break_int8(folder, bits=3)
    bad = judged(replace(card_in(folder), class_names=("a", "b", "c")))
    assert (good.kind, good.passed, bad.passed) == ("agreement", True, False)
    assert good.reference.startswith("no labels")
    assert bad.drop > 10


def draw(folder: Path) -> Scene:
    scene = Scene(11, 320, 192, 8)
    folder.mkdir()
    for k in range(FRAMES):
        cv2.imwrite(str(folder / f"shot_{k:03}.png"), scene.image(k))
    return scene


def yolo(scene: Scene, folder: Path) -> Path:
    folder.mkdir()
    for k in range(FRAMES):
        drawn = scene.truth(k)
        x1, y1, x2, y2 = (drawn.xyxy / np.array([320, 192, 320, 192])).T
        rows = zip(
            drawn.class_id, (x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1, strict=True
        )
        lines = [" ".join(map(repr, map(float, row))) for row in rows]
        (folder / f"shot_{k:03}.txt").write_text("\n".join(lines))
    (folder / "classes.txt").write_text("\n".join(CLASS_NAMES))
    return folder


def coco(scene: Scene, path: Path) -> Path:
    annotations = [
        {
            "image_id": k,
            "category_id": int(drawn.class_id[n]) + 1,
            "bbox": [x1, y1, x2 - x1, y2 - y1],
        }
        for k in range(FRAMES)
        for drawn in [scene.truth(k)]
        for n, (x1, y1, x2, y2) in enumerate(drawn.xyxy.tolist())
    ]
    images = [{"id": k, "file_name": f"shot_{k:03}.png"} for k in range(FRAMES)]
    categories = [{"id": k + 1, "name": n} for k, n in enumerate(CLASS_NAMES)]
    document = {
        "images": images,
        "annotations": annotations,
        "categories": [*categories, {"id": 9, "name": "kite"}],
    }
    path.write_text(json.dumps(document))
    return path


def test_labels_of_every_form_say_what_the_scene_itself_says(
    folder: Path, tmp_path: Path
) -> None:
    card = card_in(folder)
    scene = draw(tmp_path / "shots")
    wanted = judged(card)
    shots = str(tmp_path / "shots")
    for path in (
        yolo(scene, tmp_path / "labels"),
        coco(scene, tmp_path / "labels.json"),
    ):
        labels = LabelTruth(path, shots, card)
        result = judge(card, shots, labels=labels)
        assert result.objects == wanted.objects
        assert result.fp32 == pytest.approx(wanted.fp32, abs=0.2)
        assert result.int8 == pytest.approx(wanted.int8, abs=0.2)
        assert (result.labels, result.labels_sha256) == (path.name, labels.sha256)
    assert "kite" in result.notes[0]


def test_results_are_pycocotools_own_and_give_the_same_figure(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = coco(draw(tmp_path / "shots"), tmp_path / "labels.json")
    out = tmp_path / "found.json"
    card, shots = str(folder / "card.yaml"), str(tmp_path / "shots")
    where = ["--source", shots, "--labels", str(labels), "--results", str(out)]
    main(["model", "eval", card, *where, "--json"])
    ours = json.loads(capsys.readouterr().out)["int8"]
    document = json.loads(labels.read_text())
    for number, each in enumerate(document["annotations"], start=1):
        area = each["bbox"][2] * each["bbox"][3]
        each |= {"id": number, "area": area, "iscrowd": 0}
    labels.write_text(json.dumps(document | {"info": {}}))
    assert ours == pytest.approx(100 * coco_ap(labels, out), abs=1e-9)


def test_a_frame_without_labels_is_not_judged(folder: Path, tmp_path: Path) -> None:
    card = card_in(folder)
    scene = draw(tmp_path / "shots")
    labels = yolo(scene, tmp_path / "labels")
    for k in range(10):
        (labels / f"shot_{k:03}.txt").unlink()
    shots = str(tmp_path / "shots")
    result = judge(card, shots, labels=LabelTruth(labels, shots, card))
    assert result.frames == FRAMES - 10


def test_labels_of_other_classes_are_refused(folder: Path, tmp_path: Path) -> None:
    card = replace(card_in(folder), class_names=("a", "b", "c"))
    labels = coco(Scene(11, 320, 192, 8), tmp_path / "labels.json")
    with pytest.raises(InputError, match="none of its classes"):
        truth_of(SCENE, str(labels), card)


def test_frames_can_be_fewer_and_the_data_are_known_by_their_hash(
    folder: Path,
) -> None:
    card = card_in(folder)
    few = judged(card, every=3, limit=5)
    assert few.frames == 5
    assert few.reason.startswith("cannot say")
    assert few.data_sha256 == judged(card, every=3, limit=5).data_sha256
    assert few.data_sha256 != judged(card, every=2, limit=5).data_sha256


def test_what_cannot_be_judged_is_refused(folder: Path) -> None:
    card = card_in(folder)
    empty = "synthetic:?objects=0&frames=3"
    with pytest.raises(InputError, match="no object of the network's classes"):
        judged(card, empty)
    unknown = replace(card, class_names=("a", "b", "c"), score_threshold=0.99)
    with pytest.raises(InputError, match=r"FP32 finds no object of score 0\.99"):
        judged(unknown, empty)
    for precision in ("fp32", "int8"):
        files = tuple(each for each in card.files if each.precision != precision)
        with pytest.raises(ModelError, match=f"lists no {precision} file"):
            judged(replace(card, files=files))


def test_a_classifier_is_judged_by_the_class_it_names_first(
    tmp_path: Path, colour_model: "ColourModel"
) -> None:
    path = colour_model.write(tmp_path)
    shutil.copy(path, tmp_path / "int8.onnx")
    card, _ = card_named(str(path))
    files = (*card.files, ModelFile("int8", tmp_path / "int8.onnx", None))
    card = replace(card, files=files)
    result = judge(card, SCENE)
    assert (result.kind, result.int8, result.drop) == ("top-1", 100.0, 0.0)
    assert result.upper == pytest.approx(300 / FRAMES)
    with pytest.raises(ModelError, match=r"is no detector .* labels are of boxes"):
        judge(card, SCENE, labels=truth_of(SCENE, None, card_named("scene-tiny")[0]))


# --- the command, and what runs -------------------------------------------------------


OWN = {"path": "int8.onnx", "card": "card.yaml"}


@pytest.fixture
def run_it(folder: Path, tmp_path: Path) -> Callable[..., int]:
    def run(*more: str) -> int:
        changes = (
            *(f"model.{key}={folder / file}" for key, file in OWN.items()),
            f"telemetry.dir={tmp_path / 'runs'}",
            "streams[0].source.uri=synthetic:?frames=5",
            "streams[0].source.loop=false",
            "streams[0].source.pace=fast",
            "streams[0].deadline=10s",
            *more,
        )
        return main(["run", "synthetic", "--json", *(f"--set={c}" for c in changes)])

    return run


def evaluate(folder: Path, *more: str) -> int:
    card = str(folder / "card.yaml")
    return main(["model", "eval", card, "--source", SCENE, "--max-drop=5", *more])


def test_int8_without_a_gate_is_refused_in_one_line_that_tells_the_way(
    run_it: Callable[..., int], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sets = [f"--set=model.{key}={folder / file}" for key, file in OWN.items()]
    assert main(["bench", "synthetic", "--duration=1s", *sets]) == 2
    bench = capsys.readouterr().err
    assert run_it() == 2
    said = capsys.readouterr().err
    assert said == bench
    assert said.count("\n") == 1
    assert "has no accuracy gate" in said
    assert f"edgepipe model eval {folder / 'card.yaml'} --source" in said
    assert "model.gate" in said


def test_with_the_gate_it_runs_and_the_summary_has_the_figures(
    run_it: Callable[..., int], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(folder, "--write") == 0
    assert "scene-tiny INT8 passed" in capsys.readouterr().out
    assert run_it() == 0
    gate = json.loads(capsys.readouterr().out)["model"]["gate"]
    assert (gate["passed"], gate["kind"], gate["allowed"]) == (True, "ap", 5.0)
    assert gate["frames"] == FRAMES


def test_a_gate_for_other_bytes_is_refused_or_warned_of(
    run_it: Callable[..., int], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(folder, "--write") == 0
    break_int8(folder, bits=7)
    capsys.readouterr()
    assert run_it() == 2
    assert "was made for another INT8 file" in capsys.readouterr().err
    assert run_it("model.gate=warn") == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["model"]["gate"]["passed"] is False
    assert any("another INT8 file" in each for each in summary["warnings"])


def list_as_fp32(folder: Path, more: str = "") -> None:
    text = (folder / "card.yaml").read_text()
    files = f"files: [{{precision: fp32, path: int8.onnx}}{more}]\n"
    start, end = text.index("files:"), text.index("input:")
    (folder / "card.yaml").write_text(text[:start] + files + text[end:])


def test_int8_that_its_card_calls_fp32_is_refused_or_warned_of(
    run_it: Callable[..., int], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    list_as_fp32(folder)
    assert run_it("model.precision=fp32") == 2
    said = capsys.readouterr().err
    assert "its card says fp32, and" in said
    assert "list it as int8" in said
    assert run_it("model.precision=fp32", "model.gate=warn") == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["model"]["gate"]["passed"] is False
    assert any("list it as int8" in each for each in summary["warnings"])


def test_int8_is_not_judged_against_itself(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    list_as_fp32(folder, ", {precision: int8, path: int8.onnx}")
    assert evaluate(folder, "--write") == 2
    assert "its card says fp32, and" in capsys.readouterr().err
    assert not gate_path(folder / "int8.onnx").exists()


def test_one_picture_shown_again_and_again_is_no_evidence(
    folder: Path, tmp_path: Path
) -> None:
    shots = tmp_path / "shots"
    shots.mkdir()
    for k in range(60):
        cv2.imwrite(str(shots / f"{k:03}.png"), Scene(11, 320, 192, 8).image(k % 3))
    result = judge(card_in(folder), str(shots), max_drop=100)
    assert not result.passed
    assert result.reason.startswith("cannot say: ")
    assert result.frames == 3
    assert result.notes == ("57 of 60 frames showed a picture again: not counted",)


def test_a_network_that_does_not_look_cannot_pass(folder: Path) -> None:
    for name in ("fp32.onnx", "int8.onnx"):
        model: Any = onnx.load_model_from_string((folder / name).read_bytes())
        given = model.graph.input[0].name
        for node in model.graph.node:
            for k, each in enumerate(node.input):
                node.input[k] = "unseen" if each == given else each
        zero = numpy_helper.from_array(np.zeros(1, np.float32), "zero")
        model.graph.initializer.append(zero)
        node = onnx.helper.make_node("Mul", [given, "zero"], ["unseen"])
        model.graph.node.insert(0, node)
        (folder / name).write_bytes(model.SerializeToString())
    text = (folder / "card.yaml").read_text()
    lines = [line for line in text.splitlines() if "sha256" not in line]
    (folder / "card.yaml").write_text(
        "\n".join(lines).replace("score_threshold: 0.35", "score_threshold: 0.0001")
    )
    result = judge(card_in(folder), SCENE, max_drop=100)
    assert not result.passed
    assert result.reason.startswith("cannot say: FP32 ")


def test_a_variant_needs_its_own_gate_and_fp32_needs_none(
    run_it: Callable[..., int], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fp32 = ("model.path=scene-tiny", "model.card=null", "model.precision=fp32")
    assert run_it(*fp32) == 0
    gate = json.loads(capsys.readouterr().out)["model"]["gate"]
    assert gate["passed"] is None
    assert gate["reason"]
    files = f"path: {folder / 'int8.onnx'}, card: {folder / 'card.yaml'}"
    small = f"model.variants=[{{name: small, precision: int8, {files}}}]"
    assert run_it(*fp32, small, "scheduler.ladder=[{variant: small}]") == 2
    assert f"{folder}/int8.onnx: has no accuracy gate" in capsys.readouterr().err


def test_a_classifier_in_int8_needs_a_gate_too(
    run_it: Callable[..., int],
    colour_model: "ColourModel",
    tmp_path: Path,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = colour_model.write(tmp_path)
    card = path.with_suffix(".yaml")
    card.write_text(card.read_text().replace("precision: fp32", "precision: int8"))
    assert evaluate(folder, "--write") == 0
    classifier = f"classifiers=[{{name: colour, path: '{path}'}}]"
    capsys.readouterr()
    assert run_it(classifier) == 2
    assert f"{path}: has no accuracy gate" in capsys.readouterr().err
    assert run_it(classifier, "model.gate=warn") == 0


def test_a_failed_evaluation_exits_with_1_and_its_gate_says_why(
    run_it: Callable[..., int], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    break_int8(folder, bits=3)
    assert evaluate(folder, "--write") == 1
    assert "INT8 NOT PASSED: INT8 loses " in capsys.readouterr().out
    assert run_it() == 2
    assert "not passed: INT8 loses " in capsys.readouterr().err


def test_without_write_nothing_is_written_and_json_is_the_record(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = "--limit=5"
    assert evaluate(folder, "--json", few) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "edgepipe.gate/1"
    assert not gate_path(folder / "int8.onnx").exists()
    assert evaluate(folder, "--json", few, "--write") == 1
    assert json.loads(gate_path(folder / "int8.onnx").read_text()) == document


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--max-drop=0"], "--max-drop"),
        (["--max-drop=nan"], "--max-drop"),
        (["--every=0"], "--every"),
        (["--limit=0"], "--limit"),
        (["--labels=nowhere.json"], "nowhere.json"),
        (["--source=nowhere.mp4"], "nowhere.mp4"),
        (["--source=v4l2:/dev/video99"], "/dev/video99"),
    ],
)
def test_a_wrong_option_is_one_line_and_exit_2(
    folder: Path, more: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(folder, *more) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


YOLOX = """\
name: yolox-nano
files: [{precision: fp32, path: fp32.onnx}, {precision: int8, path: int8.onnx}]
input: {name: images, height: 416, width: 416, color: bgr, mean: [0, 0, 0],
  std: [1, 1, 1], align: top_left, pad_value: [114, 114, 114]}
head: {kind: yolox, outputs: [output]}
classes: {file: coco80.txt}
score_threshold: 0.3
iou_threshold: 0.65
"""


@pytest.mark.slow
def test_a_network_that_one_scale_for_each_layer_ruins_is_refused(
    tmp_path: Path,
    foreign_models: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copy(foreign_models / "yolox_nano.onnx", tmp_path / "fp32.onnx")
    shutil.copy(foreign_models / "coco80.txt", tmp_path)
    card_path = tmp_path / "card.yaml"
    card_path.write_text(YOLOX)
    card, _ = card_named(str(card_path))
    work = Quantisation(card, spread(card, ["sample:bikes"], 3), "bikes")
    table = work.calibrate("minmax", tmp_path / "table.json")
    rough = Scheme(per_channel=False)
    work.write(tmp_path / "int8.onnx", table, scheme=rough)
    frames = ["--source", "sample:bikes", "--every=10", "--limit=6"]
    assert main(["model", "eval", str(card_path), *frames]) == 1
    assert "yolox-nano INT8 NOT PASSED: INT8 loses " in capsys.readouterr().out
