"""What becomes of one source's frames in a recording: packets, or pictures."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import cv2
import numpy as np

from edgepipe.pipeline.frame import Picture, PixelFormat
from edgepipe.pipeline.packets import Packet, PacketFormat, PacketSource
from edgepipe.pipeline.source import DamagedError, Source
from edgepipe.stages.convert import to_bgr
from edgepipe.stages.recordings import foxglove
from edgepipe.stages.recordings.foxglove_schemas import schema
from edgepipe.stages.recordings.mcap_writer import ChannelFacts
from edgepipe.stages.recordings.order_of_packets import PacketOrder, Placed
from edgepipe.stages.recordings.packet_metadata import CODEC
from edgepipe.stages.recordings.recorded import STAMPS, STREAM

JPEG_QUALITY = 95
CLOCK = "edgepipe.clock"
"""Key of a channel's metadata: what its stamps count, ``wall`` or ``media``."""

_STILL_CODECS = {"image": "", "mjpeg": "jpeg", "png": "png", "webp": "webp"}
_MAGIC = {b"\xff\xd8": "jpeg", b"\x89PNG": "png", b"RIFF": "webp", b"BM": "bmp"}


class Made(NamedTuple):
    """A message of a stream."""

    log_ns: int
    data: bytes
    is_key: bool


class KeptStream(Protocol):
    """Makes messages of frames; used by one thread."""

    @property
    def channel(self) -> ChannelFacts:
        """What the messages are written to."""
        ...

    @property
    def words(self) -> str:
        """How frames are kept, for people."""
        ...

    def messages(self, index: int, stamp_ns: int) -> Iterator[Made]:
        """What can be written once this frame has come.

        Raises:
            DamagedError: The frame cannot be kept.
        """
        ...

    def rest(self) -> Iterator[Made]:
        """What is still to be written at the end."""
        ...


def keep(
    source: Source, stream: str, *, clock: str, raw: bool, ahead_ns: int = 0
) -> KeptStream:
    """The best way to keep a source's frames.

    Args:
        source: Opened, and nothing read from it.
        stream: Its id, the name of the topic.
        clock: The value of CLOCK.
        raw: Pictures that are not compressed are kept as they are, not as JPEG.
        ahead_ns: Added to the source's stamps: the wall clock minus the monotonic one,
            or 0 for media time.
    """
    said = {STREAM: stream, STAMPS: "capture", CLOCK: clock}
    if isinstance(source, PacketSource):
        format_ = source.packet_format
        if format_ is not None:
            return _Packets(source, format_, stream, said, ahead_ns)
    return _Pictures(source, stream, said, ahead_ns, raw=raw)


def topic_of(stream: str) -> str:
    """The topic of a stream's frames."""
    return "/" + stream.lstrip("/")


class _Packets:
    """Packets as they came."""

    def __init__(
        self,
        source: PacketSource,
        format_: PacketFormat,
        stream: str,
        said: dict[str, str],
        ahead_ns: int,
    ) -> None:
        self._source, self._stream = source, stream
        self._ahead_ns = ahead_ns
        self._order = PacketOrder()
        codec = format_.codec
        self._still = _STILL_CODECS.get(codec)
        self._format = foxglove.VIDEO_FORMATS.get(codec, codec)
        if self._still:
            said = said | {CODEC: codec}
        name = foxglove.VIDEO if self._still is None else foxglove.IMAGE
        said = said | dict(format_.decoder)
        self.channel = ChannelFacts(topic_of(stream), name, schema(name), said)
        self.words = f"{codec} packets as they came"
        if self._still is None and codec not in foxglove.VIDEO_FORMATS:
            self.words += ", which Foxglove cannot show"
        if codec == "image":
            self.words = "image files as they are"

    def messages(self, index: int, stamp_ns: int) -> Iterator[Made]:
        """What can be written once this frame has come."""
        taken = self._source.packets(index)
        yield from map(self._made, self._order.take(taken, stamp_ns))

    def rest(self) -> Iterator[Made]:
        """What is still to be written at the end."""
        yield from map(self._made, self._order.rest())

    def _made(self, placed: Placed) -> Made:
        packet = placed.packet
        stamp_ns = placed.stamp_ns + self._ahead_ns
        decoded_ns = placed.decoded_ns + self._ahead_ns
        return Made(decoded_ns, self._message(packet, stamp_ns), packet.is_key)

    def _message(self, packet: Packet, stamp_ns: int) -> bytes:
        data, stream = packet.data, self._stream
        if self._still is not None:
            return foxglove.image(stamp_ns, stream, data, self._still or _name(data))
        return foxglove.video(
            stamp_ns,
            stream,
            data,
            self._format,
            key=packet.is_key,
            shown=packet.is_shown,
        )


def _name(data: bytes) -> str:
    """What kind of image file it is."""
    return next((name for m, name in _MAGIC.items() if data.startswith(m)), "image")


class _Pictures:
    """Decoded pictures, compressed as JPEG or not at all."""

    def __init__(
        self,
        source: Source,
        stream: str,
        said: dict[str, str],
        ahead_ns: int,
        *,
        raw: bool,
    ) -> None:
        self._ahead_ns = ahead_ns
        self._source, self._stream, self._raw = source, stream, raw
        name = foxglove.RAW if raw else foxglove.IMAGE
        self.channel = ChannelFacts(topic_of(stream), name, schema(name), said)
        self.words = f"pictures compressed as JPEG of quality {JPEG_QUALITY}"
        if raw:
            self.words = "pictures without compression; YUV as 8-bit BGR"

    def messages(self, index: int, stamp_ns: int) -> Iterator[Made]:
        """The frame's own message."""
        stamp_ns += self._ahead_ns
        picture = self._source.decode(index)
        make = self._uncompressed if self._raw else self._jpeg
        yield Made(stamp_ns, make(picture, stamp_ns), is_key=True)

    def rest(self) -> Iterator[Made]:
        """Nothing is ever held back."""
        return iter(())

    def _jpeg(self, picture: Picture, stamp_ns: int) -> bytes:
        gray = picture.format is PixelFormat.GRAY
        image = picture.planes[0] if gray else to_bgr(picture)
        options = [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY]
        done, data = cv2.imencode(".jpg", image, options)
        if not done:
            raise DamagedError("the picture cannot be compressed as JPEG")
        return foxglove.image(stamp_ns, self._stream, data.tobytes(), "jpeg")

    def _uncompressed(self, picture: Picture, stamp_ns: int) -> bytes:
        encodings = {PixelFormat.GRAY: "mono8", PixelFormat.RGB: "rgb8"}
        encoding = encodings.get(picture.format, "bgr8")
        as_it_is = picture.format in (*encodings, PixelFormat.BGR)
        image = picture.planes[0] if as_it_is else to_bgr(picture)
        size = picture.width, picture.height
        data = np.ascontiguousarray(image).tobytes()
        return foxglove.raw(stamp_ns, self._stream, size, encoding, data)
