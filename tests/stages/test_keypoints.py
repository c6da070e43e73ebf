"""A second network says where the parts of each object are, in the whole picture."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from edgepipe.models.card import Align, ColorOrder, ModelCard
from edgepipe.models.engine import EngineInfo, Outputs
from edgepipe.models.head_options import HeadOptions
from edgepipe.models.keypoints import KeypointFinder
from edgepipe.pipeline.detections import Detections, Keypoints
from edgepipe.pipeline.frame import Frame, Picture, PixelFormat
from edgepipe.pipeline.stage import FrameError
from edgepipe.scheduler.fates import Reason
from edgepipe.stages.classify import FindKeypoints
from edgepipe.stages.crops import Crops
from edgepipe.stages.draw import annotate
from edgepipe.stages.sinks.jsonl import JsonlSink

CARD = ModelCard(
    name="spot",
    files=(),
    input_name="images",
    height=32,
    width=48,
    color=ColorOrder.BGR,
    mean=(0.0, 0.0, 0.0),
    std=(1.0, 1.0, 1.0),
    align=Align.CENTER,
    pad_value=(0, 0, 0),
    head="keypoints",
    outputs=("out",),
    class_names=("first", "second"),
    score_threshold=0.5,
    iou_threshold=0.0,
    max_detections=100,
    class_agnostic=False,
    licence="",
    provenance="",
    head_options=HeadOptions(keypoints="xys"),
)
Look = Callable[[NDArray[np.uint8]], NDArray[np.float32]]


def brightest(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The centre of the red and of the blue pixels of each image, each with a score."""
    out = np.zeros((len(images), 2, 3), np.float32)
    for image, points in zip(images.astype(float), out, strict=True):
        for point, channel in zip(points, (2, 0), strict=True):
            lit = image[..., channel] - image[..., 2 - channel] > 100
            if lit.any():
                y, x = np.nonzero(lit)
                point[:] = x.mean() + 0.5, y.mean() + 0.5, 0.9
    return out


class Eye:
    """An engine that computes what a function says."""

    info = EngineInfo("eye", "1", "none", "fp32", "f32", 1, 1, "a test")
    renewed: int | None = None

    def __init__(self, look: Look = brightest) -> None:
        self._look = look

    def infer(self, images: NDArray[np.uint8], request: int = 0) -> Outputs:
        return {"out": self._look(images)}

    def renew(self, request: int) -> None:
        self.renewed = request

    def close(self) -> None:
        pass


def stage(
    card: ModelCard = CARD, engine: Eye | None = None, max_crops: int = 8
) -> FindKeypoints:
    finder = KeypointFinder(card, engine or Eye())
    crops = Crops(card, max_crops=max_crops, batch=3)
    return FindKeypoints(finder, crops, card.class_names, "spots")


def frame_of(boxes: Sequence[Sequence[float]], *spots: tuple[int, int]) -> Frame:
    """A black picture of 200x120 with a red spot at each place, and no blue."""
    image = np.zeros((120, 200, 3), np.uint8)
    for x, y in spots:
        image[y - 4 : y + 4, x - 4 : x + 4] = 0, 0, 255
    found = Detections.of(
        np.array(boxes, np.float32).reshape(-1, 4),
        np.linspace(0.9, 0.5, len(boxes)),
        np.zeros(len(boxes)),
    )
    picture = Picture(PixelFormat.BGR, (image,), 200, 120)
    return Frame("s", 0, 0, 10, picture=picture, detections=found)


def keypoints(frame: Frame) -> Keypoints:
    assert frame.detections is not None
    (found,) = frame.detections.keypoints
    return found


@pytest.mark.parametrize("align", Align)
def test_points_are_where_they_are_in_the_whole_picture(align: Align) -> None:
    boxes = [[21.3, 12.7, 71.9, 63.2], [100.0, 40, 180, 70], [150.0, 60, 230, 130]]
    spots = [(40, 30), (150, 55), (170, 100)]
    seen = keypoints(
        stage(replace(CARD, align=align)).process(frame_of(boxes, *spots), 0)
    )
    assert (seen.name, tuple(seen.labels)) == ("spots", ("first", "second"))
    assert np.abs(seen.xy[:, 0] - np.array(spots)).max() < 1.5
    assert np.isnan(seen.xy[:, 1]).all()
    assert seen.score is not None
    assert seen.score[:, 0] == pytest.approx(0.9)


def test_an_object_at_which_it_did_not_look_has_no_points() -> None:
    boxes = [[10.0, 10, 60, 60], [100.0, 10, 150, 60], [0.0, 0, 5, 5]]
    find = stage(max_crops=1)
    seen = keypoints(find.process(frame_of(boxes, (30, 30), (120, 30)), 0))
    assert np.isnan(seen.xy[:, 0, 0]).tolist() == [False, True, True]
    assert find.counts == {"looked_at": 1, "left_out": 1, "too_small": 1}


def test_a_frame_without_objects_has_none() -> None:
    assert keypoints(stage().process(frame_of([]), 0)).xy.shape == (0, 2, 2)


def test_points_without_scores_have_none() -> None:
    card = replace(CARD, head_options=HeadOptions(), score_threshold=0.0)
    engine = Eye(lambda images: brightest(images)[..., :2].copy())
    seen = keypoints(stage(card, engine).process(frame_of([[0, 0, 90, 90]]), 0))
    assert seen.score is None


def test_rubbish_fails_the_frame() -> None:
    engine = Eye(lambda images: np.full((len(images), 2, 3), np.nan, np.float32))
    with pytest.raises(FrameError, match="NaN") as caught:
        stage(engine=engine).process(frame_of([[0, 0, 90, 90]]), 0)
    assert caught.value.reason is Reason.BAD_OUTPUT


def test_a_worker_that_replaces_a_lost_one_gets_a_request_of_its_own() -> None:
    engine = Eye()
    stage(engine=engine).renew(1)
    assert engine.renewed == 1


def test_a_line_of_json_has_the_points_that_were_found_by_name(tmp_path: Path) -> None:
    boxes = [[20.0, 10, 70, 60], [100.0, 10, 150, 60]]
    seen = stage().process(frame_of(boxes, (40, 30)), 0)
    sink = JsonlSink(tmp_path / "out.jsonl", ["thing"])
    sink.write(seen, 5)
    sink.close()
    first, second = json.loads((tmp_path / "out.jsonl").read_text())["objects"]
    (spot,) = first["keypoints"]["spots"].items()
    assert spot == ("first", [pytest.approx(40, abs=1), pytest.approx(30, abs=1), 0.9])
    assert second["keypoints"] == {"spots": {}}
    assert "attributes" not in first


def test_the_points_are_drawn() -> None:
    seen = stage().process(frame_of([[20.0, 10, 70, 60]], (40, 30)), 0)
    plain = np.zeros((120, 200, 3), np.uint8)
    dotted = plain.copy()
    assert seen.detections is not None
    annotate(plain, replace(seen.detections, keypoints=()), ["thing"], "")
    annotate(dotted, seen.detections, ["thing"], "")
    y, x = np.nonzero((plain != dotted).any(axis=2))
    assert abs(x.mean() - 40) < 2
    assert abs(y.mean() - 30) < 2


def test_points_of_another_shape_than_their_names_are_refused() -> None:
    found = Detections.of(np.zeros((2, 4)), np.zeros(2), np.zeros(2))
    with pytest.raises(ValueError, match=r"keypoints k: expected shape \(2, 1, 2\)"):
        found.pointed(Keypoints("k", ("a",), np.zeros((2, 2, 2), np.float32), None))
