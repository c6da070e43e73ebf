"""A picture's memory comes back when nobody wants it, and not at the next collection.

A run collects garbage when it is idle. Frames that hold each other in a circle would
fill the memory until then: a second of 1080p is 90 MB.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from edgepipe.pipeline.source import Arrival, DamagedError
from edgepipe.stages.sources.open import open_source

MakeClip = Callable[..., Path]


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def left_over(uri: str, frames: int) -> int:
    """Objects that only a collection takes away after so many frames were decoded."""
    gc.collect()
    source = open_source(uri, loop=True, fps=25)
    seen = 0
    while seen < frames:
        arrival = source.next_arrival()
        assert arrival is not None
        if isinstance(arrival, Arrival):
            seen += 1
            with suppress(DamagedError):
                source.decode(arrival.index)
    source.close()
    return gc.collect()


CLIPS = [
    ("clip.mp4", {"codec": "libx264", "b_frames": 2}),
    ("clip.mp4", {"codec": "libx264", "rotation": 90}),
    ("clip.mp4", {"codec": "libx265", "pix_fmt": "yuv420p10le"}),
    ("clip.ts", {"codec": "libx264"}),
    ("clip.webm", {"codec": "libvpx-vp9"}),
    ("clip.avi", {"codec": "mjpeg", "pix_fmt": "yuvj422p"}),
    ("clip.mkv", {"codec": "ffv1", "pix_fmt": "gray"}),
]


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize(("name", "options"), CLIPS)
def test_a_video_leaves_nothing_to_collect(
    name: str, options: dict[str, object], make_clip: MakeClip
) -> None:
    clip = str(make_clip(name, frames=44, **options))
    left_over(clip, 2)  # with whatever is made once
    # Closing a file leaves a few; each frame must leave none.
    assert left_over(clip, 40) < left_over(clip, 2) + 20


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("uri", ["synthetic:?frames=30", "FOLDER"])
def test_drawn_and_still_pictures_leave_nothing_to_collect(
    uri: str, tmp_path: Path
) -> None:
    import cv2
    import numpy as np

    for number in range(5):
        cv2.imwrite(str(tmp_path / f"{number}.png"), np.zeros((32, 48, 3), np.uint8))
    uri = uri.replace("FOLDER", str(tmp_path))
    left_over(uri, 2)
    assert left_over(uri, 40) < left_over(uri, 2) + 20
