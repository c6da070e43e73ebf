"""One reading of a video file, from its beginning to its end."""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import av
from av.container import InputContainer
from av.error import FFmpegError
from av.packet import Packet
from av.stream import Disposition
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from edgepipe.errors import InputError
from edgepipe.stages.sources.diagnosis import why_unreadable
from edgepipe.stages.sources.orientation import Orientation
from edgepipe.stages.sources.packer import Packer

if TYPE_CHECKING:
    VideoPacket = Packet[VideoStream]
else:
    VideoPacket = Packet  # generic in the stubs only

SOFTWARE, NVDEC = "software", "nvdec"
"""Who can decode."""
ASSUMED_FPS = 25.0
"""Rate of a recording that has neither time stamps nor a rate."""
_SLOWEST_FPS, _FASTEST_FPS = Fraction(1, 3600), 1000
"""Rates of a header that can be believed."""
_NO_TIME_STAMPS = 0x80
"""AVFMT_NOTIMESTAMPS among the flags of a format."""
_MP4 = "mov,mp4,m4a,3gp,3g2,mj2"
_COUNTER_BITS = {"mpegts": 33, "mpeg": 33, "flv": 32}
"""Width of the time stamps by format."""
_DECODING_STAMPS_ONLY = frozenset({"avi", "asf", "asf_o"})
"""Formats that number chunks; presentation stamps made from these can be wrong."""
STRICT = frozenset({"hevc"})
"""Decoders that say nothing of damage unless they are told to stop at it. That of H.264
says it of the picture, and would also stop at key frames that are not at the beginning.
"""
_INTRA_ONLY = frozenset({"mjpeg", "png", "bmp", "webp", "tiff"})


class VideoDecoder(Protocol):
    """Makes pictures of the packets of one stream, as PyAV's codec contexts do."""

    def decode(self, packet: VideoPacket | None = None, /) -> list[VideoFrame]:
        """The frames that come out when a packet goes in; None drains the decoder."""
        ...

    def flush_buffers(self) -> None:
        """Forget what was decoded; the next packet is a key frame."""
        ...


class Recording:
    """An open file with its demuxer and its decoder, which hold no frame yet.

    Attributes:
        format: FFmpeg's name of the format.
        codec: Name of the decoder.
        intra_only: Whether every picture stands alone.
        extradata: What the container holds for the decoder.
        time_base: Seconds per unit of a time stamp.
        announced: Packets that the header promises; 0 when it does not say.
        stamped: Whether packets carry time stamps. Where they do not, FFmpeg may
            invent some; they are not to be used.
        ordered: Whether the stamps say in which order frames are shown. If not, the
            decoder's order and the order of the stamps agree, and nothing else does.
        edited: Whether it may have an edit list, with which packets of several parts of
            the media follow each other, and some of them are not shown.
        bits: Width of the counter of the stamps where it may run over, else None.
        videos: How many videos the file has; the first is used.
        fps: The rate that the header gives, or None; absurd ones are not given.
        absurd_fps: The rate that the header gives if nobody can believe it.
        reached: How many of the announced packets there have been, those that a
            recorder left empty on purpose included.
        read_error: Why reading stopped before the end of the file; empty so far.

        decoder: What makes pictures of packets: FFmpeg's own decoder unless it is
            replaced, before the first packet, by one that outlives the recording.

    Raises:
        InputError: The file is not a video; the message says why.
    """

    def __init__(self, path: Path, decode_threads: int, *, strict: bool = True) -> None:
        self._container = _open(path)
        try:
            self._stream = _video_stream(self._container, path)
            self._codec: VideoCodecContext = self._stream.codec_context
            self.decoder: VideoDecoder = self._codec
            self.codec = self._codec.name
            self.intra_only = self.codec in _INTRA_ONLY
            self._prepare_decoder(decode_threads, strict=strict)
            self.extradata = self._codec.extradata
            self._demuxed = self._container.demux(self._stream)
            self.read_error = ""
            self.reached, self._last_dts = 0, -1
            self.format = self._container.format.name
            self._first = self._read()
        except BaseException:
            self._container.close()
            raise
        self.time_base = self._stream.time_base or Fraction(1, 1000)
        self.edited = self.format == _MP4
        self.announced = _announced(self._stream, self.format)
        self.stamped = self._is_stamped()
        self.ordered = self.stamped and self.format not in _DECODING_STAMPS_ONLY
        self.bits = _COUNTER_BITS.get(self.format)
        self.videos = sum(map(_is_video, self._container.streams.video))
        self.fps, self.absurd_fps = _nominal_fps(self._stream, self.stamped)

    @property
    def stream(self) -> VideoStream:
        """What the packets belong to."""
        return self._stream

    def packets(self) -> Iterator[VideoPacket]:
        """All packets in decoding order, once. One cut off by the end is left out."""
        packet, self._first = self._first, None
        while packet is not None:
            following = self._read() if packet.is_corrupt else None
            if packet.is_corrupt and following is None:
                self.read_error = self.read_error or "the last frame is cut off"
                return
            yield packet
            packet = following or self._read()

    def decode(self, packet: VideoPacket | None) -> list[VideoFrame]:
        """The frames that come out when a packet goes in; None drains the decoder.

        May be called by another thread than the one that reads ``packets``.

        Raises:
            FFmpegError: The packet cannot be decoded; later ones may.
        """
        return self.decoder.decode(packet)

    def forget(self) -> None:
        """Make the decoder ready for packets that do not follow the last one."""
        self.decoder.flush_buffers()

    def packer(self, orientation: Orientation) -> Packer:
        """What makes the packets fit to be kept outside of the file."""
        return Packer(self._stream, orientation, ordered=self.ordered)

    def close(self) -> None:
        """Close the file. The decoder lives on with whoever still uses it."""
        self._container.close()

    def _read(self) -> VideoPacket | None:
        """The next packet with something in it, None at the end."""
        try:
            for packet in self._demuxed:
                if packet.size:
                    self.reached += 1
                    if self.format == "avi" and packet.dts is not None:
                        # A frame lasts as long as the one before it: what a recorder
                        # leaves empty behind the last one is not missing either.
                        self.reached = 2 * packet.dts - self._last_dts
                        self._last_dts = packet.dts
                    return packet
        except FFmpegError as error:
            self.read_error = f"reading stopped: {error.strerror}"
        return None

    def _prepare_decoder(self, threads: int, *, strict: bool) -> None:
        # Threads over frames would delay every picture by as many frames.
        self._codec.thread_count = threads
        self._codec.thread_type = "SLICE" if threads > 1 else "NONE"
        if self.intra_only or (strict and self.codec in STRICT):
            # Better no picture than one filled up with grey.
            self._codec.options = {"err_detect": "explode"}

    def _is_stamped(self) -> bool:
        format_ = self._container.format
        invented = bool(format_.flags & _NO_TIME_STAMPS)
        # A pipe of images has a rate that FFmpeg made up and no flag that says so.
        if invented or format_.name.endswith("_pipe"):
            return False
        # AVI has no stamps: they are places of chunks, by the rate in the header.
        rate = self._stream.average_rate
        if format_.name == "avi" and rate and not _SLOWEST_FPS <= rate <= _FASTEST_FPS:
            # Some recorders count in fine ticks, of which most are empty chunks.
            ticks = [entry.timestamp for entry in self._stream.index_entries]
            return bool(ticks) and ticks[-1] - ticks[0] >= 2 * len(ticks)
        return self._first is None or self._first.pts is not None


