"""Numbers of any width out of bytes, as the headers of video streams have them."""


class Bits:
    """Reads from the front; behind the end there are zeros."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> int:
        """The next bits as a number, most significant first."""
        first, self._at = self._at, self._at + count
        begin, end = first >> 3, self._at + 7 >> 3
        window = self._data[begin:end].ljust(end - begin, b"\0")
        number = int.from_bytes(window, "big") >> (8 * end - self._at)
        return number & ((1 << count) - 1)

    def exp_golomb(self) -> int:
        """An unsigned number of the code in H.264, 9.1; 0 if there is none."""
        zeros = 0
        while not self.take(1):
            zeros += 1
            if zeros > 32:
                return 0
        return (1 << zeros) - 1 + self.take(zeros)

    def signed_exp_golomb(self) -> int:
        """A signed one."""
        number = self.exp_golomb()
        return -(number // 2) if number % 2 == 0 else (number + 1) // 2
