"""Writes other time stamps into a transport stream, as muxers would refuse to."""

from collections.abc import Callable
from pathlib import Path

PACKET = 188
TICK_NS = 1e9 / 90_000
Restamp = Callable[[int, int, int], tuple[int, int]]
"""Number of the frame in the file, its PTS and its DTS to those it gets."""


def restamp(path: Path, change: Restamp) -> Path:
    """Change the stamps of every picture in place."""
    data = bytearray(path.read_bytes())
    number = 0
    for at in range(0, len(data), PACKET):
        begin = _pes(data, at)
        if begin is None or data[begin + 3] & 0xF0 != 0xE0:
            continue
        flags, place = data[begin + 7] >> 6, begin + 9
        pts = _read(data, place)
        dts = _read(data, place + 5) if flags == 3 else pts
        pts, dts = change(number, pts, dts)
        _write(data, place, flags, pts)
        if flags == 3:
            _write(data, place + 5, 1, dts)
        number += 1
    path.write_bytes(data)
    return path


def _pes(data: bytearray, at: int) -> int | None:
    """Where a PES header begins in a packet, if one does."""
    if not data[at + 1] & 0x40 or not data[at + 3] & 0x10:
        return None
    begin = at + 4
    if data[at + 3] & 0x20:
        begin += 1 + data[begin]
    return begin if data.startswith(b"\0\0\1", begin) else None


def _read(data: bytearray, at: int) -> int:
    high, middle, low = data[at] >> 1 & 7, data[at + 1 : at + 3], data[at + 3 : at + 5]
    middle_bits = int.from_bytes(middle, "big") >> 1
    return high << 30 | middle_bits << 15 | int.from_bytes(low, "big") >> 1


def _write(data: bytearray, at: int, mark: int, stamp: int) -> None:
    stamp %= 1 << 33
    data[at] = mark << 4 | (stamp >> 30) << 1 | 1
    data[at + 1 : at + 3] = ((stamp >> 15 & 0x7FFF) << 1 | 1).to_bytes(2, "big")
    data[at + 3 : at + 5] = ((stamp & 0x7FFF) << 1 | 1).to_bytes(2, "big")