def _open(path: Path) -> InputContainer:
    # "file:" and an absolute path: nothing in a name can be taken for a protocol or
    # for an option. The whitelist holds for whatever a playlist refers to.
    try:
        container = av.open(
            f"file:{path.absolute()}",
            "r",
            # FFmpeg would hide that the stamps ran over, and correct it only once.
            options={"protocol_whitelist": "file", "correct_ts_overflow": "0"},
            metadata_errors="replace",
        )
    except (FFmpegError, UnicodeError) as error:
        raise InputError(f"{path}: {why_unreadable(path)}") from error
    if container.format.name == "image2":  # it would read a pattern of file names
        container.close()
        raise InputError(f"{path}: images of this kind cannot be read")
    return container


def _video_stream(container: InputContainer, path: Path) -> VideoStream:
    for stream in container.streams.video:
        if _is_video(stream):
            # None when FFmpeg has no decoder, whatever the type says.
            if getattr(stream, "codec_context", None) is None:
                raise InputError(f"{path}: no decoder for its video")
            return stream
    raise InputError(f"{path}: there is no video in it")


def _is_video(stream: VideoStream) -> bool:
    # An audio file may carry its cover as a video of one frame.
    return not stream.disposition & Disposition.attached_pic


def _announced(stream: VideoStream, format_: str) -> int:
    """Packets that the header promises; without those that an edit list leaves out."""
    if format_ == _MP4:
        return min(stream.frames, len(stream.index_entries))
    return stream.frames


def _nominal_fps(
    stream: VideoStream, stamped: bool
) -> tuple[float | None, float | None]:
    """The header's rate, if plausible, and the header's rate, if absurd."""
    rates = [stream.average_rate, stream.guessed_rate, stream.base_rate]
    if not stamped:
        # Then FFmpeg made the average up; the codec's own headers may know better.
        rates.insert(0, stream.codec_context.framerate)
    given = [float(rate) for rate in rates if rate]
    plausible = [rate for rate in given if _SLOWEST_FPS <= rate <= _FASTEST_FPS]
    absurd = [rate for rate in given if not _SLOWEST_FPS <= rate <= _FASTEST_FPS]
    return next(iter(plausible), None), next(iter(absurd), None)
