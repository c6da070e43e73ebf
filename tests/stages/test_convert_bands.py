import cv2
import numpy as np
import pytest
from av.video.frame import VideoFrame
from numpy.typing import NDArray

from edgepipe.models.card import ColorOrder
from edgepipe.pipeline.frame import Picture
from edgepipe.stages.bands import Bands, band_rows
from edgepipe.stages.sources.pictures import PictureMaker

Image = NDArray[np.uint8]


def noise(width: int, height: int, pix_fmt: str = "yuv420p") -> VideoFrame:
    frame = VideoFrame(width, height, pix_fmt)
    rng = np.random.default_rng(width * height)
    for plane in frame.planes:
        shape = (plane.height, plane.line_size)
        plane.update(rng.integers(0, 256, shape, np.uint8).tobytes())
    return frame


def as_opencv_does(frame: VideoFrame, size: tuple[int, int], format_: str) -> Image:
    whole = frame.to_ndarray(format=format_, interpolation="BICUBIC", threads=1)
    return np.asarray(cv2.resize(np.asarray(whole, np.uint8), size), np.uint8)


@pytest.mark.parametrize(
    ("size", "out_size"),
    [
        ((640, 272), (320, 136)),
        ((768, 576), (320, 240)),
        ((1280, 720), (320, 180)),
        ((1280, 720), (416, 234)),
        ((640, 480), (416, 312)),
        ((640, 480), (640, 480)),
    ],
)
@pytest.mark.parametrize("order", ColorOrder)
@pytest.mark.parametrize("pix_fmt", ["yuv420p", "yuv422p", "yuv444p"])
def test_bands_give_bit_for_bit_what_opencv_gives(
    size: tuple[int, int], out_size: tuple[int, int], order: ColorOrder, pix_fmt: str
) -> None:
    frame = noise(*size, pix_fmt)
    rows = band_rows(*size, out_size[1])
    assert rows is not None
    dst = np.zeros((out_size[1], out_size[0], 3), np.uint8)
    picture = PictureMaker().picture(frame)
    bands = Bands(*size, rows, picture.format)
    for _ in range(2):  # the second time with what the first one left behind
        bands.render(picture, dst, order)
    format_ = "bgr24" if order is ColorOrder.BGR else "rgb24"
    assert np.array_equal(dst, as_opencv_does(frame, out_size, format_))


@pytest.mark.parametrize(
    ("size", "out_height", "why"),
    [
        ((641, 480), 240, "odd width"),
        ((640, 481), 240, "odd height"),
        ((320, 180), 360, "enlarged"),
        ((1920, 1080), 180, "too costly"),
        ((1000, 562), 180, "no band smaller than half the picture"),
        ((1366, 768), 180, "weights differ from the whole picture's"),
    ],
)
def test_where_bands_do_not_fit_there_are_none(
    size: tuple[int, int], out_height: int, why: str
) -> None:
    assert band_rows(*size, out_height) is None, why


def test_a_band_never_holds_more_than_half_of_the_picture() -> None:
    for height in range(2, 800, 2):
        rows = band_rows(640, height, max(1, height // 2))
        assert rows is None or 2 * rows <= height


def test_range_and_matrix_follow_the_picture() -> None:
    frame = noise(256, 256)
    plain: Picture = PictureMaker().picture(frame)
    frame.color_range = 2
    frame.colorspace = 1
    other = PictureMaker().picture(frame)
    bands = Bands(256, 256, 64)
    for picture in (plain, other, plain):
        dst = np.zeros((128, 128, 3), np.uint8)
        bands.render(picture, dst, ColorOrder.BGR)
        frame.color_range = 2 if picture is other else 1
        frame.colorspace = 1 if picture is other else 5
        assert np.array_equal(dst, as_opencv_does(frame, (128, 128), "bgr24"))
