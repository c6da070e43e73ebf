"""One topic of a recording in a robot's format as a source."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import islice
from threading import Lock

from av.error import FFmpegError

from edgepipe.errors import InputError
from edgepipe.pipeline.frame import Picture
from edgepipe.pipeline.source import (
    Arrival,
    DamagedError,
    EventKind,
    SourceEvent,
    SourceInfo,
)
from edgepipe.stages.recordings.image_messages import RAW, STILL, ImageMessage
from edgepipe.stages.recordings.key_frames import is_key_frame
from edgepipe.stages.recordings.packet_codec import PacketCodec
from edgepipe.stages.recordings.packet_metadata import CODEC, COUNTED
from edgepipe.stages.recordings.raw_images import picture_of
from edgepipe.stages.recordings.recorded import Damage, Recorded, Topic
from edgepipe.stages.sources.decoder import Decoder, Key
from edgepipe.stages.sources.jpeg import LeastSize, ReducedJpegs, is_available
from edgepipe.stages.sources.order import PresentationOrder
from edgepipe.stages.sources.pictures import PictureMaker
from edgepipe.stages.sources.stamps import Stamped, Stamps
from edgepipe.stages.sources.timeline import Timeline
from edgepipe.stages.sources.topic_times import SECOND, TopicOptions, TopicTimes

PROBE_MESSAGES = 250
"""Messages that are looked at before the first frame is asked for."""
MOST_STILLS_BYTES = 64 << 20
"""Of images that wait to be decoded; beyond it the oldest are given up."""
_FAR = 1 << 60
_JPEG = b"\xff\xd8"
_NEVER_SHOWN = "the message is not what it should be"


class MessageSource:
    """Reads ahead message by message; decodes what is asked for.

    It owns the recording and closes it.

    Raises:
        InputError: There is no picture in the topic.
    """

    def __init__(
        self,
        recorded: Recorded,
        topic: Topic,
        uri: str,
        options: TopicOptions,
        input_hash: str | None = None,
        timeline: str | None = None,
    ) -> None:
        self._recorded, self._topic, self._options = recorded, topic, options
        parser = topic.parser
        assert parser is not None
        self._parse = parser
        self._still_codec = topic.metadata.get(CODEC, "")
        self._pictures = PictureMaker()
        self._codec: PacketCodec | None = None
        self._jpegs: ReducedJpegs | None = None
        self._has_reduced = False
        probe = self._probe()
        first = self._first_picture(uri, probe)
        self._times = times = TopicTimes(topic, options, probe)
        self._info = SourceInfo(
            uri=uri,
            width=first.width,
            height=first.height,
            fps=times.fps,
            codec=self._codec_name(probe),
            live=False,
            input_hash=input_hash,
            origin_ns=times.origin_ns,
            timeline=timeline,
        )
        self._codec = None
        self._decoder = Decoder(self._read_for_decoder)
        self._reading = Lock()
        self._stills: deque[tuple[int, ImageMessage]] = deque()
        self._stills_bytes = 0
        self._lost: deque[tuple[int, str]] = deque(maxlen=1024)
        self._ready: deque[Arrival | SourceEvent] = deque()
        self._index = 0
        self._lap = 0
        self._ended = False
        self._timeline = Timeline(Fraction(1), times.frame_ns, options.zero_ns)
        self._begin_reading()

    @property
    def info(self) -> SourceInfo:
        """Size of the first picture, rate and codec."""
        return self._info

    @property
    def warnings(self) -> tuple[str, ...]:
        """Which stamps are used and why, and what was repaired so far."""
        repaired = self._timeline.repaired
        words = (f"{repaired} time stamps did not rise and were moved up",)
        return (*self._times.notes, *(words if repaired else ()))

    @property
    def end_state(self) -> tuple[str, str]:
        """``truncated`` if the recording was cut off."""
        return self._recorded.end_state

    def next_arrival(self) -> Arrival | SourceEvent | None:
        """The next frame in presentation order; does not decode it."""
        self._decoder.make_room()
        with self._reading:
            while not self._ready and self._read():
                pass
            return self._ready.popleft() if self._ready else None

    def decode(self, index: int) -> Picture:
        """Decode the frame of that arrival."""
        return self.decode_in_time(index, None)

    def decode_in_time(
        self,
        index: int,
        until_ns: int | None,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> Picture:
        """The same, if it can be done by ``until_ns``."""
        with self._reading:
            why, still = self._lost_reason(index), self._still(index)
        if why:
            raise DamagedError(why)
        if still is not None:
            return self._still_picture(still)
        return self._pictures.picture(self._decoder.frame(index, until_ns, now_ns))

    def reduce_to(self, least: LeastSize) -> None:
        """Decode JPEGs no larger than needed, where the extra ``jpeg`` is installed."""
        if is_available():
            self._jpegs = ReducedJpegs(least)

    def _still_picture(self, still: ImageMessage) -> Picture:
        jpegs = self._jpegs
        if jpegs is None or bytes(still.data[:2]) != _JPEG:
            return picture_of(still)
        try:
            picture = jpegs.picture(still.data)
        except DamagedError:
            if self._has_reduced:
                raise
            self._jpegs = None  # the first one: OpenCV may know what this is
            return picture_of(still)
        self._has_reduced = True
        return picture

    @property
    def decoding(self) -> str:
        """Which frames are decoded at present."""
        return self._decoder.level.words

    def close(self) -> None:
        """Close the recording."""
        with self._reading:
            self._ended = True
            self._recorded.close()

    # --- opening ----------------------------------------------------------------------

    def _images(self) -> Iterator[tuple[int, ImageMessage] | str]:
        """Log time and image of each message, or why there is none."""
        for message in self._recorded.messages(self._topic.name):
            if isinstance(message, Damage):
                yield message.detail
                continue
            try:
                image = self._parse(message.data)
            except (ValueError, KeyError) as error:
                yield f"{_NEVER_SHOWN}: {error}"
                continue
            if image.format == STILL and self._still_codec:
                image = image._replace(format=self._still_codec, is_key=True)
            yield message.log_ns, image

    def _probe(self) -> list[tuple[int, ImageMessage]]:
        """The first messages that can be read, as far as they fit the memory."""
        found: list[tuple[int, ImageMessage]] = []
        size = 0
        for each in islice(self._images(), PROBE_MESSAGES):
            if isinstance(each, str):
                continue
            found.append(each)
            size += len(each[1].data)
            if size > MOST_STILLS_BYTES and len(found) > 1:
                break
        return found

    def _codec_name(self, probe: list[tuple[int, ImageMessage]]) -> str:
        format_ = probe[0][1].format
        return {STILL: "image", RAW: "raw"}.get(format_, format_)

    def _first_picture(
        self, uri: str, probe: list[tuple[int, ImageMessage]]
    ) -> Picture:
        """Decode one frame: only then it is sure that the topic can be used."""
        why = "it has no messages that can be read"
        begun = False
        for log_ns, image in probe:
            try:
                if image.format in (STILL, RAW):
                    return picture_of(image)
                begun = begun or is_key_frame(image)
                if not begun:
                    why = "no key frame in it"
                    continue
                codec = self._codec_for(image)
                packet = codec.packet(image.data, log_ns, log_ns, key=True)
                for frame in codec.decode(packet):
                    return self._pictures.picture(frame)
            except DamagedError as error:
                why = str(error)
            except FFmpegError as error:
                why = error.strerror or str(error)
        if begun and self._codec is not None:
            for frame in self._codec.decode(None):
                return self._pictures.picture(frame)
        raise InputError(f"{uri}: no picture in {self._topic.name}: {why}")

    def _codec_for(self, image: ImageMessage) -> PacketCodec:
        """The codec for a packet; another one when the format changes."""
        if self._codec is None or self._codec.codec != image.format:
            threads = self._options.decode_threads
            self._codec = PacketCodec(image.format, threads, self._topic.metadata)
        return self._codec

    # --- reading, with the lock held --------------------------------------------------

    def _read_for_decoder(self) -> bool:
        with self._reading:
            return self._read()

    def _begin_reading(self) -> None:
        self._reader = self._images()
        self._order = PresentationOrder[tuple[Stamped, ImageMessage | str | None]]()
        self._stamps = Stamps(None, SECOND, self._times.frame_ns)
        self._codec = None
        self._needs_key = "no key frame came before it"
        self._last_key = Key(self._lap, -1)
        self._count = self._hidden = 0

    def _read(self) -> bool:
        """Take one message; False at the very end."""
        if self._ended:
            return False
        found = next(self._reader, None)
        if found is None:
            self._settle(self._order.rest())
            if self._codec is not None:
                self._decoder.offer(self._codec, Key(self._lap, self._count), None)
            self._ended = not self._options.loop or not self._index
            if not self._ended:
                self._lap += 1
                self._timeline.begin_lap()
                self._begin_reading()
            return not self._ended
        if isinstance(found, str):
            self._ready.append(SourceEvent(EventKind.DAMAGE, found))
            self._needs_key = f"what it refers to is lost: {found}"
        else:
            self._take(*found)
        return True

    def _take(self, log_ns: int, image: ImageMessage) -> None:
        if not image.shown:
            self._offer_hidden(image)
            return
        standing = image.format in (STILL, RAW)
        is_key = standing or is_key_frame(image)
        pts, dts = self._times.of(log_ns, image)
        stamped = self._stamps.take(pts, dts, is_key=is_key)
        # The decoder's frames are known by their stamps, or else by their number.
        key, settled_to = stamped.pts, stamped.dts
        if COUNTED in self._topic.metadata:
            key = settled_to = self._count
        self._count += 1
        waiting: ImageMessage | str | None = image
        if not standing:
            waiting = self._offer(image, stamped, Key(self._lap, key), is_key=is_key)
        self._order.push(key, settled_to, (stamped, waiting))
        self._settle(self._order.settled())

    def _offer_hidden(self, image: ImageMessage) -> None:
        """A packet whose own picture is cut away: it sorts before all that are not."""
        self._hidden += 1
        stamp = self._hidden - _FAR
        stamped = Stamped(stamp, stamp)
        self._offer(image, stamped, Key(self._lap, stamp), is_key=is_key_frame(image))

    def _offer(
        self, image: ImageMessage, stamped: Stamped, key: Key, *, is_key: bool
    ) -> str | None:
        """Hand a packet to the decoder; return why it cannot be decoded."""
        if self._needs_key and not is_key:
            return self._needs_key
        self._needs_key = ""
        dts = stamped.pts if stamped.dts is None else stamped.dts
        try:
            codec = self._codec_for(image)
        except DamagedError as error:
            return str(error)
        packet = codec.packet(image.data, stamped.pts, dts, key=is_key)
        self._decoder.offer(codec, key, packet)
        return None

    def _settle(
        self, settled: Iterator[tuple[int, tuple[Stamped, ImageMessage | str | None]]]
    ) -> None:
        """Announce frames in presentation order."""
        for stamp, (stamped, waiting) in settled:
            pts_ns, events = self._timeline.place(stamped)
            if waiting is None:
                twin = self._last_key.twin + 1 if stamp == self._last_key.stamp else 0
                self._last_key = Key(self._lap, stamp, twin)
                self._decoder.announce(self._index, self._last_key)
            elif isinstance(waiting, str):
                self._lost.append((self._index, waiting))
            else:
                self._keep(waiting)
            self._ready.extend(events)
            self._ready.append(Arrival(self._index, pts_ns))
            self._index += 1

    def _keep(self, image: ImageMessage) -> None:
        self._stills.append((self._index, image))
        self._stills_bytes += len(image.data)
        while self._stills_bytes > MOST_STILLS_BYTES and len(self._stills) > 1:
            self._stills_bytes -= len(self._stills.popleft()[1].data)

    def _still(self, index: int) -> ImageMessage | None:
        while self._stills and self._stills[0][0] <= index:
            kept, image = self._stills.popleft()
            self._stills_bytes -= len(image.data)
            if kept == index:
                return image
        return None

    def _lost_reason(self, index: int) -> str:
        while self._lost and self._lost[0][0] <= index:
            lost, why = self._lost.popleft()
            if lost == index:
                return why
        return ""
