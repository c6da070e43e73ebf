"""Packets in, frames out, as late as possible and in step with what was announced."""

from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import NamedTuple, Protocol

from av.error import FFmpegError
from av.video.frame import VideoFrame

from edgepipe.pipeline.source import DamagedError
from edgepipe.stages.sources.exif import exif_orientation
from edgepipe.stages.sources.orientation import of_exif
from edgepipe.stages.sources.recording import VideoPacket

MOST_WAITING = 512
"""Packets kept for a caller who does not decode. Beyond it the oldest are given up."""
_HEAD_BYTES = 70_000
"""Of a JPEG, within which its EXIF data ends: one segment has at most 65 535."""


class Key(NamedTuple):
    """Identifies a frame of the file by its place in presentation order."""

    reading: int
    """How often the file was begun anew before."""
    stamp: int
    """Time stamp, or the number of the frame where stamps do not order them."""
    twin: int = 0
    """How many frames before it carry the same stamp."""


class Coding(Protocol):
    """What packets belong to: one reading of a recording, which can decode them."""

    @property
    def codec(self) -> str:
        """FFmpeg's name of the decoder."""
        ...

    @property
    def ordered(self) -> bool:
        """Whether the stamps say in which order frames are shown."""
        ...

    @property
    def intra_only(self) -> bool:
        """Whether every picture stands alone."""
        ...

    def decode(self, packet: VideoPacket | None) -> list[VideoFrame]:
        """The frames that come out when a packet goes in; None drains the decoder."""
        ...

    def forget(self) -> None:
        """Make the decoder ready for packets that do not follow the last one."""
        ...


class _Waiting(NamedTuple):
    recording: Coding
    key: Key
    packet: VideoPacket | None
    """None where what follows needs nothing before it, and at the end of a recording:
    the decoder gives what it still holds."""


