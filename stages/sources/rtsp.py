"""Cameras that speak RTSP, through FFmpeg.

What was found out about it (PyAV 17 and 18, FFmpeg 8): opening and reading can only be
interrupted by the time-outs that are given when it is opened, not by another thread.
But a reading that was interrupted can go on, over TCP and over UDP; only one that stood
between two bytes of a packet's header fails. So the time-out for reading is short, and
whoever reads looks at the time in between.
"""

import struct
import time
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import av
from av.container import InputContainer
from av.error import ExitError, FFmpegError
from av.video.codeccontext import VideoCodecContext

from edgepipe.stages.sources.camera import (
    CameraError,
    CameraFacts,
    Shot,
    ShotDecoder,
)
from edgepipe.stages.sources.capture_clock import CaptureClock
from edgepipe.stages.sources.integrity import Integrity
from edgepipe.stages.sources.padding import packet_of
from edgepipe.stages.sources.recording import VideoPacket
from edgepipe.stages.sources.references import Disposability
from edgepipe.stages.sources.shot_decoders import PacketDecoder
from edgepipe.telemetry.clock import Clock

READ_S = 0.5
"""How long one reading may wait."""
_OPTIONS = {
    "fflags": "nobuffer",
    "flags": "low_delay",
    "allowed_media_types": "video",
    "fpsprobesize": "0",
    "analyzeduration": "500000",
    # Of UDP: packets that are kept until one that is late comes, and for how long.
    "reorder_queue_size": "64",
    "max_delay": "100000",
    # No server may send us to another kind of address.
    "protocol_whitelist": "rtsp,rtsps,rtp,srtp,udp,tcp,tls,crypto",
}
_DELAYED = frozenset({"h264", "hevc"})
"""Codecs whose frames FFmpeg hands over when the next one begins to come."""
_MOST_PIECES = 300
"""Of one frame: a slice for each row of the largest pictures, and some to spare."""
_ASSUMED_PERIOD_NS = 40_000_000


class RtspCamera:
    """One address.

    Args:
        uri: With user and password, which go nowhere but to the server.
        transport: ``tcp`` or ``udp``.
        connect_s: Longest time for each of the two steps of opening: to get an answer,
            and to get the first packets.
        clock: The time.
        trusts_clock: Whether the camera's wall clock agrees with this machine's.
        decoder: ``software``, ``nvdec`` for a Jetson's, ``auto`` for it where it is.
    """

    def __init__(
        self,
        uri: str,
        transport: str,
        connect_s: float,
        clock: Clock,
        *,
        trusts_clock: bool = False,
        decoder: str = "software",
    ) -> None:
        self._uri, self._transport = uri, transport
        self._connect_s, self._clock = connect_s, clock
        self._trusts_clock, self._decoder = trusts_clock, decoder

    def connect(self) -> "RtspConnection":
        """Open it and find its video.

        Raises:
            CameraError: There is no answer, or none that is of use.
        """
        began_ns = self._clock.now_ns()
        try:
            container = av.open(
                self._uri,
                "r",
                format="rtsp",
                options={**_OPTIONS, "rtsp_transport": self._transport},
                timeout=(self._connect_s, READ_S),
                metadata_errors="replace",
            )
        except (FFmpegError, UnicodeError) as error:
            waited_s = (self._clock.now_ns() - began_ns) / 1e9
            if waited_s >= self._connect_s:
                raise CameraError(f"no answer for {waited_s:.1f} s") from error
            # Its text would carry the address with the password.
            why = error.strerror if isinstance(error, FFmpegError) else ""
            raise CameraError(_words(why or "no answer of use")) from error
        try:
            return RtspConnection(
                container, self._clock, self._decoder, trusts_clock=self._trusts_clock
            )
        except BaseException:
            container.close()
            raise

    def is_there(self) -> bool | None:
        """Only trying can tell."""
        return None

    def interrupt(self) -> None:
        """Nothing can: the time-out ends it."""


