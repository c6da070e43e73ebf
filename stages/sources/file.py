"""A video file as a source."""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from threading import Lock

from av.error import FFmpegError
from av.video.frame import VideoFrame

from edgepipe.errors import InputError
from edgepipe.pipeline.frame import Picture
from edgepipe.pipeline.packets import Packet, PacketFormat, Taken
from edgepipe.pipeline.source import (
    Arrival,
    DamagedError,
    EventKind,
    SourceEvent,
    SourceInfo,
)
from edgepipe.stages.sources.completeness import missing_end
from edgepipe.stages.sources.decoder import Decoder, Key
from edgepipe.stages.sources.fingerprint import fingerprint
from edgepipe.stages.sources.jpeg import LeastSize, ReducedJpegs, is_available
from edgepipe.stages.sources.order import PresentationOrder
from edgepipe.stages.sources.packer import Packer
from edgepipe.stages.sources.pictures import PictureMaker
from edgepipe.stages.sources.rate import other_rate
from edgepipe.stages.sources.recording import (
    ASSUMED_FPS,
    NVDEC,
    SOFTWARE,
    Recording,
    VideoDecoder,
    VideoPacket,
)
from edgepipe.stages.sources.repacking import packer_of
from edgepipe.stages.sources.stamps import Stamped, Stamps
from edgepipe.stages.sources.timeline import Timeline

_SEAMS = (EventKind.DISCONTINUITY, EventKind.REGRESSION)
"""Key frames with these may begin another recording that was joined to the first."""
_PROBE_PACKETS = 250
"""Packets within which a file must show its first picture: ten seconds."""
_RATE_PACKETS = 60
"""Packets that tell whether the header's rate can be right."""


