"""``frames.arrow``: frame records as an Arrow IPC stream, and back."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from edgepipe.errors import InputError
from edgepipe.telemetry.arrow_stream import LogFormat, arrow, read_stream
from edgepipe.telemetry.records import FrameRecord, Span

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
def schema() -> Any:
    """The pyarrow schema of the log; times are monotonic nanoseconds."""
    pa = arrow()
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
    pa = arrow()
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
    pa = arrow()
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
    pa = arrow()
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


FRAMES = LogFormat("frame-log", encode_schema, encode_batch)
"""How frame records are written."""


def read_frames(path: Path) -> FrameLog:
    """Read a frame log, also one that was cut off at any byte or is being written.

    Raises:
        InputError: There is no such file, or it is no frame log.
    """
    stream = read_stream(path, "frame log")
    try:
        fitted = [_fitted(batch) for batch in stream.batches]
        table = arrow().Table.from_batches(fitted, schema=schema())
    except arrow().ArrowInvalid as error:
        raise InputError(f"{path}: not a frame log of this version") from error
    return FrameLog(table, stream.warning)


def _fitted(batch: Any) -> Any:
    """The batch with the columns of this version; logs only ever gain some.

    Raises:
        ArrowInvalid: A column is missing or has another type.
    """
    pa = arrow()
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
