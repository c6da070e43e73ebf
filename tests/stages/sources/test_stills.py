"""Stills of every depth, number of channels and kind of ink."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgepipe.pipeline.frame import PixelFormat
from edgepipe.stages.convert import to_bgr
from edgepipe.stages.sources.orientation import of_exif, upright
from edgepipe.stages.sources.stills import (
    decode_still,
    eight_bits,
    read_still,
)


def png(image: NDArray[Any]) -> bytes:
    return cv2.imencode(".png", image)[1].tobytes()


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_black_grey_and_white_stay_what_they_are(
    channels: int, dtype: type[np.uint8] | type[np.uint16]
) -> None:
    top = np.iinfo(dtype).max
    levels = np.array([0, top // 2, top], dtype)
    image = np.repeat(levels[None, :, None], channels, axis=2)
    picture = decode_still(png(image))
    assert picture is not None
    assert (picture.width, picture.height) == (3, 1)
    assert picture.format is (PixelFormat.GRAY if channels == 1 else PixelFormat.BGR)
    seen = to_bgr(picture)[0].astype(int)
    assert np.abs(seen - [[0] * 3, [127.5] * 3, [255] * 3]).max() <= 0.5


def test_transparent_pixels_have_the_colour_that_was_stored() -> None:
    image = np.full((4, 4, 4), (30, 90, 200, 0), np.uint8)
    picture = decode_still(png(image))
    assert picture is not None
    assert (to_bgr(picture) == (30, 90, 200)).all()


def test_floating_point_is_read_as_zero_to_one() -> None:
    values = np.array([[np.nan, -1, 0.5, 1, np.inf]], np.float32)
    found = eight_bits(values)
    assert found is not None
    assert found.tolist() == [[0, 0, 128, 255, 255]]
    picture = decode_still(cv2.imencode(".tiff", values[:, 2:4])[1].tobytes())
    assert picture is not None
    assert picture.planes[0].tolist() == [[128, 255]]


def test_whole_numbers_of_unknown_meaning_are_refused() -> None:
    assert eight_bits(np.zeros((2, 2), np.int32)) is None


def cmyk(*, mark: bool) -> bytes:
    """A JPEG of 8 x 8 pixels of four inks, all zeros as stored, without compression.

    Quantisation 1, one DC coefficient of -1024 each: the lowest sample value.
    """
    dqt = b"\xff\xdb" + struct.pack(">H", 67) + b"\0" + b"\1" * 64
    parts = b"".join(bytes([k, 0x11, 0]) for k in range(1, 5))
    sof = b"\xff\xc0" + struct.pack(">HBHHB", 20, 8, 8, 8, 4) + parts
    # One code of one bit each: a DC difference of 11 bits, and the end of the block.
    dc = b"\xff\xc4" + struct.pack(">HB", 20, 0x00) + b"\1" + bytes(15) + b"\x0b"
    ac = b"\xff\xc4" + struct.pack(">HB", 20, 0x10) + b"\1" + bytes(15) + b"\0"
    picks = b"".join(bytes([k, 0]) for k in range(1, 5))
    sos = b"\xff\xda" + struct.pack(">HB", 14, 4) + picks + b"\0\x3f\0"
    bits = ("0" + f"{1023:011b}" + "0") * 4  # -1024 = 1023 - 2047
    bits += "1" * (-len(bits) % 8)
    body = int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\0")
    adobe = b"\xff\xee" + struct.pack(">H", 14) + b"Adobe\0\x64" + bytes(5)
    return (
        b"\xff\xd8"
        + (adobe if mark else b"")
        + dqt
        + sof
        + dc
        + ac
        + sos
        + body
        + (b"\xff\xd9")
    )


def test_inks_that_adobe_stored_as_missing_are_dark() -> None:
    picture = decode_still(cmyk(mark=True))
    assert picture is not None
    assert to_bgr(picture).max() <= 3


def test_inks_of_an_unknown_kind_are_refused_and_not_shown_as_a_negative() -> None:
    assert decode_still(cmyk(mark=False)) is None


def test_what_is_no_image_is_none(tmp_path: Path) -> None:
    assert read_still(tmp_path / "missing.png") is None
    assert decode_still(b"") is None
    assert decode_still(b"\x89PNG\r\n\x1a\n and nothing") is None


def tiff(image: NDArray[Any], **tags: int) -> bytes:
    """A TIFF file with a second directory in place of the first: its tags and these."""
    numbers = {"orientation": 274, "extra_samples": 338}
    data = cv2.imencode(".tiff", image)[1].tobytes()
    assert data[:2] == b"II"
    (at,) = struct.unpack("<I", data[4:8])
    (count,) = struct.unpack("<H", data[at : at + 2])
    entries = {
        data[k : k + 2]: data[k : k + 12]
        for k in range(at + 2, at + 2 + 12 * count, 12)
    }
    for name, value in tags.items():
        tag = struct.pack("<H", numbers[name])
        entries[tag] = tag + struct.pack("<HII", 3, 1, value)
    ordered = [entries[tag] for tag in sorted(entries, key=lambda t: t[::-1])]
    data += bytes(len(data) % 2)
    where = struct.pack("<I", len(data))
    directory = struct.pack("<H", len(ordered)) + b"".join(ordered) + bytes(4)
    return data[:4] + where + data[8:] + directory


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("number", range(1, 9))
def test_a_tiff_is_turned_once(number: int, dtype: Any, channels: int) -> None:
    stored = np.arange(6, dtype=dtype).reshape(2, 3) * (np.iinfo(dtype).max // 5)
    data = tiff(np.repeat(stored[..., None], channels, axis=2), orientation=number)
    picture = decode_still(data)
    assert picture is not None
    levels = (np.arange(6, dtype=np.uint8) * 51).reshape(2, 3)
    right = upright(levels, of_exif(number))
    assert np.abs(to_bgr(picture)[..., 0].astype(int) - right).max() <= 1


def test_a_tiff_that_says_its_colours_are_not_multiplied_keeps_them() -> None:
    stored = np.full((4, 4, 4), (30, 90, 200, 77), np.uint8)
    picture = decode_still(tiff(stored, extra_samples=2))
    assert picture is not None
    assert (to_bgr(picture) == (30, 90, 200)).all()


def test_a_tiff_that_is_cut_off_is_none() -> None:
    data = cv2.imencode(".tiff", np.full((64, 64, 3), 99, np.uint8))[1].tobytes()
    assert decode_still(data) is not None
    assert {decode_still(data[:end]) for end in range(8, len(data))} == {None}


def jpeg() -> bytes:
    image = np.random.default_rng(1).integers(0, 256, (64, 64, 3), np.uint8)
    return cv2.imencode(".jpg", image)[1].tobytes()


def taller(data: bytes) -> bytes:
    at = data.index(b"\xff\xc0") + 5
    return data[:at] + struct.pack(">H", 80) + data[at + 2 :]


def halved(data: bytes) -> bytes:
    return data[: len(data) // 2]


def ended_early(data: bytes) -> bytes:
    return halved(data) + b"\xff\xd9"


def padded(data: bytes) -> bytes:
    return data + bytes(100)


@pytest.mark.parametrize("library", [True, False])
@pytest.mark.parametrize(
    ("damage", "is_read"),
    [
        (bytes, True),
        (padded, True),
        (halved, False),
        (ended_early, False),
        (taller, False),
    ],
)
def test_a_jpeg_is_read_if_all_of_its_picture_is_there(
    damage: Callable[[bytes], bytes],
    is_read: bool,
    library: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not library:
        monkeypatch.setattr("edgepipe.stages.sources.jpeg.is_available", lambda: False)
    assert (decode_still(damage(jpeg())) is not None) == is_read


@pytest.mark.parametrize("kind", [".png", ".jpg"])
def test_an_image_that_says_it_has_too_many_pixels_is_not_decoded(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = np.full((30, 40, 3), 128, np.uint8)
    data = cv2.imencode(kind, image)[1].tobytes()
    monkeypatch.setattr("edgepipe.stages.sources.stills.MOST_PIXELS", 30 * 40)
    assert decode_still(data) is not None
    monkeypatch.setattr("edgepipe.stages.sources.stills.MOST_PIXELS", 30 * 40 - 1)
    assert decode_still(data) is None
