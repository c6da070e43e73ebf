"""The second network looks at what was found, and says at what it did not look."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from numpy.typing import NDArray

from edgepipe.configs.model_card import read_card
from edgepipe.models.card import ModelCard
from edgepipe.models.classifier import Classifier
from edgepipe.models.engine import Engine, EngineInfo, Outputs
from edgepipe.models.load import load_engine
from edgepipe.pipeline.detections import Detections
from edgepipe.pipeline.frame import Frame, Picture, PixelFormat
from edgepipe.pipeline.stage import FrameError
from edgepipe.scheduler.fates import Reason
from edgepipe.stages.classify import Classify
from edgepipe.stages.crops import Crops

if TYPE_CHECKING:
    from tests.colour_model import ColourModel


BLUE, GREEN, RED = (255, 0, 0), (0, 255, 0), (0, 0, 255)
Box = tuple[float, float, float, float]


@pytest.fixture(scope="module")
def card(
    tmp_path_factory: pytest.TempPathFactory, colour_model: "ColourModel"
) -> ModelCard:
    path = colour_model.write(tmp_path_factory.mktemp("model"))
    return read_card(path.with_suffix(".yaml"))[0]


@pytest.fixture(scope="module")
def engine(card: ModelCard) -> Iterator[Engine]:
    loaded = load_engine(card, "fp32", requests=2, threads=1, batch_max=4)
    yield loaded
    loaded.close()


def frame_of(*objects: tuple[Box, Sequence[int]], classes: Sequence[int] = ()) -> Frame:
    """A grey picture of 200x120 with painted boxes, the first one surest."""
    image = np.full((120, 200, 3), 90, np.uint8)
    for (x1, y1, x2, y2), colour in objects:
        left, top = max(0, int(x1)), max(0, int(y1))
        image[top : int(y2), left : int(x2)] = colour
    n = len(objects)
    found = Detections.of(
        np.array([box for box, _ in objects], np.float32).reshape(-1, 4),
        np.linspace(0.9, 0.5, n),
        np.array(classes or [0] * n),
    )
    picture = Picture(PixelFormat.BGR, (image,), 200, 120)
    return Frame("s", 0, 0, 10, picture=picture, detections=found)


def said(frame: Frame) -> list[str | None]:
    assert frame.detections is not None
    (attribute,) = frame.detections.attributes
    return [attribute.label(k) for k in range(len(frame.detections))]


def stage(card: ModelCard, engine: Engine, **options: object) -> Classify:
    crops = Crops(card, **{"batch": 4, **options})  # type: ignore[arg-type]
    return Classify(Classifier(card, engine), crops, card.class_names, "colour")


def test_each_object_gets_what_its_part_of_the_picture_shows(
    card: ModelCard, engine: Engine
) -> None:
    frame = frame_of(
        ((10, 10, 40, 60), RED), ((50, 5, 90, 30), BLUE), ((120, 40, 180, 110), GREEN)
    )
    seen = stage(card, engine).process(frame, 0)
    assert said(seen) == ["red", "blue", "green"]
    assert seen.detections is not None
    (attribute,) = seen.detections.attributes
    assert (attribute.name, tuple(attribute.labels)) == (
        "colour",
        ("blue", "green", "red"),
    )
    assert (attribute.score > 0.99).all()
    # Everything else is as it was.
    assert frame.detections is not None
    np.testing.assert_array_equal(seen.detections.xyxy, frame.detections.xyxy)


def test_a_frame_without_objects_asks_nobody(card: ModelCard, engine: Engine) -> None:
    classify = stage(card, engine)
    assert said(classify.process(frame_of(), 0)) == []
    assert classify.counts == {"looked_at": 0, "left_out": 0, "too_small": 0}


def test_more_objects_than_a_batch_holds_go_in_several(
    card: ModelCard, engine: Engine
) -> None:
    colours = [RED, GREEN, BLUE, GREEN, RED, BLUE, RED]
    boxes = [((20.0 * k, 0.0, 20.0 * k + 18, 40.0), c) for k, c in enumerate(colours)]
    names = {RED: "red", GREEN: "green", BLUE: "blue"}
    classify = stage(card, engine, max_crops=20)
    assert said(classify.process(frame_of(*boxes), 1)) == [names[c] for c in colours]


def test_of_too_many_the_surest_are_looked_at_and_the_rest_counted(
    card: ModelCard, engine: Engine
) -> None:
    frame = frame_of(*[((20.0 * k, 0, 20.0 * k + 18, 40), RED) for k in range(6)])
    classify = stage(card, engine, max_crops=4)
    assert said(classify.process(frame, 0)) == ["red"] * 4 + [None] * 2
    assert classify.counts == {"looked_at": 4, "left_out": 2, "too_small": 0}


def test_only_the_classes_asked_for_are_looked_at(
    card: ModelCard, engine: Engine
) -> None:
    boxes = [((20.0 * k, 0, 20.0 * k + 18, 40), RED) for k in range(3)]
    classify = stage(card, engine, classes={2, 5})
    frame = frame_of(*boxes, classes=[0, 2, 1])
    assert said(classify.process(frame, 0)) == [None, "red", None]
    assert classify.counts == {"looked_at": 1, "left_out": 0, "too_small": 0}


@pytest.mark.parametrize(
    "box",
    [
        (10, 10, 20, 60),
        (-30, 10, 10, 60),
        (195, 0, 260, 100),
        (300, 300, 400, 400),
        (50, 50, 20, 20),
        (np.nan, 0, 50, 50),
    ],
)
def test_what_is_too_small_in_the_picture_is_not_looked_at(
    box: Box, card: ModelCard, engine: Engine
) -> None:
    frame = frame_of(((100, 10, 160, 60), GREEN))
    assert frame.detections is not None
    found = Detections.of(
        np.array([box, (100, 10, 160, 60)]), np.array([0.9, 0.8]), np.zeros(2)
    )
    classify = stage(card, engine)
    assert said(classify.process(frame.with_changes(detections=found), 0)) == [
        None,
        "green",
    ]
    assert classify.counts == {"looked_at": 1, "left_out": 0, "too_small": 1}


def test_a_margin_takes_in_what_is_around(card: ModelCard, engine: Engine) -> None:
    frame = frame_of(((20, 20, 100, 100), BLUE), ((40, 40, 80, 80), RED))
    assert said(stage(card, engine).process(frame, 0))[1] == "red"
    # Half of 40 on each side: a quarter of what is seen is red, the rest blue.
    assert said(stage(card, engine, margin=0.5).process(frame, 0))[1] == "blue"


def test_the_picture_keeps_its_shape_where_the_card_says_so(
    tmp_path: Path, colour_model: "ColourModel"
) -> None:
    path = colour_model.write(tmp_path, align="center")
    card, _ = read_card(path.with_suffix(".yaml"))
    loaded = load_engine(card, "fp32", requests=1, threads=1)
    try:
        frame = frame_of(((10, 10, 30, 110), RED))
        seen = stage(card, loaded).process(frame, 0)
    finally:
        loaded.close()
    assert seen.detections is not None
    (attribute,) = seen.detections.attributes
    # 20x100 in 24x16 leaves most of the input to the padding of grey.
    assert attribute.label(0) == "red"
    assert attribute.score[0] < 0.9


class Broken:
    """An engine that puts out what no network should."""

    info: EngineInfo
    renewed: int | None = None

    def infer(self, images: NDArray[np.uint8], request: int = 0) -> Outputs:
        return {"scores": np.full((len(images), 3), np.nan, np.float32)}

    def renew(self, request: int) -> None:
        self.renewed = request

    def close(self) -> None:
        pass


def test_a_network_that_puts_out_rubbish_fails_the_frame(card: ModelCard) -> None:
    with pytest.raises(FrameError, match="NaN") as caught:
        stage(card, Broken()).process(frame_of(((0, 0, 50, 50), RED)), 0)
    assert caught.value.reason is Reason.BAD_OUTPUT


def test_a_worker_that_replaces_a_lost_one_gets_memory_of_its_own(
    card: ModelCard, engine: Engine
) -> None:
    classify = stage(card, engine)
    frame = frame_of(((10, 10, 40, 60), RED))
    classify.process(frame, 0)
    classify.renew(0)
    classify.process(frame, 0)
    assert classify.counts["looked_at"] == 2
    broken = Broken()
    stage(card, broken).renew(1)
    assert broken.renewed == 1
