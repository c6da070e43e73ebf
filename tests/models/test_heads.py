"""From raw output tensors to candidate boxes."""

from collections.abc import Callable
from dataclasses import replace
from math import exp

import numpy as np
import pytest
from numpy.typing import NDArray

from edgepipe.errors import ModelError
from edgepipe.models.candidates import BadOutputError, Candidates
from edgepipe.models.card import ModelCard
from edgepipe.models.head_options import HeadOptions
from edgepipe.models.heads import DETECTORS, build_head, check_outputs

MakeCard = Callable[..., ModelCard]
OUTPUTS = {
    "nanodet": ("scores", "dist"),
    "nanodet-plus": ("out",),
    "distances": ("scores", "dist"),
    "yolov8": ("out",),
    "yolov5": ("out",),
    "yolox": ("out",),
    "boxes": ("scores", "boxes"),
    "ssd": ("scores", "boxes"),
    "detr": ("scores", "boxes"),
    "end-to-end": ("out",),
    "postprocessed": ("scores", "boxes", "classes", "count"),
}
FREE = 7
"""Rows of outputs whose number the head leaves open."""


def outputs_of(card: ModelCard, images: int = 1) -> dict[str, NDArray[np.float32]]:
    """Outputs of the right shape that contain nothing."""
    outputs: dict[str, NDArray[np.float32]] = {}
    for name, shape in zip(card.outputs, build_head(card).shapes, strict=True):
        sizes = [size or FREE for size in shape or (1,)]
        outputs[name] = np.zeros((images, *sizes), np.float32)
    return outputs


def listed(found: Candidates) -> list[tuple[float, ...]]:
    """Rows of x1, y1, x2, y2, score, class."""
    rows = np.column_stack([found.xyxy, found.score, found.class_id])
    return [tuple(row) for row in rows.tolist()]


@pytest.fixture(params=sorted(DETECTORS))
def card(request: pytest.FixtureRequest, make_card: MakeCard) -> ModelCard:
    """A 96x64 detector of three classes with each of the heads."""
    head = str(request.param)
    options = HeadOptions()
    if head == "ssd":
        options = HeadOptions(anchors=((0.5, 0.5, 0.2, 0.2),) * FREE)
    if head == "detr":
        options = HeadOptions(scores="probabilities")
    return make_card(head=head, outputs=OUTPUTS[head], head_options=options)


def test_a_nanodet_side_is_the_mean_of_its_bins_times_the_stride(
    make_card: MakeCard,
) -> None:
    card = make_card(head="nanodet")
    outputs = outputs_of(card)
    # 96x64 has 12x8 cells of 8 pixels, then 6x4 of 16; this is row 1, column 2 there.
    cell = 12 * 8 + 6 * 1 + 2
    outputs["scores"][0, cell] = [0.1, 0.2, 0.75]
    logits = np.linspace(-2, 2, 44, dtype=np.float32) ** 3
    outputs["dist"][0, cell] = logits
    sides: list[float] = []
    for side in range(4):
        weights = [exp(float(v)) for v in logits[11 * side : 11 * side + 11]]
        mean = sum(bin_ * w for bin_, w in enumerate(weights)) / sum(weights)
        sides.append(16 * mean)
    left, top, right, bottom = sides
    x, y = 2.5 * 16, 1.5 * 16
    box = (x - left, y - top, x + right, y + bottom, 0.75, 2)
    found = build_head(card).decode(outputs, 0, 0.5)
    assert listed(found) == [pytest.approx(box, rel=1e-5)]


def test_distances_run_from_the_cells_centre(make_card: MakeCard) -> None:
    card = make_card()
    outputs = outputs_of(card)
    outputs["scores"][0, 12 * 3 + 4, 1] = 0.5
    outputs["dist"][0, 12 * 3 + 4] = [1, 2, 3, 4]
    found = build_head(card).decode(outputs, 0, 0.5)
    assert listed(found) == [(36 - 1, 28 - 2, 36 + 3, 28 + 4, 0.5, 1)]


def test_a_yolov8_column_is_a_centre_a_size_and_class_scores(
    make_card: MakeCard,
) -> None:
    card = make_card(head="yolov8", outputs=("out",))
    outputs = outputs_of(card)
    outputs["out"][0, :, 7] = [20, 30, 8, 4, 0.25, 0.75, 0.5]
    assert listed(build_head(card).decode(outputs, 0, 0.5)) == [
        (16, 28, 24, 32, 0.75, 1)
    ]


