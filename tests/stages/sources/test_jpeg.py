"""JPEGs decoded no larger than needed keep their size, place and colours."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgepipe.models.card import Align, ColorOrder
from edgepipe.pipeline.buffers import BufferRing
from edgepipe.pipeline.frame import Frame, Picture
from edgepipe.pipeline.source import DamagedError
from edgepipe.stages.convert import Convert, to_bgr
from edgepipe.stages.letterbox import letterbox_for
from edgepipe.stages.sources.file import FileSource
from edgepipe.stages.sources.jpeg import ReducedJpegs, factor_for

pytest.importorskip("simplejpeg")

Image = NDArray[np.uint8]
NET = (160, 128)


def least(width: int, height: int) -> tuple[int, int]:
    place = letterbox_for(width, height, *NET, Align.CENTER)
    return place.width, place.height


def scene(width: int, height: int) -> Image:
    """Smooth, with one bright rectangle."""
    y, x = np.mgrid[:height, :width]
    channels = (40 + 60 * x / width, 120 - 80 * y / height, 50 + 30 * x / width)
    image = np.stack(channels, axis=-1).astype(np.uint8)
    image[height // 4 : height // 2, width // 4 : width * 3 // 4] = 250
    return image


def jpeg(image: Image) -> bytes:
    return cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 95])[1].tobytes()


@pytest.mark.parametrize(
    ("size", "factor"),
    [
        ((320, 240), 2),
        ((1280, 720), 8),
        ((640, 512), 4),
        ((322, 242), 2),
        ((321, 240), 1),
        ((160, 128), 1),
        ((100, 60), 1),
    ],
)
def test_planes_are_no_larger_than_needed_and_the_picture_keeps_its_size(
    size: tuple[int, int], factor: int
) -> None:
    picture = ReducedJpegs(least).picture(memoryview(jpeg(scene(*size))))
    assert (picture.width, picture.height) == size
    assert picture.planes[0].shape == (size[1] // factor, size[0] // factor, 3)


@pytest.mark.parametrize("size", [(320, 240), (640, 360), (1920, 1080), (241, 180)])
def test_boxes_are_where_they_were_captured(size: tuple[int, int]) -> None:
    width, height = size
    image = scene(*size)
    small = converted(ReducedJpegs(least).picture(memoryview(jpeg(image))))
    letterbox = small.letterbox
    assert letterbox is not None
    assert small.tensor is not None
    bright = small.tensor.array.min(axis=2) > 180
    rows, columns = np.flatnonzero(bright.any(1)), np.flatnonzero(bright.any(0))
    found = np.array([[columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]], np.float32)
    box = letterbox.to_captured(found)[0]
    right = [width // 4, height // 4, width * 3 // 4, height // 2]
    assert np.abs(box - right).max() <= 1.01 / letterbox.scale_x


def converted(picture: Picture) -> Frame:
    width, height = NET
    convert = Convert(
        BufferRing(1, height, width),
        height,
        width,
        ColorOrder.BGR,
        Align.CENTER,
        (0, 0, 0),
    )
    return convert.process(Frame("a", 0, 0, 1, picture=picture), 0)


def test_colours_and_the_whole_picture_are_about_the_same() -> None:
    image = cv2.GaussianBlur(scene(640, 480), (0, 0), 8)
    picture = ReducedJpegs(least).picture(memoryview(jpeg(np.asarray(image, np.uint8))))
    whole = to_bgr(picture)
    assert whole.shape == image.shape
    assert np.abs(whole.astype(int) - image).mean() < 3


def test_a_jpeg_that_is_not_whole_is_refused() -> None:
    jpegs = ReducedJpegs(least)
    data = jpeg(scene(320, 240))
    for broken in (data[: len(data) // 2], data[:-2], b"", b"\xff\xd8 nothing"):
        with pytest.raises(DamagedError):
            jpegs.picture(memoryview(broken))
    assert jpegs.picture(memoryview(data)).width == 320


def test_memory_is_used_again_when_nobody_looks_at_a_picture_any_more() -> None:
    jpegs = ReducedJpegs(least)
    data = memoryview(jpeg(scene(640, 512)))
    kept = jpegs.picture(data)
    pixels = kept.planes[0].copy()
    for _ in range(3):
        jpegs.picture(data)
    tracemalloc.start()
    try:
        for _ in range(5):
            assert not np.shares_memory(jpegs.picture(data).planes[0], kept.planes[0])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 64 << 10
    assert np.array_equal(kept.planes[0], pixels)


@pytest.mark.parametrize(
    ("size", "least_size", "factor"),
    [
        ((64, 64), (8, 8), 8),
        ((64, 64), (9, 8), 4),
        ((64, 62), (8, 8), 2),
        ((9, 9), (1, 1), 1),
    ],
)
def test_only_what_can_be_divided_is_made_smaller(
    size: tuple[int, int], least_size: tuple[int, int], factor: int
) -> None:
    assert factor_for(*size, *least_size) == factor


def test_a_file_is_decoded_no_larger_than_needed_and_skips_for_nothing(
    make_clip: Callable[..., Path], frame_number: Callable[[Picture], int]
) -> None:
    clip = make_clip("a.avi", codec="mjpeg", pix_fmt="yuvj420p", size=(640, 512))
    source = FileSource(clip, str(clip))
    source.reduce_to(least)
    count = sum(hasattr(a, "index") for a in iter(source.next_arrival, None))
    assert count == 12
    for index in (0, 5, 6, 11):
        picture = source.decode(index)
        assert (picture.width, picture.height) == (640, 512)
        assert picture.planes[0].shape == (128, 160, 3)
        assert frame_number(picture) == index
    source.close()


def test_other_videos_are_not_concerned(make_clip: Callable[..., Path]) -> None:
    clip = make_clip("a.mp4", size=(640, 512))
    source = FileSource(clip, str(clip))
    source.reduce_to(least)
    assert source.next_arrival() is not None
    assert source.decode(0).planes[0].shape == (512, 640)
    source.close()
