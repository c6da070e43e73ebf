"""An MCAP file, also one that was never finished or has damage in it."""

import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import zstandard
from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.records import (
    Channel,
    ChunkIndex,
    Footer,
    Metadata,
    MetadataIndex,
    Schema,
    Statistics,
)

from edgepipe.errors import InputError
from edgepipe.stages.recordings.recorded import Damage, Stored, Topic

MAGIC = b"\x89MCAP0\r\n"
_RECORD = struct.Struct("<BQ")
_CHUNK = struct.Struct("<QQQII")
_MESSAGE = struct.Struct("<HIQQ")
_MOST_CHUNK_BYTES = 1 << 30
"""A chunk that claims to be larger is damage."""
_MOST_SUMMARY_BYTES = 1 << 28
_UNREADABLE = (McapError, struct.error, ValueError, IndexError, OverflowError)
"""What the library raises for a record that is damaged."""


class _Record(NamedTuple):
    opcode: int
    at: int
    """Where its content begins."""
    size: int


class McapFile:
    """Reads one topic at a time, from the file's beginning.

    Attributes:
        metadata: The file's own, by name and key, as far as it has been read.
        profile: What the file says of itself, such as ``ros2``.

    Raises:
        InputError: It cannot be opened, or is no MCAP.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.metadata: dict[str, Mapping[str, str]] = {}
        self._schemas: dict[int, Schema] = {}
        self._channels: dict[int, Channel] = {}
        self._counts: dict[int, int] | None = None
        self._holds: dict[int, frozenset[int]] = {}
        self._cut = ""
        try:
            self._file: BinaryIO = path.open("rb")
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from error
        self._size = path.stat().st_size
        try:
            if self._read(0, len(MAGIC)) != MAGIC:
                empty = "the file is empty" if not self._size else "this is no MCAP"
                raise InputError(f"{path}: {empty}")
            if not self._read_summary():
                self._scan()
        except BaseException:
            self._file.close()
            raise

    @property
    def topics(self) -> Sequence[Topic]:
        """Topics in the order of their channels; two channels of one topic are one."""
        found: dict[str, Topic] = {}
        for channel in self._channels.values():
            schema = self._schemas.get(channel.schema_id)
            count = None if self._counts is None else self._counts.get(channel.id, 0)
            before = found.get(channel.topic)
            if before is not None and before.messages is not None and count is not None:
                count += before.messages
            if before is None or before.parser is None or not before.messages:
                found[channel.topic] = Topic(
                    channel.topic,
                    schema.name if schema else "",
                    channel.message_encoding,
                    count,
                    channel.metadata,
                )
            else:
                found[channel.topic] = before._replace(messages=count)
        return list(found.values())

    @property
    def end_state(self) -> tuple[str, str]:
        """``truncated`` if the file was cut off, or never finished."""
        return ("truncated", self._cut) if self._cut else ("ended", "")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def messages(self, topic: str) -> Iterator[Stored | Damage]:
        """Those of one topic; in a chunk they are in the order of their log times."""
        wanted = {c.id for c in self._channels.values() if c.topic == topic}
        for record in self._records():
            if record.opcode == Opcode.CHUNK:
                holds = self._holds.get(record.at - _RECORD.size)
                if holds is not None and not holds & wanted:
                    continue
                try:
                    content = self._chunk(record)
                except _DamagedChunkError as error:
                    yield Damage(str(error))
                    continue
                found = [m for c, m in _messages(content) if c in wanted]
                yield from sorted(found, key=_log_ns)
            elif record.opcode == Opcode.MESSAGE:
                channel, message = _message(memoryview(self._content(record)))
                if channel in wanted:
                    yield message

    # --- finding out what is in it ----------------------------------------------------

    def _read_summary(self) -> bool:
        """Read the summary at the end; False if there is none to be relied on."""
        tail = 8 + 8 + 4 + len(MAGIC)
        end = self._read(max(0, self._size - tail - _RECORD.size), tail + _RECORD.size)
        if not end.endswith(MAGIC) or end[0] != Opcode.FOOTER:
            return False
        footer = Footer.read(_stream(end[_RECORD.size :]))
        size = self._size - tail - _RECORD.size - footer.summary_start
        if not footer.summary_start or not 0 < size <= _MOST_SUMMARY_BYTES:
            return False
        summary = self._read(footer.summary_start, size)
        crc = zlib.crc32(end[: _RECORD.size + 16], zlib.crc32(summary))
        if footer.summary_crc and footer.summary_crc != crc:
            return False
        try:
            for opcode, content in _inner(memoryview(summary)):
                self._note(opcode, content)
        except _UNREADABLE:
            return False
        # Without repeated channels the summary does not tell what there is.
        return bool(self._channels) and self._counts is not None

    def _scan(self) -> None:
        """Read through a file that has no summary."""
        self._schemas, self._channels, self._holds = {}, {}, {}
        counts: dict[int, int] = {}
        self._counts = counts
        for record in self._records():
            if record.opcode == Opcode.MESSAGE:
                channel, _ = _message(memoryview(self._content(record)))
                counts[channel] = counts.get(channel, 0) + 1
            elif record.opcode == Opcode.CHUNK:
                try:
                    content = self._chunk(record)
                except _DamagedChunkError:
                    continue
                self._note_chunk(content)
                held = set[int]()
                for channel, _ in _messages(content):
                    counts[channel] = counts.get(channel, 0) + 1
                    held.add(channel)
                self._holds[record.at - _RECORD.size] = frozenset(held)
            else:
                self._note_whole(record)

    def _note_chunk(self, content: memoryview) -> None:
        for opcode, part in _inner(content):
            if opcode in (Opcode.SCHEMA, Opcode.CHANNEL):
                self._note_if_whole(opcode, part)

    def _note_whole(self, record: _Record) -> None:
        if record.opcode in (Opcode.SCHEMA, Opcode.CHANNEL, Opcode.METADATA):
            content = memoryview(self._content(record))
            self._note_if_whole(record.opcode, content)

    def _note_if_whole(self, opcode: int, content: memoryview) -> None:
        """Keep what a record says; one that is damaged says nothing."""
        with suppress(*_UNREADABLE):
            self._note(opcode, content)

    def _note(self, opcode: int, content: memoryview) -> None:
        """Keep what a record says of the file."""
        stream = _stream(content)
        if opcode == Opcode.SCHEMA:
            schema = Schema.read(stream)
            self._schemas[schema.id] = schema
        elif opcode == Opcode.CHANNEL:
            channel = Channel.read(stream)
            self._channels[channel.id] = channel
        elif opcode == Opcode.STATISTICS:
            self._counts = dict(Statistics.read(stream).channel_message_counts)
        elif opcode == Opcode.CHUNK_INDEX:
            index = ChunkIndex.read(stream)
            # An empty index says nothing: message indexes may be left out.
            if index.message_index_offsets:
                held = frozenset(index.message_index_offsets)
                self._holds[index.chunk_start_offset] = held
        elif opcode == Opcode.METADATA_INDEX:
            at = MetadataIndex.read(stream).offset
            head = self._read(at, _RECORD.size)
            inner, size = _RECORD.unpack(head)
            if inner == Opcode.METADATA:
                record = _Record(inner, at + _RECORD.size, size)
                self._note(inner, memoryview(self._content(record)))
        elif opcode == Opcode.METADATA:
            metadata = Metadata.read(stream)
            self.metadata[metadata.name] = metadata.metadata

    # --- reading ----------------------------------------------------------------------

    def _records(self) -> Iterator[_Record]:
        """The outermost records up to the end of the data, or to where it is cut."""
        at = len(MAGIC)
        while True:
            head = self._read(at, _RECORD.size)
            if len(head) < _RECORD.size:
                self._cut = self._cut or f"it was never finished: no end at byte {at}"
                return
            opcode, size = _RECORD.unpack(head)
            if opcode in (Opcode.DATA_END, Opcode.FOOTER):
                return
            at += _RECORD.size
            if opcode == 0 or at + size > self._size:
                self._cut = f"it is cut off or damaged at byte {at - _RECORD.size}"
                return
            yield _Record(opcode, at, size)
            at += size

    def _read(self, at: int, size: int) -> bytes:
        self._file.seek(at)
        return self._file.read(size)

    def _content(self, record: _Record) -> bytes:
        return self._read(record.at, record.size)

    def _chunk(self, record: _Record) -> memoryview:
        """The records in a chunk.

        Raises:
            _DamagedChunkError: It cannot be uncompressed, or its checksum is wrong.
        """
        place = f"the chunk at byte {record.at - _RECORD.size}"
        if record.size > _MOST_CHUNK_BYTES:
            raise _DamagedChunkError(f"{place} claims {record.size} bytes")
        whole = memoryview(self._content(record))
        try:
            _, _, size, crc, name_size = _CHUNK.unpack_from(whole)
            at = _CHUNK.size + name_size
            compression = bytes(whole[_CHUNK.size : at]).decode()
            data = _uncompressed(compression, whole[at + 8 :], size)
        except (struct.error, ValueError, RuntimeError, MemoryError) as error:
            raise _DamagedChunkError(f"{place} cannot be read: {error}") from error
        except zstandard.ZstdError as error:
            raise _DamagedChunkError(f"{place} cannot be read: {error}") from error
        if crc and zlib.crc32(data) != crc:
            raise _DamagedChunkError(f"{place} does not match its checksum")
        return data


class _DamagedChunkError(Exception):
    """Nothing in this chunk can be relied on."""


def _stream(data: bytes | memoryview) -> ReadDataStream:
    return ReadDataStream(BytesIO(data))


def _uncompressed(compression: str, data: memoryview, size: int) -> memoryview:
    if not compression:
        return data
    if size > _MOST_CHUNK_BYTES:
        raise ValueError(f"it claims {size} bytes")
    if compression == "zstd":
        return memoryview(zstandard.decompress(data, max_output_size=size))
    if compression == "lz4":
        lz4: Any = import_module("lz4.frame")  # which has no types
        return memoryview(lz4.decompress(data))
    raise ValueError(f"unknown compression {compression!r}")


def _inner(content: memoryview) -> Iterator[tuple[int, memoryview]]:
    """The records of a chunk or of the summary; one that is cut off is left out."""
    at = 0
    while at + _RECORD.size <= len(content):
        opcode, size = _RECORD.unpack_from(content, at)
        at += _RECORD.size
        if at + size > len(content):
            return
        yield opcode, content[at : at + size]
        at += size


def _messages(content: memoryview) -> Iterator[tuple[int, Stored]]:
    for opcode, part in _inner(content):
        if opcode == Opcode.MESSAGE and len(part) >= _MESSAGE.size:
            yield _message(part)


def _message(content: memoryview) -> tuple[int, Stored]:
    """The channel and the message."""
    channel, _, log_ns, _ = _MESSAGE.unpack_from(content)
    return channel, Stored(log_ns, content[_MESSAGE.size :])


def _log_ns(message: Stored) -> int:
    return message.log_ns
