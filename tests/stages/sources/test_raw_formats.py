"""Bytes of cameras against pictures that FFmpeg or the definition gives for them."""

import numpy as np
import pytest
from av.video.frame import VideoFrame
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from edgepipe.pipeline.frame import ColorMatrix, PixelFormat
from edgepipe.pipeline.source import DamagedError
from edgepipe.stages.convert import to_bgr
from edgepipe.stages.sources.raw_formats import (
    KNOWN_FIRST,
    OF_GSTREAMER,
    RawFormat,
    is_known,
    raw_picture,
)

Image = NDArray[np.uint8]
FFMPEG = {
    "YU12": "yuv420p",
    "422P": "yuv422p",
    "444P": "yuv444p",
    "NV12": "nv12",
    "NV21": "nv21",
    "NV16": "nv16",
    "P010": "p010le",
    "YUYV": "yuyv422",
    "YVYU": "yvyu422",
    "UYVY": "uyvy422",
    "RGB3": "rgb24",
    "BGR3": "bgr24",
    "XR24": "bgra",
    "XB24": "rgba",
    "GREY": "gray",
    "Y10 ": "gray10le",
    "Y12 ": "gray12le",
    "Y16 ": "gray16le",
}
"""FFmpeg's name of the same bytes."""


def scene(width: int, height: int) -> Image:
    """Smooth, so that chroma of any resolution gives almost the same."""
    y, x = np.mgrid[:height, :width]
    channels = (40 + 150 * x / width, 200 - 120 * y / height, 90 + 60 * x / width)
    return np.stack(channels, axis=-1).astype(np.uint8)


def packed(frame: VideoFrame, padding: int) -> tuple[bytes, int]:
    """The frame's planes one after the other, and the length of a line of the first.

    ``padding`` is that of the first plane; other planes have theirs in proportion.
    """
    out: list[bytes] = []
    first = 0
    for number, plane in enumerate(frame.planes):
        memory = np.frombuffer(memoryview(plane), np.uint8).reshape(-1, plane.line_size)
        row_bytes = {
            "yuyv422": 2 * frame.width,
            "yvyu422": 2 * frame.width,
            "uyvy422": 2 * frame.width,
            "rgb24": 3 * frame.width,
            "bgr24": 3 * frame.width,
            "bgra": 4 * frame.width,
            "rgba": 4 * frame.width,
        }.get(frame.format.name)
        if row_bytes is None:
            depth = 2 if frame.format.components[0].bits > 8 else 1
            pair = 2 if number and frame.format.name[:2] in ("nv", "p0") else 1
            row_bytes = plane.width * depth * pair
        first = first or row_bytes + padding
        line = first * row_bytes // (first - padding) if number else first
        rows = np.full((plane.height, line), 0xEE, np.uint8)
        rows[:, :row_bytes] = memory[: plane.height, :row_bytes]
        out.append(rows.tobytes())
    return b"".join(out), first


@pytest.mark.parametrize("fourcc", FFMPEG)
@pytest.mark.parametrize("padding", [0, 64])
def test_the_picture_is_the_one_that_ffmpeg_sees(fourcc: str, padding: int) -> None:
    width, height = 64, 48
    source = VideoFrame.from_ndarray(scene(width, height), "bgr24")
    frame = source.reformat(
        format=FFMPEG[fourcc], dst_colorspace=1, dst_color_range=1, threads=1
    )
    data, line = packed(frame, padding)
    given_ = RawFormat(fourcc, width, height, line if padding else 0, ColorMatrix.BT709)
    picture = raw_picture(data, given_)
    assert (picture.width, picture.height) == (width, height)
    assert all(not plane.flags.writeable for plane in picture.planes)
    image, wanted = to_bgr(picture).astype(int), scene(width, height).astype(int)
    if picture.format is PixelFormat.GRAY:
        wanted = np.asarray(frame.to_ndarray(format="gray")).astype(int)[..., None]
    assert np.abs(image - wanted).max() <= 5


