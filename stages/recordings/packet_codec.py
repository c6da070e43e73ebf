"""A decoder for packets that come without a container."""

from collections.abc import Mapping
from fractions import Fraction

import av
from av.error import FFmpegError
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame

from edgepipe.pipeline.source import DamagedError
from edgepipe.stages.recordings.packet_metadata import (
    COUNTED,
    orientation_in,
    prepare,
)
from edgepipe.stages.sources.orientation import UPRIGHT
from edgepipe.stages.sources.padding import packet_of
from edgepipe.stages.sources.recording import STRICT, VideoPacket

NANOSECOND = Fraction(1, 10**9)

_DECODERS = {"av1": "libdav1d"}
"""Where FFmpeg's decoder of the codec's own name needs hardware."""


class PacketCodec:
    """What the file's ``Recording`` is to packets that lie in messages.

    Attributes:
        codec: FFmpeg's name of it.
        ordered: Whether stamps say in which order frames are shown.
        intra_only: Whether every picture stands alone.
        extradata: What the decoder must know before the first packet.

    Raises:
        DamagedError: FFmpeg has no decoder of that name.
    """

    def __init__(self, codec: str, threads: int, metadata: Mapping[str, str]) -> None:
        self.codec = codec
        self.ordered = COUNTED not in metadata
        self._orientation = orientation_in(metadata)
        self.intra_only = codec in ("mjpeg", "png")
        try:
            context = av.CodecContext.create(_DECODERS.get(codec, codec), "r")
        except (FFmpegError, ValueError) as error:
            raise DamagedError(f"no decoder for {codec!r}") from error
        if not isinstance(context, VideoCodecContext):
            raise DamagedError(f"{codec!r} is no video")
        self._context: VideoCodecContext = context
        # Threads over frames would delay every picture by as many frames.
        context.thread_count = threads
        context.thread_type = "SLICE" if threads > 1 else "NONE"
        prepare(context, metadata)
        self.extradata = context.extradata
        if self.intra_only or codec in STRICT:
            context.options = {"err_detect": "explode"}

    def packet(self, data: memoryview, pts: int, dts: int, *, key: bool) -> VideoPacket:
        """A packet for :meth:`decode`; its stamps are nanoseconds."""
        packet = packet_of(data)
        packet.time_base = NANOSECOND
        packet.pts, packet.dts = pts, dts
        packet.is_keyframe = key
        return packet

    def decode(self, packet: VideoPacket | None) -> list[VideoFrame]:
        """The frames that come out when a packet goes in; None drains the decoder.

        Raises:
            FFmpegError: The packet cannot be decoded; later ones may.
        """
        frames = self._context.decode(  # pyright: ignore[reportUnknownMemberType]
            packet
        )
        if self._orientation != UPRIGHT:
            for frame in frames:
                frame.opaque = self._orientation
        return frames

    def forget(self) -> None:
        """Make the decoder ready for packets that do not follow the last one."""
        self._context.flush_buffers()
