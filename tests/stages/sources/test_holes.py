"""Holes in files: what is shown of them is what the whole file shows."""

from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from edgepipe.pipeline.source import Arrival, DamagedError
from edgepipe.stages.sources.file import FileSource
from tests.stages.sources.test_damage import FRAMES, write

PACKET = 188
KINDS = {
    "mpeg2video": ("mpeg2video", {"b": "2M"}),
    "mpeg2video with B frames": ("mpeg2video", {"b": "2M", "bf": "2"}),
    "mpeg4": ("mpeg4", {"b": "2M"}),
    "h264": ("libx264", {"bf": "0"}),
    "hevc": ("libx265", {"x265-params": "log-level=none:bframes=0:open-gop=0"}),
}


def shown(path: Path) -> list[bytes | None]:
    """Each picture's luma, None where it is said to be damaged."""
    source = FileSource(path, str(path))
    found: list[bytes | None] = []
    while (arrival := source.next_arrival()) is not None:
        if not isinstance(arrival, Arrival):
            continue
        try:
            picture = source.decode(arrival.index)
            found.append(np.ascontiguousarray(picture.planes[0]).tobytes())
        except DamagedError:
            found.append(None)
    source.close()
    return found


def begins(data: bytes) -> list[int]:
    """Where in a transport stream the packets lie that begin a frame of video."""
    return [
        at
        for at in range(0, len(data), PACKET)
        if data[at + 1] & 0x5F == 0x41 and data[at + 2] == 0
    ]


def without(data: bytes, *places: int) -> bytes:
    """A transport stream that lacks the packets at these places."""
    return b"".join(
        data[at : at + PACKET] for at in range(0, len(data), PACKET) if at not in places
    )


@pytest.fixture(params=KINDS)
def clip(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    codec, options = KINDS[request.param]
    return write(tmp_path / "whole.ts", codec, options)


def test_nothing_is_wrong_with_a_whole_file(clip: Path) -> None:
    pictures = shown(clip)
    assert None not in pictures
    assert len(set(pictures)) == FRAMES


@pytest.mark.parametrize(
    "holes",
    [
        [(5, 1)],
        [(5, 0)],
        [(12, 1)],
        # The second hole comes where the decoder waits for a key frame.
        [(9, 1), (12, 3), (12, 4)],
        [(11, 1), (12, 2), (24, 1)],
    ],
    ids=["frame", "its head", "key frame", "frame and key frame", "key frames"],
)
def test_a_packet_that_is_lost_gives_no_wrong_picture(
    clip: Path, holes: list[tuple[int, int]]
) -> None:
    """``holes`` are the numbers of frames, and of packets within them."""
    data, clean = clip.read_bytes(), set(shown(clip))
    frames = begins(data)
    path = clip.with_name("holes.ts")
    path.write_bytes(without(data, *(frames[n] + k * PACKET for n, k in holes)))
    found = shown(path)
    assert None in found
    assert set(found) - {None} <= clean
    assert len(set(found)) > FRAMES // 4


@pytest.mark.parametrize("container", ["ts", "mkv", "mpg"])
@pytest.mark.parametrize("b_frames", ["0", "2"])
@pytest.mark.parametrize("lost", [17, 18, 19, 24])
def test_a_frame_of_mpeg_2_that_never_came_is_missed(
    tmp_path: Path, container: str, b_frames: str, lost: int
) -> None:
    options = {"b": "2M", "bf": b_frames}
    whole = write(tmp_path / f"whole.{container}", "mpeg2video", options)
    path = whole.with_name(f"holes.{container}")
    without_frame(whole, path, lost)
    clean, found = shown(whole), shown(path)
    assert None not in clean
    assert set(found) - {None} <= set(clean)
    assert len(set(found)) > FRAMES // 2


def without_frame(whole: Path, path: Path, lost: int) -> None:
    """Copy a file but for one frame, counted in decoding order."""
    source: Any
    output: Any
    with av.open(str(whole)) as source, av.open(str(path), "w") as output:
        stream = source.streams.video[0]
        copy = output.add_stream_from_template(stream)
        packets = [packet for packet in source.demux(stream) if packet.size]
        for packet in packets[:lost] + packets[lost + 1 :]:
            packet.stream = copy
            output.mux(packet)
