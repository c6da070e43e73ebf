"""Images of any file format, depth and orientation as upright 8-bit pictures."""

from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgepipe.pipeline.frame import Picture, PixelFormat
from edgepipe.stages.sources.exif import exif_orientation, jpeg_segments
from edgepipe.stages.sources.jpeg import is_sound
from edgepipe.stages.sources.orientation import of_exif, upright
from edgepipe.stages.sources.tiff import is_tiff, is_whole, without_multiplying

Image = NDArray[np.uint8]

_AS_STORED = cv2.IMREAD_UNCHANGED  # which turns nothing upright either, except TIFF
_FRAME_HEADERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_ADOBE = 0xEE
MOST_PIXELS = 1 << 28
"""Of one image. A small file can hold so many that memory does not suffice."""


def read_still(path: Path) -> Picture | None:
    """The image in a file, upright and with 8 bits; None if there is none.

    One channel becomes GRAY, everything else BGR. Transparency is left out, as OpenCV
    and Pillow do it, so that colours are those that were stored.
    """
    try:
        data = path.read_bytes()
    except OSError:
        return None
    return decode_still(data)


def decode_still(data: bytes) -> Picture | None:
    """The same for the bytes of a file."""
    if not data or _pixels_told(data) > MOST_PIXELS:
        return None
    if data[:2] == b"\xff\xd8" and not is_sound(data):
        return None
    if is_tiff(data):
        if not is_whole(data):
            return None
        data = without_multiplying(data)
    try:
        # cv2.imread would mangle names that are not UTF-8.
        stored = cv2.imdecode(np.frombuffer(data, np.uint8), _AS_STORED)
    except cv2.error:
        return None
    if stored is None or _is_plain_cmyk(data):
        return None
    image = eight_bits(np.asarray(stored))
    if image is None:
        return None
    if image.ndim == 3 and image.shape[2] == 4:
        image = np.asarray(cv2.cvtColor(image, cv2.COLOR_BGRA2BGR), np.uint8)
    elif image.ndim == 3 and image.shape[2] == 1:
        image = image[..., 0]
    if not is_tiff(data):  # OpenCV always turns these
        image = upright(image, of_exif(exif_orientation(data)))
    image.flags.writeable = False
    kind = PixelFormat.GRAY if image.ndim == 2 else PixelFormat.BGR
    height, width = image.shape[:2]
    return Picture(kind, (image,), width, height, owner=image)


def eight_bits(image: NDArray[Any]) -> Image | None:
    """The image with its whole range on 0..255; None where there is no telling.

    Sixteen bits are divided by 257, so that black and white stay what they are: a scale
    that followed the content would flicker. Floating point is taken for 0..1; what lies
    outside is cut off, and what is no number is black.
    """
    if image.dtype == np.uint8:
        return image
    if image.dtype == np.uint16:
        return np.asarray(cv2.convertScaleAbs(image, alpha=1 / 257), np.uint8)
    if image.dtype in (np.float32, np.float64):
        finite = np.nan_to_num(image, nan=0.0, posinf=1.0, neginf=0.0)
        return np.asarray(np.clip(finite, 0, 1) * 255 + 0.5, np.uint8)
    return None


def _pixels_told(data: bytes) -> int:
    """What the header of a PNG or a JPEG says; 0 for other kinds.

    OpenCV's own limit for all kinds is four times as high.
    """
    if data[:8] == b"\x89PNG\r\n\x1a\n":
        return _area(data[16:24])
    if data[:2] != b"\xff\xd8":
        return 0
    sizes = [body[1:5] for kind, body in jpeg_segments(data) if kind in _FRAME_HEADERS]
    return max((_area(size) for size in sizes), default=0)


def _area(size: bytes) -> int:
    half = len(size) // 2
    return int.from_bytes(size[:half], "big") * int.from_bytes(size[half:], "big")


def _is_plain_cmyk(data: bytes) -> bool:
    """Whether it is a JPEG of four inks that are not stored the way Adobe does.

    Adobe stores how much of each ink is missing, and OpenCV takes that for granted:
    without Adobe's mark it would show a negative.
    """
    if data[:2] != b"\xff\xd8":
        return False
    inks, has_mark = 0, False
    for marker, body in jpeg_segments(data):
        if marker in _FRAME_HEADERS and len(body) > 5:
            inks = body[5]
        has_mark |= marker == _ADOBE and body[:5] == b"Adobe"
    return inks == 4 and not has_mark
