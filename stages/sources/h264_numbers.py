"""Finds frames that are missing from an H.264 stream, by the numbers in it. Pure.

FFmpeg's decoder fills such a gap with the picture before and reports nothing, and every
frame up to the next key frame is wrong (seen with FFmpeg 8; its H.265 decoder gives no
picture then). Syntax: ITU-T H.264 (08/2021), 7.3.2.1.1, 7.3.3 and 7.4.3.
"""

from collections.abc import Iterator
from typing import NamedTuple

_SLICE, _IDR, _SPS = 1, 5, 7
_HEADER_BYTES = 40
"""Enough for all fields that are read here."""
_WITH_CHROMA = frozenset({100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135})
"""Values of profile_idc whose parameter sets describe the chroma format."""


class _Sps(NamedTuple):
    frame_num_bits: int
    has_planes: bool
    """Whether slices of the three colours are separate."""
    allows_gaps: bool


class FrameNumbers:
    """Follows ``frame_num`` over the access units of one stream, Annex B."""

    def __init__(self) -> None:
        self._sets: dict[int, _Sps] = {}
        self._last: int | None = None
        """frame_num of the newest reference frame."""

    def missing(self, access_unit: bytes) -> int:
        """How many reference frames are missing before this one; 0 also if unknown."""
        for start in _starts(access_unit):
            head = access_unit[start]
            kind = head & 31
            if kind == _SPS:
                body = access_unit[start + 1 : start + 1 + 4 * _HEADER_BYTES]
                self._learn(_Bits(body))
            elif kind in (_SLICE, _IDR):
                body = access_unit[start + 1 : start + 1 + _HEADER_BYTES]
                try:
                    return self._follow(kind, head >> 5 & 3, _Bits(body))
                except IndexError:
                    return 0
        return 0

    def _learn(self, bits: "_Bits") -> None:
        try:
            number, sps = _read_sps(bits)
        except IndexError:  # cut short: what was known stays
            return
        self._sets[number] = sps

    def _follow(self, kind: int, importance: int, bits: "_Bits") -> int:
        bits.golomb()  # first_mb_in_slice
        bits.golomb()  # slice_type
        bits.golomb()  # pic_parameter_set_id
        # Which of several parameter sets it is would be written in the picture
        # parameter set; cameras have one.
        sps = next(iter(self._sets.values())) if len(self._sets) == 1 else None
        if sps is None:
            return 0
        if sps.has_planes:
            bits.take(2)
        number = bits.take(sps.frame_num_bits)
        last, most = self._last, 1 << sps.frame_num_bits
        if importance:
            self._last = number
        if kind == _IDR or last is None or sps.allows_gaps or number == last:
            return 0
        return (number - last - 1) % most


def _starts(data: bytes) -> Iterator[int]:
    """Where each unit begins, behind its start code."""
    at = data.find(b"\0\0\1")
    while at >= 0 and at + 3 < len(data):
        yield at + 3
        at = data.find(b"\0\0\1", at + 3)


def _read_sps(bits: "_Bits") -> tuple[int, _Sps]:
    profile = bits.take(8)
    bits.take(16)
    number = bits.golomb()
    has_planes = False
    if profile in _WITH_CHROMA:
        chroma = bits.golomb()
        if chroma == 3:
            has_planes = bool(bits.take(1))
        bits.golomb()
        bits.golomb()
        bits.take(1)
        if bits.take(1):
            for which in range(8 if chroma != 3 else 12):
                if bits.take(1):
                    _skip_scaling(bits, 16 if which < 6 else 64)
    frame_num_bits = bits.golomb() + 4
    order = bits.golomb()
    if order == 0:
        bits.golomb()
    elif order == 1:
        bits.take(1)
        bits.golomb()
        bits.golomb()
        for _ in range(min(bits.golomb(), 255)):
            bits.golomb()
    bits.golomb()  # max_num_ref_frames
    return number, _Sps(min(frame_num_bits, 16), has_planes, bool(bits.take(1)))


def _skip_scaling(bits: "_Bits", size: int) -> None:
    last = following = 8
    for _ in range(size):
        if following:
            coded = bits.golomb()
            delta = (coded + 1) // 2 if coded & 1 else -(coded // 2)
            following = (last + delta) % 256
        last = following or last


class _Bits:
    """Reads bits of a unit, without the bytes that keep start codes out of it.

    Raises IndexError at the end.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data.replace(b"\0\0\3", b"\0\0")
        self._at = 0

    def take(self, count: int) -> int:
        """An unsigned number of so many bits."""
        value = 0
        for _ in range(count):
            byte = self._data[self._at >> 3]
            value = value << 1 | byte >> (7 - (self._at & 7)) & 1
            self._at += 1
        return value

    def golomb(self) -> int:
        """An unsigned Exp-Golomb number (9.1)."""
        zeros = 0
        while not self.take(1):
            zeros += 1
            if zeros > 32:
                raise IndexError("no number of this syntax")
        return (1 << zeros) - 1 + self.take(zeros)
