"""Small clips, encoded on the spot with encoders that every FFmpeg has."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np
import pytest
from av.video.frame import VideoFrame

from edgepipe.pipeline.frame import Picture
from edgepipe.pipeline.source import Arrival, DamagedError, Source, SourceEvent

MakeClip = Callable[..., Path]
STEP = 5
ENCODERS = {
    "libx264": {"crf": "5", "sc_threshold": "0"},
    "libx265": {"crf": "5", "x265-params": "log-level=none"},
    "libvpx": {"crf": "4", "b": "1M"},
    "libvpx-vp9": {"crf": "4", "b": "0"},
}
"""Options with which flat frames keep their luma."""


def flat_frame(level: int, width: int, height: int, pix_fmt: str) -> VideoFrame:
    """A frame whose luma says which one it is."""
    frame = VideoFrame(width, height, pix_fmt)
    for number, plane in enumerate(frame.planes):
        value = level if number == 0 else 128
        plane.update(bytes([value]) * plane.buffer_size)
    return frame


def mark_top_left(frame: VideoFrame) -> None:
    """Make the first 16 x 16 pixels bright."""
    plane = frame.planes[0]
    luma = np.frombuffer(bytes(plane), np.uint8).reshape(-1, plane.line_size).copy()
    luma[:16, :16] = 220
    plane.update(luma.tobytes())


@pytest.fixture
def make_clip(tmp_path: Path) -> MakeClip:
    """Write frames of luma 20, 25, 30 ... and return the file."""

    def make(
        name: str = "clip.mp4",
        *,
        frames: int = 12,
        codec: str = "mpeg4",
        pix_fmt: str = "yuv420p",
        size: tuple[int, int] = (64, 48),
        b_frames: int = 0,
        stamps: Sequence[int] | None = None,
        options: dict[str, str] | None = None,
        encoder: dict[str, str] | None = None,
        rotation: int = 0,
        marked: bool = False,
    ) -> Path:
        if codec not in av.codecs_available:
            pytest.skip(f"this FFmpeg cannot encode {codec}")
        path = tmp_path / name
        output: Any
        with av.open(str(path), "w", options=options or {}) as output:
            stream = output.add_stream(codec, rate=25)
            stream.width, stream.height = size
            stream.pix_fmt = pix_fmt
            if rotation:
                stream.set_display_rotation(rotation)
            stream.codec_context.max_b_frames = b_frames
            stream.codec_context.gop_size = 6
            stream.options = encoder or ENCODERS.get(codec, {"qmin": "1", "qmax": "1"})
            stream.codec_context.time_base = Fraction(1, 25)
            for k in range(frames):
                frame = flat_frame(20 + STEP * k, *size, pix_fmt)
                if marked:
                    mark_top_left(frame)
                frame.pts = stamps[k] if stamps is not None else k
                frame.time_base = Fraction(1, 25)
                output.mux(stream.encode(frame))
            output.mux(stream.encode(None))
        return path

    return make


class Played(NamedTuple):
    """A source from its beginning to its end, or to as many frames as asked."""

    numbers: list[int | None]
    """What each picture shows; None for a damaged one."""
    times_ms: list[float]
    events: list[SourceEvent]
    source: Source

    @property
    def kinds(self) -> list[tuple[str, float]]:
        """Each event's kind, and the media time in milliseconds that it comes with."""
        return [(e.kind.value, (e.pts_ns or 0) / 1e6) for e in self.events]


def play(source: Source, most: int = 10_000) -> Played:
    """Decode everything."""
    played = Played([], [], [], source)
    while len(played.times_ms) < most:
        arrival = source.next_arrival()
        if arrival is None:
            break
        if not isinstance(arrival, Arrival):
            played.events.append(arrival)
            continue
        assert arrival.index == len(played.times_ms)
        assert arrival.pts_ns is not None
        played.times_ms.append(arrival.pts_ns / 1e6)
        try:
            played.numbers.append(number_of(source.decode(arrival.index)))
        except DamagedError:
            played.numbers.append(None)
    return played


def number_of(picture: Picture) -> int:
    """Which frame of a clip this is, by its luma."""
    return round((float(np.mean(picture.planes[0])) - 20) / STEP)


@pytest.fixture
def frame_number() -> Callable[[Picture], int]:
    """Tells which frame of a clip a picture shows."""
    return number_of
