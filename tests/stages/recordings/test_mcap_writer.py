"""Files that survive a power cut, and a full disk."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcap.reader import make_reader

from edgepipe.errors import InputError
from edgepipe.stages.recordings.foxglove import IMAGE, image
from edgepipe.stages.recordings.foxglove_schemas import schema
from edgepipe.stages.recordings.mcap_file import McapFile
from edgepipe.stages.recordings.mcap_writer import ChannelFacts, McapWriter
from edgepipe.stages.recordings.recorded import Stored

CHANNELS = [
    ChannelFacts(f"/{name}", IMAGE, schema(IMAGE), {"edgepipe.stream": name})
    for name in ("left", "right")
]


def writer(path: Path, **options: object) -> McapWriter:
    facts = {"edgepipe.clocks": {"wall_ns": "5"}}
    return McapWriter(path, CHANNELS, facts, "edgepipe test", **options)  # type: ignore[arg-type]


def message(number: int) -> bytes:
    return image(number, "left", bytes([number % 251]) * (number % 7 + 1), "jpeg")


def stored(path: Path, topic: str = "/left") -> list[bytes]:
    file = McapFile(path)
    try:
        found = list(file.messages(topic))
    finally:
        file.close()
    return [bytes(each.data) for each in found if isinstance(each, Stored)]


def test_a_file_cut_at_every_byte_holds_everything_that_was_synced(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.mcap"
    file = writer(path)
    durable = [(file.synced, 0)]
    sent: list[bytes] = []
    for number in range(12):
        sent.append(message(number))
        file.add(0, number, number, sent[-1])
        file.add(1, number, number, message(number + 100))
        if number % 4 == 3:
            file.sync()
            durable.append((file.synced, len(sent)))
    file.close()
    whole = path.read_bytes()
    cut = tmp_path / "cut.mcap"
    for end in range(durable[0][0], len(whole) + 1):
        cut.write_bytes(whole[:end])
        found = stored(cut)
        survives = max(count for size, count in durable if size <= end)
        assert found == sent[: len(found)]
        assert len(found) >= survives


def test_garbage_behind_what_was_synced_costs_nothing_of_it(tmp_path: Path) -> None:
    """A power cut can leave blocks of zeros, or of an older file."""
    path = tmp_path / "a.mcap"
    file = writer(path)
    for number in range(5):
        file.add(0, number, number, message(number))
    file.sync()
    file.abandon()
    whole = path.read_bytes()
    for tail in (bytes(4096), b"\xff" * 4096, whole[-300:], whole):
        path.write_bytes(whole + tail)
        assert stored(path)[:5] == [message(number) for number in range(5)]


@settings(deadline=None)  # it writes files
@given(
    steps=st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 10**6), st.binary(max_size=40)),
        min_size=1,
        max_size=30,
    ),
    syncs=st.sets(st.integers(0, 29)),
)
def test_other_readers_find_every_message_and_the_counts_agree(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[int, int, bytes]],
    syncs: set[int],
) -> None:
    path = tmp_path_factory.mktemp("w") / "a.mcap"
    file = writer(path)
    for number, (channel, log_ns, data) in enumerate(steps):
        file.add(channel, number, log_ns, data)
        if number in syncs:
            file.sync()
    file.close()
    with path.open("rb") as opened:
        reader = make_reader(opened, validate_crcs=True)
        summary = reader.get_summary()
        assert summary is not None
        assert summary.statistics is not None
        assert summary.statistics.message_count == len(steps)
        found = [
            (channel.id - 1, each.log_time, each.data)
            for _, channel, each in reader.iter_messages()
        ]
        times = [log_ns for _, log_ns, _ in steps]
        assert summary.statistics.message_start_time == min(times)
        assert summary.statistics.message_end_time == max(times)
        assert next(reader.iter_metadata()).metadata == {"wall_ns": "5"}
    assert sorted(found) == sorted(steps)
    assert [each[1] for each in found] == sorted(times)


def test_a_full_disk_leaves_a_file_that_ends_where_it_was_synced(
    tmp_path: Path,
) -> None:
    room = 2000

    def write(file: int, data: memoryview) -> int:
        """Like a disk with some room left: what fits is written, then no more."""
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done = os.write(file, data[:room])
        room -= done
        return done

    path = tmp_path / "a.mcap"
    file = writer(path, write=write)
    kept: list[bytes] = []

    def fill() -> None:
        for number in range(1000):
            file.add(0, number, number, message(number))
            file.sync()
            kept.append(message(number))

    with pytest.raises(OSError, match="No space left"):
        fill()
    file.abandon()
    assert path.stat().st_size == file.synced
    assert stored(path) == kept


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    path.write_text("mine")
    with pytest.raises(FileExistsError):
        writer(path)
    assert path.read_text() == "mine"
    with pytest.raises(InputError, match="this is no MCAP"):
        McapFile(path)
