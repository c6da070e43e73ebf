"""Packets in, frames out, as late as possible and in step with what was announced."""

import time
from collections import deque
from collections.abc import Callable
from itertools import islice
from threading import Lock
from typing import NamedTuple, Protocol

from av.error import FFmpegError
from av.video.frame import PictureType, VideoFrame

from edgepipe.pipeline.source import DamagedError, SkippedError
from edgepipe.stages.sources.exif import jpeg_orientation
from edgepipe.stages.sources.integrity import Integrity
from edgepipe.stages.sources.order import MOST_REORDERED
from edgepipe.stages.sources.orientation import of_exif
from edgepipe.stages.sources.pressure import Level, Path, Shedder
from edgepipe.stages.sources.recording import VideoPacket
from edgepipe.stages.sources.references import Disposability

MOST_WAITING = 512
"""Packets kept for a caller who does not decode. Beyond it the oldest are given up."""


_TELL_THEMSELVES = frozenset({"h264", "hevc"})
"""Decoders that mark pictures which refer to what there never was."""
_NEVER_REORDERED = frozenset({"vp8", "vp9", "libvpx", "libvpx-vp9"})


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

    @property
    def extradata(self) -> bytes | None:
        """What the container holds for the decoder."""
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
    disposable: bool
    """Whether no other packet refers to it."""
    follows_corrupt: bool = False
    """Whether FFmpeg says that the packet before is corrupt: of transport streams it
    often means this one, which it had begun to read."""
    is_joint: bool = False
    """Whether another recording was joined on here; there is no packet then."""


class _Decoded(NamedTuple):
    key: Key
    frame: VideoFrame
    is_damaged: bool


