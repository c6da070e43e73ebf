"""Pictures that are missing in MPEG-1 and MPEG-2, by the numbers they carry. Pure.

``temporal_reference`` counts the pictures of a group in the order in which they are
shown (ISO 13818-2, 6.3.9). B pictures come right after the later of the two pictures
they lie between, so each number has only one place.
"""

_I, _B = 1, 3
_ENOUGH = 4
"""Pictures in a row whose numbers fit after which the numbers are believed."""
_MOST_STRIKES = 4
"""Groups in a row with numbers that do not fit after which none are believed."""
MISSING = "a picture that others refer to is missing"


class PictureNumbers:
    """Follows the pictures of one stream in decoding order.

    Some encoders may write any numbers, so nothing is said before a few have fitted.
    """

    def __init__(self) -> None:
        self._is_trusted = False
        self._strikes = self._fitting = 0
        self._has_b = False
        self._low_delay = False
        self._fits = True
        self._is_open = self._has_p = self._is_late = False
        self._begin_group(None)

    def begin(self) -> None:
        """What comes next need not follow what came last."""
        self._begin_group(None)

    @property
    def is_late(self) -> bool:
        """Whether the picture before the one that was looked at is damaged already."""
        return self._is_late

    def fault(self, packet: bytes) -> str:
        """Whether pictures are missing before this one, in words; empty: none are."""
        self._is_late = False
        header = packet.find(b"\0\0\1\0")
        if header < 0 or len(packet) < header + 6:
            return ""
        word = int.from_bytes(packet[header + 4 : header + 6], "big")
        number, kind = word >> 6, word >> 3 & 7
        self._learn(packet[:header])
        if kind == _I:
            return self._key_picture(number)
        if self._anchor is None:
            return ""
        if not self._fits and not self._is_trusted:
            return ""
        if self._fits and not self._follows(number, kind):
            self._fits = False
            self._fitting = 0
            self._strikes += 1
        return MISSING if self._is_trusted and not self._fits else ""

    def _learn(self, head: bytes) -> None:
        """Take from a sequence extension whether there are no B pictures."""
        at = head.find(b"\0\0\1\xb5")
        if at >= 0 and len(head) > at + 9 and head[at + 4] >> 4 == 1:
            self._low_delay = bool(head[at + 9] & 0x80)

    def _key_picture(self, number: int) -> str:
        """It refers to nothing, and B pictures before it may have been cut away."""
        is_missing = self._fits and self._is_open and not self._has_b
        if self._has_p and self._fits and not is_missing:
            self._is_trusted, self._strikes = True, 0
        is_late = is_missing and self._is_trusted
        self._begin_group(number)
        self._is_late = is_late
        return MISSING if self._is_late else ""

    def _begin_group(self, number: int | None) -> None:
        self._anchor = number
        """Number of the last picture that others refer to; None: not known."""
        self._next_b: int | None = None
        """Number of the B picture that must come next; None: it may be any."""
        self._is_open = False
        """Whether B pictures, or lost ones, lie before the last one."""
        self._fits = True
        self._has_p = self._is_late = False
        self._is_trusted &= self._strikes < _MOST_STRIKES

    def _follows(self, number: int, kind: int) -> bool:
        anchor = self._anchor
        assert anchor is not None
        if number == anchor:  # the second field
            return True
        fits = self._place(number, kind, anchor)
        self._fitting += fits
        if self._fitting >= _ENOUGH and self._strikes < _MOST_STRIKES:
            self._is_trusted = True
        return fits

    def _place(self, number: int, kind: int, anchor: int) -> bool:
        """Whether it has the number of its place."""
        if kind == _B:
            return self._b_follows(number, anchor)
        self._has_p = True
        if self._is_open:  # the last one had more before it than came
            self._is_late = self._is_trusted
            return False
        step = (number - anchor) % 1024
        self._anchor, self._next_b = number, (anchor + 1) % 1024
        self._is_open = step > 1
        return step == 1 or (step < 512 and not self._low_delay)

    def _b_follows(self, number: int, anchor: int) -> bool:
        self._has_b = True
        if (anchor - number) % 1024 >= 512:  # that which it lies before is missing
            return False
        if self._next_b is None:
            return True
        if number == (self._next_b - 1) % 1024:  # the second field
            return True
        if number != self._next_b:
            self._is_late = self._is_trusted
            return False
        self._next_b = (number + 1) % 1024
        self._is_open = self._next_b != anchor
        return True
