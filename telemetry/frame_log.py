"""``frames.arrow``: frame records as an Arrow IPC stream, and back.

A stream, not a file: it has no footer, so everything up to the last whole batch can be
read after the writer was killed. pyarrow is loaded on first use.
"""

import importlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from edgepipe.errors import InputError
from edgepipe.telemetry.records import FrameRecord, Span

END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""What a writer that was closed properly leaves at the end (Arrow IPC format)."""

_CONTINUATION = b"\xff\xff\xff\xff"
_ADDED: Mapping[str, object] = {
    "short_ns": 0,
    "passed_over": 0,
    "superseded_by": None,
}
"""Columns that logs of earlier versions lack, with what is read there."""


@dataclass(frozen=True, slots=True)
class FrameLog:
    """What could be read of a frame log."""

    table: Any
    """pyarrow.Table with the columns of :func:`schema`, one row for each frame."""
    warning: str
    """One line about a damaged or unfinished end; empty for a whole log."""

    def records(self) -> Iterator[FrameRecord]:
        """The frames as they were recorded."""
        for batch in self.table.to_batches(max_chunksize=1024):
            for row in batch.to_pylist():
                yield _record(row)


@cache
def _arrow() -> Any:
    # pyarrow has no type information, and loading it takes about 0.2 s. Its default
    # allocator would start a thread of its own.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    return importlib.import_module("pyarrow")


@cache
def schema() -> Any:
    """The pyarrow schema of the log; times are monotonic nanoseconds."""
    pa = _arrow()
    return pa.schema(
        [
            ("stream", pa.string()),
            ("seq", pa.int64()),
            ("capture_ns", pa.int64()),
            ("pts_ns", pa.int64()),
            ("deadline_ns", pa.int64()),
            ("fate", pa.string()),
            ("reason", pa.string()),
            ("stage", pa.string()),
            ("done_ns", pa.int64()),
            ("age_ns", pa.int64()),
            ("warm_up", pa.bool_()),
            ("variant", pa.string()),
            ("batch", pa.int32()),
            ("objects", pa.int32()),
            ("truncated", pa.int32()),
            ("short_ns", pa.int64()),
            ("passed_over", pa.int32()),
            ("superseded_by", pa.int64()),
            ("stages", pa.list_(pa.struct(_span_fields()))),
        ],
        metadata={"format": "edgepipe.frames/1"},
    )


def _span_fields() -> list[Any]:
    pa = _arrow()
    return [
        pa.field("stage", pa.string()),
        pa.field("start_ns", pa.int64()),
        pa.field("queue_ns", pa.int64()),
        pa.field("service_ns", pa.int64()),
        pa.field("resource", pa.string()),
        pa.field("worker", pa.int32()),
    ]


def encode_schema() -> bytes:
    """The bytes that begin a log."""
    return schema().serialize().to_pybytes()  # type: ignore[no-any-return]


def encode_batch(records: Sequence[FrameRecord]) -> bytes:
    """The bytes of one batch: they follow the schema or another batch."""
    pa = _arrow()
    table = schema()
    # Column by column from flat lists: nested Python objects convert ten times slower,
    # and each conversion holds the interpreter while the pipeline waits for it.
    columns = [
        [r.stream for r in records],
        [r.sequence for r in records],
        [r.capture_ns for r in records],
        [r.pts_ns for r in records],
        [r.deadline_ns for r in records],
        [r.fate for r in records],
        [r.reason for r in records],
        [r.stage for r in records],
        [r.done_ns for r in records],
        [r.latency_ns if r.delivered else None for r in records],
        [r.warm_up for r in records],
        [r.variant for r in records],
        [r.batch for r in records],
        [r.objects for r in records],
        [r.truncated for r in records],
        [r.short_ns for r in records],
        [r.passed_over for r in records],
        [r.superseded_by for r in records],
    ]
    arrays = [
        pa.array(values, field.type)
        for values, field in zip(columns, table, strict=False)
    ]
    batch = pa.record_batch([*arrays, _spans(records)], schema=table)
    return batch.serialize().to_pybytes()  # type: ignore[no-any-return]


def _spans(records: Sequence[FrameRecord]) -> Any:
    pa = _arrow()
    ends = [0]
    for record in records:
        ends.append(ends[-1] + len(record.spans))
    spans = [span for record in records for span in record.spans]
    columns = [
        [s.stage for s in spans],
        [s.start_ns for s in spans],
        [s.start_ns - s.ready_ns for s in spans],
        [s.end_ns - s.start_ns for s in spans],
        [s.resource for s in spans],
        [s.worker for s in spans],
    ]
    fields = _span_fields()
    arrays = [
        pa.array(values, field.type)
        for values, field in zip(columns, fields, strict=True)
    ]
    structs = pa.StructArray.from_arrays(arrays, fields=fields)
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), structs)


def read_frames(path: Path) -> FrameLog:
    """Read a frame log, also one that was cut off at any byte or is being written.

    Raises:
        InputError: There is no such file, or it is no frame log.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    if not (data.startswith(_CONTINUATION) or _CONTINUATION.startswith(data)):
        raise InputError(f"{path}: not a frame log (no Arrow IPC stream)")
    batches, read_bytes = _whole_batches(data)
    try:
        fitted = [_fitted(batch) for batch in batches]
        table = _arrow().Table.from_batches(fitted, schema=schema())
    except _arrow().ArrowInvalid as error:
        raise InputError(f"{path}: not a frame log of this version") from error
    return FrameLog(table, _ending(path, data, read_bytes))


