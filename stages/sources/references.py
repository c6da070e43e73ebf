"""Which packets no later one refers to: they can be left out at no other cost. Pure."""

from collections.abc import Callable, Iterator

from edgepipe.stages.sources.bits import Bits

_LOOK_BYTES = 4096
"""Of a packet, within which its first coded slice must begin."""


class Disposability:
    """Tells packets of one stream apart by what their headers say.

    What cannot be told counts as referred to.

    Args:
        codec: FFmpeg's name of the decoder.
        extradata: What the container holds for the decoder: parameter sets, and how
            many bytes the lengths in packets have.
    """

    def __init__(self, codec: str, extradata: bytes | None) -> None:
        self._length_bytes = length_bytes(codec, extradata or b"")
        self._top_layer: int | None = None
        if codec == "hevc":
            for unit in parameter_sets(codec, extradata or b""):
                self._learn(unit)
        self._judge: Callable[[bytes, int], bool] = {
            "h264": self._h264,
            "hevc": self._hevc,
            "vp9": _vp9,
            "libvpx-vp9": _vp9,
            "mpeg4": _mpeg4,
            "mpeg2video": _mpeg2,
            "mpeg1video": _mpeg2,
        }.get(codec, _never)

    def of(self, packet: bytes | memoryview) -> bool:
        """Whether nothing refers to the picture in this packet."""
        if len(packet) < 8:
            return False
        return self._judge(bytes(packet[:_LOOK_BYTES]), packet[-1])

    def _h264(self, head: bytes, last: int) -> bool:
        del last
        for unit in self._units(head):
            if 1 <= unit[0] & 31 <= 5:
                # nal_ref_idc is 0 in all slices of a picture or in none (H.264, 7.4.1).
                return not unit[0] & 0x60
        return False

    def _hevc(self, head: bytes, last: int) -> bool:
        del last
        for unit in self._units(head):
            kind = unit[0] >> 1 & 63
            if kind == _HEVC_SPS:
                self._learn(unit)
            if kind < 32:
                # Even numbers below 16 are not referred to within their own temporal
                # layer (H.265, 7.4.2.2), so the highest layer must be known.
                layer = (unit[1] & 7) - 1 if len(unit) > 1 else 0
                return kind < 16 and kind % 2 == 0 and layer == self._top_layer
        return False

    def _learn(self, unit: bytes) -> None:
        """Take the number of temporal layers from a sequence parameter set."""
        if unit[0] >> 1 & 63 == _HEVC_SPS and len(unit) > 2:
            self._top_layer = unit[2] >> 1 & 7

    def _units(self, head: bytes) -> Iterator[bytes]:
        """The first bytes of the units at the beginning of a packet."""
        if not self._length_bytes:
            yield from _after_start_codes(head)
            return
        at = 0
        while at + self._length_bytes < len(head):
            size = int.from_bytes(head[at : at + self._length_bytes], "big")
            at += self._length_bytes
            if size:
                yield head[at : at + min(size, 8)]
            at += size


_HEVC_SPS = 33


def length_bytes(codec: str, extradata: bytes) -> int:
    """Bytes of the length before each unit; 0 where units begin with start codes."""
    if extradata[:1] != b"\1":
        return 0
    if codec == "h264" and len(extradata) > 4:
        return (extradata[4] & 3) + 1
    if codec == "hevc" and len(extradata) > 21:
        return (extradata[21] & 3) + 1
    return 0


def parameter_sets(codec: str, extradata: bytes) -> Iterator[bytes]:
    """From start codes, or from an avcC or hvcC box (ISO 14496-15)."""
    if extradata[:1] != b"\1":
        yield from _after_start_codes(extradata, len(extradata))
    elif codec == "h264":
        count = extradata[5] & 31 if len(extradata) > 5 else 0
        yield from _sized(extradata, 6, count)
    else:
        at = 23
        for _ in range(extradata[22] if len(extradata) > 22 else 0):
            count = int.from_bytes(extradata[at + 1 : at + 3], "big")
            units = list(_sized(extradata, at + 3, count))
            yield from units
            at += 3 + sum(2 + len(unit) for unit in units)


def _sized(data: bytes, at: int, count: int) -> Iterator[bytes]:
    """So many units, each behind two bytes with its size."""
    for _ in range(count):
        size = int.from_bytes(data[at : at + 2], "big")
        if unit := data[at + 2 : at + 2 + size]:
            yield unit
        at += 2 + size


def _after_start_codes(data: bytes, most: int = 8) -> Iterator[bytes]:
    """The first bytes of each unit."""
    at = data.find(b"\0\0\1")
    while at >= 0:
        following = data.find(b"\0\0\1", at + 3)
        end = min(at + 3 + most, following if following >= 0 else len(data))
        if unit := data[at + 3 : end].rstrip(b"\0"):
            yield unit
        at = following


def _never(head: bytes, last: int) -> bool:
    del head, last
    return False


def _mpeg4(head: bytes, last: int) -> bool:
    """B pictures are never referred to (ISO 14496-2)."""
    del last
    at = head.find(b"\0\0\1\xb6")
    return at >= 0 and len(head) > at + 4 and head[at + 4] >> 6 == 2


def _mpeg2(head: bytes, last: int) -> bool:
    """B pictures are never referred to (ISO 13818-2)."""
    del last
    at = head.find(b"\0\0\1\0")
    return at >= 0 and len(head) > at + 5 and head[at + 5] >> 3 & 7 == 3


def _vp9(head: bytes, last: int) -> bool:
    """A frame that refreshes no reference (VP9 bitstream, 6.2)."""
    if last & 0xE0 == 0xC0:  # several frames in one packet
        return False
    bits = Bits(head)
    if bits.take(2) != 2:
        return False
    profile = bits.take(1) + 2 * bits.take(1)
    if profile == 3:
        bits.take(1)
    if bits.take(1):  # an earlier frame is shown once more
        return True
    is_inter, is_shown, resilient = bits.take(1), bits.take(1), bits.take(1)
    if not is_inter:
        return False
    if not is_shown and bits.take(1):  # an intra-only frame has more headers
        return False
    if not resilient:
        bits.take(2)
    return bits.take(8) == 0
