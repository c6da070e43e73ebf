"""Writing one MCAP file so that a power cut costs at most what is not synced yet."""

import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mcap.data_stream import RecordBuilder
from mcap.opcode import Opcode
from mcap.records import (
    Channel,
    Chunk,
    ChunkIndex,
    DataEnd,
    Footer,
    Header,
    Message,
    MessageIndex,
    Metadata,
    MetadataIndex,
    Schema,
    Statistics,
    SummaryOffset,
)

from edgepipe.stages.recordings.mcap_file import MAGIC

MOST_CHUNK_BYTES = 4 << 20
"""A chunk is written when it has grown to this size, synced or not."""


class ChannelFacts(NamedTuple):
    """What a channel is registered with."""

    topic: str
    schema: str
    """Full name of the message."""
    definition: bytes
    """Of the schema; its encoding is ``protobuf``."""
    metadata: Mapping[str, str]
    encoding: str = "protobuf"


class McapWriter:
    """A file that is whole up to the last :meth:`sync`, whatever happens after it.

    Chunks are not compressed: what is in them is.

    Args:
        path: Created; must not exist.
        channels: All that will ever be written; a message names one by its position.
        metadata: Of the file, by name.
        library: Who writes it.
        write: ``os.write``, or what a test puts in its place.

    Attributes:
        size: Bytes in the file.
        synced: Bytes of it that survive a power cut.
        messages: How many are in the file or on their way to it.

    Raises:
        OSError: It cannot be created or written.
    """

    def __init__(
        self,
        path: Path,
        channels: Sequence[ChannelFacts],
        metadata: Mapping[str, Mapping[str, str]],
        library: str,
        write: Callable[[int, memoryview], int] = os.write,
    ) -> None:
        self._write_some = write
        self._channels = list(channels)
        self.size = self.synced = self.messages = 0
        self._channel_bytes = 0
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        self._chunk = RecordBuilder()
        self._indexes: dict[int, MessageIndex] = {}
        self._chunks: list[ChunkIndex] = []
        self._metadata: list[MetadataIndex] = []
        self._counts = dict.fromkeys(range(1, len(channels) + 1), 0)
        self._first_ns, self._last_ns = 0, 0
        self._chunk_ns = (0, 0)
        try:
            self._begin(metadata, library)
            self.sync()
            _sync_folder(path.parent)
        except BaseException:
            os.close(self._file)
            self._file = -1
            raise

    def add(self, channel: int, sequence: int, log_ns: int, data: bytes) -> None:
        """Add a message; the file is written when the chunk is full.

        Raises:
            OSError: It could not be written; the file ends where it was synced last.
        """
        number = channel + 1
        index = self._indexes.setdefault(number, MessageIndex(number, []))
        index.records.append((log_ns, self._chunk.count))
        # The publisher's time is the recorder's own.
        Message(number, log_ns, data, log_ns, sequence).write(self._chunk)
        first, last = self._chunk_ns
        alone = len(self._indexes) == 1 and len(index.records) == 1
        self._chunk_ns = (
            (log_ns, log_ns) if alone else (min(first, log_ns), max(last, log_ns))
        )
        if not self.messages:
            self._first_ns = log_ns
        self._first_ns = min(self._first_ns, log_ns)
        self._last_ns = max(self._last_ns, log_ns)
        self._counts[number] += 1
        self.messages += 1
        if self._chunk.count >= MOST_CHUNK_BYTES:
            self._write_chunk()

    def add_channel(self, facts: ChannelFacts) -> int:
        """Register one more channel; return what :meth:`add` calls it.

        Raises:
            OSError: It could not be written.
        """
        self._write_chunk()
        self._channels.append(facts)
        self._counts[len(self._channels)] = 0
        records = RecordBuilder()
        # All once more: a reader of the stream takes what it knows for the same.
        first, _, end = self._write_channels(records)
        self._write(_taken(records))
        self._channel_bytes = end - first
        return len(self._channels) - 1

    def write_out(self) -> None:
        """Hand what there is to the system, without waiting for the disk.

        Raises:
            OSError: It could not be written.
        """
        self._write_chunk()

    @property
    def final_size(self) -> int:
        """What the file would have at most if it were closed now."""
        channels = len(self._channels)
        records = sum(len(index.records) for index in self._indexes.values())
        pending = self._chunk.count + 16 * records + 15 * channels + 100
        entries = (100 + 10 * channels) * (len(self._chunks) + len(self._metadata) + 1)
        return self.size + pending + entries + self._channel_bytes + 500

    def sync(self) -> None:
        """Write what there is, and wait until it is on the disk.

        Raises:
            OSError: It could not be written; the file ends where it was synced last.
        """
        self._write_chunk()
        os.fdatasync(self._file)
        self.synced = self.size

    def close(self) -> None:
        """Write the index and close; calling it again does nothing.

        Raises:
            OSError: The index could not be written; the messages can be read all the
                same.
        """
        if self._file < 0:
            return
        try:
            self._write_chunk()
            self._write(self._end())
            os.fsync(self._file)
            self.synced = self.size
        finally:
            os.close(self._file)
            self._file = -1

    def abandon(self) -> None:
        """Close without another byte, after an error."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    # --- in detail --------------------------------------------------------------------

    def _begin(self, metadata: Mapping[str, Mapping[str, str]], library: str) -> None:
        head = RecordBuilder()
        head.write(MAGIC)
        Header(profile="", library=library).write(head)
        for name, values in metadata.items():
            offset = head.count
            Metadata(name=name, metadata=dict(values)).write(head)
            index = MetadataIndex(offset=offset, length=head.count - offset, name=name)
            self._metadata.append(index)
        first, _, end = self._write_channels(head)
        self._channel_bytes = end - first
        self._write(_taken(head))

    def _write_channels(self, to: RecordBuilder) -> tuple[int, int, int]:
        """Schemas, then channels; where each group begins, and where both end."""
        begin = to.count
        names = list(dict.fromkeys(each.schema for each in self._channels))
        definitions = {each.schema: each for each in self._channels}
        for number, name in enumerate(names, 1):
            facts = definitions[name]
            kind = "jsonschema" if facts.encoding == "json" else facts.encoding
            Schema(number, facts.definition, kind, name).write(to)
        middle = to.count
        for number, each in enumerate(self._channels, 1):
            Channel(
                id=number,
                topic=each.topic,
                message_encoding=each.encoding,
                metadata=dict(each.metadata),
                schema_id=names.index(each.schema) + 1,
            ).write(to)
        return begin, middle, to.count

    def _write_chunk(self) -> None:
        if not self._indexes:
            return
        indexes, self._indexes = self._indexes, {}
        data = _taken(self._chunk)
        first_ns, last_ns = self._chunk_ns
        record = RecordBuilder()
        Chunk(
            compression="",
            data=data,
            message_start_time=first_ns,
            message_end_time=last_ns,
            uncompressed_crc=zlib.crc32(data),
            uncompressed_size=len(data),
        ).write(record)
        chunk_bytes = record.count
        offsets: dict[int, int] = {}
        for number, index in indexes.items():
            offsets[number] = self.size + record.count
            index.write(record)
        entry = ChunkIndex(
            chunk_length=chunk_bytes,
            chunk_start_offset=self.size,
            compression="",
            compressed_size=len(data),
            message_end_time=last_ns,
            message_index_length=record.count - chunk_bytes,
            message_index_offsets=offsets,
            message_start_time=first_ns,
            uncompressed_size=len(data),
        )
        self._write(_taken(record))
        self._chunks.append(entry)

    def _end(self) -> bytes:
        """Everything behind the last chunk."""
        end = RecordBuilder()
        DataEnd(0).write(end)
        begin = end.count
        groups = [(Opcode.SCHEMA, begin)]
        _, middle, behind = self._write_channels(end)
        groups += [(Opcode.CHANNEL, middle), (Opcode.STATISTICS, behind)]
        Statistics(
            attachment_count=0,
            channel_count=len(self._channels),
            channel_message_counts={n: c for n, c in self._counts.items() if c},
            chunk_count=len(self._chunks),
            message_count=self.messages,
            message_end_time=self._last_ns,
            message_start_time=self._first_ns,
            metadata_count=len(self._metadata),
            schema_count=len({each.schema for each in self._channels}),
        ).write(end)
        for opcode, entries in (
            (Opcode.CHUNK_INDEX, self._chunks),
            (Opcode.METADATA_INDEX, self._metadata),
        ):
            groups.append((opcode, end.count))
            for entry in entries:
                entry.write(end)
        offsets_at = end.count
        ends = [at for _, at in groups[1:]] + [offsets_at]
        for (opcode, at), until in zip(groups, ends, strict=True):
            if until > at:
                SummaryOffset(opcode, self.size + at, until - at).write(end)
        content = _taken(end)
        return content + self._footer(content[begin:], begin, offsets_at)

    def _footer(self, summary: bytes, begin: int, offsets_at: int) -> bytes:
        start, offsets = self.size + begin, self.size + offsets_at
        blank = RecordBuilder()
        Footer(start, offsets, 0).write(blank)
        # The checksum covers the footer up to itself.
        crc = zlib.crc32(_taken(blank)[:-4], zlib.crc32(summary))
        footer = RecordBuilder()
        Footer(start, offsets, crc).write(footer)
        return _taken(footer) + MAGIC

    def _write(self, data: bytes) -> None:
        """Append all of it, or nothing."""
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._write_some(self._file, rest) :]
        except OSError:
            os.ftruncate(self._file, self.size)
            os.lseek(self._file, self.size, os.SEEK_SET)
            raise
        self.size += len(data)


def _taken(builder: Any) -> bytes:
    """What a builder holds; it is empty after that."""
    return bytes(builder.end())


def _sync_folder(folder: Path) -> None:
    """Without it a new file may not be there after a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
