"""The wire format of Protobuf, as much of it as images and boxes need."""

import struct
from collections.abc import Iterator

Value = int | memoryview

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIZES = {_FIXED64: 8, _FIXED32: 4}


def fields(message: memoryview) -> Iterator[tuple[int, Value]]:
    """Every field of a message: its number, and a number or the bytes.

    Raises:
        ValueError: This is no message.
    """
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _read_varint(message, at)
            yield number, value
            continue
        if kind == _BYTES:
            size, at = _read_varint(message, at)
        elif kind in _SIZES:
            size = _SIZES[kind]
        else:
            raise ValueError(f"a field of wire type {kind}")
        part = message[at : at + size]
        if len(part) < size:
            raise ValueError("a field is cut off")
        at += size
        yield number, part if kind == _BYTES else int.from_bytes(part, "little")


def varint_field(number: int, value: int) -> bytes:
    """A whole number that is not negative; nothing for 0, the default."""
    return _varint(number << 3 | _VARINT) + _varint(value) if value else b""


def bytes_field(number: int, value: bytes | memoryview | str) -> bytes:
    """Bytes, text or a message inside the message; written also when empty."""
    data = value.encode() if isinstance(value, str) else value
    return b"".join((_varint(number << 3 | _BYTES), _varint(len(data)), data))


def double_field(number: int, value: float) -> bytes:
    """A double."""
    return _varint(number << 3 | _FIXED64) + struct.pack("<d", value)


def fixed32_field(number: int, value: int) -> bytes:
    """An unsigned number of four bytes."""
    return _varint(number << 3 | _FIXED32) + struct.pack("<I", value)


def timestamp_field(number: int, time_ns: int) -> bytes:
    """A google.protobuf.Timestamp."""
    seconds, nanoseconds = divmod(time_ns, 10**9)
    return bytes_field(number, varint_field(1, seconds) + varint_field(2, nanoseconds))


def timestamp_ns(message: Value) -> int:
    """What a google.protobuf.Timestamp says, in nanoseconds."""
    if not isinstance(message, memoryview):
        raise ValueError("expected a time, got a number")
    parts = dict(fields(message))
    seconds, nanoseconds = parts.get(1, 0), parts.get(2, 0)
    if isinstance(seconds, memoryview) or isinstance(nanoseconds, memoryview):
        raise ValueError("a time that is no number")
    return _signed(seconds) * 10**9 + nanoseconds


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _read_varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ValueError("a number is cut off")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("a number of more than ten bytes")


def _varint(value: int) -> bytes:
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)
