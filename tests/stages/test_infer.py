"""The detector as a stage, against a loop that a person can read."""

from collections.abc import Iterator, Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from edgepipe.configs.model_card import read_card
from edgepipe.errors import InputError
from edgepipe.models import zoo
from edgepipe.models.card import ModelCard
from edgepipe.models.detector import Detector
from edgepipe.models.engine import Engine, EngineInfo
from edgepipe.models.load import load_engine
from edgepipe.pipeline.buffers import BufferRing
from edgepipe.pipeline.frame import Frame, Letterbox
from edgepipe.pipeline.source import Arrival
from edgepipe.pipeline.stage import FrameError
from edgepipe.scheduler.fates import Reason
from edgepipe.stages.convert import Convert
from edgepipe.stages.infer import Infer
from edgepipe.stages.sources.open import open_source

BINS = np.arange(11)


@pytest.fixture(scope="module")
def card() -> ModelCard:
    return read_card(zoo.card_path("nanodet-g"))[0]


@pytest.fixture(scope="module")
def engine(card: ModelCard) -> Iterator[Engine]:
    loaded = load_engine(card, "int8", "openvino", requests=1, threads=1)
    yield loaded
    loaded.close()


def detector(card: ModelCard, engine: Engine) -> Detector:
    return Detector(
        card,
        engine,
        score=card.score_threshold,
        iou=card.iou_threshold,
        max_detections=card.max_detections,
        class_agnostic=card.class_agnostic,
    )