@pytest.mark.parametrize(
    ("fourcc", "like"), [("YV12", "YU12"), ("NV61", "NV16"), ("VYUY", "UYVY")]
)
def test_formats_with_the_chromas_exchanged(fourcc: str, like: str) -> None:
    width, height = 32, 16
    source = VideoFrame.from_ndarray(scene(width, height), "bgr24")
    frame = source.reformat(format=FFMPEG[like], threads=1)
    data, _ = packed(frame, 0)
    right = raw_picture(data, RawFormat(like, width, height))
    other = raw_picture(data, RawFormat(fourcc, width, height))
    assert np.array_equal(right.planes[0], other.planes[0])
    if fourcc == "YV12":
        assert np.array_equal(right.planes[1], other.planes[2])
    else:
        assert np.array_equal(right.planes[1], other.planes[1][..., ::-1])


PATTERNS = {
    "RGGB": ("RGGB", 8, 0),
    "GRBG": ("GRBG", 8, 0),
    "GBRG": ("GBRG", 8, 0),
    "BA81": ("BGGR", 8, 0),
    "RG10": ("RGGB", 10, 0),
    "BA10": ("GRBG", 10, 0),
    "GB12": ("GBRG", 12, 0),
    "BYR2": ("BGGR", 16, 0),
    "pRAA": ("RGGB", 8, 4),
    "pBAA": ("BGGR", 8, 4),
}


@pytest.mark.parametrize("fourcc", PATTERNS)
def test_a_plain_colour_behind_a_bayer_filter_is_that_colour(fourcc: str) -> None:
    pattern, bits, group = PATTERNS[fourcc]
    color = {"R": 200, "G": 120, "B": 40}
    tile = np.array([color[letter] for letter in pattern]).reshape(2, 2)
    mosaic = np.tile(tile, (8, 8)) * ((1 << bits) - 1) // 255
    data = mosaic.astype("u1" if bits == 8 else "<u2").tobytes()
    if group:  # five bytes for four pixels, the low bits of all four in the last
        four = mosaic.astype("u1").reshape(16, 4, 4)
        data = np.pad(four, ((0, 0), (0, 0), (0, 1)), constant_values=0xAA).tobytes()
    picture = raw_picture(data, RawFormat(fourcc, 16, 16))
    inner = picture.planes[0][2:-2, 2:-2].astype(int)
    assert np.abs(inner - (40, 120, 200)).max() <= 1


def test_planes_are_views_where_the_format_allows() -> None:
    data = np.zeros(64 * 48 * 2, np.uint8)
    owner = object()
    for fourcc in ("YU12", "422P", "NV12", "NV16", "GREY", "RGB3"):
        size = (32, 24)
        picture = raw_picture(data, RawFormat(fourcc, *size), owner)
        assert all(np.shares_memory(data, plane) for plane in picture.planes)
        assert picture.owner is owner


@pytest.mark.parametrize("fourcc", ["YU12", "NV12", "YUYV", "GREY", "RGGB", "P010"])
def test_odd_sizes_keep_their_last_row_and_column(fourcc: str) -> None:
    width, height = 33, 27
    data = bytes([128]) * 6000
    picture = raw_picture(data, RawFormat(fourcc, width, height))
    assert picture.planes[0].shape[:2] == (height, width)
    assert to_bgr(picture).shape == (height, width, 3)


def test_too_few_bytes_are_said_to_be_too_few() -> None:
    with pytest.raises(DamagedError, match=r"YUYV 64x48: 100 bytes are too few"):
        raw_picture(bytes(100), RawFormat("YUYV", 64, 48))


@given(
    st.sampled_from(sorted(FFMPEG)),
    st.integers(1, 40),
    st.integers(2, 40),
    st.integers(0, 200),
    st.integers(0, 9000),
)
def test_any_size_and_length_gives_a_picture_or_is_refused(
    fourcc: str, width: int, height: int, line: int, length: int
) -> None:
    data = bytes(length)
    try:
        picture = raw_picture(data, RawFormat(fourcc, width, height, line))
    except DamagedError:
        return
    assert picture.planes[0].shape[:2] == (height, width)
    assert to_bgr(picture).shape == (height, width, 3)


def test_all_names_mean_formats_that_can_be_read() -> None:
    assert all(is_known(code) for code in (*OF_GSTREAMER.values(), *KNOWN_FIRST))
    assert not is_known("H264")
