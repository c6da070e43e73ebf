"""Decoding on NVIDIA's decoder (NVDEC) through PyNvVideoCodec.

Pictures come out as those of FFmpeg's software decoders, bit for bit, and in the same
formats, so that everything after the decoder is one path. They are copied into host
memory. What NVDEC does not do is say when a picture is damaged: it conceals, and only
prints a line. A source whose bytes may be damaged should be decoded in software, which
is why this decoder is chosen by name.

The only module that imports PyNvVideoCodec, and it does so when a decoder is made.
"""

import importlib.util
from types import ModuleType
from typing import Any, NamedTuple, cast

import numpy as np
from av.bitstream import BitStreamFilterContext
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.stream import VideoStream
from numpy.typing import NDArray

from edgepipe.errors import InputError
from edgepipe.stages.sources.recording import VideoPacket

PACKAGE = "PyNvVideoCodec"


class _Codec(NamedTuple):
    name: str
    """In PyNvVideoCodec's list of codecs."""
    filter: str | None
    """FFmpeg's bitstream filter that gives what NVDEC reads: start codes, and headers
    with every key frame. None: packets are that already."""


CODECS = {
    "h264": _Codec("H264", "h264_mp4toannexb"),
    "hevc": _Codec("HEVC", "hevc_mp4toannexb"),
    "vp9": _Codec("VP9", None),
    "av1": _Codec("AV1", None),
    "libdav1d": _Codec("AV1", None),
}
"""By FFmpeg's name of the decoder."""
_DEPTHS = {"yuv420p": 8, "yuvj420p": 8, "yuv420p10le": 10, "yuv420p12le": 12}
"""Bits of the formats that are decoded here: 4:2:0 only."""


def why_not(stream: VideoStream) -> str:
    """Why NVDEC cannot decode the stream, in words; empty if it can."""
    context = stream.codec_context
    codec = CODECS.get(context.name)
    if codec is None:
        return f"it does not decode {context.name}"
    depth = _DEPTHS.get(context.pix_fmt or "")
    if depth is None:
        return f"it decodes 4:2:0 only, this is {context.pix_fmt}"
    if importlib.util.find_spec(PACKAGE) is None:
        return "PyNvVideoCodec is not installed: pip install 'edgepipe[nvidia]'"
    try:
        nvc = _library()
        caps = nvc.GetDecoderCaps(
            gpuid=0, codec=getattr(nvc.cudaVideoCodec, codec.name), bitdepth=depth
        )
    except Exception as error:  # noqa: BLE001 - a native library's: no driver, no card
        return f"there is no NVIDIA decoder: {error}"
    if not caps["supported"]:
        return f"this one does not decode {codec.name} with {depth} bits"
    width, height = context.width, context.height
    if width % 2 or height % 2:
        return f"it gives pictures of even sizes, this is {width}x{height}"
    if not (
        caps["width_min"] <= width <= caps["width_max"]
        and caps["height_min"] <= height <= caps["height_max"]
    ):
        return (
            f"{width}x{height} is outside {caps['width_min']}x{caps['height_min']} to"
            f" {caps['width_max']}x{caps['height_max']}"
        )
    return ""


class NvdecDecoder:
    """Takes packets of one stream and gives pictures, as a codec context does.

    Every packet is one picture, and it comes out as soon as its place in the order of
    presentation is known: without reordered frames at once.

    Args:
        stream: What the packets belong to.

    Raises:
        InputError: NVDEC cannot decode it; the message says why.
    """

    def __init__(self, stream: VideoStream) -> None:
        if reason := why_not(stream):
            raise InputError(f"decoder nvdec: {reason}")
        self._nvc = _library()
        context = stream.codec_context
        self._codec = CODECS[context.name]
        self._format = context.pix_fmt or ""
        self._colorspace = int(context.colorspace)
        self._color_range = int(context.color_range)
        self._time_base = stream.time_base
        self._filter = (
            BitStreamFilterContext(self._codec.filter, stream)
            if self._codec.filter
            else None
        )
        self._decoder = self._nvc.CreateDecoder(
            gpuid=0,
            codec=getattr(self._nvc.cudaVideoCodec, self._codec.name),
            usedevicememory=False,
            latency=self._nvc.DisplayDecodeLatencyType.LOW,
        )

    def decode(self, packet: VideoPacket | None = None, /) -> list[VideoFrame]:
        """The pictures that come out when a packet goes in; None drains the decoder."""
        if packet is None:
            return self._end()
        return [
            frame for each in self._filtered(packet) for frame in self._decode(each)
        ]

    def flush_buffers(self) -> None:
        """Forget what was decoded; the next packet is a key frame."""
        self._end()
        if self._filter is not None:
            self._filter.flush()

    def _filtered(self, packet: VideoPacket) -> list[VideoPacket]:
        if self._filter is None:
            return [packet]
        # The filter takes the packet's bytes away; somebody may still want them.
        copy = cast("VideoPacket", Packet(bytes(packet)))
        copy.pts, copy.dts = packet.pts, packet.dts
        copy.is_keyframe = packet.is_keyframe
        if packet.time_base is not None:
            copy.time_base = packet.time_base
        return list(self._filter.filter(copy))

    def _decode(self, packet: VideoPacket) -> list[VideoFrame]:
        data = np.frombuffer(bytes(packet), np.uint8)
        given = self._nvc.PacketData()
        given.bsl_data, given.bsl = data.ctypes.data, data.nbytes
        stamp = packet.pts if packet.pts is not None else packet.dts
        if stamp is not None:
            given.pts = stamp
        given.decode_flag = self._nvc.VideoPacketFlag.ENDOFPICTURE
        return [
            self._frame(decoded, stamped=stamp is not None)
            for decoded in self._decoder.Decode(given)
        ]

    def _end(self) -> list[VideoFrame]:
        last = self._nvc.PacketData()
        last.bsl_data = last.bsl = 0
        return [
            self._frame(decoded, stamped=True) for decoded in self._decoder.Decode(last)
        ]

    def _frame(self, decoded: Any, *, stamped: bool) -> VideoFrame:
        """A copy: the decoder takes its memory back with the next packet."""
        planes = np.from_dlpack(decoded)
        height = planes.shape[0] * 2 // 3
        width = planes.shape[1]
        frame = VideoFrame(width, height, self._format)
        luma, chroma = planes[:height], planes[height:].reshape(height // 2, -1, 2)
        parts = (luma, chroma[..., 0], chroma[..., 1])
        shift = 16 - _DEPTHS[self._format] if planes.dtype == np.uint16 else 0
        for plane, part in zip(frame.planes, parts, strict=True):
            rows = _rows(plane, part.shape, part.dtype)
            if shift:  # NVDEC has the bits at the top of the word, FFmpeg at the bottom
                np.right_shift(part, shift, out=rows)
            else:
                rows[...] = part
        if stamped:
            frame.pts = decoded.getPTS()
        frame.colorspace = self._colorspace
        frame.color_range = self._color_range
        if self._time_base is not None:
            frame.time_base = self._time_base
        return frame


def _rows(
    plane: Any, shape: tuple[int, ...], dtype: "np.dtype[Any]"
) -> NDArray[np.generic]:
    """The plane's pixels in the frame's own memory, without its row padding."""
    memory: NDArray[np.generic] = np.frombuffer(plane, dtype)
    line = plane.line_size // dtype.itemsize
    return memory[: line * shape[0]].reshape(shape[0], line)[:, : shape[1]]


def _library() -> ModuleType:
    # No stubs; imported late, since it loads CUDA's driver.
    return importlib.import_module(PACKAGE)
