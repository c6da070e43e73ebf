"""Packets of bytes, with what FFmpeg's decoders need behind them."""

from typing import Any, cast

from av.packet import Packet

from edgepipe.stages.sources.recording import VideoPacket

_PADDING = bytes(64)
"""AV_INPUT_BUFFER_PADDING_SIZE: decoders read on, and expect zeros there."""


def packet_of(data: bytes | memoryview) -> VideoPacket:
    """A packet with a copy of these bytes; PyAV's own has what follows in memory."""
    padded = b"".join((data, _PADDING))
    shown: Any = memoryview(padded)[: len(padded) - len(_PADDING)]
    return cast(VideoPacket, Packet(shown))