def plain_boxes(
    card: ModelCard, outputs: Mapping[str, NDArray[np.float32]]
) -> list[tuple[float, int, list[float]]]:
    """NanoDet's head and greedy NMS, one box at a time: (score, class, xyxy)."""
    found: list[tuple[float, int, list[float]]] = []
    anchor = 0
    for stride in (8, 16, 32):
        for row in range(card.height // stride):
            for column in range(card.width // stride):
                scores = outputs["scores"][0, anchor]
                dist = outputs["dist"][0, anchor].reshape(4, 11).astype(np.float64)
                anchor += 1
                kind = int(scores.argmax())
                if scores[kind] < card.score_threshold:
                    continue
                share = np.exp(dist - dist.max(axis=1, keepdims=True))
                side = (share @ BINS) / share.sum(axis=1) * stride
                x, y = (column + 0.5) * stride, (row + 0.5) * stride
                box = [x - side[0], y - side[1], x + side[2], y + side[3]]
                found.append((float(scores[kind]), kind, [float(v) for v in box]))
    kept: list[tuple[float, int, list[float]]] = []
    for score, kind, box in sorted(found, key=lambda each: -each[0]):
        rivals = (other for _, same, other in kept if same == kind)
        if all(overlap(box, other) <= card.iou_threshold for other in rivals):
            kept.append((score, kind, box))
    return kept[: card.max_detections]


def overlap(a: list[float], b: list[float]) -> float:
    wide = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    high = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    areas = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (a, b))
    return wide * high / (areas - wide * high)


def test_real_footage_gives_the_boxes_of_a_plain_loop_on_the_same_tensor(
    card: ModelCard, engine: Engine
) -> None:
    try:
        source = open_source("sample:bikes")
    except InputError:
        pytest.skip("the samples extra is not installed")
    ring = BufferRing(1, card.height, card.width)
    convert = Convert(
        ring, card.height, card.width, card.color, card.align, card.pad_value
    )
    infer, seen = Infer(detector(card, engine), "int8"), 0
    for index in range(250):
        assert source.next_arrival() is not None
        if index % 25:
            continue
        frame = Frame("bikes", index, 0, 10**9, picture=source.decode(index))
        frame = convert.process(frame, 0)
        assert frame.tensor is not None
        assert frame.letterbox is not None
        outputs = engine.infer(frame.tensor.array[None])
        expected = plain_boxes(card, {k: v.copy() for k, v in outputs.items()})
        letterbox = frame.letterbox
        found = infer.process(frame, 0).detections
        assert found is not None
        assert found.class_id.tolist() == [kind for _, kind, _ in expected]
        assert found.score.tolist() == pytest.approx([s for s, _, _ in expected])
        boxes = np.array([box for _, _, box in expected], np.float32).reshape(-1, 4)
        np.testing.assert_allclose(found.xyxy, letterbox.to_captured(boxes), atol=0.01)
        seen += len(found)
    assert seen > 10


class Scripted:
    """An engine that answers what it was told to."""

    def __init__(self, scores: float, card: ModelCard, batch: int = 1) -> None:
        n = sum(card.height // s * (card.width // s) for s in (8, 16, 32))
        self.outputs = {
            "scores": np.full((batch, n, 80), scores, np.float32),
            "dist": np.zeros((batch, n, 44), np.float32),
        }

    @property
    def info(self) -> EngineInfo:
        return EngineInfo("scripted", "", "", "fp32", "none", 1, 1, "by name")

    def infer(
        self, images: NDArray[np.uint8], request: int = 0
    ) -> Mapping[str, NDArray[np.float32]]:
        return self.outputs

    def renew(self, request: int) -> None:
        pass

    def close(self) -> None:
        pass


def converted(ring: BufferRing) -> Frame:
    letterbox = Letterbox(1, 1, 0, 0)
    return Frame("a", 0, 0, 10, tensor=ring.lend(), letterbox=letterbox)


def test_the_buffer_goes_back_when_the_network_is_done(card: ModelCard) -> None:
    ring = BufferRing(1, card.height, card.width)
    infer = Infer(detector(card, Scripted(0.0, card)), "small")
    frame = infer.process(converted(ring), 0)
    assert frame.tensor is None
    assert ring.statistics().lent == 0
    assert (frame.variant, frame.batch) == ("small", 1)


def test_output_that_is_not_finite_fails_the_frame_and_makes_no_box(
    card: ModelCard,
) -> None:
    ring = BufferRing(1, card.height, card.width)
    infer = Infer(detector(card, Scripted(float("nan"), card)), "int8")
    frame = converted(ring)
    with pytest.raises(FrameError) as caught:
        infer.process(frame, 0)
    assert caught.value.reason is Reason.BAD_OUTPUT
    assert ring.statistics().lent == 1  # the frame still has it: the runtime returns it


def test_boxes_cut_by_the_bound_are_counted(card: ModelCard) -> None:
    ring = BufferRing(1, card.height, card.width)
    frame = Infer(detector(card, Scripted(0.9, card)), "int8").process(
        converted(ring), 0
    )
    assert frame.detections is not None
    assert len(frame.detections) == card.max_detections
    assert frame.detections.truncated > 0


def test_a_frame_that_was_not_converted_is_refused(card: ModelCard) -> None:
    infer = Infer(detector(card, Scripted(0.0, card)), "int8")
    with pytest.raises(ValueError, match="needs a converted frame"):
        infer.process(Frame("a", 0, 0, 10), 0)


def test_a_batch_finds_what_its_frames_find_alone(
    card: ModelCard, engine: Engine
) -> None:
    ring = BufferRing(4, card.height, card.width)
    convert = Convert(
        ring, card.height, card.width, card.color, card.align, card.pad_value
    )
    infer = Infer(detector(card, engine), "int8")
    pictures = drawn_frames(3)
    alone = [infer.process(convert.process(f, 0), 0).detections for f in pictures]
    batch = infer.process_batch([convert.process(f, 0) for f in pictures], 0)
    assert ring.statistics().lent == 0
    for one, answer in zip(alone, batch, strict=True):
        assert isinstance(answer, Frame)
        assert answer.batch == 3
        assert one is not None
        assert answer.detections is not None
        np.testing.assert_array_equal(answer.detections.xyxy, one.xyxy)
        np.testing.assert_array_equal(answer.detections.score, one.score)


def drawn_frames(n: int) -> list[Frame]:
    source = open_source("synthetic:?seed=1&width=320&height=192&frames=10")
    frames: list[Frame] = []
    for _ in range(n):
        arrival = source.next_arrival()
        assert isinstance(arrival, Arrival)
        picture = source.decode(arrival.index)
        frames.append(Frame(str(arrival.index), arrival.index, 0, 10, picture=picture))
    return frames


def test_one_frame_of_a_batch_with_bad_output_costs_the_others_nothing(
    card: ModelCard,
) -> None:
    ring = BufferRing(2, card.height, card.width)
    scripted = Scripted(0.0, card, batch=2)
    scripted.outputs["scores"][1] = float("nan")
    infer = Infer(detector(card, scripted), "int8")
    good, bad = infer.process_batch([converted(ring), converted(ring)], 0)
    assert isinstance(good, Frame)
    assert isinstance(bad, FrameError)
    assert bad.reason is Reason.BAD_OUTPUT
    assert ring.statistics().lent == 1


def test_the_memory_of_a_batch_is_taken_once_for_each_worker(card: ModelCard) -> None:
    ring = BufferRing(2, card.height, card.width)
    seen: list[NDArray[np.uint8]] = []

    class Watching(Scripted):
        def infer(
            self, images: NDArray[np.uint8], request: int = 0
        ) -> Mapping[str, NDArray[np.float32]]:
            seen.append(images)
            return self.outputs

    infer = Infer(detector(card, Watching(0.0, card, batch=2)), "int8", batch_max=2)
    for worker in (0, 1, 0):
        infer.process_batch([converted(ring), converted(ring)], worker)
    infer.renew(0)
    infer.process_batch([converted(ring), converted(ring)], 0)
    first, other, again, renewed = (array.ctypes.data for array in seen)
    assert first == again
    assert len({first, other, renewed}) == 3


def test_a_frame_with_a_ladder_is_recorded_under_its_rung(card: ModelCard) -> None:
    ring = BufferRing(1, card.height, card.width)
    infer = Infer(detector(card, Scripted(0.0, card)), "int8")
    frame = converted(ring).with_changes(rung="stride 2 + small")
    assert infer.process(frame, 0).variant == "stride 2 + small"
