import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.models.card import Align
from edgepipe.stages.letterbox import LEAST_SHARE, letterbox_for

SIZES = st.integers(1, 5000)
NET_SIZES = st.integers(1, 2000)


@given(SIZES, SIZES, NET_SIZES, NET_SIZES, st.sampled_from(Align))
def test_the_picture_lies_inside_the_input_and_nearly_fills_it(
    width: int, height: int, net_width: int, net_height: int, align: Align
) -> None:
    box, inner_width, inner_height = letterbox_for(
        width, height, net_width, net_height, align
    )
    assert 1 <= inner_width <= net_width - box.pad_x
    assert 1 <= inner_height <= net_height - box.pad_y
    assert box.pad_x >= 0
    assert box.pad_y >= 0
    share = max(inner_width / net_width, inner_height / net_height)
    assert share >= LEAST_SHARE - 1e-9


@given(SIZES, SIZES, NET_SIZES, NET_SIZES, st.sampled_from(Align))
def test_boxes_map_back_to_where_they_came_from(
    width: int, height: int, net_width: int, net_height: int, align: Align
) -> None:
    box, inner_width, inner_height = letterbox_for(
        width, height, net_width, net_height, align
    )
    whole = np.array(
        [[box.pad_x, box.pad_y, box.pad_x + inner_width, box.pad_y + inner_height]],
        np.float32,
    )
    assert np.allclose(box.to_captured(whole), [[0, 0, width, height]], rtol=1e-5)


@given(SIZES, SIZES, NET_SIZES, NET_SIZES)
def test_both_axes_keep_the_same_scale_but_for_rounding(
    width: int, height: int, net_width: int, net_height: int
) -> None:
    gain = min(net_width / width, net_height / height)
    box, inner_width, inner_height = letterbox_for(
        width, height, net_width, net_height, Align.CENTER
    )
    if inner_width * height != inner_height * width:  # not in exact proportion
        assert abs(inner_width - width * gain) <= max(0.5, 1 - width * gain)
        assert abs(inner_height - height * gain) <= max(0.5, 1 - height * gain)
    assert box.pad_x == (net_width - inner_width) // 2
    assert box.pad_y == (net_height - inner_height) // 2


@pytest.mark.parametrize(
    ("picture", "size"),
    [
        ((1920, 1080), (416, 234)),  # fills the width, and 9:16 fits whole pixels
        ((640, 272), (400, 170)),  # 416x176.8 would be larger, but is not whole
        ((854, 480), (416, 234)),  # no whole size near enough: rounded
        ((208, 160), (416, 320)),  # enlarged
    ],
)
def test_a_picture_that_is_made_smaller_keeps_its_proportions_where_it_can(
    picture: tuple[int, int], size: tuple[int, int]
) -> None:
    _, *inner = letterbox_for(*picture, 416, 320, Align.CENTER)
    assert tuple(inner) == size


@pytest.mark.parametrize(
    ("align", "pad", "size"),
    [
        (Align.CENTER, (0, 373), (1280, 533)),
        (Align.TOP_LEFT, (0, 0), (1280, 533)),
        (Align.STRETCH, (0, 0), (1280, 1280)),
    ],
)
def test_alignment_decides_where_the_rest_goes(
    align: Align, pad: tuple[int, int], size: tuple[int, int]
) -> None:
    box, *inner = letterbox_for(3775, 1571, 1280, 1280, align)
    assert (box.pad_x, box.pad_y) == pad
    assert tuple(inner) == size


def test_sizes_must_be_positive() -> None:
    with pytest.raises(ValueError, match="sizes must be positive, got 0x5 in 10x10"):
        letterbox_for(0, 5, 10, 10, Align.CENTER)
