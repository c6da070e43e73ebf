"""A video file as a source."""

from collections import deque
from pathlib import Path
from threading import Lock

from av.error import FFmpegError
from av.video.frame import VideoFrame

from edgepipe.errors import InputError
from edgepipe.pipeline.frame import Picture
from edgepipe.pipeline.source import Arrival, SourceInfo
from edgepipe.stages.sources.decoder import Decoder, Key
from edgepipe.stages.sources.fingerprint import fingerprint
from edgepipe.stages.sources.order import PresentationOrder
from edgepipe.stages.sources.pictures import PictureMaker
from edgepipe.stages.sources.recording import ASSUMED_FPS, Recording, VideoPacket

_PROBE_PACKETS = 250
"""Packets within which a file must show its first picture: ten seconds."""


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
    ) -> None:
        self._path, self._loop, self._threads = path, loop, decode_threads
        self._pictures = PictureMaker()
        first = self._first_picture()
        self._recording = Recording(path, decode_threads)
        self._packets = self._recording.packets()
        self._assumed: list[str] = []
        self._rate = self._choose_rate(fps)
        self._info = SourceInfo(
            uri=uri,
            width=first.width,
            height=first.height,
            fps=self._rate,
            codec=self._recording.codec,
            live=False,
            input_hash=fingerprint(path),
        )
        self._decoder = Decoder(self._read_for_decoder)
        self._reading = Lock()
        self._ready: deque[Arrival] = deque()
        self._ended = False
        self._index = 0
        self._last_ns = -1
        self._repaired = 0
        self._read_packets = 0
        self._lap = -1
        self._begin_lap()

    @property
    def info(self) -> SourceInfo:
        """Size as shown (upright), rate and codec."""
        return self._info

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was assumed, not believed or repaired so far, one line each."""
        if not self._repaired:
            return tuple(self._assumed)
        repaired = f"{self._repaired} time stamps did not rise and were moved up"
        return (*self._assumed, repaired)

    @property
    def end_state(self) -> tuple[str, str]:
        """``truncated`` if the file holds less than it should."""
        if self._lap == 0 and self._read_packets < self._recording.announced:
            detail = (
                f"decoded {self._index} of {self._recording.announced} frames that the "
                f"header announces"
            )
            return "truncated", detail
        error = self._recording.read_error
        return ("truncated", error) if error else ("ended", "")

    def next_arrival(self) -> Arrival | None:
        """The next frame in presentation order; does not decode it."""
        self._decoder.make_room()
        with self._reading:
            while not self._ready and self._read():
                pass
            return self._ready.popleft() if self._ready else None

    def decode(self, index: int) -> Picture:
        """Decode up to the frame of that arrival."""
        return self._pictures.picture(self._decoder.frame(index))

    def close(self) -> None:
        """Close the file."""
        with self._reading:
            self._ended = True
            self._recording.close()

    # --- opening --------------------------------------------------------------------

    def _first_picture(self) -> Picture:
        """Decode one frame: only then it is sure that the file can be used."""
        recording = Recording(self._path, self._threads)
        try:
            frame = _first_frame(recording)
        finally:
            recording.close()
        if frame is None:
            raise InputError(f"{self._path}: no picture in it can be decoded")
        return self._pictures.picture(frame)

    def _choose_rate(self, fps: float | None) -> float:
        recording = self._recording
        if recording.absurd_fps is not None:
            self._assumed.append(
                f"the header's rate of {recording.absurd_fps:g} fps is not believed"
            )
        if recording.stamped:
            if fps is not None:
                self._assumed.append(
                    f"fps {fps:g} is not used: the file has time stamps"
                )
            return recording.fps or ASSUMED_FPS
        rate = fps or recording.fps or ASSUMED_FPS
        if fps is None:
            self._assumed.append(f"no time stamps in the file: assumed {rate:g} fps")
        return rate

    # --- reading, with the lock held --------------------------------------------------

    def _read_for_decoder(self) -> bool:
        with self._reading:
            return self._read()

    def _begin_lap(self) -> None:
        self._lap += 1
        self._order = PresentationOrder()
        self._last_key = Key(self._lap, -1)
        self._counted = 0
        self._first_stamp: int | None = None
        self._lap_from_ns = (
            0 if self._index == 0 else self._last_ns + round(1e9 / self._rate)
        )

    def _read(self) -> bool:
        """Take one packet from the file; False at the very end."""
        if self._ended:
            return False
        packet = next(self._packets, None)
        if packet is not None:
            self._take(packet)
            return True
        for stamp in self._order.rest():
            self._announce(stamp)
        self._decoder.offer(self._recording, Key(self._lap, self._counted), None)
        self._ended = not self._loop or self._index == 0
        if not self._ended:
            self._recording.close()
            self._recording = Recording(self._path, self._threads)
            self._packets = self._recording.packets()
            self._begin_lap()
        return not self._ended

    def _take(self, packet: VideoPacket) -> None:
        stamp, decoding_stamp = self._stamps(packet)
        self._counted += 1
        self._read_packets += 1
        self._decoder.offer(self._recording, Key(self._lap, stamp), packet)
        # Edit lists cut frames away that later ones still refer to.
        if packet.is_discard:
            return
        self._order.push(stamp, decoding_stamp)
        for settled in self._order.settled():
            self._announce(settled)

    def _stamps(self, packet: VideoPacket) -> tuple[int, int]:
        if not self._recording.stamped:
            return self._counted, self._counted
        stamp = packet.pts if packet.pts is not None else packet.dts
        if stamp is None:
            stamp = self._last_key.stamp + 1
        return stamp, packet.dts if packet.dts is not None else stamp

    def _announce(self, stamp: int) -> None:
        """The next frame in presentation order is known."""
        twin = self._last_key.twin + 1 if stamp == self._last_key.stamp else 0
        self._last_key = Key(self._lap, stamp, twin)
        pts_ns = self._lap_from_ns + self._since_first_ns(stamp)
        if pts_ns <= self._last_ns:
            # Trackers and rates divide by the difference of two stamps.
            pts_ns = self._last_ns + 1
            self._repaired += 1
        self._last_ns = pts_ns
        self._decoder.announce(self._index, self._last_key)
        self._ready.append(Arrival(self._index, pts_ns))
        self._index += 1

    def _since_first_ns(self, stamp: int) -> int:
        if self._first_stamp is None:
            self._first_stamp = stamp
        since = stamp - self._first_stamp
        if not self._recording.stamped:
            return round(since * 1e9 / self._rate)
        base = self._recording.time_base
        return since * base.numerator * 1_000_000_000 // base.denominator


def _first_frame(recording: Recording) -> VideoFrame | None:
    packets = recording.packets()
    for _ in range(_PROBE_PACKETS):
        packet = next(packets, None)
        try:
            frames = recording.decode(packet)
        except FFmpegError:
            frames = []
        if frames or packet is None:
            return next(iter(frames), None)
    return None
