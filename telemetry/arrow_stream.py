"""Logs as Arrow IPC streams: what writes and reads all of them alike.

A stream, not a file: it has no footer, so everything up to the last whole batch can be
read after the writer was killed. pyarrow is loaded on first use.
"""

import importlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

from edgepipe.errors import InputError

Record = TypeVar("Record")

END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""What a writer that was closed properly leaves at the end (Arrow IPC format)."""

_CONTINUATION = b"\xff\xff\xff\xff"


@dataclass(frozen=True, slots=True)
class LogFormat(Generic[Record]):
    """How one kind of record becomes bytes."""

    name: str
    """Of the thread that writes: ``frame-log``."""
    head: Callable[[], bytes]
    """The bytes that begin a log."""
    batch: Callable[[Sequence[Record]], bytes]
    """The bytes of one batch: they follow the head or another batch."""


@dataclass(frozen=True, slots=True)
class Stream:
    """What could be read of a log."""

    batches: Sequence[Any]
    """pyarrow.RecordBatch, the whole ones."""
    schema: Any
    """pyarrow.Schema; None of a file that ends before it does."""
    warning: str
    """One line about a damaged or unfinished end; empty for a whole log."""


@cache
def arrow() -> Any:
    """The module pyarrow."""
    # pyarrow has no type information, and loading it takes about 0.2 s. Its default
    # allocator would start a thread of its own.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    return importlib.import_module("pyarrow")


def read_stream(path: Path, noun: str) -> Stream:
    """Read a log, also one that was cut off at any byte or is being written.

    Args:
        path: The file.
        noun: What it should be, for messages: ``frame log``.

    Raises:
        InputError: There is no such file, or it is no Arrow IPC stream.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    if not (data.startswith(_CONTINUATION) or _CONTINUATION.startswith(data)):
        raise InputError(f"{path}: not a {noun} (no Arrow IPC stream)")
    schema, batches, read_bytes = _whole_batches(data)
    return Stream(batches, schema, _ending(path, data, read_bytes))


def _whole_batches(data: bytes) -> tuple[Any, list[Any], int]:
    """Every batch before the first damaged one, and how many bytes they span."""
    pa = arrow()
    source = pa.BufferReader(data)
    schema = None
    batches: list[Any] = []
    good_bytes = 0
    try:
        reader = pa.ipc.open_stream(source)
        schema = reader.schema
        good_bytes = source.tell()
        while True:
            batch = reader.read_next_batch()
            batch.validate(full=True)
            batches.append(batch)
            good_bytes = source.tell()
    except StopIteration:
        return schema, batches, source.tell()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError):
        return schema, batches, good_bytes


def _ending(path: Path, data: bytes, read_bytes: int) -> str:
    if data.endswith(END_OF_STREAM) and read_bytes == len(data):
        return ""
    rest = len(data) - read_bytes
    if rest:
        return f"{path}: cut off: the last {rest} bytes are no whole batch"
    return f"{path}: not closed: the run was killed or is still going on"