def test_a_yolov5_score_is_objectness_times_class(make_card: MakeCard) -> None:
    card = make_card(head="yolov5", outputs=("out",))
    outputs = outputs_of(card)
    outputs["out"][0, 5] = [20, 30, 8, 4, 0.5, 0.25, 0.125, 1.0]
    outputs["out"][0, 6] = [20, 30, 8, 4, 0.75, 0.5, 0.25, 0.125]
    assert listed(build_head(card).decode(outputs, 0, 0.5)) == [
        (16, 28, 24, 32, 0.5, 2)
    ]


def test_nothing_above_the_threshold_gives_no_candidates(card: ModelCard) -> None:
    found = build_head(card).decode(outputs_of(card), 0, 0.01)
    assert (found.xyxy.shape, len(found.score), len(found.class_id)) == ((0, 4), 0, 0)


def test_each_image_of_a_batch_has_its_own_candidates(card: ModelCard) -> None:
    outputs = outputs_of(card, images=2)
    outputs[card.outputs[0]][1] = 1.0
    outputs.get("count", np.zeros(2))[1] = FREE
    head = build_head(card)
    assert len(head.decode(outputs, 0, 0.5).score) == 0
    assert len(head.decode(outputs, 1, 0.5).score) > 0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 0.5, -1])
def test_one_bad_value_anywhere_fails_the_whole_image(
    card: ModelCard, bad: float, place: float
) -> None:
    for name in card.outputs:
        outputs = outputs_of(card)
        size = outputs[name].size
        np.put(outputs[name], int(place * size) if place > 0 else int(place), bad)
        with pytest.raises(BadOutputError, match=f"{name!r}: 1 of"):
            build_head(card).decode(outputs, 0, 0.5)


def test_large_finite_values_are_not_taken_for_infinity(card: ModelCard) -> None:
    outputs = outputs_of(card)
    outputs[card.outputs[-1]][:] = np.finfo(np.float32).max / 2
    outputs.get("count", np.zeros(1))[:] = 0
    outputs[card.outputs[0]][..., -3:] = 0
    with np.errstate(all="ignore"):
        build_head(card).decode(outputs, 0, 0.5)


def test_an_unknown_head_is_refused_with_those_that_exist(make_card: MakeCard) -> None:
    with pytest.raises(
        ModelError, match=r"unknown head 'rcnn'.*nanodet, nanodet-plus, postpro"
    ):
        build_head(make_card(head="rcnn"))


def test_a_card_with_another_number_of_outputs_is_refused(card: ModelCard) -> None:
    with pytest.raises(ModelError, match=r"reads .* output\(s\).*the card names 5"):
        build_head(replace(card, outputs=("a", "b", "c", "d", "e")))


def test_a_wrong_class_count_names_both_numbers(card: ModelCard) -> None:
    if card.head in ("end-to-end", "postprocessed"):
        pytest.skip("its shape does not tell how many classes there are")
    outputs = outputs_of(card)
    short = replace(card, class_names=("a", "b"))
    with pytest.raises(ModelError, match="has 3 classes, the card has 2 class names"):
        check_outputs(short, build_head(short), outputs)


def test_a_wrong_shape_names_both_shapes(card: ModelCard) -> None:
    outputs = outputs_of(card)
    outputs[card.outputs[0]] = outputs[card.outputs[0]][..., np.newaxis]
    with pytest.raises(ModelError, match=r"has shape \(.*\), head .* needs \("):
        check_outputs(card, build_head(card), outputs)


def test_another_size_of_input_asks_for_other_shapes(make_card: MakeCard) -> None:
    for head in ("nanodet", "distances", "yolov8", "yolov5", "yolox"):
        card = make_card(head=head, outputs=OUTPUTS[head])
        outputs = outputs_of(replace(card, width=128))
        with pytest.raises(ModelError, match=r"at 96x64 needs \("):
            check_outputs(card, build_head(card), outputs)


def test_the_outputs_of_a_fitting_network_pass(card: ModelCard) -> None:
    check_outputs(card, build_head(card), outputs_of(card))
