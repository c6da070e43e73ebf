"""MP4 shows what its edit list says, in as many parts as it says."""

import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from edgepipe.stages.sources.file import FileSource

from .conftest import play

MakeClip = Callable[..., Path]
FRAMES, FRAME_MS = 40, 40
EMPTY = None
Part = tuple[int | None, int]
"""First frame (None: nothing is shown), and how many."""


def boxes(data: bytearray, begin: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """Type, place and size of each box."""
    while begin + 8 <= end:
        size = int.from_bytes(data[begin : begin + 4], "big")
        yield bytes(data[begin + 4 : begin + 8]), begin, size
        begin += size


def edit(path: Path, parts: Sequence[Part]) -> Path:
    """Replace the edit list of a file whose index is at its end."""
    data = bytearray(path.read_bytes())
    found: dict[bytes, tuple[int, int]] = {}

    def look(begin: int, end: int) -> None:
        for name, at, size in boxes(data, begin, end):
            found[name] = at, size
            if name in (b"moov", b"trak", b"mdia"):
                look(at + 8, at + size)

    look(0, len(data))
    at = found[b"mvhd"][0]
    movie_second = int.from_bytes(data[at + 20 : at + 24], "big")
    at = found[b"mdhd"][0]
    media_second = int.from_bytes(data[at + 20 : at + 24], "big")
    at, old = found[b"edts"]
    (first,) = struct.unpack(">i", data[at + 28 : at + 32])  # what B frames need
    entries = b""
    for begin, frames in parts:
        place = -1 if begin is None else first + begin * media_second // 25
        entries += struct.pack(">Iihh", frames * movie_second // 25, place, 1, 0)
    size = 16 + len(entries)
    head = struct.pack(">I4sI4sII", 8 + size, b"edts", size, b"elst", 0, len(parts))
    data[at : at + old] = head + entries
    for name in (b"moov", b"trak"):
        at, size = found[name]
        data[at : at + 4] = (size + len(head + entries) - old).to_bytes(4, "big")
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("b_frames", [0, 2])
@pytest.mark.parametrize(
    "parts",
    [
        [(0, FRAMES)],
        [(EMPTY, 10), (0, FRAMES)],
        [(7, 20)],
        [(FRAMES - 10, 90)],
        [(5, 10), (20, 10)],
        [(5, 10), (5, 10)],
        [(25, 10), (5, 10)],
        [(3, 4), (20, 5), (8, 6)],
    ],
)
def test_each_part_is_shown_whole_and_nothing_else(
    make_clip: MakeClip, parts: list[Part], b_frames: int
) -> None:
    path = make_clip(codec="libx264", frames=FRAMES, b_frames=b_frames)
    played = play(FileSource(edit(path, parts), "clip"))
    right: list[int | None] = []
    for begin, frames in parts:
        if begin is not None:
            right += range(begin, min(begin + frames, FRAMES))
    assert played.numbers == right
    # FFmpeg itself is off by up to one frame at a seam, where frames are reordered.
    most = 0 if not b_frames else (len(parts) - 1) * FRAME_MS
    for number, time_ms in enumerate(played.times_ms):
        assert time_ms == pytest.approx(FRAME_MS * number, abs=most + 0.1)
    assert played.source.end_state == ("ended", "")
