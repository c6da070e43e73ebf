"""Mirrors and quarter turns, in stills, JPEG video and display matrices."""

import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from edgepipe.pipeline.frame import Picture
from edgepipe.stages.convert import to_bgr
from edgepipe.stages.sources.exif import exif_orientation
from edgepipe.stages.sources.open import open_source
from edgepipe.stages.sources.orientation import UPRIGHT, of_exif, of_matrix, upright

Image = NDArray[np.uint8]
SHOWN_FROM_STORED: list[Callable[[Image], Image]] = [
    lambda a: a,
    lambda a: a[:, ::-1],
    lambda a: a[::-1, ::-1],
    lambda a: a[::-1],
    lambda a: a.swapaxes(0, 1),
    lambda a: np.rot90(a, -1),
    lambda a: np.rot90(a.swapaxes(0, 1), 2),
    lambda a: np.rot90(a),
]
"""By EXIF number less one (EXIF 2.32, tag 274)."""
ONE = 1 << 16


def corners() -> Image:
    """Four corners of different brightness, 32 x 48."""
    image = np.full((32, 48, 3), 20, np.uint8)
    image[:16, :16], image[:16, -16:] = 80, 140
    image[-16:, :16], image[-16:, -16:] = 200, 250
    return image


def exif(number: int, order: str = "MM", kind: int = 3) -> bytes:
    sign = ">" if order == "MM" else "<"
    value = struct.pack(sign + ("HH" if kind == 3 else "I"), *([number, 0][: 5 - kind]))
    head = order.encode() + struct.pack(sign + "HIH", 42, 8, 2)
    other = struct.pack(sign + "HHIHH", 0x0100, 3, 1, 48, 0)
    return head + other + struct.pack(sign + "HHI", 0x0112, kind, 1) + value + bytes(4)


def jpeg(number: int, order: str = "MM") -> bytes:
    data = cv2.imencode(".jpg", corners(), [cv2.IMWRITE_JPEG_QUALITY, 98])[1].tobytes()
    body = b"Exif\0\0" + exif(number, order)
    return data[:2] + b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body + data[2:]


def png(number: int) -> bytes:
    data = cv2.imencode(".png", corners())[1].tobytes()
    body = b"eXIf" + exif(number)
    chunk = struct.pack(">I", len(body) - 4) + body
    return data[:33] + chunk + struct.pack(">I", zlib.crc32(body)) + data[33:]


def as_shown(number: int) -> Image:
    return np.ascontiguousarray(SHOWN_FROM_STORED[number - 1](corners()))


def assert_shows(picture: Picture, wanted: Image) -> None:
    image = to_bgr(picture)
    assert image.shape == wanted.shape
    assert np.abs(image.astype(int) - wanted).mean() < 2


@pytest.mark.parametrize("number", range(1, 9))
@pytest.mark.parametrize("order", ["MM", "II"])
def test_a_still_is_shown_as_its_exif_tag_says(
    tmp_path: Path, number: int, order: str
) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(jpeg(number, order))
    assert_shows(open_source(str(path)).decode(0), as_shown(number))


@pytest.mark.parametrize("number", range(1, 9))
def test_a_png_is_shown_as_its_exif_chunk_says(tmp_path: Path, number: int) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(png(number))
    assert_shows(open_source(str(path)).decode(0), as_shown(number))


@pytest.mark.parametrize("number", range(1, 9))
def test_jpeg_video_is_shown_as_each_packets_exif_tag_says(
    tmp_path: Path, number: int
) -> None:
    path = tmp_path / "a.mjpeg"
    path.write_bytes(jpeg(1) + jpeg(number))
    source = open_source(str(path), fps=10)
    assert source.next_arrival() is not None
    assert source.next_arrival() is not None
    assert_shows(source.decode(0), as_shown(1))
    assert_shows(source.decode(1), as_shown(number))


@pytest.mark.parametrize(
    ("matrix", "number"),
    [
        ((ONE, 0, 0, ONE), 1),
        ((-ONE, 0, 0, ONE), 2),
        ((-ONE, 0, 0, -ONE), 3),
        ((ONE, 0, 0, -ONE), 4),
        ((0, ONE, ONE, 0), 5),
        ((0, ONE, -ONE, 0), 6),
        ((0, -ONE, -ONE, 0), 7),
        ((0, -ONE, ONE, 0), 8),
    ],
)
def test_a_video_is_shown_as_its_display_matrix_says(
    tmp_path: Path, matrix: tuple[int, int, int, int], number: int
) -> None:
    a, b, c, d = matrix
    assert of_matrix([a, b, 0, c, d, 0, 0, 0, 1 << 30]) == of_exif(number)
    path = tmp_path / "a.mp4"
    write_clip(path)
    # The track header's matrix is the second one in the file; the first is the movie's.
    data = path.read_bytes()
    plain = struct.pack(">9i", ONE, 0, 0, 0, ONE, 0, 0, 0, 1 << 30)
    at = data.index(plain, data.index(b"tkhd"))
    turned = struct.pack(">9i", a, b, 0, c, d, 0, 0, 0, 1 << 30)
    path.write_bytes(data[:at] + turned + data[at + len(turned) :])
    source = open_source(str(path))
    assert source.next_arrival() is not None
    picture = source.decode(0)
    assert (source.info.width, source.info.height) == (picture.width, picture.height)
    assert_shows(picture, as_shown(number))


def write_clip(path: Path) -> None:
    output: Any
    with av.open(str(path), "w") as output:
        stream = output.add_stream("mpeg4", rate=25)
        stream.width, stream.height, stream.pix_fmt = 48, 32, "yuv420p"
        stream.options = {"qmin": "1", "qmax": "1"}
        frame = av.VideoFrame.from_ndarray(corners(), "bgr24")
        frame.pts = 0
        output.mux(stream.encode(frame))
        output.mux(stream.encode(None))


def test_angles_between_quarter_turns_go_to_the_nearest() -> None:
    cos, sin = round(ONE * 0.94), round(ONE * 0.34)  # 20 degrees
    assert of_matrix([cos, sin, 0, -sin, cos, 0, 0, 0, 1]) == UPRIGHT
    assert of_matrix([sin, cos, 0, -cos, sin, 0, 0, 0, 1]) == of_exif(6)


@pytest.mark.parametrize("number", [0, 9, 65535])
def test_a_number_that_means_nothing_is_upright(number: int) -> None:
    assert exif_orientation(jpeg(number)) == 1
    assert of_exif(number) == UPRIGHT


def test_a_tag_of_four_bytes_is_read_too() -> None:
    body = b"Exif\0\0" + exif(6, "II", kind=4)
    data = b"\xff\xd8\xff\xe1" + struct.pack(">H", len(body) + 2) + body
    assert exif_orientation(data) == 6


@given(st.binary(max_size=300), st.sampled_from([b"", b"\xff\xd8", b"MM\0*", b"II*\0"]))
def test_any_bytes_have_an_orientation(tail: bytes, head: bytes) -> None:
    assert 1 <= exif_orientation(head + tail) <= 8


@given(st.integers(0, 400), st.integers(1, 8))
def test_a_header_cut_anywhere_has_an_orientation(length: int, number: int) -> None:
    assert exif_orientation(jpeg(number)[:length]) in (1, number)


@given(st.integers(1, 8))
def test_an_upright_plane_has_all_its_values(number: int) -> None:
    plane = np.arange(15, dtype=np.uint8).reshape(3, 5)
    shown = upright(plane, of_exif(number))
    assert np.array_equal(shown, SHOWN_FROM_STORED[number - 1](plane))
