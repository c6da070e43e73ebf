"""How ROS 1 and ROS 2 put a message's fields one behind the other."""

import struct

_BIG_ENDIAN = frozenset({0x00, 0x02, 0x06, 0x08, 0x0A})
"""Second byte of a CDR header (OMG DDSI-RTPS 10.5 and DDS-XTypes 7.6.3.1.2)."""
_FIRST_XCDR2 = 0x06


class FieldReader:
    """Reads field after field.

    Args:
        message: With its CDR header in ROS 2.
        ros1: Little endian without header and without alignment.

    Raises:
        ValueError: The message is shorter than its fields.
    """

    def __init__(self, message: memoryview, *, ros1: bool) -> None:
        self._order, self._widest = "<", 1
        if not ros1:
            if len(message) < 4:
                raise ValueError("no CDR header")
            kind = message[1]
            self._order = ">" if kind in _BIG_ENDIAN else "<"
            self._widest = 4 if kind >= _FIRST_XCDR2 else 8
            message = message[4:]
        self._message = message
        self._at = 0

    def u8(self) -> int:
        """One byte."""
        return self._number("B", 1)

    def i32(self) -> int:
        """A signed number of four bytes."""
        return self._number("i", 4)

    def u32(self) -> int:
        """An unsigned number of four bytes."""
        return self._number("I", 4)

    def u64(self) -> int:
        """An unsigned number of eight bytes."""
        return self._number("Q", 8)

    def time_ns(self, *, ros1: bool = False) -> int:
        """Seconds and nanoseconds, as one number of nanoseconds."""
        seconds = self.u32() if ros1 else self.i32()
        return seconds * 10**9 + self.u32()

    def text(self) -> str:
        """Text; CDR ends it with a null, ROS 1 does not."""
        return bytes(self.data()).rstrip(b"\0").decode("utf-8", "replace")

    def data(self) -> memoryview:
        """A sequence of bytes; a view of the message."""
        size = self.u32()
        found = self._message[self._at : self._at + size]
        if len(found) < size:
            raise ValueError("the message is cut off")
        self._at += size
        return found

    def _number(self, kind: str, size: int) -> int:
        step = min(size, self._widest)
        self._at = -(-self._at // step) * step
        try:
            (value,) = struct.unpack_from(self._order + kind, self._message, self._at)
        except struct.error:
            raise ValueError("the message is cut off") from None
        self._at += size
        return int(value)
