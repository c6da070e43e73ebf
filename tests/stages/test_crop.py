"""A part of a picture looks like that part of the whole."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.pipeline.frame import Picture, PixelFormat
from edgepipe.stages.convert import to_bgr
from edgepipe.stages.crop import crop
from edgepipe.stages.planes import CHROMA_STEPS

edge = st.floats(-10, 40)


def even(*numbers: int) -> bool:
    return not any(number % 2 for number in numbers)


def make(format_: PixelFormat, width: int = 24, height: int = 18) -> Picture:
    random = np.random.default_rng(3)

    def plane(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
        return random.integers(16, 236, shape).astype(np.uint8)

    if format_ not in CHROMA_STEPS:
        shape = (height, width) if format_ is PixelFormat.GRAY else (height, width, 3)
        return Picture(format_, (plane(*shape),), width, height)
    across, down = CHROMA_STEPS[format_]
    small = -(-height // down), -(-width // across)
    luma = plane(height, width)
    if format_ in (PixelFormat.NV12, PixelFormat.NV16):
        return Picture(format_, (luma, plane(*small, 2)), width, height)
    planes = (luma, plane(*small), plane(*small))
    return Picture(format_, planes, width, height)


@pytest.mark.parametrize("format_", PixelFormat)
@given(size=st.sampled_from([(24, 18), (23, 17)]), x1=edge, y1=edge, x2=edge, y2=edge)
def test_every_pixel_of_a_box_is_there_and_is_the_same(
    format_: PixelFormat,
    size: tuple[int, int],
    x1: float,
    y1: float,
    x2: float,
    y2: float,
) -> None:
    picture = make(format_, *size)
    width, height = size
    found = crop(picture, (x1, y1, x2, y2))
    left, top = max(0, int(np.floor(x1))), max(0, int(np.floor(y1)))
    right, bottom = min(width, int(np.ceil(x2))), min(height, int(np.ceil(y2)))
    if left >= right or top >= bottom:
        assert found is None
        return
    assert found is not None
    part = found.picture
    across, down = CHROMA_STEPS.get(format_, (1, 1))
    left, top = left // across * across, top // down * down
    assert (found.left, found.top) == (left, top)
    assert (part.width, part.height) == (right - left, bottom - top)
    assert np.shares_memory(part.planes[0], picture.planes[0])
    np.testing.assert_array_equal(
        part.planes[0], picture.planes[0][top:bottom, left:right]
    )
    if across == down == 1 or even(*size, part.width, part.height):
        # Between two chroma samples colour is blended: at the cut one has gone.
        inner = (
            slice(down - 1, part.height + 1 - down),
            slice(across - 1, part.width + 1 - across),
        )
        whole = to_bgr(picture)[top:bottom, left:right]
        np.testing.assert_array_equal(to_bgr(part)[inner], whole[inner])


@pytest.mark.parametrize("format_", CHROMA_STEPS)
@pytest.mark.parametrize("size", [(4, 4), (5, 7), (6, 3), (1, 1)])
def test_colours_stay_with_their_pixels(
    format_: PixelFormat, size: tuple[int, int]
) -> None:
    """A block of one colour, cut out, is of that colour up to its edges."""
    picture = make(format_, 24, 18)
    width, height = size
    rows, columns = slice(6, 6 + height), slice(8, 8 + width)
    across, down = CHROMA_STEPS[format_]
    chroma_rows = slice(6 // down, 6 // down - -height // down)
    chroma_columns = slice(8 // across, 8 // across - -width // across)
    picture.planes[0][rows, columns] = 90
    for number, plane in enumerate(picture.planes[1:]):
        plane[chroma_rows, chroma_columns] = (
            (60, 200)[number] if plane.ndim == 2 else (60, 200)
        )
    part = crop(picture, (8, 6, 8 + width, 6 + height))
    assert part is not None
    image = to_bgr(part.picture)
    assert image.shape == (height, width, 3)
    assert (image == image[0, 0]).all()
    blue, green, red = image[0, 0].tolist()
    assert red > green > blue


def test_a_part_of_a_jpeg_that_was_decoded_smaller_is_where_it_was_captured() -> None:
    plane = np.arange(6 * 8 * 3, dtype=np.uint8).reshape(6, 8, 3)
    picture = Picture(PixelFormat.BGR, (plane,), 32, 24)
    found = crop(picture, (9, 4, 17, 15.5))
    assert found is not None
    part = found.picture
    assert (found.left, found.top) == (8, 4)
    assert (part.width, part.height) == (12, 12)
    np.testing.assert_array_equal(part.planes[0], plane[1:4, 2:5])
    assert crop(picture, (40, 0, 50, 9)) is None


def test_a_box_outside_is_nothing() -> None:
    assert crop(make(PixelFormat.NV12), (50, 0, 60, 9)) is None
    assert crop(make(PixelFormat.GRAY), (5, 9, 5, 12)) is None
