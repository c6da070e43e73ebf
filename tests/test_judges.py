"""Two precisions of one network, judged frame by frame, on engines of known output."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgepipe.errors import ModelError
from edgepipe.judges import judge_of
from edgepipe.models.card import Align, ColorOrder, ModelCard
from edgepipe.models.engine import EngineInfo, Outputs
from edgepipe.models.evaluate.matching import Truth
from edgepipe.models.head_options import HeadOptions
from edgepipe.pipeline.frame import Letterbox
from edgepipe.samples import Sample

Says = Callable[[NDArray[np.uint8]], NDArray[np.float32]]


class Scripted:
    """An engine that says what a function makes of the images."""

    info = EngineInfo("scripted", "1", "none", "fp32", "f32", 1, 1, "a test")

    def __init__(self, says: Says) -> None:
        self._says = says

    def infer(self, images: NDArray[np.uint8], request: int = 0) -> Outputs:
        return {"out": self._says(images)}

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"nobody should ask for {name}")


def card_of(head: str, **more: Any) -> ModelCard:
    return ModelCard(
        name="scripted",
        files=(),
        input_name="images",
        height=64,
        width=96,
        color=ColorOrder.BGR,
        mean=(0.0, 0.0, 0.0),
        std=(1.0, 1.0, 1.0),
        align=Align.CENTER,
        pad_value=(0, 0, 0),
        head=head,
        outputs=("out",),
        class_names=("first", "second"),
        score_threshold=0.5,
        iou_threshold=0.5,
        max_detections=100,
        class_agnostic=False,
        licence="",
        provenance="",
        **more,
    )


def sample(number: int, at: int = 40) -> Sample:
    """A bright spot at a column of a picture of 40x64 in the middle of 96x64."""
    image = np.zeros((64, 96, 3), np.uint8)
    image[20:30, at : at + 10] = 255
    return Sample(number, image, Letterbox(1.0, 1.0, 28, 0), (40, 64))


def spot(images: NDArray[np.uint8], score: float = 0.9) -> NDArray[np.float32]:
    """YOLOv8's output with the box of the bright spot, if there is one."""
    out = np.zeros((len(images), 6, 126), np.float32)
    for image, cells in zip(images, out, strict=True):
        rows, columns = np.nonzero(image[..., 0])
        if len(rows):
            left, right = columns.min(), columns.max() + 1
            top, bottom = rows.min(), rows.max() + 1
            size = right - left, bottom - top
            cells[:4, 0] = (left + right) / 2, (top + bottom) / 2, *size
            cells[4, 0] = score
    return out


