import contextlib
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgepipe.errors import InputError
from edgepipe.telemetry.arrow_stream import END_OF_STREAM
from edgepipe.telemetry.frame_log import (
    encode_batch,
    encode_schema,
    read_frames,
    schema,
)
from edgepipe.telemetry.records import FrameRecord, Span

MakeFrame = Callable[..., FrameRecord]
arrow: Any = importlib.import_module("pyarrow")

word = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
number = st.integers(-(2**62), 2**62)
small = st.integers(0, 2**31 - 1)
moment = st.integers(0, 2**60)
any_span = st.builds(Span, word, moment, moment, moment, word, small)
any_record = st.builds(
    FrameRecord,
    stream=word,
    sequence=moment,
    capture_ns=moment,
    pts_ns=st.none() | number,
    deadline_ns=number,
    fate=st.sampled_from(["completed", "late", "dropped", "failed"]),
    reason=word,
    stage=word,
    done_ns=moment,
    warm_up=st.booleans(),
    variant=word,
    batch=small,
    objects=small,
    truncated=small,
    spans=st.lists(any_span, max_size=4).map(tuple),
    short_ns=moment,
    passed_over=small,
    superseded_by=st.none() | moment,
)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(any_record, min_size=1, max_size=5), max_size=3))
def test_every_record_comes_back_as_it_was_written(
    tmp_path: Path, batches: list[list[FrameRecord]]
) -> None:
    path = tmp_path / "frames.arrow"
    path.write_bytes(
        encode_schema() + b"".join(map(encode_batch, batches)) + END_OF_STREAM
    )
    log = read_frames(path)
    assert log.warning == ""
    assert list(log.records()) == [record for batch in batches for record in batch]


NEWER = ["short_ns", "passed_over", "superseded_by"]
"""Columns that the first version did not write."""


def without(columns: list[str], record: FrameRecord) -> bytes:
    """A log of this frame that lacks these columns."""
    reader = arrow.ipc.open_stream(encode_schema() + encode_batch([record]))
    batch = reader.read_next_batch().drop_columns(columns)
    return bytes(batch.schema.serialize()) + bytes(batch.serialize())


def test_a_log_of_the_first_version_can_still_be_read(
    tmp_path: Path, make_frame: MakeFrame
) -> None:
    path = tmp_path / "frames.arrow"
    path.write_bytes(without(NEWER, make_frame(7)) + END_OF_STREAM)
    log = read_frames(path)
    assert log.warning == ""
    assert log.table.schema.equals(schema())
    (record,) = log.records()
    assert record == make_frame(7)
    assert (record.short_ns, record.passed_over, record.superseded_by) == (0, 0, None)


def test_a_log_without_a_column_that_was_always_there_is_refused(
    tmp_path: Path, make_frame: MakeFrame
) -> None:
    path = tmp_path / "frames.arrow"
    path.write_bytes(without(["fate"], make_frame(7)))
    with pytest.raises(InputError, match="not a frame log of this version"):
        read_frames(path)


def test_a_log_cut_at_any_byte_gives_its_whole_batches_and_a_warning(
    tmp_path: Path, make_frame: MakeFrame
) -> None:
    frames = [make_frame(n) for n in range(2)]
    pieces = [encode_schema(), *(encode_batch([each]) for each in frames)]
    whole = b"".join(pieces) + END_OF_STREAM
    ends = [sum(map(len, pieces[: n + 2])) for n in range(2)]
    path = tmp_path / "frames.arrow"
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        log = read_frames(path)
        assert log.table.num_rows == sum(end <= cut for end in ends), cut
        assert log.warning, cut
        if cut in ends:
            assert list(log.records()) == frames[: log.table.num_rows]


@pytest.mark.parametrize("tail", [b"\0" * 4096, b"\xff" * 64, b"garbage", b"\0"])
def test_what_a_power_cut_leaves_behind_the_last_batch_does_no_harm(
    tmp_path: Path, make_frame: MakeFrame, tail: bytes
) -> None:
    path = tmp_path / "frames.arrow"
    path.write_bytes(encode_schema() + encode_batch([make_frame()]) + tail)
    log = read_frames(path)
    assert list(log.records()) == [make_frame()]
    assert "cut off" in log.warning


def test_a_flipped_byte_never_raises_anything_else_than_an_input_error(
    tmp_path: Path, make_frame: MakeFrame
) -> None:
    whole = bytearray(encode_schema() + encode_batch([make_frame()]) + END_OF_STREAM)
    path = tmp_path / "frames.arrow"
    for at in range(0, len(whole), 7):
        whole[at] ^= 0xFF
        path.write_bytes(whole)
        with contextlib.suppress(InputError):
            list(read_frames(path).records())
        whole[at] ^= 0xFF


def test_a_log_that_is_still_being_written_says_so(
    tmp_path: Path, make_frame: MakeFrame
) -> None:
    path = tmp_path / "frames.arrow"
    path.write_bytes(encode_schema() + encode_batch([make_frame()]))
    assert "not closed" in read_frames(path).warning


@pytest.mark.parametrize(
    "content", [b"stream,seq\nfront,0\n", b"\0\0\0\0", b"ARROW1\0\0"]
)
def test_another_kind_of_file_is_refused_in_one_line(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "frames.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"frames\.csv: not a frame log"):
        read_frames(path)


def test_a_missing_log_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.arrow: cannot be read: No such file"):
        read_frames(tmp_path / "none.arrow")


def test_the_age_is_null_for_a_frame_that_was_not_delivered(
    tmp_path: Path, make_frame: MakeFrame
) -> None:
    path = tmp_path / "frames.arrow"
    frames = [
        make_frame(0, latency_ms=20),
        make_frame(1, fate="dropped", reason="stale"),
    ]
    path.write_bytes(encode_schema() + encode_batch(frames))
    assert read_frames(path).table.column("age_ns").to_pylist() == [20_000_000, None]
