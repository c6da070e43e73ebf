"""Small clips, encoded on the spot with encoders that every FFmpeg has."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from av.video.frame import VideoFrame

from edgepipe.pipeline.frame import Picture

MakeClip = Callable[..., Path]
STEP = 5


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
        rotation: int = 0,
        marked: bool = False,
    ) -> Path:
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
            stream.options = {"qmin": "1", "qmax": "1"}
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


def number_of(picture: Picture) -> int:
    """Which frame of a clip this is, by its luma."""
    return round((float(np.mean(picture.planes[0])) - 20) / STEP)


@pytest.fixture
def frame_number() -> Callable[[Picture], int]:
    """Tells which frame of a clip a picture shows."""
    return number_of
