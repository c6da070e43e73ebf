"""A ring of files that stays within its limits."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgepipe.stages.recordings.foxglove import IMAGE
from edgepipe.stages.recordings.foxglove_schemas import schema
from edgepipe.stages.recordings.mcap_folder import open_mcap
from edgepipe.stages.recordings.mcap_writer import ChannelFacts
from edgepipe.stages.recordings.recorded import Stored
from edgepipe.stages.recordings.segments import Entry, Limits, Segments

CHANNEL = ChannelFacts("/front", IMAGE, schema(IMAGE), {})


def ring(
    path: Path, most: int | None, name: str = "1", keep_free: int = 0, free: int = 0
) -> Segments:
    limits = Limits(most, keep_free)
    return Segments(path, name, [CHANNEL], {}, "test", limits, lambda _: free)


def entry(number: int, size: int = 1000, *, is_key: bool = True) -> Entry:
    return Entry(0, number, number, number.to_bytes(4, "big") * (size // 4), is_key)


def numbers(path: Path) -> list[int]:
    recorded = open_mcap(path)
    try:
        found = list(recorded.messages("/front"))
    finally:
        recorded.close()
    return [
        int.from_bytes(each.data[:4], "big")
        for each in found
        if isinstance(each, Stored)
    ]


def on_disk(path: Path) -> int:
    return sum(each.stat().st_size for each in path.rglob("*.mcap"))


@settings(deadline=None)  # it writes files
@given(
    sizes=st.lists(st.integers(4, 4000), min_size=1, max_size=200),
    keys=st.integers(1, 12),
)
def test_a_ring_keeps_the_newest_and_never_grows_beyond_its_bound(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], keys: int
) -> None:
    path, most = tmp_path_factory.mktemp("ring"), 100_000
    segments = ring(path, most)
    for number, size in enumerate(sizes):
        segments.add(entry(number, size, is_key=number % keys == 0))
        if number % 5 == 0:
            segments.sync()
            assert on_disk(path) <= most
    segments.close()
    assert on_disk(path) <= most
    found = numbers(segments.folder)
    assert found == list(range(found[0], len(sizes)))
    if sum(sizes) < most // 2:
        assert found[0] == 0


def test_files_of_earlier_recordings_make_room_first(tmp_path: Path) -> None:
    for name in ("1", "2"):
        segments = ring(tmp_path, 100_000, name)
        for number in range(60):
            segments.add(entry(number))
        segments.close()
    assert numbers(tmp_path / "2") == list(range(60))
    assert 0 < len(numbers(tmp_path / "1")) < 60
    assert on_disk(tmp_path) <= 100_000


def test_each_file_begins_with_a_key_frame(tmp_path: Path) -> None:
    segments = ring(tmp_path, 80_000)
    for number in range(60):
        segments.add(entry(number, is_key=number % 7 == 0))
    segments.close()
    files = sorted(segments.folder.glob("*.mcap"))
    assert len(files) > 2
    assert all(numbers(each)[0] % 7 == 0 for each in files)


def test_a_disk_without_enough_room_ends_the_recording(tmp_path: Path) -> None:
    segments = ring(tmp_path, None, keep_free=10**6, free=10**6 - 1)
    segments.add(entry(0))
    assert segments.full == "less than 1000000 bytes of disk are free"
    segments.close()


def test_a_single_file_ends_at_its_size(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    segments = Segments(path, "", [CHANNEL], {}, "test", Limits(50_000))
    for number in range(100):
        segments.add(entry(number))
        if segments.full:
            break
    segments.close()
    assert segments.is_bound
    assert 30_000 < path.stat().st_size <= 50_000
    assert numbers(path) == list(range(segments.messages))