def nothing(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    return np.zeros((len(images), 6, 126), np.float32)


def broken(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    return np.full((len(images), 6, 126), np.nan, np.float32)


SAMPLES = [sample(k, at=30 + k) for k in range(25)]


def judged(head: str, fp32: Says, int8: Says, **more: Any) -> Any:
    """The judge, having looked."""
    both: list[Any] = [Scripted(fp32), Scripted(int8)]
    judge = judge_of(card_of(head, **more), both[0], both[1], None)
    for each in SAMPLES:
        judge.look(each)
    return judge


def test_a_network_that_sees_the_same_in_a_mirror_agrees_with_itself_entirely() -> None:
    drop = judged("yolov8", spot, spot).drop(0)
    assert (drop.fp32, drop.int8, drop.drop) == (100.0, 100.0, 0.0)
    assert drop.objects == len(SAMPLES)
    assert set(drop.classes) == {0}


@pytest.mark.parametrize("int8", [nothing, broken])
def test_what_int8_does_not_see_or_puts_out_as_rubbish_is_lost(int8: Says) -> None:
    drop = judged("yolov8", spot, int8).drop(0)
    assert (drop.fp32, drop.int8) == (100.0, 0.0)


def test_a_score_below_the_threshold_is_found_and_one_that_hovers_is_no_mistake() -> (
    None
):
    def weak(images: NDArray[np.uint8]) -> NDArray[np.float32]:
        return spot(images, 0.3)

    assert judged("yolov8", spot, weak).drop(0).drop == 0.0
    assert judged("yolov8", weak, spot).drop(0) is None


def test_a_network_that_says_the_same_of_every_picture_is_blind() -> None:
    def stuck(images: NDArray[np.uint8]) -> NDArray[np.float32]:
        return spot(np.repeat(SAMPLES[0].image[np.newaxis], len(images), axis=0))

    assert judged("yolov8", stuck, stuck).is_blind
    assert not judged("yolov8", spot, stuck).is_blind
    assert judged("classifier", always_second, always_second).is_blind
    assert not judged("classifier", left_of_middle, always_second).is_blind


def test_where_fp32_sees_nothing_there_is_nothing_to_say() -> None:
    assert judged("yolov8", nothing, spot).drop(0) is None


def test_another_int8_network_is_judged_on_the_same_frames_without_asking_fp32() -> (
    None
):
    asked: list[int] = []

    def counted(images: NDArray[np.uint8]) -> NDArray[np.float32]:
        asked.append(len(images))
        return spot(images)

    judge = judged("yolov8", counted, nothing)
    before = len(asked)
    another: Any = Scripted(spot)
    judge.again(another, SAMPLES)
    assert judge.drop(0).drop == 0.0
    assert len(asked) == before


def left_of_middle(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    first = [image[:, :40].any() for image in images]
    return np.array([[1, 0] if each else [0, 1] for each in first], np.float32)


def always_second(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    return np.array([[0, 1]] * len(images), np.float32)


def test_classifiers_are_compared_by_the_class_they_name() -> None:
    judge = judged("probabilities", left_of_middle, always_second)
    assert judge.kind == "top-1"
    # The spot begins left of column 40 in ten of the pictures.
    assert judge.drop(0).drop == pytest.approx(100 * 10 / 25)
    another: Any = Scripted(left_of_middle)
    judge.again(another, SAMPLES)
    assert judge.drop(0).drop == 0.0


def corner(away: float, score: float = 0.9) -> Says:
    def says(images: NDArray[np.uint8]) -> NDArray[np.float32]:
        out = np.zeros((len(images), 2, 3), np.float32)
        for image, points in zip(images, out, strict=True):
            rows, columns = np.nonzero(image[..., 0])
            points[:] = columns.min() + away, rows.min(), score
        return out

    return says


@pytest.mark.parametrize(
    ("int8", "drop"),
    [
        (corner(0.0), 0.0),
        (corner(4.7), 0.0),
        (corner(4.9), 100.0),
        (corner(0.0, score=0.4), 100.0),
    ],
)
def test_keypoints_may_move_by_a_twentieth_of_the_input_and_not_go(
    int8: Says, drop: float
) -> None:
    options = HeadOptions(keypoints="xys")
    judge = judged("keypoints", corner(0.0), int8, head_options=options)
    assert (judge.kind, judge.drop(0).drop) == ("keypoints", drop)
    another: Any = Scripted(corner(0.0))
    judge.again(another, SAMPLES)
    assert judge.drop(0).drop == 0.0


def test_points_that_neither_finds_are_the_same() -> None:
    options = HeadOptions(keypoints="xys")
    unsure = corner(0.0, score=0.1)
    judge = judged("keypoints", unsure, unsure, head_options=options)
    assert judge.drop(0).drop == 0.0


class Drawn:
    """Labels that know every other frame."""

    name, sha256, notes = "drawn", None, ()

    def image_id(self, sample: Sample) -> int:
        return sample.sequence

    def category_ids(self) -> list[int]:
        return [1, 2]

    def of(self, sample: Sample) -> Truth | None:
        if sample.sequence % 2:
            return None
        # The middle picture begins at column 28 of the input.
        left = 30 + sample.sequence - 28
        return Truth.of([[left, 20, left + 10, 30]], [0])


def test_labels_are_in_captured_pixels_and_a_frame_without_is_passed_over() -> None:
    fp32: Any = Scripted(spot)
    int8: Any = Scripted(nothing)
    judge = judge_of(card_of("yolov8"), fp32, int8, Drawn())
    for each in SAMPLES:
        judge.look(each)
    drop = judge.drop(0)
    assert drop is not None
    assert (drop.fp32, drop.int8, drop.frames) == (100.0, 0.0, 13)
    another: Any = Scripted(spot)
    judge.again(another, SAMPLES)
    drop = judge.drop(0)
    assert drop is not None
    assert drop.drop == 0.0


def test_labels_of_boxes_are_nothing_to_a_classifier() -> None:
    engine: Any = Scripted(always_second)
    with pytest.raises(ModelError, match=r"is no detector \(head 'probabilities'\)"):
        judge_of(card_of("probabilities"), engine, engine, Drawn())
