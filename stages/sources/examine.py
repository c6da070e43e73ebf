"""Looks at a source as the pipeline will see it, and at its container."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from edgepipe.errors import InputError
from edgepipe.pipeline.source import DamagedError, Source, SourceEvent, SourceInfo
from edgepipe.stages.recordings.image_messages import RAW, STILL
from edgepipe.stages.recordings.key_frames import is_key_frame
from edgepipe.stages.recordings.recorded import Damage, Recorded, Topic
from edgepipe.stages.sources.recording import Recording
from edgepipe.stages.sources.timeline import GAP_FRAMES
from edgepipe.stages.sources.vitals import (
    Rhythm,
    Spread,
    Structure,
    rhythm,
    spread_ms,
    structure,
)
from edgepipe.telemetry.clock import Clock

MOST_PACKETS = 100_000
"""Looked at for the structure: an hour at 25 fps."""
MOST_FRAMES = 10_000_000


@dataclass(slots=True)
class Container:
    """What the file around the video says."""

    format: str
    profile: str | None
    pixel_format: str | None
    colour_range: str
    """``full``, ``limited`` or ``not said``."""
    matrix: str
    """Name of ITU-T H.273's, or ``not said``."""
    header_fps: float | None
    header_duration_s: float | None
    announced: int
    """Frames that the header promises; 0: it does not say."""
    videos: int


@dataclass(slots=True)
class Examination:
    """What was found."""

    info: SourceInfo
    rhythm: Rhythm
    events: dict[str, int]
    """What befell the source, by kind."""
    longest_gap_s: float
    looked_at: int
    """Frames that were decoded."""
    damaged: int
    """Of these, without a picture fit to look at."""
    sizes: list[tuple[int, int]]
    rotation: int
    """Degrees by which pictures are turned."""
    decode_ms: Spread | None
    end: tuple[str, str]
    """How it ended, or ``stopped``: it was not read to its end."""
    warnings: tuple[str, ...]
    container: Container | None = None
    structure: Structure | None = None
    """How packets refer to each other; None where there are none."""
    topics: list[dict[str, object]] = field(default_factory=list[dict[str, object]])


class _Limit:
    """When to stop: after so much of a recording, or so much time of a camera."""

    def __init__(self, source: Source, clock: Clock, seconds: float | None) -> None:
        self._live, self._clock = source.info.live, clock
        self._ns = None if seconds is None else round(seconds * 1e9)
        self._began_ns = clock.now_ns()

    def is_over(self, pts_ns: int | None) -> bool:
        if self._ns is None:
            return False
        if self._live or pts_ns is None:
            return self._clock.now_ns() - self._began_ns >= self._ns
        return pts_ns >= self._ns


def examine(
    source: Source,
    clock: Clock,
    *,
    seconds: float | None = None,
    decode_for_s: float = 10.0,
    should_stop: Callable[[], bool] = lambda: False,
) -> Examination:
    """Read a source to its end, or for a time; decode frames for a time.

    Args:
        source: Opened, and nothing read from it.
        clock: Measures decoding.
        seconds: Of a recording's media time, or of a camera's life.
        decode_for_s: How long frames are decoded for; the rest is only counted.
        should_stop: Asked with each frame.
    """
    limit = _Limit(source, clock, seconds)
    times_ns: list[int] = []
    decoding_ns: list[int] = []
    events: Counter[str] = Counter()
    gaps_ns = [0]
    looked_at = damaged = spent_ns = rotation = 0
    sizes: dict[tuple[int, int], None] = {}
    end = ("stopped", "")
    while len(times_ns) < MOST_FRAMES and not should_stop():
        arrival = source.next_arrival()
        if arrival is None:
            end = source.end_state
            break
        if isinstance(arrival, SourceEvent):
            events[arrival.kind.value] += 1
            if arrival.kind.value == "gap":
                gaps_ns.append(arrival.amount_ns)
            if limit.is_over(arrival.pts_ns) and source.info.live:
                break
            continue
        stamp_ns = arrival.captured_ns
        if stamp_ns is None:
            stamp_ns = arrival.pts_ns
        if limit.is_over(stamp_ns):
            break
        if stamp_ns is not None:
            times_ns.append(stamp_ns)
        if spent_ns < decode_for_s * 1e9:
            began_ns = clock.now_ns()
            looked_at += 1
            try:
                picture = source.decode(arrival.index)
            except DamagedError:
                damaged += 1
                continue
            finally:
                took_ns = clock.now_ns() - began_ns
                spent_ns += took_ns
            decoding_ns.append(took_ns)
            sizes[picture.width, picture.height] = None
            rotation = picture.rotation or rotation
    return Examination(
        source.info,
        rhythm(times_ns, GAP_FRAMES),
        dict(events),
        max(gaps_ns) / 1e9,
        looked_at,
        damaged,
        list(sizes),
        rotation,
        spread_ms(decoding_ns),
        end,
        source.warnings,
    )


def look_inside(path: Path, found: Examination) -> None:
    """Add what can be said of a video file; nothing if it is none."""
    try:
        recording = Recording(path, 1)
    except InputError:
        return
    try:
        context = recording.stream.codec_context
        packets = [
            (packet.pts if recording.ordered else None, packet.is_keyframe)
            for packet in islice(recording.packets(), MOST_PACKETS)
        ]
        duration = recording.stream.duration
        seconds = None if duration is None else float(duration * recording.time_base)
        found.structure = structure(packets)
        found.container = Container(
            recording.format,
            context.profile,
            context.pix_fmt,
            {1: "limited", 2: "full"}.get(int(context.color_range), "not said"),
            _MATRICES.get(int(context.colorspace), "not said"),
            recording.fps,
            seconds,
            recording.announced,
            recording.videos,
        )
    finally:
        recording.close()


def look_at_messages(recorded: Recorded, topic: Topic, found: Examination) -> None:
    """Add how the packets of a topic with a video lie."""
    parser = topic.parser
    packets: list[tuple[int | None, bool]] = []
    if parser is None:
        return
    for stored in islice(recorded.messages(topic.name), MOST_PACKETS):
        if isinstance(stored, Damage):
            continue
        try:
            image = parser(stored.data)
        except (ValueError, KeyError):
            continue
        if image.format in (STILL, RAW):
            return
        packets.append((image.stamp_ns if image.shown else None, is_key_frame(image)))
    found.structure = structure(packets)


_MATRICES = {
    0: "RGB",
    1: "BT.709",
    5: "BT.601",
    6: "BT.601",
    7: "SMPTE 240M",
    9: "BT.2020",
    10: "BT.2020",
}
"""By number in ITU-T H.273."""
