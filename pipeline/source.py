"""What the pipeline expects of a source of frames."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from edgepipe.pipeline.frame import Picture
from edgepipe.pipeline.source_events import EventKind, SourceEvent

__all__ = [
    "Arrival",
    "DamagedError",
    "EventKind",
    "Interruptible",
    "Reducing",
    "Shedding",
    "SkippedError",
    "Source",
    "SourceEvent",
    "SourceInfo",
    "SourceStatus",
    "Watchable",
]


@dataclass(frozen=True, slots=True)
class SourceInfo:
    """What is known of a source once it is open."""

    uri: str
    width: int
    height: int
    fps: float | None
    """Nominal frames per second; None when the source does not say."""
    codec: str
    """Name of the codec, ``raw`` for uncompressed."""
    live: bool
    """True for a camera: frames come when they come and cannot be waited for."""
    input_hash: str | None = None
    """sha256 of the file's bytes, None when the source is not one file."""
    decoder: str = "software"
    """Who decodes: ``software`` or ``nvdec``."""
    origin_ns: int = 0
    """What media time 0 is on the recording's own clock, in nanoseconds."""
    held_ns: int = 0
    """How old a frame of a camera is at least when it comes, because it is handed over
    when the next one begins; 0 when it is not, or the rate is unknown."""
    timeline: str | None = None
    """Sources with the same one are parts of one recording: their media times count
    from the same moment. None: it is alone."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A frame that the source has, not yet decoded."""

    index: int
    """Counts up from 0; a loop goes on counting."""
    pts_ns: int | None
    """Media time since the recording began, going on over loops; None without."""
    captured_ns: int | None = None
    """Of a camera: when the picture was taken, monotonic nanoseconds, from the kernel
    where it says so; None of a recording."""


class Source(Protocol):
    """One opened camera or recording.

    The work is in two steps, because only the first is cheap: :meth:`next_arrival`
    finds the next frame (a demuxer's packet, a file name, a counter), :meth:`decode`
    makes pixels of it. Both may be called from different threads, never both at once
    for one source beyond that: one caller for each.
    """

    @property
    def info(self) -> SourceInfo:
        """Size, rate and codec."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """What had to be assumed when it was opened, one line each."""
        ...

    def next_arrival(self) -> Arrival | SourceEvent | None:
        """The next frame in presentation order, or None at the end.

        What befell the source since the frame before comes first, one by one.

        Raises:
            InputError: The source cannot be read any further.
        """
        ...

    def decode(self, index: int) -> Picture:
        """Decode the frame of that arrival; indices only go up and may skip.

        Skipped frames are decoded and discarded where later ones refer to them.

        Raises:
            DamagedError: This frame has no usable picture; later ones may.
        """
        ...

    @property
    def end_state(self) -> tuple[str, str]:
        """After the end: (``ended`` or ``truncated``, detail for people)."""
        ...

    def close(self) -> None:
        """Release everything; calling it again does nothing."""
        ...


@runtime_checkable
class Interruptible(Protocol):
    """A source whose ``next_arrival`` may wait, as that of a camera does."""

    def interrupt(self) -> None:
        """Make a call that waits return None soon, and every later one at once.

        May be called by any thread, at any time and again.
        """
        ...


class SourceStatus(NamedTuple):
    """How a camera is doing."""

    state: str
    """``connecting``, ``live``, ``stalled``, ``backing off``, ``gone`` or ``ended``."""
    since_ns: int
    """When it came into this state."""
    pictured_ns: int | None
    """When its newest usable frame came; None: none ever did."""
    reconnects: int
    """How often it was lost and came back."""
    frozen: bool
    """Whether it sends the same picture again and again."""


@runtime_checkable
class Watchable(Protocol):
    """A source that can tell how it is doing, as a camera can."""

    @property
    def status(self) -> SourceStatus:
        """How it is doing at this moment; any thread may ask."""
        ...


@runtime_checkable
class Shedding(Protocol):
    """A source whose decoder leaves frames out when it cannot keep up."""

    def decode_in_time(
        self, index: int, until_ns: int, now_ns: Callable[[], int]
    ) -> Picture:
        """As :meth:`Source.decode`, but give up what would take too long.

        Args:
            index: Of the frame.
            until_ns: When the picture is needed.
            now_ns: The clock of ``until_ns``.

        Raises:
            DamagedError: This frame has no usable picture; later ones may.
            SkippedError: It was left out.
        """
        ...

    @property
    def decoding(self) -> str:
        """Which frames are decoded at present, in words."""
        ...


@runtime_checkable
class Reducing(Protocol):
    """A source that can give smaller planes for less work."""

    def reduce_to(self, least: Callable[[int, int], tuple[int, int]]) -> None:
        """From now on nobody needs planes larger than that.

        Args:
            least: From width and height of a picture to those that are needed of it.
        """
        ...


class SkippedError(Exception):
    """The decoder left the frame out, because its turn would have come too late."""


class DamagedError(Exception):
    """The frame cannot be decoded to a picture fit to look at."""
