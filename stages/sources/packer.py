"""Packets of a file made fit to be kept without the file."""

from typing import Any, cast

from av.bitstream import BitStreamFilterContext
from av.packet import Packet
from av.video.stream import VideoStream

from edgepipe.pipeline.packets import PacketFormat
from edgepipe.stages.recordings.key_frames import has_parameter_sets
from edgepipe.stages.recordings.packet_metadata import (
    COLOUR,
    COUNTED,
    EXTRADATA,
    ORIENTATION,
    PIXELS,
    SIZE,
    colours_of,
    digits_of,
)
from edgepipe.stages.sources.orientation import UPRIGHT, Orientation

_FILTERS = {"h264": "h264_mp4toannexb", "hevc": "hevc_mp4toannexb"}
_START_CODES = (b"\0\0\1", b"\0\0\0\1")
_SELF_CONTAINED = frozenset({"h264", "hevc", "vp9", "av1", "mjpeg", "png", "webp"})
"""Codecs that need nothing but their packets."""


class Packer:
    """Gives each packet everything that the container had kept for all of them.

    Attributes:
        format: What is to be known of the packets.
    """

    def __init__(
        self, stream: VideoStream, orientation: Orientation, *, ordered: bool
    ) -> None:
        context = stream.codec_context
        codec = context.codec.canonical_name
        extradata = context.extradata or b""
        said = {
            COLOUR: colours_of(context),
            SIZE: f"{context.coded_width} {context.coded_height}",
        }
        if context.pix_fmt:
            said[PIXELS] = context.pix_fmt
        if orientation != UPRIGHT and codec != "mjpeg":  # which says so in each packet
            said[ORIENTATION] = digits_of(orientation)
        if extradata and codec not in _SELF_CONTAINED:
            said[EXTRADATA] = extradata.hex()
        if not ordered:
            said[COUNTED] = "1"
        self.format = PacketFormat(codec, said)
        self._codec = codec
        name = _FILTERS.get(codec)
        self._filters = [
            BitStreamFilterContext(name, stream) for _ in range(2) if name is not None
        ]
        self._extradata = extradata

    def renewed(self) -> "Packer":
        """The same for a file that begins again; can be had once."""
        del self._filters[1:]
        return self

    def pack(self, packet: "Packet[VideoStream]") -> bytes:
        """The bytes to keep."""
        data = bytes(packet)
        if self._filters:
            # A copy, since the filter takes what it is given.
            copy = cast("Packet[VideoStream]", Packet(data))
            filter_: Any = self._filters[-1]
            data = b"".join(bytes(part) for part in filter_.filter(copy))
        return complete(self._codec, data, self._extradata, is_key=packet.is_keyframe)


def complete(codec: str, data: bytes, extradata: bytes, *, is_key: bool) -> bytes:
    """A packet in Annex B, with parameter sets if it is a key frame.

    Streams in Annex B may have them once only, and then they are in ``extradata``, too.
    """
    if not is_key or codec not in _FILTERS or not extradata.startswith(_START_CODES):
        return data
    return data if has_parameter_sets(codec, memoryview(data)) else extradata + data
