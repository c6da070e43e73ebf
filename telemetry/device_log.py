"""``device.arrow``: what the sensors said, as an Arrow IPC stream, and back."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import InputError
from edgepipe.telemetry.arrow_stream import LogFormat, arrow, read_stream
from edgepipe.telemetry.sensors.reading import Channel, Kind, Quality, Reading, Scope

FORMAT = "edgepipe.device/1"

HOLD_NS = 10_000_000_000
"""A value that stays the same is written again after so long; until the next row of its
channel it holds."""

_EXACT = frozenset({Kind.POWER, Kind.ENERGY})
"""Of these every reading is written: they are integrated."""


@dataclass(frozen=True, slots=True)
class DeviceLog:
    """What could be read of a device log."""

    table: Any
    """pyarrow.Table: at_ns, channel (its key), value, quality, reason."""
    channels: Mapping[str, Channel]
    """By key, as they were when the run began."""
    warning: str
    """One line about a damaged or unfinished end; empty for a whole log."""

    def readings(self) -> Iterator[Reading]:
        """What was written, in that order."""
        for batch in self.table.to_batches(max_chunksize=4096):
            for row in batch.to_pylist():
                yield Reading(
                    self.channels[row["channel"]],
                    row["value"],
                    row["at_ns"],
                    row["reason"],
                    Quality(row["quality"]),
                )

    def series(self, key: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Times and values of one channel, ascending; NaN where there was no value."""
        keys = self.table["channel"].to_numpy()
        rows = self.table.filter(arrow().array(keys == key, arrow().bool_()))
        times = rows["at_ns"].to_numpy().astype(np.int64)
        values = rows["value"].to_numpy().astype(np.float64)
        order = np.argsort(times, kind="stable")
        return times[order], values[order]


def device_format(channels: Sequence[Channel]) -> LogFormat[Reading]:
    """How the readings of these channels are written."""

    def head() -> bytes:
        return _schema(channels).serialize().to_pybytes()  # type: ignore[no-any-return]

    return LogFormat("device-log", head, encode_batch)


def encode_batch(readings: Sequence[Reading]) -> bytes:
    """The bytes of one batch: they follow the head or another batch."""
    pa = arrow()
    schema = _schema(())
    columns = [
        [r.at_ns for r in readings],
        [r.channel.key for r in readings],
        [r.value for r in readings],
        [r.quality.value for r in readings],
        [r.reason for r in readings],
    ]
    arrays = [
        pa.array(values, field.type)
        for values, field in zip(columns, schema, strict=True)
    ]
    batch = pa.record_batch(arrays, schema=schema)
    return batch.serialize().to_pybytes()  # type: ignore[no-any-return]


def _schema(channels: Sequence[Channel]) -> Any:
    pa = arrow()
    return pa.schema(
        [
            ("at_ns", pa.int64()),
            ("channel", pa.string()),
            ("value", pa.float64()),
            ("quality", pa.string()),
            ("reason", pa.string()),
        ],
        metadata={
            "format": FORMAT,
            "channels": json.dumps([_as_json(each) for each in channels]),
        },
    )


def _as_json(channel: Channel) -> dict[str, Any]:
    scope = channel.scope
    return asdict(channel) | {
        "kind": channel.kind.value,
        "scope": None if scope is None else scope.value,
        "limits": dict(channel.limits),
        "unit": channel.unit,
    }


def _from_json(entry: Mapping[str, Any]) -> Channel:
    scope = entry["scope"]
    return Channel(
        kind=Kind(entry["kind"]),
        name=entry["name"],
        source=entry["source"],
        scope=None if scope is None else Scope(scope),
        tau_s=entry["tau_s"],
        step=entry["step"],
        limits=entry["limits"],
    )


def read_device(path: Path) -> DeviceLog:
    """Read a device log, also one that was cut off at any byte or is being written.

    Raises:
        InputError: There is no such file, or it is no device log.
    """
    stream = read_stream(path, "device log")
    schema = stream.schema
    metadata: dict[bytes, bytes] = (schema is not None and schema.metadata) or {}
    try:
        if schema is not None and metadata.get(b"format") != FORMAT.encode():
            raise ValueError(f"not {FORMAT}")
        listed = json.loads(metadata.get(b"channels", b"[]"))
        channels = [_from_json(each) for each in listed]
        plain = _schema(()).remove_metadata()
        batches = [each.cast(plain) for each in stream.batches]
        table = arrow().Table.from_batches(batches, schema=plain)
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path}: not a device log of this version") from error
    return DeviceLog(table, {each.key: each for each in channels}, stream.warning)


class Thinner:
    """Leaves out readings that say what the one before of their channel said."""

    def __init__(self, hold_ns: int = HOLD_NS) -> None:
        self._hold_ns = hold_ns
        self._last: dict[str, Reading] = {}

    def keep(self, readings: Sequence[Reading]) -> list[Reading]:
        """Those that are worth writing, in order."""
        return [each for each in readings if self._is_news(each)]

    def _is_news(self, reading: Reading) -> bool:
        channel = reading.channel
        if channel.kind in _EXACT and reading.value is not None:
            return True
        last = self._last.get(channel.key)
        if (
            last is not None
            and last.value == reading.value
            and last.quality is reading.quality
            and reading.at_ns - last.at_ns < self._hold_ns
        ):
            return False
        self._last[channel.key] = reading
        return True
