import json
import tracemalloc
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgepipe.models.card import Align, ColorOrder
from edgepipe.pipeline.buffers import BufferRing
from edgepipe.pipeline.frame import ColorMatrix, Frame, Picture, PixelFormat
from edgepipe.stages.convert import Convert, to_bgr
from edgepipe.stages.planes import CHROMA_STEPS
from edgepipe.stages.sources.open import open_source

Image = NDArray[np.uint8]
PAD = (1, 2, 3)
YUV = tuple(CHROMA_STEPS)
YUV_FROM_BGR = np.array(
    [
        [0.0979, 0.5041, 0.2568, 16],
        [0.4392, -0.2910, -0.1482, 128],
        [-0.0714, -0.3678, 0.4392, 128],
    ]
)
"""BT.601, limited range."""


def picture_of(bgr: Image, format_: PixelFormat) -> Picture:
    """The same picture in another format; BT.601, limited range."""
    height, width = bgr.shape[:2]
    if format_ is PixelFormat.BGR:
        return Picture(format_, (bgr,), width, height)
    if format_ is PixelFormat.RGB:
        return Picture(format_, (np.ascontiguousarray(bgr[..., ::-1]),), width, height)
    if format_ is PixelFormat.GRAY:
        gray = np.asarray(cv2.cvtColor(bgr, cv2.COLOR_BGR2GRAY), np.uint8)
        return Picture(format_, (gray,), width, height)
    yuv = np.asarray(cv2.transform(bgr, YUV_FROM_BGR), np.uint8)
    across, down = CHROMA_STEPS[format_]
    margin = ((0, -height % down), (0, -width % across), (0, 0))
    whole = np.pad(yuv, margin, mode="edge")
    size = (whole.shape[1] // across, whole.shape[0] // down)
    chroma = np.asarray(cv2.resize(whole, size, interpolation=cv2.INTER_AREA), np.uint8)
    chroma = np.ascontiguousarray(chroma[..., 1:])
    luma = np.ascontiguousarray(yuv[..., 0])
    if format_ in (PixelFormat.NV12, PixelFormat.NV16):
        return Picture(format_, (luma, chroma), width, height)
    u, v = (np.ascontiguousarray(chroma[..., k]) for k in (0, 1))
    return Picture(format_, (luma, u, v), width, height)


def converter(
    *,
    size: tuple[int, int] = (64, 64),
    color: ColorOrder = ColorOrder.BGR,
    align: Align = Align.CENTER,
    ring: BufferRing | None = None,
) -> Convert:
    width, height = size
    ring = ring or BufferRing(2, height, width)
    return Convert(ring, height, width, color, align, PAD)


def converted(stage: Convert, picture: Picture) -> Frame:
    frame = Frame("front", 0, capture_ns=0, deadline_ns=1, picture=picture)
    return stage.process(frame, worker=0)


def tensor_of(frame: Frame) -> Image:
    assert frame.tensor is not None
    return frame.tensor.array


@pytest.mark.parametrize("format_", [*YUV, PixelFormat.BGR, PixelFormat.RGB])
@pytest.mark.parametrize("color", ColorOrder)
@pytest.mark.parametrize("size", [(64, 64), (160, 128), (63, 61)])
def test_a_plain_colour_arrives_in_the_models_order(
    format_: PixelFormat, color: ColorOrder, size: tuple[int, int]
) -> None:
    bgr = np.full((size[1], size[0], 3), (0, 64, 255), np.uint8)
    stage = converter(color=color, align=Align.STRETCH)
    tensor = tensor_of(converted(stage, picture_of(bgr, format_)))
    mean = tensor.mean(axis=(0, 1)) / 255
    rgb = mean if color is ColorOrder.RGB else mean[::-1]
    assert np.abs(rgb - [1.0, 0.25098, 0.0]).max() <= 0.0101


def test_grey_pictures_get_three_equal_channels() -> None:
    bgr = np.full((32, 32, 3), 77, np.uint8)
    tensor = tensor_of(converted(converter(), picture_of(bgr, PixelFormat.GRAY)))
    assert np.unique(tensor).tolist() == [77]


@pytest.mark.parametrize("full_range", [False, True])
@pytest.mark.parametrize(
    ("matrix", "red", "blue"),
    [
        (ColorMatrix.BT601, 0.299, 0.114),
        (ColorMatrix.BT709, 0.2126, 0.0722),
        (ColorMatrix.BT2020, 0.2627, 0.0593),
    ],
)
@pytest.mark.parametrize("side", [64, 256])
def test_matrix_and_range_of_the_picture_are_respected(
    matrix: ColorMatrix, red: float, blue: float, full_range: bool, side: int
) -> None:
    rgb = np.array([200, 90, 30])
    luma = red * rgb[0] + (1 - red - blue) * rgb[1] + blue * rgb[2]
    u, v = (rgb[2] - luma) / 2 / (1 - blue), (rgb[0] - luma) / 2 / (1 - red)
    if not full_range:
        luma, u, v = luma * 219 / 255 + 16, u * 224 / 255, v * 224 / 255
    planes = tuple(
        np.full((side // step, side // step), round(value), np.uint8)
        for value, step in ((luma, 1), (u + 128, 2), (v + 128, 2))
    )
    picture = Picture(PixelFormat.I420, planes, side, side, matrix, full_range)
    tensor = tensor_of(converted(converter(color=ColorOrder.RGB), picture))
    assert np.abs(tensor.mean(axis=(0, 1)) - rgb).max() <= 3
    assert np.abs(to_bgr(picture)[..., ::-1].mean(axis=(0, 1)) - rgb).max() <= 2


@pytest.mark.parametrize("format_", [*YUV, PixelFormat.BGR, PixelFormat.GRAY])
@pytest.mark.parametrize("align", Align)
@pytest.mark.parametrize(
    "size", [(640, 360), (641, 361), (333, 187), (96, 54), (1919, 333), (354, 801)]
)
def test_a_rectangle_is_found_where_the_letterbox_says(
    format_: PixelFormat, align: Align, size: tuple[int, int]
) -> None:
    assert_rectangle_found(size, (320, 256), format_, align)


def test_recorded_sizes_are_letterboxed_exactly(cases: Path) -> None:
    (path,) = cases.glob("*/sizes.json")
    sizes: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    for each in sizes:
        for format_ in (*YUV, PixelFormat.BGR):
            picture, net = (each["w"], each["h"]), (each["net_w"], each["net_h"])
            box = assert_rectangle_found(picture, net, format_, Align.CENTER)
            assert [box.pad_x, box.pad_y] == each["pad_used"]


def assert_rectangle_found(
    size: tuple[int, int], net: tuple[int, int], format_: PixelFormat, align: Align
) -> Any:
    width, height = size
    x1, y1, x2, y2 = width // 5, height // 4, width * 3 // 4, height * 2 // 3
    bgr = np.zeros((height, width, 3), np.uint8)
    bgr[y1:y2, x1:x2] = 255
    frame = converted(converter(size=net, align=align), picture_of(bgr, format_))
    bright = tensor_of(frame).astype(np.float64).mean(axis=2)
    box = frame.letterbox
    assert box is not None
    found = np.array([edges(bright), edges(bright.T)]).T.reshape(1, 4)
    back = box.to_captured(found.astype(np.float32))[0]
    off = np.abs(back - [x1, y1, x2, y2])
    assert (off * np.tile([box.scale_x, box.scale_y], 2) <= 0.75).all(), off
    return box


def edges(image: NDArray[np.float64]) -> tuple[float, float]:
    """First and last edge of what is bright, across columns, to parts of a pixel."""
    middle = np.flatnonzero(image.max(axis=1) > 128)
    line = image[(middle[0] + middle[-1]) // 2]
    inside = np.flatnonzero(line > 128)
    begin, end = int(inside[0]), int(inside[-1])
    before = line[begin - 1] / 255 if begin and line[begin - 1] > 8 else 0.0
    after = line[end + 1] / 255 if end + 1 < len(line) and line[end + 1] > 8 else 0.0
    return (
        begin - before + (1 - line[begin] / 255),
        end + 1 + after - (1 - line[end] / 255),
    )


def test_the_surroundings_are_painted_whatever_was_there_before() -> None:
    ring = BufferRing(1, 64, 64)
    stage = converter(ring=ring)
    for width, height in ((64, 16), (16, 64), (64, 64), (64, 32)):
        bgr = np.full((height, width, 3), 200, np.uint8)
        frame = converted(stage, picture_of(bgr, PixelFormat.BGR))
        tensor, box = tensor_of(frame), frame.letterbox
        assert box is not None
        around = np.ones((64, 64), bool)
        around[box.pad_y : box.pad_y + height, box.pad_x : box.pad_x + width] = False
        assert (tensor[around] == PAD).all()
        assert (tensor[~around] == 200).all()
        assert frame.tensor is not None
        frame.tensor.give_back()


def test_a_frame_that_cannot_be_converted_gives_its_buffer_back() -> None:
    ring = BufferRing(1, 64, 64)
    broken = Picture(PixelFormat.BGR, (), 8, 8)
    with pytest.raises(IndexError):
        converted(converter(ring=ring), broken)
    assert ring.statistics().lent == 0


def test_a_frame_without_a_picture_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a decoded frame"):
        converter().process(Frame("front", 0, capture_ns=0, deadline_ns=1), 0)


def test_the_other_fields_of_the_frame_are_kept() -> None:
    picture = picture_of(np.zeros((8, 8, 3), np.uint8), PixelFormat.BGR)
    frame = Frame("front", 3, capture_ns=1, deadline_ns=9, picture=picture)
    stage = converter()
    after = stage.process(frame, worker=1)
    assert after.with_changes(tensor=None, letterbox=None) == frame
    stage.close()
    assert stage.name == "convert"


@pytest.mark.parametrize("size", [(640, 272), (641, 273), (1920, 1080)])
@pytest.mark.parametrize("format_", [*YUV, PixelFormat.BGR])
def test_nothing_large_is_allocated_for_a_frame(
    size: tuple[int, int], format_: PixelFormat
) -> None:
    bgr = np.zeros((size[1], size[0], 3), np.uint8)
    picture = picture_of(bgr, format_)
    ring = BufferRing(1, 256, 320)
    stage = converter(size=(320, 256), ring=ring)

    def once() -> None:
        slot = converted(stage, picture).tensor
        assert slot is not None
        slot.give_back()

    once()
    tracemalloc.start()
    try:
        once()
        assert tracemalloc.get_traced_memory()[1] < 64 << 10
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("format_", PixelFormat)
def test_the_whole_picture_can_be_had_for_drawing(format_: PixelFormat) -> None:
    bgr = np.full((47, 33, 3), (30, 90, 200), np.uint8)
    picture = picture_of(bgr, format_)
    image = to_bgr(picture)
    assert image.shape == (47, 33, 3)
    assert image.flags.writeable
    assert not any(np.shares_memory(image, plane) for plane in picture.planes)
    wanted = image[0, 0] if format_ is PixelFormat.GRAY else bgr[0, 0]
    assert np.abs(image.astype(int) - wanted).max() <= 2
    given = np.zeros((47, 33, 3), np.uint8)
    assert to_bgr(picture, given) is given
    assert np.array_equal(given, image)


def test_a_red_still_is_red(cases: Path) -> None:
    (path,) = cases.glob("*/red64.png")
    picture = open_source(str(path)).decode(0)
    stage = converter(color=ColorOrder.RGB)
    mean = tensor_of(converted(stage, picture)).mean(axis=(0, 1)) / 255
    assert np.abs(mean - [1.0, 0.25098, 0.0]).max() <= 1e-4


def test_a_thread_that_takes_a_number_over_gets_tools_of_its_own() -> None:
    convert = Convert(BufferRing(3, 8, 8), 8, 8, ColorOrder.RGB, Align.CENTER, PAD)
    picture = picture_of(np.zeros((4, 4, 3), np.uint8), PixelFormat.BGR)
    frame = Frame("a", 0, 0, 1, picture=picture)
    convert.process(frame, 0)
    benches = convert._benches  # pyright: ignore[reportPrivateUsage]
    lost = benches[0]
    convert.renew(0)
    convert.renew(7)  # one that has not worked yet
    convert.process(frame, 0)
    assert benches[0] is not lost
