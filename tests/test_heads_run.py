"""A network without NMS and one for keypoints, from their cards to the results."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from edgepipe.cli import main

BOXES = [
    [16, 16, 112, 80, 0.9, 1],
    [20, 16, 112, 80, 0.8, 1],
    [200, 100, 260, 180, 0.7, 0],
    [0, 0, 0, 0, 0, -1],
]
"""The second lies on the first: with NMS it would go."""


def write(folder: Path, name: str, shape: tuple[int, ...], out: Any, card: str) -> Path:
    """A network that puts out the same for every image, with its card."""
    values: NDArray[np.float32] = np.array([out], np.float32)
    constant = helper.make_tensor(
        "value", TensorProto.FLOAT, values.shape, values.ravel()
    )
    nodes = [
        helper.make_node("Identity", ["images"], ["copy"]),
        helper.make_node("Constant", [], ["out"], value=constant),
    ]
    given = helper.make_tensor_value_info("images", TensorProto.FLOAT, shape)
    made = [
        helper.make_tensor_value_info("copy", TensorProto.FLOAT, shape),
        helper.make_tensor_value_info("out", TensorProto.FLOAT, values.shape),
    ]
    graph = helper.make_graph(nodes, name, [given], made)
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    path = folder / f"{name}.onnx"
    path.write_bytes(model.SerializeToString())
    _, _, height, width = shape
    path.with_suffix(".yaml").write_text(
        f"name: {name}\nfiles: [{{precision: fp32, path: {name}.onnx}}]\n"
        f"input: {{name: images, height: {height}, width: {width}, color: bgr,"
        f" mean: [0, 0, 0], std: [1, 1, 1], align: stretch}}\n{card}"
    )
    return path


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the drawn scene of 320x192 with a detector without NMS and these changes."""
    detector = write(
        tmp_path,
        "detector",
        (1, 3, 192, 320),
        BOXES,
        "head: {kind: end-to-end, outputs: [out]}\n"
        "classes: {names: [cart, walker]}\nscore_threshold: 0.5\n",
    )

    def start(*changes: str) -> tuple[int, list[dict[str, Any]], str]:
        out = tmp_path / "out.jsonl"
        settings = [
            "streams[0].source.uri=synthetic:?frames=3&seed=4&width=640&height=384",
            "streams[0].source.loop=false",
            "streams[0].source.pace=fast",
            "streams[0].queue.overflow=block",
            "streams[0].deadline=10s",
            f"model={{path: '{detector}', precision: fp32}}",
            f"sinks=[{{kind: jsonl, path: '{out}'}}]",
            f"telemetry.dir={tmp_path / 'runs'}",
            *changes,
        ]
        code = main(["run", "synthetic", *(f"--set={each}" for each in settings)])
        lines = out.read_text().splitlines() if out.exists() else []
        return code, [json.loads(line) for line in lines], capsys.readouterr().err

    return start


def test_a_network_without_nms_keeps_what_overlaps(run: Any) -> None:
    code, frames, _ = run()
    assert code == 0
    assert len(frames) == 3
    for frame in frames:
        assert frame["truncated"] == 0
        objects = frame["objects"]
        assert [each["label"] for each in objects] == ["walker", "walker", "cart"]
        assert objects[0]["xyxy"] == [32, 32, 224, 160]


def test_what_its_limit_cuts_is_counted(run: Any) -> None:
    _, frames, _ = run("model.max_detections=1")
    assert [len(frame["objects"]) for frame in frames] == [1, 1, 1]
    assert [frame["truncated"] for frame in frames] == [2, 2, 2]


@pytest.mark.parametrize("change", ["model.iou=0.5", "model.class_agnostic=true"])
def test_a_word_about_nms_is_refused_where_there_is_none(run: Any, change: str) -> None:
    code, _, said = run(change)
    assert code == 2
    key = change.partition("=")[0]
    assert f"{key}: head end-to-end needs no NMS: leave it out" in said
    assert "Traceback" not in said


def test_every_object_gets_its_keypoints_in_the_picture(
    run: Any, tmp_path: Path
) -> None:
    keypoints = write(
        tmp_path,
        "pose",
        (1, 3, 32, 32),
        [[0.5, 0.5, 0.9], [0.5, 0.0, 0.2]],
        "head: {kind: keypoints, outputs: [out], keypoints: xys, normalized: true}\n"
        "classes: {names: [middle, edge]}\nscore_threshold: 0.3\n",
    )
    code, frames, _ = run(
        f"classifiers=[{{name: pose, path: '{keypoints}', precision: fp32}}]"
    )
    assert code == 0
    for frame in frames:
        for each in frame["objects"]:
            x1, y1, x2, y2 = each["xyxy"]
            (point,) = each["keypoints"]["pose"].items()
            middle = [(x1 + x2) / 2, (y1 + y2) / 2]
            assert point[0] == "middle"
            assert point[1][:2] == pytest.approx(middle, abs=1.5)
            assert point[1][2] == pytest.approx(0.9)
