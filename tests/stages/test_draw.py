"""Drawing: inside the image, readable, bounded."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.pipeline.detections import Detections
from edgepipe.stages.draw import MAX_DRAWN, annotate, color_of, label_of, write

BACKGROUND = 90


def canvas(width: int = 320, height: int = 240) -> Any:
    return np.full((height, width, 3), BACKGROUND, np.uint8)


def one(*xyxy: float, track_id: int = 1) -> Detections:
    found = Detections.of(np.array([xyxy]), np.array([0.9]), np.array([0]))
    return found.tracked(np.array([track_id]))


def drawn(image: Any) -> Any:
    return (image != BACKGROUND).any(axis=2)


def test_a_box_is_drawn_on_its_edges_in_the_colour_of_its_track() -> None:
    image = canvas()
    annotate(image, one(100, 60, 200, 160, track_id=5), ["person"], "")
    for x, y in [(100, 110), (199, 110), (150, 159)]:
        assert tuple(int(v) for v in image[y, x]) == color_of(5)
    assert not drawn(image)[65:155, 105:195].any()


def test_tracks_have_colours_of_their_own_and_the_untracked_are_grey() -> None:
    colors = [color_of(k) for k in range(1, 13)]
    assert len(set(colors)) == 12
    assert color_of(-1) == (190, 190, 190)
    assert min(max(color) for color in colors) >= 200


def test_a_class_without_a_name_shows_its_number() -> None:
    assert label_of(["person"], 0) == "person"
    assert label_of(["person"], 1) == "class 1"
    assert label_of(["person"], -1) == "class -1"


@pytest.mark.parametrize(
    "corner", [(0, 0), (310, 0), (0, 230), (310, 230), (-50, -50), (900, 900)]
)
@pytest.mark.parametrize("above", [True, False])
def test_a_label_is_moved_until_the_image_contains_it(
    corner: tuple[int, int], above: bool
) -> None:
    image = canvas()
    write(image, "motorcycle 0.93", corner, (10, 200, 10), 1, above=above)
    free = canvas()
    write(free, "motorcycle 0.93", (100, 100), (10, 200, 10), 1)
    assert drawn(image).sum() == drawn(free).sum()


@pytest.mark.parametrize("background", [(0, 0, 0), (255, 255, 255), (20, 20, 230)])
def test_text_stands_out_from_its_strip(background: tuple[int, int, int]) -> None:
    image = canvas()
    write(image, "person", (50, 50), background, 1)
    assert np.ptp(image[54:60, 55:90, 1].astype(int)) > 100


def test_the_caption_stands_in_the_bottom_left_corner() -> None:
    image = canvas()
    annotate(image, None, [], "front #1  age 41 ms  on time")
    rows, columns = np.nonzero(drawn(image))
    assert (rows.max(), columns.min()) == (239, 0)
    assert rows.min() > 200


def test_the_best_detection_lies_on_top() -> None:
    image = canvas()
    both = Detections.of(
        np.array([[100, 60, 200, 160], [100, 60, 200, 160]]),
        np.array([0.9, 0.4]),
        np.array([0, 0]),
    ).tracked(np.array([1, 2]))
    annotate(image, both, ["person"], "")
    assert tuple(int(v) for v in image[110, 100]) == color_of(1)


def test_a_crowd_costs_no_more_than_the_bound() -> None:
    n = MAX_DRAWN + 1
    boxes = np.tile([[20.0, 60.0, 60.0, 100.0]], (n, 1))
    boxes[-1] = (200, 60, 240, 100)
    image = canvas()
    annotate(image, Detections.of(boxes, np.ones(n), np.zeros(n)), ["person"], "")
    assert not drawn(image)[:, 150:].any()


anything = st.floats(width=32)


@given(anything, anything, anything, anything, st.integers(1, 70), st.integers(1, 50))
def test_no_box_and_no_image_size_is_too_strange(
    x1: float, y1: float, x2: float, y2: float, width: int, height: int
) -> None:
    annotate(canvas(width, height), one(x1, y1, x2, y2), ["person"], "caption")
