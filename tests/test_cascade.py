"""A second network on what the first one found, from the configuration to the files."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from edgepipe.assemble import Pipeline, stage_names
from edgepipe.cli import main
from edgepipe.configs import load
from edgepipe.errors import ConfigError, EdgepipeError

if TYPE_CHECKING:
    from tests.colour_model import ColourModel

Changes = Callable[..., list[str]]


@pytest.fixture
def changes(tmp_path: Path, colour_model: "ColourModel") -> Changes:
    """Overrides of the packaged synthetic scene with a classifier of colours."""
    model = colour_model.write(tmp_path)

    def make(more: str = "") -> list[str]:
        return [
            "streams[0].source.uri=synthetic:?frames=20&seed=4",
            "streams[0].source.loop=false",
            "streams[0].source.pace=fast",
            "streams[0].queue.overflow=block",
            "streams[0].deadline=10s",
            f"classifiers=[{{name: colour, path: '{model}', precision: fp32{more}}}]",
        ]

    return make


def open_pipeline(folder: Path, overrides: list[str]) -> Pipeline:
    return Pipeline(load.read("synthetic", overrides).config, folder)


def test_every_result_says_what_the_second_network_saw(
    changes: Changes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [f"--set={change}" for change in changes(", max_crops: 3")]
    sinks = f"--set=sinks=[{{kind: jsonl, path: '{tmp_path / 'out.jsonl'}'}}]"
    folder = f"--set=telemetry.dir={tmp_path / 'runs'}"
    assert main(["run", "synthetic", *arguments, sinks, folder, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    frames = [
        json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()
    ]
    objects = [each for frame in frames for each in frame["objects"]]
    described = [each["attributes"] for each in objects if each["attributes"]]
    assert len(frames) == 20
    assert described
    assert all(list(each) == ["colour"] for each in described)
    labels = {each["colour"]["label"] for each in described}
    assert labels <= {"blue", "green", "red"}
    assert len(labels) > 1
    assert all(0 < each["colour"]["score"] <= 1 for each in described)
    assert (
        max(sum("colour" in o["attributes"] for o in f["objects"]) for f in frames) == 3
    )
    facts = summary["model"]["classifiers"]["colour"]
    assert (facts["name"], facts["precision"]) == ("colour", "fp32")
    assert facts["objects"]["looked_at"] == len(described)
    assert (
        facts["objects"]["left_out"]
        == len(objects) - len(described) - (facts["objects"]["too_small"])
    )
    assert summary["stages"]["classify-colour"]["n"] == 20


def test_what_it_says_is_what_is_in_the_picture(
    changes: Changes, tmp_path: Path
) -> None:
    """Cut out and averaged by hand, with nothing of edgepipe's own."""
    from edgepipe.stages.convert import to_bgr

    config = load.read("synthetic", changes(", max_crops: 50")).config
    checked = 0
    with Pipeline.from_config(config, folder=tmp_path) as pipeline:
        for frame in pipeline:
            assert frame.picture is not None
            assert frame.detections is not None
            image = to_bgr(frame.picture)
            (colour,) = frame.detections.attributes
            for row, (x1, y1, x2, y2) in enumerate(frame.detections.xyxy.tolist()):
                part = image[
                    max(0, int(y1)) : int(y2) + 1, max(0, int(x1)) : int(x2) + 1
                ]
                means = sorted(part.reshape(-1, 3).mean(axis=0).tolist())
                said = colour.label(row)
                if said is not None and means[2] - means[1] > 10:
                    best = part.reshape(-1, 3).mean(axis=0).argmax()
                    assert said == ("blue", "green", "red")[best]
                    checked += 1
    assert checked > 10


def test_it_is_part_of_the_networks_job_and_left_out_with_it(
    changes: Changes, tmp_path: Path
) -> None:
    with open_pipeline(tmp_path, changes()) as pipeline:
        (plan,) = pipeline.plans
        steps = [(s.name, s.runs_on_track_only) for s in plan.spec.steps]
        assert steps[1] == ("convert+infer+classify-colour", False)
        assert stage_names(pipeline.config)[3] == "classify-colour"


def test_a_stream_and_its_branch_may_have_different_ones(
    changes: Changes, tmp_path: Path
) -> None:
    branches = "streams[0].branches=[{id: other, deadline: 5s}]"
    overrides = [*changes(), branches, "streams[0].classifiers=[]"]
    with open_pipeline(tmp_path, overrides) as pipeline:
        names = [
            [stage.name for group in plan.stages for stage in group]
            for plan in pipeline.plans
        ]
    assert "classify-colour" not in names[0]
    assert "classify-colour" in names[1]


@pytest.mark.parametrize(
    ("more", "place"),
    [
        (", classes: [dragon]", "classifiers[0].classes[0]: the detector has no class"),
        (", max_crops: 0", "classifiers[0].max_crops"),
        (", margin: 2", "classifiers[0].margin"),
        (", min_side: 0", "classifiers[0].min_side"),
    ],
)
def test_a_mistake_is_named_with_its_place(
    more: str, place: str, changes: Changes, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        open_pipeline(tmp_path, changes(more)).close()
    assert place in str(caught.value)


def test_a_stream_that_names_one_that_is_not_there_is_refused(
    changes: Changes, tmp_path: Path
) -> None:
    overrides = [*changes(), "streams[0].classifiers=[colour, make]"]
    with pytest.raises(ConfigError, match=r"streams\[0\].classifiers\[1\]: no class"):
        open_pipeline(tmp_path, overrides)


def test_two_of_one_name_are_refused(changes: Changes) -> None:
    one = changes()
    twice = one[-1].removesuffix("]") + ", " + one[-1].partition("=[")[2]
    with pytest.raises(ConfigError, match=r"classifiers\[1\]"):
        load.read("synthetic", [*one[:-1], twice])


def test_a_detector_cannot_be_the_second_network(tmp_path: Path) -> None:
    override = "classifiers=[{name: colour, path: scene-tiny}]"
    with pytest.raises(EdgepipeError, match="is a detector"):
        open_pipeline(tmp_path, [override])


def test_a_classifier_cannot_be_the_first_network(
    colour_model: "ColourModel", tmp_path: Path
) -> None:
    model = colour_model.write(tmp_path)
    changes: Any = [f"model.path={model}", "model.precision=fp32"]
    with pytest.raises(EdgepipeError, match="goes under classifiers"):
        open_pipeline(tmp_path, changes)
