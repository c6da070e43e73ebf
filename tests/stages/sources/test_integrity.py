"""What the headers of packets tell, with bytes as an encoder wrote them."""

import pytest

from edgepipe.stages.sources.integrity import Integrity

SPS = bytes.fromhex("6742c015da0507ec05a8303035280000030008000003014478b175")
PPS = bytes.fromhex("68ce3c80")
SLICES = [
    bytes.fromhex(f"41 9a {number:02x} 1a a014 3051 0ff3 8c71")
    for number in (32, 64, 96)
]
"""Reference frames with the numbers 1, 2 and 3."""


@pytest.mark.parametrize("code", [b"\0\0\1", b"\0\0\0\1"])
def test_a_parameter_set_that_comes_again_changes_nothing(code: bytes) -> None:
    """Start codes of four bytes leave a zero at the end of the unit before."""
    integrity = Integrity("h264", b"\0\0\0\1" + SPS + b"\0\0\0\1" + PPS)
    first, second, third = SLICES
    assert integrity.fault(b"\0\0\0\1" + first) == ""
    assert integrity.fault(code + SPS + code + PPS + code + second) == ""
    assert integrity.fault(code + third) == ""
    assert "1 is followed by 3" not in integrity.fault(code + third)


def test_a_frame_that_is_missing_is_found() -> None:
    integrity = Integrity("h264", None)
    code = b"\0\0\0\1"
    first, _, third = SLICES
    assert integrity.fault(code + SPS + code + PPS + code + first) == ""
    assert "1 is followed by 3" in integrity.fault(code + third)
