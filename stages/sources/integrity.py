"""Damage that shows in the bytes of packets before decoding. Pure.

FFmpeg conceals most damage and seldom says so. Three things can be seen without
decoding: in H.264 and H.265 bytes that no encoder may write and lengths that do not
fit, and, in H.264, MPEG-1 and MPEG-2, numbers that tell that a frame others refer to
never came.
"""

from collections.abc import Iterator

from edgepipe.stages.sources.bits import Bits
from edgepipe.stages.sources.mpeg_numbers import PictureNumbers
from edgepipe.stages.sources.references import length_bytes, parameter_sets

_HIGH_PROFILES = frozenset(
    {100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135}
)
_HEADER_BYTES = 40
"""Of a slice, more than enough for the fields that are read."""


class Integrity:
    """Checks the packets of one stream in decoding order.

    Args:
        codec: FFmpeg's name of the decoder; others than ``h264``, ``hevc``,
            ``mpeg1video`` and ``mpeg2video`` have no packets that can be checked.
        extradata: Of the container.
    """

    def __init__(self, codec: str, extradata: bytes | None) -> None:
        extradata = extradata or b""
        self._is_h264 = codec == "h264"
        self._is_known = self._is_h264 or codec == "hevc"
        self._length_bytes = length_bytes(codec, extradata)
        self._numbers = _FrameNumbers()
        is_mpeg = codec in ("mpeg1video", "mpeg2video")
        self._pictures = PictureNumbers() if is_mpeg else None
        # With start codes, the first zero of the next one may count to the unit before.
        self._zeros_allowed = 0 if self._length_bytes else 1
        self._is_first = True
        self.is_missing = False
        """Whether the last fault is not of the packet: one that others refer to is
        missing before it."""
        if self._is_h264:
            for unit in parameter_sets(codec, extradata):
                self._numbers.learn(unit)

    def begin(self) -> None:
        """What comes next need not follow what came last."""
        self._numbers.begin()
        if self._pictures is not None:
            self._pictures.begin()

    @property
    def is_late(self) -> bool:
        """Whether the last fault is that of the packet before: it was not seen then."""
        return self._pictures is not None and self._pictures.is_late

    def leave_out(self, packet: bytes) -> None:
        """Take note of a packet that nothing refers to and that is not decoded."""
        if self._pictures is not None:
            self._pictures.fault(packet)

    def fault(self, packet: bytes) -> str:
        """What is wrong with a packet, in words; empty if nothing can be seen."""
        self.is_missing = False
        if self._pictures is not None:
            fault = self._pictures.fault(packet)
            self.is_missing = bool(fault)
            return fault
        if not self._is_known:
            return ""
        units = _split(packet, self._length_bytes)
        if units is None:
            return "the lengths in a packet do not fit"
        if self._is_first:
            # Some muxers leave zeros after every unit, which does no harm.
            self._is_first = False
            found = max(map(_zeros_at_end, units), default=0)
            self._zeros_allowed = max(found, self._zeros_allowed)
        for unit in units:
            if _has_forbidden_bytes(unit, self._zeros_allowed):
                return "bytes in a packet were overwritten"
            if self._is_h264:
                fault = self._numbers.fault(unit)
                if fault:
                    self.is_missing = True
                    return fault
        return ""


