"""The orientation tag in the EXIF data of JPEG, PNG, WebP and TIFF files."""

from collections.abc import Iterator

_ORIENTATION = 0x0112
_ORDERS = {b"II": "little", b"MM": "big"}
_MOST_ENTRIES = 1000
_MARK = b"Exif\0\0"
_FRONT_BYTES = 4096
_HEAD_BYTES = _FRONT_BYTES + 65_536
"""Of a JPEG, within which EXIF data ends that begins in front: a segment's most."""


def exif_orientation(data: bytes) -> int:
    """The number of the tag, 1 (upright) where there is none or it makes no sense.

    Args:
        data: The whole file, or its beginning with all headers.
    """
    number = _tag(_tiff_of(data))
    return number if 1 <= number <= 8 else 1


def jpeg_orientation(data: memoryview) -> int:
    """The same for a JPEG in memory, at no cost where no EXIF data is in front."""
    if _MARK not in bytes(data[:_FRONT_BYTES]):
        return 1
    return exif_orientation(bytes(data[:_HEAD_BYTES]))


def _tiff_of(data: bytes) -> bytes:
    """The block in TIFF format, empty if there is none."""
    if data[:2] == b"\xff\xd8":
        return next(_jpeg_blocks(data), b"")
    if data[:8] == b"\x89PNG\r\n\x1a\n":
        return _chunk(data, 8, b"eXIf", "big", trailer=4)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return _chunk(data, 12, b"EXIF", "little", trailer=0).removeprefix(_MARK)
    return data if data[:2] in _ORDERS else b""


def _jpeg_blocks(data: bytes) -> Iterator[bytes]:
    for marker, body in jpeg_segments(data):
        if marker == 0xE1 and body[:6] == _MARK:
            yield body[6:]


def jpeg_segments(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Markers of a JPEG and what belongs to them, up to the compressed data."""
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # a fill byte
            at += 1
            continue
        size = int.from_bytes(data[at + 2 : at + 4], "big")
        if marker == 0xDA or size < 2:
            return
        yield marker, data[at + 4 : at + 2 + size]
        at += 2 + size


def _chunk(data: bytes, at: int, name: bytes, order: str, *, trailer: int) -> bytes:
    """The body of a chunk of a PNG (length, name) or a RIFF file (name, length)."""
    big = order == "big"
    while at + 8 <= len(data):
        first, second = data[at : at + 4], data[at + 4 : at + 8]
        found, length = (second, first) if big else (first, second)
        size = int.from_bytes(length, "big" if big else "little")
        if found == name:
            return data[at + 8 : at + 8 + size]
        at += 8 + size + trailer + (0 if big else size % 2)
    return b""


def _tag(tiff: bytes) -> int:
    """The orientation in the first directory, 0 if it is not there."""
    little = _ORDERS.get(tiff[:2]) == "little"

    def number(at: int, size: int) -> int:
        return int.from_bytes(tiff[at : at + size], "little" if little else "big")

    if tiff[:2] not in _ORDERS or number(2, 2) != 42:
        return 0
    directory = number(4, 4)
    for entry in range(min(number(directory, 2), _MOST_ENTRIES)):
        at = directory + 2 + 12 * entry
        if number(at, 2) == _ORIENTATION:
            # Two bytes are what the standard says; some write four.
            return number(at + 8, 4 if number(at + 2, 2) == 4 else 2)
    return 0