def _whole_batches(data: bytes) -> tuple[list[Any], int]:
    """Every batch before the first damaged one, and how many bytes they span."""
    pa = _arrow()
    source = pa.BufferReader(data)
    batches: list[Any] = []
    good_bytes = 0
    try:
        reader = pa.ipc.open_stream(source)
        good_bytes = source.tell()
        while True:
            batch = reader.read_next_batch()
            batch.validate(full=True)
            batches.append(batch)
            good_bytes = source.tell()
    except StopIteration:
        return batches, source.tell()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError):
        return batches, good_bytes


def _fitted(batch: Any) -> Any:
    """The batch with the columns of this version; logs only ever gain some.

    Raises:
        ArrowInvalid: A column is missing or has another type.
    """
    pa = _arrow()
    columns: list[Any] = []
    for field in schema():
        at = batch.schema.get_field_index(field.name)
        if at < 0 and field.name in _ADDED:
            value = pa.scalar(_ADDED[field.name], field.type)
            columns.append(pa.repeat(value, batch.num_rows))
        elif at < 0 or batch.schema.field(at).type != field.type:
            raise pa.ArrowInvalid(f"no column {field.name!r} of type {field.type}")
        else:
            columns.append(batch.column(at))
    return pa.record_batch(columns, schema=schema())


def _ending(path: Path, data: bytes, read_bytes: int) -> str:
    if data.endswith(END_OF_STREAM) and read_bytes == len(data):
        return ""
    rest = len(data) - read_bytes
    if rest:
        return f"{path}: cut off: the last {rest} bytes are no whole batch"
    return f"{path}: not closed: the run was killed or is still going on"


def _record(row: dict[str, Any]) -> FrameRecord:
    return FrameRecord(
        stream=row["stream"],
        sequence=row["seq"],
        capture_ns=row["capture_ns"],
        pts_ns=row["pts_ns"],
        deadline_ns=row["deadline_ns"],
        fate=row["fate"],
        reason=row["reason"],
        stage=row["stage"],
        done_ns=row["done_ns"],
        warm_up=row["warm_up"],
        variant=row["variant"],
        batch=row["batch"],
        objects=row["objects"],
        truncated=row["truncated"],
        spans=tuple(
            Span(
                stage=span["stage"],
                ready_ns=span["start_ns"] - span["queue_ns"],
                start_ns=span["start_ns"],
                end_ns=span["start_ns"] + span["service_ns"],
                resource=span["resource"],
                worker=span["worker"],
            )
            for span in row["stages"]
        ),
        short_ns=row["short_ns"],
        passed_over=row["passed_over"],
        superseded_by=row["superseded_by"],
    )