class _FrameNumbers:
    """Follows ``frame_num``, which counts the frames that others refer to."""

    def __init__(self) -> None:
        self._bits = 0
        """Width of the number; 0 as long as it is not known, or tells nothing."""
        self._has_color_planes = False
        self._sets: set[bytes] = set()
        self._last: int | None = None

    def begin(self) -> None:
        self._last = None

    def learn(self, unit: bytes) -> None:
        """Read a sequence parameter set (H.264, 7.3.2.1.1)."""
        unit = unit.rstrip(b"\0")  # zeros before the next start code
        if not unit or unit[0] & 31 != 7 or unit in self._sets:
            return
        self._sets.add(unit)
        self._last = None
        # With several sets, slices would have to be followed through picture sets.
        self._bits = 0
        if len(self._sets) == 1:
            self._bits, self._has_color_planes = _number_bits(unit)

    def fault(self, unit: bytes) -> str:
        kind = unit[0] & 31
        if kind == 7:
            self.learn(unit)
        if kind not in (1, 5) or not self._bits:
            return ""
        bits = Bits(_unescaped(unit[1:_HEADER_BYTES]))
        if bits.exp_golomb():  # not the first slice of its picture
            return ""
        bits.exp_golomb()
        bits.exp_golomb()
        if self._has_color_planes:
            bits.take(2)
        number = bits.take(self._bits)
        last, wrap = self._last, (1 << self._bits) - 1
        if unit[0] & 0x60:  # others refer to it
            self._last = number
        if kind == 5 or last is None or (number - last) & wrap <= 1:
            return ""
        return (
            f"a frame that others refer to is missing ({last} is followed by {number})"
        )


def _number_bits(unit: bytes) -> tuple[int, bool]:
    """Width of frame_num, 0 if gaps in it are allowed; and if slices name a plane."""
    bits = Bits(_unescaped(unit[1:]))
    profile = bits.take(8)
    bits.take(16)
    bits.exp_golomb()
    has_planes = False
    if profile in _HIGH_PROFILES:
        chroma = bits.exp_golomb()
        has_planes = chroma == 3 and bool(bits.take(1))
        bits.exp_golomb()
        bits.exp_golomb()
        bits.take(1)
        if bits.take(1):
            _skip_scaling_lists(bits, 12 if chroma == 3 else 8)
    width = bits.exp_golomb() + 4
    order = bits.exp_golomb()
    if order == 0:
        bits.exp_golomb()
    elif order == 1:
        bits.take(1)
        bits.exp_golomb()
        bits.exp_golomb()
        for _ in range(min(bits.exp_golomb(), 255)):
            bits.exp_golomb()
    bits.exp_golomb()
    gaps_allowed = bits.take(1)
    return (0 if gaps_allowed or width > 16 else width), has_planes


def _skip_scaling_lists(bits: Bits, count: int) -> None:
    for number in range(count):
        if not bits.take(1):
            continue
        last = following = 8
        for _ in range(16 if number < 6 else 64):
            if following:
                following = (last + bits.signed_exp_golomb()) % 256
            last = following or last


def _split(packet: bytes, size_bytes: int) -> list[bytes] | None:
    """The units of a packet; None if they do not fill it exactly."""
    if not size_bytes:
        return list(_between_start_codes(packet))
    units: list[bytes] = []
    at, end = 0, len(packet)
    while at < end:
        size = int.from_bytes(packet[at : at + size_bytes], "big")
        at += size_bytes
        if not size or at + size > end:
            return None
        units.append(packet[at : at + size])
        at += size
    return units


def _between_start_codes(packet: bytes) -> Iterator[bytes]:
    at = packet.find(b"\0\0\1")
    while at >= 0:
        following = packet.find(b"\0\0\1", at + 3)
        if unit := packet[at + 3 : following if following >= 0 else None]:
            yield unit
        at = following


def _zeros_at_end(unit: bytes) -> int:
    return len(unit) - len(unit.rstrip(b"\0"))


def _has_forbidden_bytes(unit: bytes, zeros_allowed: int) -> bool:
    """Two zeros followed by a byte below three, which encoders must not write.

    They would look like the beginning of the next unit (H.264 and H.265, 7.4.1).
    """
    if unit[0] & 0x80:
        return True
    body = unit.rstrip(b"\0")
    if len(unit) - len(body) > zeros_allowed:
        return True
    at = body.find(b"\0\0")
    while at >= 0:
        if body[at + 2 : at + 3] < b"\3":
            return True
        at = body.find(b"\0\0", at + 2)
    return False


def _unescaped(unit: bytes) -> bytes:
    return unit.replace(b"\0\0\3", b"\0\0")
