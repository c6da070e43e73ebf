"""FFmpeg's decoders read beyond the end of a packet."""

import ctypes

import pytest

from edgepipe.stages.sources.padding import packet_of


@pytest.mark.parametrize("kind", [bytes, memoryview])
@pytest.mark.parametrize("size", [1, 15, 4096])
def test_behind_a_packet_there_are_zeros(
    size: int, kind: type[bytes] | type[memoryview]
) -> None:
    data = bytes(k % 255 + 1 for k in range(size + 100))
    packet = packet_of(kind(data[:size]))
    assert bytes(packet) == data[:size]
    assert ctypes.string_at(packet.buffer_ptr + packet.size, 64) == bytes(64)