class Decoder:
    """Decodes what was offered when somebody asks for it.

    One thread offers and announces, another one asks. ``read_more`` is called by the
    asking thread when the decoder needs packets that have not been offered yet, as it
    does with reordered frames; it returns False at the end.
    """

    def __init__(self, read_more: Callable[[], bool]) -> None:
        self._read_more = read_more
        self._packets: deque[_Waiting] = deque()
        self._announced: deque[tuple[int, Key]] = deque(maxlen=2 * MOST_WAITING)
        self._handing_over = Lock()
        self._decoding = Lock()
        self._decoded: deque[tuple[Key, VideoFrame]] = deque()
        self._recording: Coding | None = None
        self._count = 0
        self._last = Key(-1, 0)
        self._given: set[Key] = set()
        """Packets that were given out and whose frames have not been asked for."""

    def offer(self, recording: Coding, key: Key, packet: VideoPacket | None) -> None:
        """Add a packet in decoding order; None ends the recording, or a part of it."""
        with self._handing_over:
            self._packets.append(_Waiting(recording, key, packet))

    def announce(self, index: int, key: Key) -> None:
        """Say which frame an index means."""
        with self._handing_over:
            self._announced.append((index, key))

    def make_room(self) -> None:
        """Give up the oldest packets if too many wait; decodes where it must."""
        if len(self._packets) < MOST_WAITING:
            return
        with self._decoding:
            while len(self._packets) >= MOST_WAITING:
                if not self._jump(self._first_key_packet()):
                    self._decode_one()
                self._decoded.clear()

    def frame(self, index: int) -> VideoFrame:
        """The frame of an announced index; what lies before it is discarded.

        Raises:
            DamagedError: The decoder has none, or reports damage.
        """
        with self._decoding:
            key = self._key_of_index(index)
            if not self._decoded or self._decoded[-1][0] < key:
                self._jump(self._last_key_packet(key))
            while not self._decoded or self._decoded[0][0] < key:
                if self._decoded:
                    self._decoded.popleft()
                elif not self._decode_one() and not self._more():
                    raise DamagedError("the decoder gave no picture for this frame")
            if self._decoded[0][0] != key:
                raise DamagedError("the decoder gave no picture for this frame")
            frame = self._decoded.popleft()[1]
        if frame.is_corrupt:
            raise DamagedError("the decoder reports damage in this frame")
        return frame

    def packets(self, index: int) -> tuple[Key, list[tuple[Key, VideoPacket]]]:
        """In place of :meth:`frame`: the key of the frame, and the packets up to it.

        Each packet is given once, in decoding order, with the key of its own frame.

        Raises:
            DamagedError: There is none for this frame.
        """
        with self._decoding:
            wanted = self._key_of_index(index)
            given: list[tuple[Key, VideoPacket]] = []
            while wanted not in self._given:
                with self._handing_over:
                    waiting = self._packets.popleft() if self._packets else None
                if waiting is None:
                    if not self._more():
                        raise DamagedError("there is no packet for this frame")
                elif waiting.packet is not None:
                    reading, stamp, _ = waiting.key
                    same = [k.twin for k in self._given if k[:2] == (reading, stamp)]
                    key = Key(reading, stamp, max(same, default=-1) + 1)
                    if not waiting.packet.is_discard:
                        self._given.add(key)
                    given.append((key, waiting.packet))
            self._given = {key for key in self._given if key >= wanted}
        return wanted, given

    def _more(self) -> bool:
        """Get more packets; the last reading returns False and yet offers the end."""
        return self._read_more() or bool(self._packets)

    def _key_of_index(self, index: int) -> Key:
        with self._handing_over:
            while self._announced and self._announced[0][0] <= index:
                found, key = self._announced.popleft()
                if found == index:
                    return key
        raise DamagedError("given up: too many frames came after it")

    def _first_key_packet(self) -> int:
        """Position of the first packet after the oldest where decoding can begin."""
        with self._handing_over:
            for position, waiting in enumerate(self._packets):
                if position and _can_begin(waiting):
                    return position
        return 0

    def _last_key_packet(self, key: Key) -> int:
        """Position of the last packet from which ``key`` can be decoded."""
        found = 0
        with self._handing_over:
            for position, waiting in enumerate(self._packets):
                if waiting.key <= key and _can_begin(waiting):
                    found = position
        return found

    def _jump(self, position: int) -> bool:
        """Forget the packets before ``position``: nothing needs them any more."""
        if position == 0:
            return False
        with self._handing_over:
            for _ in range(position):
                self._packets.popleft()
            target = self._packets[0]
        if target.recording is self._recording:
            target.recording.forget()
            self._count = target.key.stamp
        return True

    def _decode_one(self) -> bool:
        """Feed one packet to the decoder; False if none waits."""
        with self._handing_over:
            if not self._packets:
                return False
            recording, key, packet = self._packets.popleft()
        if recording is not self._recording:
            self._recording, self._count = recording, key.stamp
        try:
            frames = recording.decode(packet)
        except FFmpegError:
            # Without stamps to go by, only counting tells frames apart.
            self._count += 1
            return True
        turned = packet is not None and recording.codec == "mjpeg"
        if packet is None:
            recording.forget()  # or it would take nothing more
        for frame in frames:
            if packet is not None and turned:
                # PyAV passes on the angle only, and not whether it is a mirror image.
                number = exif_orientation(bytes(memoryview(packet)[:_HEAD_BYTES]))
                if number != 1:
                    frame.opaque = of_exif(number)
            self._decoded.append((self._key_of(frame, key.reading), frame))
        return True

    def _key_of(self, frame: VideoFrame, reading: int) -> Key:
        assert self._recording is not None
        stamp = frame.pts if frame.pts is not None else frame.dts
        if not self._recording.ordered or stamp is None:
            stamp = self._count
        self._count += 1
        last = self._last
        twin = last.twin + 1 if (reading, stamp) == last[:2] else 0
        self._last = Key(reading, stamp, twin)
        return self._last


def _can_begin(waiting: _Waiting) -> bool:
    """Whether decoding from there gives frames that can be told apart."""
    packet, recording = waiting.packet, waiting.recording
    if packet is None or not packet.is_keyframe:
        return False
    # Counting must begin at a frame that none after it is shown before.
    return recording.ordered or recording.intra_only or waiting.key.stamp == 0