class RtspConnection:
    """An open stream.

    Attributes:
        facts: What the server says of the pictures.
        decoder: For its shots.
    """

    def __init__(
        self,
        container: InputContainer,
        clock: Clock,
        decoder: str,
        *,
        trusts_clock: bool,
    ) -> None:
        if not container.streams.video:
            raise CameraError("the server offers no video")
        self._container, self._clock = container, clock
        stream = container.streams.video[0]
        # None when FFmpeg has no decoder, whatever the type says.
        if getattr(stream, "codec_context", None) is None:
            raise CameraError("no decoder for the server's video")
        self._stream = stream
        codec = stream.codec_context
        hardware, note = (None, "") if decoder == "software" else _hardware(codec)
        if hardware is None and decoder == "nvdec":
            raise CameraError(f"decoder nvdec: {note}")
        self.decoder: ShotDecoder = hardware or PacketDecoder(codec)
        rate = stream.average_rate or stream.guessed_rate
        fps = float(rate) if rate and 0 < rate <= 1000 else None
        notes = (f"decoder {decoder}: {note}",) if note else ()
        self._period_ns = round(1e9 / fps) if fps else _ASSUMED_PERIOD_NS
        self._is_delayed = codec.name in _DELAYED
        held_ns = self._period_ns if fps and self._is_delayed else 0
        self.facts = CameraFacts(
            codec.width, codec.height, fps, codec.name, notes, held_ns
        )
        self._time_base = stream.time_base or Fraction(1, 90_000)
        self._packets: Iterator[VideoPacket] | None = None
        self._capture = CaptureClock()
        self._trusts_clock = trusts_clock
        self._integrity = Integrity(codec.name, codec.extradata)
        self._disposability = Disposability(codec.name, codec.extradata)
        self._begun_ns: int | None = None
        """When the first bytes of the next frame came."""
        self._last_pts: int | None = None
        self._stamp = 0
        self._held: list[VideoPacket] = []
        self._joins = False
        self._is_first_key = True
        self._ahead: VideoPacket | None = None

    def read(self) -> Shot | None:
        """The next frame; None after half a second without one.

        Raises:
            CameraError: The server has ended it, or is gone.
        """
        packet = self._packet()
        if packet is None:
            return None
        now_ns = self._clock.now_ns()
        came_ns = now_ns
        if self._is_delayed:
            came_ns, self._begun_ns = self._begun_ns or now_ns, now_ns
        return self._shot(packet, came_ns)

    def interrupt(self) -> None:
        """Nothing can: the time-out ends it."""

    def close(self) -> None:
        """Say good-bye to the server. The decoder lives on with whoever uses it."""
        self._container.close()

    # --- in detail --------------------------------------------------------------------

    def _packet(self) -> VideoPacket | None:
        """The next whole frame, joined where the server cuts frames into two.

        Some servers repeat the parameter sets before every slice, and FFmpeg takes each
        for the beginning of a frame.
        """
        until_ns = self._clock.now_ns() + round(READ_S * 1e9)
        while True:
            packet, self._ahead = self._ahead or self._demux(), None
            if packet is None:
                return self._whole()
            if self._is_first_key and packet.is_keyframe:
                # Whether it is whole shows with the next. Cut into two it would spoil
                # all that refer to it.
                self._is_first_key, self._ahead = False, self._demux()
                after = None if self._ahead is None else self._ahead.pts
                self._joins = after is not None and after == packet.pts
            same = packet.pts is not None and packet.pts == self._last_pts
            self._last_pts = packet.pts
            self._joins = self._joins or same
            if not self._joins:
                return packet
            whole = None if same else self._whole()
            self._held.append(packet)
            if len(self._held) > _MOST_PIECES:
                raise CameraError("all frames have the same time")
            if whole is not None or self._clock.now_ns() >= until_ns:
                return whole

    def _whole(self) -> VideoPacket | None:
        """What is held, as one."""
        held, self._held = self._held, []
        return _joined(held) if held else None

    def _demux(self) -> VideoPacket | None:
        if self._packets is None:
            self._packets = self._container.demux(self._stream)
        try:
            packet = next(self._packets, None)
        except ExitError:
            self._packets = None  # it can go on from here
            return None
        except FFmpegError as error:
            raise CameraError(_words(error.strerror)) from error
        if packet is None or not packet.size:
            raise CameraError("the server has ended the stream")
        return packet

    def _shot(self, packet: VideoPacket, came_ns: int) -> Shot:
        base = self._time_base
        pts = packet.pts
        media_ns = None
        if pts is not None:
            media_ns = pts * base.numerator * 1_000_000_000 // base.denominator
        data = bytes(packet)
        told_ns = _told_ns(packet) if self._trusts_clock else None
        stamp = pts if pts is not None else (self._stamp + 1)
        self._stamp = stamp
        return Shot(
            packet,
            self._capture.captured_ns(came_ns, media_ns, told_ns),
            packet.size,
            packet.is_keyframe,
            stamp,
            packet.dts,
            damage=self._integrity.fault(data),
            is_disposable=self._disposability.of(data),
        )


def _hardware(codec: VideoCodecContext) -> tuple[ShotDecoder | None, str]:
    """A Jetson's decoder, or None, and which decoder it is and why."""
    from edgepipe.stages.sources.gst_decoder import jetson

    return jetson(codec.name, bytes(codec.extradata or b""))


def _joined(pieces: list[VideoPacket]) -> VideoPacket:
    first = pieces[0]
    if len(pieces) == 1:
        return first
    whole: Any = packet_of(b"".join(map(bytes, pieces)))
    whole.pts, whole.dts = first.pts, first.dts
    whole.time_base = first.time_base
    whole.is_keyframe = first.is_keyframe
    joined: VideoPacket = whole
    return joined


def _told_ns(packet: VideoPacket) -> int | None:
    """Capture on the monotonic clock by the server's reports (RFC 3550, 6.4.1)."""
    if not packet.has_sidedata("prft"):
        return None
    # AVProducerReferenceTime: microseconds since 1970, then flags.
    (wall_us,) = struct.unpack_from("q", bytes(packet.get_sidedata("prft")))
    return int(wall_us) * 1000 - (time.time_ns() - time.monotonic_ns())


def _words(strerror: str | None) -> str:
    if strerror is None:
        return "unknown error"
    if "401" in strerror:
        return "user or password is wrong (401)"
    return strerror[:1].lower() + strerror[1:]
