"""Whether a file goes on beyond its end, as far as its structure tells."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

_MOST_PARTS = 100_000
"""Parts of a file that are followed at most."""
_PACKETS_BYTES = {188: 0, 192: 4, 204: 0}
"""Length of the packets of a transport stream, and where in one its mark is: alone,
after a time of arrival as Blu-ray and cameras have it, before a checksum."""
_FILE_PROPERTIES = bytes.fromhex("a1dcab8c47a9cf118ee400c00c205365")
"""Of ASF: then come 8 bytes of length, 16 that name the file, 8 with its size."""
_SEGMENT, _CLUSTER = 0x18538067, 0x1F43B675


def missing_end(path: Path, format_: str) -> str:
    """What lacks at the end of a file of this format (FFmpeg's name), or nothing.

    A transport stream or raw video that was cut between two pictures looks complete.
    """
    look = _LOOKS.get(format_)
    if look is None:
        return ""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            return look(file, size)
    except OSError:
        return ""  # it is gone: nobody can say


def _boxes(file: BinaryIO, size: int) -> str:
    """MP4 and its kin are boxes with their size in front."""
    at = 0
    for _ in range(_MOST_PARTS):
        if at == size:
            break
        file.seek(at)
        header = file.read(16)
        length = int.from_bytes(header[:4], "big")
        if length == 1 and len(header) == 16:  # did not fit, and follows the type
            length = int.from_bytes(header[8:], "big")
        if len(header) < 8 or at + length > size:
            return "the file ends within a box"
        if length < 8:  # 0: up to the end of the file
            break
        at += length
    return ""


def _chunks(file: BinaryIO, size: int) -> str:
    """AVI is a row of RIFF chunks with their size in front."""
    at = 0
    while at + 12 <= size:
        file.seek(at)
        header = file.read(12)
        if header[:4] != b"RIFF":
            break
        length = int.from_bytes(header[4:8], "little")
        at += 8 + length
        if at > size or not length:
            return "the file ends within a chunk"
        at += length % 2
    return "" if at else "the file ends within a chunk"


def _tags(file: BinaryIO, size: int) -> str:
    """FLV may say how long it is, and repeats after each tag how long that was."""
    cut = "the file ends within a tag"
    _, found, rest = file.read(1024).partition(b"filesize\0")
    if found and len(rest) >= 8 and size < struct.unpack(">d", rest[:8])[0]:
        return "the file is shorter than it says"
    if size < 13 + 4:
        return cut
    file.seek(size - 4)
    length = int.from_bytes(file.read(4), "big")
    if not 11 <= length <= size - 13 - 4:
        return cut
    file.seek(size - 4 - length)
    header = file.read(4)
    return "" if int.from_bytes(header[1:], "big") + 11 == length else cut


def _objects(file: BinaryIO, size: int) -> str:
    """ASF says how long it is; 0 while it is written."""
    _, found, rest = file.read(65_536).partition(_FILE_PROPERTIES)
    said = int.from_bytes(rest[24:32], "little") if found else 0
    return "the file is shorter than it says" if size < said else ""


def _packets(file: BinaryIO, size: int) -> str:
    """A transport stream is packets of one length, which begin with a mark."""
    start = file.read(max(_PACKETS_BYTES) + 5)
    for length, mark in _PACKETS_BYTES.items():
        if start[mark : mark + length + 1 : length] == b"GG":
            return "the file ends within a packet" if size % length else ""
    return ""  # FFmpeg looked further, and found something


def _elements(file: BinaryIO, size: int) -> str:
    """Matroska is elements with their size in front; the segment holds all frames."""
    at, cut = 0, "the file ends within an element"
    for _ in range(_MOST_PARTS):
        if at >= size:
            break
        file.seek(at)
        name, length, begin = _element(file)
        if length is None:
            if name not in (_SEGMENT, _CLUSTER):
                return cut
            at = begin  # written live: look at what is in it
            continue
        if begin + length > size:
            return cut
        at = begin + length
    return ""


def _element(file: BinaryIO) -> tuple[int, int | None, int]:
    """Name, length (None: unknown, or cut off) and where the content begins."""
    name = _number(file, keep_mark=True)
    length = _number(file, keep_mark=False)
    return (name or 0), length, file.tell()


def _number(file: BinaryIO, *, keep_mark: bool) -> int | None:
    """A number whose first byte says by its leading zeros how long it is."""
    first = file.read(1)
    if not first or not first[0]:
        return None
    more = 8 - first[0].bit_length()
    rest = file.read(more)
    if len(rest) < more:
        return None
    mark = 0x80 >> more
    value = int.from_bytes(first + rest, "big")
    if keep_mark:
        return value
    value -= mark << 8 * more
    return None if value == (mark << 8 * more) - 1 else value


_LOOKS: dict[str, Callable[[BinaryIO, int], str]] = {
    "mov,mp4,m4a,3gp,3g2,mj2": _boxes,
    "avi": _chunks,
    "flv": _tags,
    "asf": _objects,
    "mpegts": _packets,
    "matroska,webm": _elements,
}
