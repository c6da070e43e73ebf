"""What OpenCV does not tell of a TIFF file. Pure."""

from typing import NamedTuple

_MARKS = (b"II*\0", b"MM\0*")
_MOST_ENTRIES = 1000
_SIZES = {3: 2, 4: 4}
"""Bytes of a number by its type; others are not read."""
_PARTS = ((273, 279), (324, 325))
"""Tags of where strips, or tiles, are and how many bytes each has."""
_EXTRA_SAMPLES = 338
_ASSOCIATED, _UNASSOCIATED = 1, 2


class _Entry(NamedTuple):
    at: int
    size: int
    length: int


def is_tiff(data: bytes) -> bool:
    """Whether these are the bytes of a TIFF file (of less than 4 GB)."""
    return data[:4] in _MARKS


def is_whole(data: bytes) -> bool:
    """Whether everything lies in the file that belongs to its first image.

    OpenCV fills up what lacks, in some kinds of files, and says nothing.
    """
    entries = _entries(data)
    if any(each.at + each.size * each.length > len(data) for each in entries.values()):
        return False
    for where, how_many in _PARTS:
        if where in entries and how_many in entries:
            begins = _numbers(data, entries[where])
            lengths = _numbers(data, entries[how_many])
            ends = (a + b for a, b in zip(begins, lengths, strict=False))
            return max(ends, default=0) <= len(data)
    return bool(entries)


def without_multiplying(data: bytes) -> bytes:
    """The file with colours that count as multiplied by their opacity already.

    Otherwise libtiff would do it, and what is transparent would become black.
    """
    entry = _entries(data).get(_EXTRA_SAMPLES)
    if entry is None or _numbers(data, entry)[:1] != [_UNASSOCIATED]:
        return data
    changed = bytearray(data)
    is_little = data[:2] == b"II"
    number = _ASSOCIATED.to_bytes(entry.size, "little" if is_little else "big")
    changed[entry.at : entry.at + entry.size] = number
    return bytes(changed)


def _entries(data: bytes) -> dict[int, _Entry]:
    """The entries of the first directory that hold numbers, by tag."""
    directory = _number(data, 4, 4)
    found: dict[int, _Entry] = {}
    for place in range(min(_number(data, directory, 2), _MOST_ENTRIES)):
        at = directory + 2 + 12 * place
        size = _SIZES.get(_number(data, at + 2, 2))
        if size is None:
            continue
        count = _number(data, at + 4, 4)
        inline = size * count <= 4
        value_at = at + 8 if inline else _number(data, at + 8, 4)
        found[_number(data, at, 2)] = _Entry(value_at, size, count)
    return found


def _numbers(data: bytes, entry: _Entry) -> list[int]:
    end = min(entry.at + entry.size * entry.length, len(data))
    return [_number(data, at, entry.size) for at in range(entry.at, end, entry.size)]


def _number(data: bytes, at: int, size: int) -> int:
    is_little = data[:2] == b"II"
    return int.from_bytes(data[at : at + size], "little" if is_little else "big")