class Decoder:
    """Decodes what was offered when somebody asks for it.

    One thread offers and announces, another one asks. ``read_more`` is called by the
    asking thread when the decoder needs packets that have not been offered yet, as it
    does with reordered frames; it returns False at the end.

    Packets are left out where nothing is lost by it: those before a key frame from
    which the frame can be decoded, and those that nothing refers to. With a time limit
    more is left out, as ``Shedder`` decides. After damage nothing is decoded before
    the next key frame, because everything up to there may refer to it.
    """

    def __init__(self, read_more: Callable[[], bool]) -> None:
        self._read_more = read_more
        self._packets: deque[_Waiting] = deque()
        self._announced: deque[tuple[int, Key]] = deque(maxlen=2 * MOST_WAITING)
        self._handing_over = Lock()
        self._decoding = Lock()
        self._decoded: deque[_Decoded] = deque()
        self._recording: Coding | None = None
        self._integrity = Integrity("", None)
        self._references = Disposability("", None)
        self._referring: Coding | None = None
        self._reading = self._count = 0
        self._fed = 0
        """Packets that were decoded, counted as the frames are."""
        self._damaged_from = 0
        """Where frames have no stamps: the first one that may be damaged."""
        self._last = Key(-1, 0)
        self._given: set[Key] = set()
        """Packets that were given out and whose frames have not been asked for."""
        self._broken = ""
        """Why pictures are damaged from here on; empty: they are not."""
        self._begun_at: Key | None = None
        """Where decoding last began without what came before. Frames that are shown
        before it and come after it refer to what was left out."""
        self._has_been_good = False
        """Whether a picture was good since decoding last began anew."""
        self._has_begun = False
        """Whether there was a key frame in this recording."""
        self._highest = Key(-1, 0)
        """Of the packets decoded so far, the one whose frame is shown last."""
        self._before: dict[Key, Key] = {}
        """The same when a packet was decoded whose own frame is shown before it."""
        self._lost: deque[Key] = deque(maxlen=64)
        """Frames that will never come, although later ones may."""
        self._was_corrupt = False
        """Whether the packet that was offered last is said to be corrupt."""
        self._shedder = Shedder()

    @property
    def level(self) -> Level:
        """Which frames are decoded at present."""
        return self._shedder.level

    def offer(
        self,
        recording: Coding,
        key: Key,
        packet: VideoPacket | None,
        *,
        is_joint: bool = False,
    ) -> None:
        """Add a packet in decoding order; None ends the recording, or a part of it.

        ``is_joint`` says that another recording follows, of which none of the packets
        before is damaged for that reason.
        """
        if recording is not self._referring:
            self._referring = recording
            self._references = Disposability(recording.codec, recording.extradata)
        disposable = packet is not None and (
            packet.is_disposable or self._references.of(memoryview(packet))
        )
        follows, self._was_corrupt = self._was_corrupt, False
        if packet is None or recording.intra_only:
            follows = False
        else:
            self._was_corrupt = packet.is_corrupt
        with self._handing_over:
            self._packets.append(
                _Waiting(recording, key, packet, disposable, follows, is_joint)
            )
            is_key = packet is not None and packet.is_keyframe
            self._shedder.came(is_key=is_key, disposable=disposable)

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
                    self._decode_one(None, time.monotonic_ns)
                self._decoded.clear()

    def frame(
        self,
        index: int,
        until_ns: int | None = None,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> VideoFrame:
        """The frame of an announced index; what lies before it is discarded.

        Args:
            index: Of the frame.
            until_ns: When the picture must be there; None: there is no hurry.
            now_ns: The clock of ``until_ns``.

        Raises:
            DamagedError: The decoder has none, or it is damaged.
            SkippedError: Its turn would come too late: it is left out.
        """
        with self._decoding:
            key = self._key_of_index(index)
            self._shedder.asked(index, now_ns())
            stop_ns: int | None = None
            if not self._decoded or self._decoded[-1].key < key:
                begin, path = self._path_to(key)
                if until_ns is not None:
                    stop_ns = self._shedder.decide(path, until_ns, now_ns())
                self._jump(begin)
            found = self._decode_up_to(key, stop_ns, now_ns)
            self._shedder.shown()
        if found.is_damaged:
            raise DamagedError(self._broken or "the decoder reports damage")
        return found.frame

    # --- what to leave out ------------------------------------------------------------

    def _path_to(self, key: Key) -> tuple[int, Path]:
        """Where to begin among the packets, and what lies before the frame."""
        begin = keys = others = 0
        begins_anew = False
        with self._handing_over:
            for position, waiting in enumerate(self._packets):
                _, own_key, packet, is_disposable, *_ = waiting
                if packet is None:
                    continue
                if own_key <= key and _can_begin(waiting):
                    begin, begins_anew = position, True
                    keys = others = 0
                if own_key == key:
                    return begin, Path(begins_anew, keys, others, is_disposable)
                if own_key < key and is_disposable and waiting.recording.ordered:
                    continue
                if packet.is_keyframe:
                    keys += 1
                else:
                    others += 1
        return begin, Path(begins_anew, keys, others, False)

    def _first_key_packet(self) -> int:
        """Position of the first packet after the oldest where decoding can begin."""
        with self._handing_over:
            for position, waiting in enumerate(self._packets):
                if position and _can_begin(waiting):
                    return position
        return 0

    def _jump(self, position: int) -> bool:
        """Forget the packets before ``position``: nothing needs them any more."""
        if position == 0:
            return False
        with self._handing_over:
            for _ in range(position):
                self._packets.popleft()
            target = self._packets[0]
        if target.recording is self._recording:
            self._begin_anew(target)
        return True

    def _begin_anew(self, target: _Waiting) -> None:
        """Decode from here on without what came before."""
        target.recording.forget()
        self._integrity.begin()
        self._count = self._fed = target.key.stamp
        self._broken, self._has_been_good = "", False
        self._begun_at = target.key

    # --- decoding ---------------------------------------------------------------------

    def _decode_up_to(
        self, key: Key, stop_ns: int | None, now_ns: Callable[[], int]
    ) -> _Decoded:
        decoded = self._decoded
        while True:
            while decoded and decoded[0].key < key:
                decoded.popleft()
            if decoded:
                break
            if key in self._lost:
                raise DamagedError("its packet is damaged")
            if self._is_waiting_for_key(key):
                raise DamagedError(self._broken)
            if stop_ns is not None and now_ns() >= stop_ns:
                raise SkippedError("the decoder is catching up")
            if not self._decode_one(key, now_ns) and not self._more():
                raise DamagedError("the decoder gave no picture for this frame")
        if decoded[0].key != key:
            raise DamagedError("the decoder gave no picture for this frame")
        found = decoded.popleft()
        if not found.is_damaged and self._refers_to_damage(found, now_ns):
            return found._replace(is_damaged=True)
        return found

    def _refers_to_damage(self, found: _Decoded, now_ns: Callable[[], int]) -> bool:
        """Whether a frame is damaged that is shown later and was decoded before.

        Most decoders tell of damage when the frame comes out: then those that refer to
        it and are shown earlier are out already. So they wait here until it is known.
        """
        for old in [key for key in self._before if key < found.key]:
            del self._before[old]
        if self._recording is None or self.level is not Level.ALL:
            return False  # it would cost what is to be saved
        if self._recording.ordered:
            last = self._before.pop(found.key, found.key)
        elif found.frame.pict_type == PictureType.B:
            last = found.key._replace(stamp=found.key.stamp + MOST_REORDERED)
        else:
            return False
        while not self._broken and self._is_behind(last):
            if not self._decode_one(None, now_ns) and not self._more():
                break
        return any(each.is_damaged and each.key <= last for each in self._decoded)

    def _is_behind(self, last: Key) -> bool:
        """Whether frames up to that one may still come out of the decoder."""
        if self._recording is not None and not self._recording.ordered:
            for each in self._decoded:
                if each.frame.pict_type != PictureType.B:
                    return False  # others refer to it, and not beyond it
        newest = self._decoded[-1].key if self._decoded else self._last
        return newest < last

    def _is_waiting_for_key(self, key: Key) -> bool:
        """Whether there is no good picture before a key frame that comes later."""
        recording = self._recording
        if not self._broken or recording is None or not recording.ordered:
            return False
        with self._handing_over:
            return not any(
                (waiting.key <= key and _can_begin(waiting))
                or waiting.recording is not recording
                for waiting in self._packets
            )

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

    def _decode_one(self, wanted: Key | None, now_ns: Callable[[], int]) -> bool:
        """Take one packet and decode it if it is of use; False if none waits."""
        with self._handing_over:
            if not self._packets:
                return False
            waiting = self._packets.popleft()
        recording, key, packet, *_ = waiting
        if recording is not self._recording:
            self._recording = recording
            self._count = self._fed = key.stamp
            self._integrity = Integrity(recording.codec, recording.extradata)
            self._broken, self._has_been_good = "", False
            self._begun_at = None
            self._has_begun = recording.codec in _TELL_THEMSELVES
        self._reading = key.reading
        if packet is None:
            self._drain(recording)
            return True
        if recording.ordered and not self._is_of_use(waiting, wanted):
            return True
        # Those that cannot be right are decoded as well: later ones count on them.
        leads = self._begun_at is not None and key < self._begun_at
        fault = "" if recording.intra_only else self._fault(waiting, packet)
        if fault and self._integrity.is_late and recording.ordered:
            fault = self._damaged_before(waiting, packet, fault)
        if fault and recording.ordered and not leads:
            self._damaged(waiting, fault)
            return True
        if fault:
            self._break(fault)
        self._has_begun |= packet.is_keyframe
        begin_ns = now_ns()
        try:
            frames = recording.decode(packet)
        except FFmpegError as error:
            if not leads:
                self._damaged(waiting, f"the decoder reports: {error.strerror}")
            self._count += 1  # without stamps, only counting tells frames apart
            return True
        self._fed += 1
        if not packet.is_discard:
            if key < self._highest:
                self._before[key] = self._highest
            self._highest = max(key, self._highest)
        if frames and _is_no_key(recording, packet, frames[0]):
            self._damaged(waiting, "a key frame is damaged")
            return True
        self._shedder.took(now_ns() - begin_ns, is_key=packet.is_keyframe)
        if recording.codec == "mjpeg":
            _turn(frames, packet)
        self._keep(recording, frames)
        return True

    def _is_of_use(self, waiting: _Waiting, wanted: Key | None) -> bool:
        """Whether to decode a packet; prepares the decoder if it begins anew there."""
        if wanted is not None and waiting.disposable and waiting.key < wanted:
            if not self._broken and waiting.packet is not None:
                self._integrity.leave_out(bytes(waiting.packet))
            return False
        if not self._broken:
            return True
        if not _can_begin(waiting):
            return False
        self._begin_anew(waiting)
        return True

    def _fault(self, waiting: _Waiting, packet: VideoPacket) -> str:
        if (
            packet.is_corrupt or waiting.follows_corrupt
        ) and not self._is_before_joint():
            return "a part of a packet is missing"
        return self._integrity.fault(bytes(packet))

    def _is_before_joint(self) -> bool:
        """Whether another recording begins behind this packet or the next one.

        FFmpeg says that a packet of a transport stream is corrupt if the counter jumps
        in the packet after it. Where streams were joined that means nothing.
        """
        while len(self._packets) < 2 and self._read_more():
            pass
        with self._handing_over:
            return any(waiting.is_joint for waiting in islice(self._packets, 2))

    def _damaged(self, waiting: _Waiting, why: str) -> None:
        """A packet is of no use; all that refer to it are damaged."""
        recording = waiting.recording
        if recording.ordered or recording.intra_only:
            self._lost.append(waiting.key)
        if self._broken or recording.intra_only:
            return
        if waiting.disposable and not self._integrity.is_missing:
            return
        if recording.ordered:
            self._drain(recording)  # what came before is good
        self._break(why)

    def _damaged_before(self, waiting: _Waiting, packet: VideoPacket, why: str) -> str:
        """What the decoder still holds is damaged; returns the fault of the packet."""
        self._break(why)
        self._drain(waiting.recording)
        if not packet.is_keyframe:
            return why
        self._begin_anew(waiting)
        return ""

    def _break(self, why: str) -> None:
        if not self._broken:
            # What the decoder still holds may be shown after what refers to the damage.
            self._broken, self._damaged_from = why, self._count

    def _drain(self, recording: Coding) -> None:
        try:
            frames = recording.decode(None)
        except FFmpegError:
            frames = []
        recording.forget()  # or it would take nothing more
        self._integrity.begin()
        self._keep(recording, frames)

    def _keep(self, recording: Coding, frames: list[VideoFrame]) -> None:
        """Take over what came out of the decoder."""
        for frame in frames:
            key = self._key_of(frame)
            if self._begun_at is not None and key < self._begun_at:
                continue
            self._has_begun |= frame.key_frame
            is_bad = frame.is_corrupt or not self._has_begun
            # What was cut out of a stream may begin with frames that refer to others.
            tells = self._has_been_good or (frame.key_frame and self._has_begun)
            if not recording.ordered and frame.key_frame and not is_bad:
                self._broken = ""
            elif is_bad and tells and not recording.intra_only:
                self._broken = self._broken or "the decoder reports damage"
            self._has_been_good |= not is_bad
            if self._broken:
                is_bad |= (
                    not frame.key_frame
                    if recording.ordered
                    else key.stamp >= self._damaged_from
                )
            if key not in self._lost:
                self._decoded.append(_Decoded(key, frame, is_bad))

    def _key_of(self, frame: VideoFrame) -> Key:
        assert self._recording is not None
        stamp = frame.pts if frame.pts is not None else frame.dts
        if not self._recording.ordered or stamp is None:
            stamp = self._count
        self._count += 1
        last, reading = self._last, self._reading
        twin = last.twin + 1 if (reading, stamp) == last[:2] else 0
        self._last = Key(reading, stamp, twin)
        return self._last


def _turn(frames: list[VideoFrame], packet: VideoPacket) -> None:
    """Note how a JPEG is to be turned: PyAV passes on no mirror images."""
    number = jpeg_orientation(memoryview(packet))
    if number != 1:
        for frame in frames:
            frame.opaque = of_exif(number)


def _is_no_key(recording: Coding, packet: VideoPacket, frame: VideoFrame) -> bool:
    """Whether what should be a key frame refers to others: its header is damaged."""
    is_plain = recording.codec in _NEVER_REORDERED
    return is_plain and packet.is_keyframe and frame.pict_type == PictureType.P


def _can_begin(waiting: _Waiting) -> bool:
    """Whether decoding from there gives frames that can be told apart."""
    packet, recording = waiting.packet, waiting.recording
    if packet is None or not packet.is_keyframe:
        return False
    # Counting must begin at a frame that none after it is shown before.
    return recording.ordered or recording.intra_only or waiting.key.stamp == 0
