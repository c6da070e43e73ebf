"""Whether decoding can begin with a packet, told from its bytes."""

from collections.abc import Iterator

from edgepipe.stages.recordings.image_messages import ImageMessage

_H264_KEY = frozenset({5, 7})
"""A picture that refers to none before it, and what is only sent before such a one."""
_H264_SPS, _H265_SPS = 7, 33
_H264_SEI, _RECOVERY_POINT = 6, 6
_H265_KEY = frozenset(range(16, 22))
"""IRAP pictures (ITU-T H.265, table 7-1)."""
_AV1_SEQUENCE_HEADER = 1
_MOST_UNITS = 64
"""Looked at in one packet; the units that tell come first."""


def is_key(codec: str, data: memoryview) -> bool:
    """Whether the decoder needs nothing before this packet.

    ``codec`` is FFmpeg's name; of one that is not known every packet counts as key.
    """
    if codec == "h264":
        return any(_is_h264_key(unit) for unit in _units(data))
    if codec == "hevc":
        return any(unit[0] >> 1 & 0x3F in _H265_KEY for unit in _units(data))
    if codec == "vp9":
        return _is_vp9_key(data)
    if codec == "av1":
        return _is_av1_key(data)
    return True


def is_key_frame(image: ImageMessage) -> bool:
    """The same for a message, which may say so itself."""
    return is_key(image.format, image.data) if image.is_key is None else image.is_key


def has_parameter_sets(codec: str, data: memoryview) -> bool:
    """Whether a packet of H.264 or H.265 brings what its pictures are decoded with."""
    if codec == "h264":
        return any(unit[0] & 0x1F == _H264_SPS for unit in _units(data))
    return any(unit[0] >> 1 & 0x3F == _H265_SPS for unit in _units(data))


def _is_h264_key(unit: memoryview) -> bool:
    kind = unit[0] & 0x1F
    if kind == _H264_SEI:  # of an encoder that refreshes a part of each picture
        return len(unit) > 1 and unit[1] == _RECOVERY_POINT
    return kind in _H264_KEY


def _units(data: memoryview) -> Iterator[memoryview]:
    """The NAL units of Annex B, each from its header on; the end is not cut."""
    content, at = bytes(data), 0
    for _ in range(_MOST_UNITS):
        at = content.find(b"\0\0\1", at)
        if at < 0 or at + 3 >= len(content):
            return
        at += 3
        yield data[at:]


def _is_vp9_key(data: memoryview) -> bool:
    """VP9 bitstream specification, 6.2: marker, profile, repeat, kind."""
    if not data:
        return False
    bits = f"{data[0]:08b}"
    kind_at = 5 if bits[2:4] == "11" else 4
    repeats, kind = bits[kind_at], bits[kind_at + 1]
    return repeats == "0" and kind == "0"


def _is_av1_key(data: memoryview) -> bool:
    """AV1 bitstream specification, 5.3: a sequence header comes with key frames."""
    at = 0
    for _ in range(_MOST_UNITS):
        if at >= len(data):
            return False
        header = data[at]
        if header >> 3 & 0xF == _AV1_SEQUENCE_HEADER:
            return True
        at += 2 if header & 4 else 1
        if not header & 2:  # without a size it reaches to the end
            return False
        size = shift = 0
        while at < len(data):
            byte = data[at]
            at += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        at += size
    return False
