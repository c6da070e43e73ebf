"""A folder of images, or one image, as a source."""

from collections import deque
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from statistics import median_low

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
from edgepipe.stages.sources.layouts import Layout, find_layout
from edgepipe.stages.sources.stamps import Stamped, Stamps
from edgepipe.stages.sources.stills import read_still
from edgepipe.stages.sources.timeline import Timeline

ASSUMED_FPS = 25.0
"""Rate at which images are shown when nobody says."""
_SECOND = 1_000_000_000


class FolderSource:
    """Shows images at the times that the data set says, or else by their names.

    Names are in natural order, so that 2 comes before 10. Sizes may differ from image
    to image; the size in ``info`` is that of the first that can be read. What is
    missing leaves a gap.
    """

    def __init__(
        self, path: Path, uri: str, *, loop: bool = False, fps: float | None = None
    ) -> None:
        self._layout = find_layout(path, uri)
        self._loop = loop
        self._said = list(self._layout.said)
        self._rate = self._choose_rate(fps)
        self._shown = [k for k, p in enumerate(self._layout.images) if p is not None]
        first = self._first_readable(uri)
        self._info = SourceInfo(
            uri,
            width=first.width,
            height=first.height,
            fps=self._rate,
            codec="image",
            live=False,
        )
        tick_ns = Fraction(1)
        if self._layout.stamps_ns is None:
            tick_ns = Fraction(_SECOND) / Fraction(self._rate)
        self._timeline = Timeline(tick_ns, round(_SECOND / self._rate))
        self._index = 0
        self._ready: deque[Arrival | SourceEvent] = deque()
        self._begin_lap()

    @property
    def info(self) -> SourceInfo:
        """Size of the first image, and the rate."""
        return self._info

    @property
    def warnings(self) -> tuple[str, ...]:
        """What says the times, and what was assumed or repaired so far."""
        repaired = self._timeline.repaired
        if not repaired:
            return tuple(self._said)
        words = f"{repaired} time stamps did not rise and were moved up"
        return (*self._said, words)

    @property
    def end_state(self) -> tuple[str, str]:
        """``truncated`` if images are missing at the end."""
        missing = len(self._layout.images) - 1 - self._shown[-1]
        if missing and not self._loop:
            return "truncated", f"the last {missing} images are missing"
        return "ended", ""

    def next_arrival(self) -> Arrival | SourceEvent | None:
        """The next image; it is not read yet."""
        while not self._ready:
            if self._place < len(self._shown):
                self._find(self._shown[self._place])
            elif self._loop:
                self._timeline.begin_lap()
                self._begin_lap()
            else:
                return None
        return self._ready.popleft()

    def decode(self, index: int) -> Picture:
        """Read and decode one image; others are not touched."""
        path = self._layout.images[self._shown[index % len(self._shown)]]
        picture = read_still(path) if path is not None else None
        if picture is None:
            raise DamagedError(f"{path}: cannot be read as an image")
        return picture

    @property
    def packet_format(self) -> PacketFormat:
        """Each image is a file of its own."""
        return PacketFormat("image", {})

    def packets(self, index: int) -> Taken:
        """The bytes of one image."""
        path = self._layout.images[self._shown[index % len(self._shown)]]
        try:
            data = path.read_bytes() if path is not None else b""
        except OSError as error:
            raise DamagedError(f"{path}: {error.strerror}") from error
        if not data:
            raise DamagedError(f"{path}: cannot be read as an image")
        return Taken(index, [Packet(index, data, is_key=True, is_shown=True)])

    def close(self) -> None:
        """Nothing is kept open."""

    def _begin_lap(self) -> None:
        self._place = 0
        self._stamps = Stamps(None, _SECOND, round(_SECOND / self._rate))

    def _find(self, number: int) -> None:
        """Announce an image by its place among all that should be there."""
        missing = number - (self._shown[self._place - 1] + 1 if self._place else 0)
        self._place += 1
        stamps = self._layout.stamps_ns
        stamped = Stamped(number, number)
        if stamps is not None:
            for lost in range(number - missing, number):  # their stamps count, too
                self._stamps.take(stamps[lost], stamps[lost], is_key=False)
            stamped = self._stamps.take(stamps[number], stamps[number], is_key=False)
        pts_ns, events = self._timeline.place(stamped)
        if missing and self._place > 1:
            # The same as a jump of the stamps, told with its reason.
            events = [each for each in events if each.kind is not EventKind.GAP]
            words = "an image is missing"
            if missing > 1:
                words = f"{missing} images are missing"
            amount_ns = missing * self._timeline.usual_ns
            events.append(SourceEvent(EventKind.GAP, words, pts_ns, amount_ns))
        self._ready.extend(events)
        self._ready.append(Arrival(self._index, pts_ns))
        self._index += 1

    def _choose_rate(self, fps: float | None) -> float:
        layout = self._layout
        if layout.stamps_ns is not None:
            if fps is not None:
                self._said.append(f"fps {fps:g} is not used: there are time stamps")
            return _usual_rate(layout)
        if fps is not None:
            if layout.fps not in (None, fps):
                self._said.append(f"fps {fps:g} takes the place of {layout.fps:g}")
            return fps
        if layout.fps is None:
            self._said.append(f"images have no rate: assumed {ASSUMED_FPS:g} fps")
        return layout.fps or ASSUMED_FPS

    def _first_readable(self, uri: str) -> Picture:
        for number in self._shown:
            path = self._layout.images[number]
            picture = read_still(path) if path is not None else None
            if picture is not None:
                return picture
        raise InputError(f"{uri}: none of {len(self._shown)} images can be read")


def _usual_rate(layout: Layout) -> float:
    stamps = layout.stamps_ns or ()
    steps = [b - a for a, b in pairwise(stamps) if b > a]
    return _SECOND / median_low(steps) if steps else ASSUMED_FPS