class FileSource:
    """Reads a video file; demuxing runs ahead, decoding happens on request.

    See :func:`~edgepipe.stages.sources.open.open_source` for the arguments.

    """

    def __init__(
        self,
        path: Path,
        uri: str,
        *,
        loop: bool = False,
        fps: float | None = None,
        decode_threads: int = 1,
        decoder: str = SOFTWARE,
    ) -> None:
        self._path, self._loop, self._threads = path, loop, decode_threads
        self._pictures = PictureMaker()
        self._assumed: list[str] = []
        self._strict_failed = False
        self._jpegs: ReducedJpegs | None = None
        self._has_reduced = False
        first = self._first_picture()
        self._recording = self._open()
        self._hardware = self._choose_decoder(decoder)
        if self._hardware is not None:
            self._recording.decoder = self._hardware
        self._rate = self._choose_rate(fps)
        self._info = SourceInfo(
            uri=uri,
            width=first.width,
            height=first.height,
            fps=self._rate,
            codec=self._recording.codec,
            decoder=SOFTWARE if self._hardware is None else NVDEC,
            live=False,
            input_hash=fingerprint(path),
        )
        self._decoder = Decoder(self._read_for_decoder)
        self._reading = Lock()
        self._ready: deque[Arrival | SourceEvent] = deque()
        self._ended = False
        self._failure: InputError | None = None
        self._index = 0
        self._lap = self._part = 0
        self._timeline = Timeline(self._tick_ns(), round(1e9 / self._rate))
        self._begin_reading()

    @property
    def info(self) -> SourceInfo:
        """Size as shown (upright), rate and codec."""
        return self._info

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was assumed, not believed or repaired so far, one line each."""
        known = (*self._assumed, *self._pictures.notes)
        repaired = self._timeline.repaired
        if not repaired:
            return known
        words = f"{repaired} time stamps did not rise and were moved up"
        return (*known, words)

    @property
    def end_state(self) -> tuple[str, str]:
        """``truncated`` if the file holds less than it should."""
        if self._lap == 0 and self._recording.reached < self._recording.announced:
            detail = (
                f"decoded {self._index} of {self._recording.announced} frames that the "
                f"header announces"
            )
            return "truncated", detail
        recording = self._recording
        error = recording.read_error or missing_end(self._path, recording.format)
        return ("truncated", error) if error else ("ended", "")

    def next_arrival(self) -> Arrival | SourceEvent | None:
        """The next frame in presentation order; does not decode it.

        Raises:
            InputError: The file cannot be opened for another lap.
        """
        self._decoder.make_room()
        with self._reading:
            while not self._ready and self._read():
                pass
            if not self._ready and self._failure is not None:
                raise self._failure
            return self._ready.popleft() if self._ready else None

    def decode(self, index: int) -> Picture:
        """Decode up to the frame of that arrival."""
        if self._jpegs is not None:
            return self._reduced(self._jpegs, index)
        return self._pictures.picture(self._decoder.frame(index))

    def reduce_to(self, least: LeastSize) -> None:
        """Decode JPEGs no larger than needed, where the extra ``jpeg`` is installed."""
        # Two fields of a frame are two JPEGs in one packet.
        is_plain = self._recording.codec == "mjpeg" and not self._pictures.notes
        if is_plain and self._hardware is None and is_available():
            self._jpegs = ReducedJpegs(least)

    def _reduced(self, jpegs: ReducedJpegs, index: int) -> Picture:
        _, given = self._decoder.packets(index)
        if not given:
            raise DamagedError("there is no packet for this frame")
        try:
            picture = jpegs.picture(memoryview(given[-1][1]))
        except DamagedError:
            if not self._has_reduced:
                self._jpegs = None  # the first one: FFmpeg may know what this is
            raise
        self._has_reduced = True
        return picture

    @property
    def packet_format(self) -> PacketFormat | None:
        """The codec, with what the container says of it; None if that is not enough."""
        return None if self._packer is None else self._packer.format

    def packets(self, index: int) -> Taken:
        """The packets up to the one that shows the frame of that arrival."""
        packer = self._packer
        if packer is None:
            raise DamagedError("its packets mean nothing without the file")
        wanted, given = self._decoder.packets(index)
        packets = [
            Packet(key, packer.pack(p), p.is_keyframe, not p.is_discard)
            for key, p in given
        ]
        return Taken(wanted, packets)

    @cached_property
    def _packer(self) -> Packer | None:
        return packer_of(self._path, self._threads)

    def decode_in_time(
        self, index: int, until_ns: int, now_ns: Callable[[], int]
    ) -> Picture:
        """The same, if it can be done by ``until_ns``."""
        if self._jpegs is not None:
            return self._reduced(self._jpegs, index)
        return self._pictures.picture(self._decoder.frame(index, until_ns, now_ns))

    @property
    def decoding(self) -> str:
        """Which frames are decoded at present."""
        return self._decoder.level.words

    def close(self) -> None:
        """Close the file."""
        with self._reading:
            self._ended = True
            self._recording.close()

    # --- opening --------------------------------------------------------------------

    def _first_picture(self) -> Picture:
        """Decode one frame: only then it is sure that the file can be used."""
        frame = self._try_first_frame()
        if frame is None and not self._strict_failed:
            # An encoder may always write something that the decoder finds odd.
            self._strict_failed = True
            frame = self._try_first_frame()
        if frame is None:
            raise InputError(f"{self._path}: no picture in it can be decoded")
        self._is_turned = frame.rotation != 0
        return self._pictures.picture(frame)

    def _choose_decoder(self, wanted: str) -> VideoDecoder | None:
        """The hardware's decoder; None: FFmpeg's own.

        Raises:
            InputError: The hardware was asked for by name and cannot do it.
        """
        if wanted == SOFTWARE:
            return None
        from edgepipe.stages.sources.nvdec import NvdecDecoder

        try:
            if self._is_turned:
                raise InputError("decoder nvdec: it does not turn pictures")
            return NvdecDecoder(self._recording.stream)
        except InputError as error:
            if wanted == NVDEC:
                self._recording.close()
                raise InputError(f"{self._path}: {error}") from error
            self._assumed.append(f"decoded in software: {error}")
            return None

    def _try_first_frame(self) -> VideoFrame | None:
        recording = self._open()
        try:
            frame, self._probed = _first_frame(recording)
            return frame
        finally:
            recording.close()

    def _open(self) -> Recording:
        return Recording(self._path, self._threads, strict=not self._strict_failed)

    def _choose_rate(self, fps: float | None) -> float:
        recording = self._recording
        if self._strict_failed:
            self._assumed.append("every picture has errors: they are not looked for")
        if recording.videos > 1:
            self._assumed.append(f"the first of {recording.videos} videos is used")
        if recording.absurd_fps is not None:
            self._assumed.append(
                f"the header's rate of {recording.absurd_fps:g} fps is not believed"
            )
        if recording.stamped:
            if fps is not None:
                self._assumed.append(
                    f"fps {fps:g} is not used: the file has time stamps"
                )
            return self._checked_rate(recording.fps or ASSUMED_FPS)
        rate = fps or recording.fps or ASSUMED_FPS
        if fps is None:
            self._assumed.append(f"no time stamps in the file: assumed {rate:g} fps")
        return rate

    def _checked_rate(self, fps: float) -> float:
        recording = self._recording
        if not recording.ordered:
            return fps
        measured = other_rate(fps, self._probed, recording.time_base)
        if measured is None:
            return fps
        self._assumed.append(
            f"the header's rate of {fps:g} fps is not believed: frames come at"
            f" {measured:g} fps"
        )
        return measured

    # --- reading, with the lock held --------------------------------------------------

    def _read_for_decoder(self) -> bool:
        with self._reading:
            return self._read()

    def _tick_ns(self) -> Fraction:
        if self._recording.stamped:
            return 1_000_000_000 * self._recording.time_base
        return 1_000_000_000 / Fraction(self._rate)

    def _begin_reading(self) -> None:
        recording = self._recording
        self._packets = recording.packets()
        self._order = PresentationOrder[Stamped]()
        second = round(1 / recording.time_base)
        self._stamps = Stamps(recording.bits, second, round(second / self._rate))
        self._last_dts: int | None = None
        self._last_key = Key(self._part, -1)
        self._counted = 0

    def _read(self) -> bool:
        """Take one packet from the file; False at the very end."""
        if self._ended:
            return False
        packet = next(self._packets, None)
        if packet is not None:
            self._take(packet)
            return True
        self._end_part()
        self._ended = not self._loop or self._index == 0
        if not self._ended:
            self._begin_lap()
        return not self._ended

    def _begin_lap(self) -> None:
        self._recording.close()
        try:
            self._recording = self._open()
            if self._hardware is not None:
                self._recording.decoder = self._hardware
        except InputError as error:  # it is not there any more, or is another one
            self._failure, self._ended = error, True
            return
        self._lap += 1
        self._part += 1
        self._timeline.begin_lap(self._tick_ns())
        self._begin_reading()

    def _end_part(self) -> None:
        """Nothing that follows is shown before, or refers to, what came so far."""
        for key, stamped in self._order.rest():
            self._announce(key, stamped)
        self._decoder.offer(self._recording, Key(self._part, self._counted), None)

    def _take(self, packet: VideoPacket) -> None:
        recording, count = self._recording, self._counted
        self._counted += 1
        if recording.edited and packet.dts is not None:
            last, self._last_dts = self._last_dts, packet.dts
            if last is not None and packet.is_keyframe and packet.dts <= last:
                self._end_part()
                self._part += 1
                self._last_key = Key(self._part, -1)
            if packet.is_discard and packet.pts is not None:
                # Cut away, though later frames may refer to it. Its stamps overlap
                # those of the part before or after it.
                self._decoder.offer(recording, Key(self._part, packet.pts), packet)
                return
        if recording.stamped:
            pts = packet.pts if recording.ordered else packet.dts
            stamped = self._stamps.take(pts, packet.dts, is_key=packet.is_keyframe)
            packet.pts, packet.dts = stamped.pts, stamped.dts
        else:
            stamped = Stamped(count, count)
        # The decoder is given the stamps by which its frames will be known.
        key, settled_to = stamped.pts, stamped.dts
        if not recording.ordered:
            key = settled_to = count
        if stamped.kind in _SEAMS and packet.is_keyframe:
            # Decoders may lose what they still hold when another picture size begins.
            self._decoder.offer(recording, Key(self._part, key), None, is_joint=True)
        self._decoder.offer(recording, Key(self._part, key), packet)
        if packet.is_discard:
            return
        self._order.push(key, settled_to, stamped)
        for settled in self._order.settled():
            self._announce(*settled)

    def _announce(self, key: int, stamped: Stamped) -> None:
        """The next frame in presentation order is known."""
        twin = self._last_key.twin + 1 if key == self._last_key.stamp else 0
        self._last_key = Key(self._part, key, twin)
        pts_ns, events = self._timeline.place(stamped)
        self._decoder.announce(self._index, self._last_key)
        self._ready.extend(events)
        self._ready.append(Arrival(self._index, pts_ns))
        self._index += 1


def _first_frame(recording: Recording) -> tuple[VideoFrame | None, list[int]]:
    """The first picture, and the stamps of the packets that were read."""
    first: VideoFrame | None = None
    stamps: list[int] = []
    packets = recording.packets()
    while len(stamps) < (_PROBE_PACKETS if first is None else _RATE_PACKETS):
        packet = next(packets, None)
        if first is None:
            with suppress(FFmpegError):
                first = next(iter(recording.decode(packet)), None)
        if packet is None:
            break
        stamps.append(packet.pts or 0)
    return first, stamps
