"""Decoders for what a camera sends piece by piece, chosen by its format."""

from collections.abc import Sequence
from typing import Any

from av.codec.context import CodecContext
from av.error import FFmpegError
from av.video.codeccontext import VideoCodecContext

from edgepipe.pipeline.packets import PacketFormat
from edgepipe.pipeline.source import DamagedError
from edgepipe.stages.recordings.packet_metadata import COLOUR, colours_of
from edgepipe.stages.sources.camera import CameraError, Decoded, ShotDecoder
from edgepipe.stages.sources.packer import complete
from edgepipe.stages.sources.padding import packet_of
from edgepipe.stages.sources.pictures import PictureMaker
from edgepipe.stages.sources.raw_formats import RawFormat, is_known, raw_picture

CODECS = {"MJPG": "mjpeg", "JPEG": "mjpeg", "H264": "h264", "HEVC": "hevc"}
"""FFmpeg's name of the decoder by V4L2 code."""


def decoder_for(fourcc: str, layout: RawFormat) -> ShotDecoder:
    """What makes pictures of images of this V4L2 code.

    Raises:
        CameraError: Nothing does.
    """
    codec = CODECS.get(fourcc)
    if codec is not None:
        context: Any = CodecContext.create(codec, "r")
        if codec == "mjpeg":
            # Each picture stands alone: better none than one filled up with grey.
            context.options = {"err_detect": "explode"}
        return PacketDecoder(context)
    if is_known(fourcc):
        return RawDecoder(layout)
    raise CameraError(f"images in the format {fourcc} cannot be read")


class RawDecoder:
    """Uncompressed images: nothing is decoded, and views are all that is made."""

    def __init__(self, layout: RawFormat) -> None:
        self._layout = layout

    def feed(self, tag: int, payload: object) -> Sequence[Decoded]:
        """The picture of these bytes."""
        return [Decoded(tag, raw_picture(payload, self._layout))]

    def forget(self) -> None:
        """Every image stands alone."""


class PacketDecoder:
    """FFmpeg's decoder, which tells by a tag which packet a frame was made of.

    A payload is a packet or its bytes.
    """

    def __init__(self, codec: VideoCodecContext) -> None:
        # Threads over frames would delay every picture by as many frames.
        codec.thread_count, codec.thread_type = 1, "NONE"
        codec.copy_opaque = True
        self._codec = codec
        self._maker = PictureMaker()

    def feed(self, tag: int, payload: object) -> Sequence[Decoded]:
        """Decode one packet."""
        packet: Any = packet_of(payload) if isinstance(payload, bytes) else payload
        packet.opaque = tag
        try:
            frames = self._codec.decode(packet)
        except FFmpegError as error:
            raise DamagedError(f"the decoder refuses it: {error.strerror}") from error
        return [
            Decoded(
                frame.opaque if isinstance(frame.opaque, int) else tag,
                self._maker.picture(frame),
                frame.is_corrupt,
            )
            for frame in frames
        ]

    def forget(self) -> None:
        """Drop what it refers to."""
        self._codec.flush_buffers()

    @property
    def packet_format(self) -> PacketFormat:
        """What its payloads are, for whoever keeps them."""
        codec = self._codec
        return PacketFormat(codec.codec.canonical_name, {COLOUR: colours_of(codec)})

    def packed(self, payload: object, *, is_key: bool) -> bytes:
        """A payload's bytes, with parameter sets before a key frame."""
        packet: Any = payload
        return complete(
            self._codec.codec.canonical_name,
            bytes(packet),
            self._codec.extradata or b"",
            is_key=is_key,
        )
