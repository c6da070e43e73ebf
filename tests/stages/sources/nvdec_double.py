"""PyNvVideoCodec as far as it is used here, with FFmpeg in place of the hardware.

Behaves as version 2.2.4 did on a real card: one packet in, pictures out in order of
presentation, 4:2:0 with interleaved chroma, more than 8 bits at the top of 16-bit
words, memory taken back with the next packet, an empty packet drains.
"""

import ctypes
import enum
import importlib.machinery
import sys
from types import ModuleType
from typing import Any

import av
import numpy as np
import pytest
from av.error import FFmpegError
from av.packet import Packet
from numpy.typing import NDArray

_FFMPEG = {"H264": "h264", "HEVC": "hevc", "VP9": "vp9", "AV1": "libdav1d"}
_SUPPORTED = {("H264", 8), ("HEVC", 8), ("HEVC", 10), ("VP9", 8)}
"""As an H200 says."""


class Codec(enum.Enum):
    H264 = 4
    HEVC = 8
    VP9 = 10
    AV1 = 11


class Flag(enum.Enum):
    ENDOFPICTURE = 8


class Latency(enum.Enum):
    LOW = 1


class PacketData:
    bsl_data = bsl = pts = 0
    decode_flag: Flag | None = None


class DecodedFrame:
    """Memory that is taken back."""

    def __init__(self, array: NDArray[Any], pts: int) -> None:
        self.array, self._pts = array, pts

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()

    def getPTS(self) -> int:  # noqa: N802 - the library's name
        return self._pts


class Decoder:
    made = 0

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._begin()
        self._lent: list[DecodedFrame] = []
        Decoder.made += 1

    def _begin(self) -> None:
        self._context: Any = av.CodecContext.create(_FFMPEG[self._codec.name], "r")
        self._context.thread_type = "NONE"

    def Decode(self, packet: PacketData) -> list[DecodedFrame]:  # noqa: N802
        for frame in self._lent:
            frame.array[...] = 99
        given: Packet[Any] | None = None
        if packet.bsl:
            assert packet.decode_flag is Flag.ENDOFPICTURE
            given = Packet(ctypes.string_at(packet.bsl_data, packet.bsl))
            given.pts = packet.pts
        try:
            frames: list[Any] = self._context.decode(given)
        except FFmpegError:
            frames = []
        if given is None:
            self._begin()
        self._lent = [_decoded(each) for each in frames]
        return self._lent


def _decoded(frame: Any) -> DecodedFrame:
    bits = 10 if frame.format.name == "yuv420p10le" else 8
    kind: Any = np.uint16 if bits > 8 else np.uint8
    planes: list[NDArray[Any]] = [
        np.frombuffer(plane, kind)
        .reshape(-1, plane.line_size // kind().itemsize)[
            : frame.height >> bool(number), : frame.width >> bool(number)
        ]
        .copy()
        for number, plane in enumerate(frame.planes)
    ]
    chroma = np.stack(planes[1:], axis=-1).reshape(frame.height // 2, frame.width)
    whole: NDArray[Any] = np.concatenate([planes[0], chroma])
    if bits > 8:
        whole = np.left_shift(whole, 16 - bits)
    return DecodedFrame(whole, frame.pts)


def caps(
    gpuid: int = 0, codec: Codec = Codec.H264, bitdepth: int = 8
) -> dict[str, int]:
    supported = (codec.name, bitdepth) in _SUPPORTED
    sizes = {"width_min": 48, "width_max": 4096, "height_min": 16, "height_max": 4096}
    if not supported:
        sizes = dict.fromkeys(sizes, 0)
    return {"supported": int(supported), **sizes}


def create(
    *, gpuid: int, codec: Codec, usedevicememory: bool, latency: Latency
) -> Decoder:
    assert not usedevicememory
    return Decoder(codec)


def install(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """Put it in the place of the real one, whether that is installed or not."""
    module: Any = ModuleType("PyNvVideoCodec")
    module.__spec__ = importlib.machinery.ModuleSpec("PyNvVideoCodec", None)
    members = {
        "cudaVideoCodec": Codec,
        "VideoPacketFlag": Flag,
        "DisplayDecodeLatencyType": Latency,
        "PacketData": PacketData,
        "GetDecoderCaps": caps,
        "CreateDecoder": create,
    }
    for name, value in {**members, **changes}.items():
        setattr(module, name, value)
    monkeypatch.setitem(sys.modules, "PyNvVideoCodec", module)
