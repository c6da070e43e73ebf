"""Messages with images as ROS, Foxglove and others write them, and files of them."""

import base64
import json
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from mcap.writer import CompressionType, Writer
from numpy.typing import NDArray

from edgepipe.stages.recordings.protobuf import (
    bytes_field,
    fixed32_field,
    timestamp_field,
)

SECOND = 10**9
Image = NDArray[np.uint8]
Message = Callable[[int, str, bytes], bytes]
"""Makes a message of a stamp, the name of a format and the data."""


def flat(level: int, width: int = 64, height: int = 48) -> Image:
    """A picture (height, width, 3) of one grey."""
    return np.full((height, width, 3), level, np.uint8)


def jpeg(image: Image) -> bytes:
    return cv2.imencode(".jpg", image)[1].tobytes()


def png(image: Image) -> bytes:
    return cv2.imencode(".png", image)[1].tobytes()


# --- CDR and ROS 1, put together by hand ----------------------------------------------


class Packer:
    """Puts fields one behind the other as a serialiser does."""

    def __init__(self, *, ros1: bool = False, big: bool = False) -> None:
        self._ros1, self._order = ros1, ">" if big else "<"
        self._head = b"" if ros1 else (b"\0\0\0\0" if big else b"\0\1\0\0")
        self._body = b""

    def number(self, kind: str, value: int) -> "Packer":
        size = struct.calcsize(kind)
        if not self._ros1:
            self._body += bytes(-len(self._body) % size)
        self._body += struct.pack(self._order + kind, value)
        return self

    def text(self, value: str) -> "Packer":
        data = value.encode() + (b"" if self._ros1 else b"\0")
        return self.data(data)

    def data(self, value: bytes) -> "Packer":
        self.number("I", len(value))
        self._body += value
        return self

    def header(self, stamp_ns: int) -> "Packer":
        if self._ros1:
            self.number("I", 7)
        return self.time(stamp_ns).text("camera")

    def time(self, stamp_ns: int) -> "Packer":
        seconds, rest = divmod(stamp_ns, SECOND)
        return self.number("I" if self._ros1 else "i", seconds).number("I", rest)

    def done(self) -> bytes:
        return self._head + self._body


def ros_image(
    stamp_ns: int,
    encoding: str,
    size: tuple[int, int],
    step: int,
    data: bytes,
    *,
    ros1: bool = False,
    big: bool = False,
) -> bytes:
    """sensor_msgs/Image; size is (width, height)."""
    packer = Packer(ros1=ros1, big=big).header(stamp_ns)
    packer.number("I", size[1]).number("I", size[0]).text(encoding)
    return packer.number("B", int(big)).number("I", step).data(data).done()


def ros_compressed(
    stamp_ns: int, format_: str, data: bytes, *, ros1: bool = False
) -> bytes:
    """sensor_msgs/CompressedImage."""
    return Packer(ros1=ros1).header(stamp_ns).text(format_).data(data).done()


def ros1_compressed(stamp_ns: int, format_: str, data: bytes) -> bytes:
    """The same in ROS 1."""
    return ros_compressed(stamp_ns, format_, data, ros1=True)


def ros_foxglove(stamp_ns: int, format_: str, data: bytes) -> bytes:
    """foxglove_msgs/CompressedImage and CompressedVideo."""
    return Packer().time(stamp_ns).text("camera").data(data).text(format_).done()


# --- Protobuf and JSON ----------------------------------------------------------------


def proto_image(stamp_ns: int, format_: str, data: bytes) -> bytes:
    return timestamp_field(1, stamp_ns) + bytes_field(2, data) + bytes_field(3, format_)


def proto_video(stamp_ns: int, format_: str, data: bytes) -> bytes:
    head = timestamp_field(1, stamp_ns) + bytes_field(2, "camera")
    return head + bytes_field(3, data) + bytes_field(4, format_)


def proto_raw(
    stamp_ns: int, encoding: str, size: tuple[int, int], step: int, data: bytes
) -> bytes:
    head = timestamp_field(1, stamp_ns)
    shape = fixed32_field(2, size[0]) + fixed32_field(3, size[1])
    rest = bytes_field(4, encoding) + fixed32_field(5, step) + bytes_field(6, data)
    return head + shape + rest


def json_image(stamp_ns: int, format_: str, data: bytes) -> bytes:
    seconds, rest = divmod(stamp_ns, SECOND)
    return json.dumps(
        {
            "timestamp": {"sec": seconds, "nsec": rest},
            "frame_id": "camera",
            "data": base64.b64encode(data).decode(),
            "format": format_,
        }
    ).encode()


# --- files ----------------------------------------------------------------------------

Content = tuple[str, str, str, Sequence[tuple[int, bytes]]]
"""Topic, schema, encoding, and (log time, message) one by one."""


def write_mcap(
    path: Path,
    *contents: Content,
    compression: CompressionType = CompressionType.ZSTD,
    chunk_size: int = 1024 * 1024,
    metadata: dict[str, str] | None = None,
    finish: bool = True,
    **options: Any,
) -> Path:
    """Write messages of several topics in the order of their log times."""
    with path.open("wb") as file:
        writer: Any = Writer(
            file, chunk_size=chunk_size, compression=compression, **options
        )
        writer.start()
        messages: list[tuple[int, int, bytes]] = []
        for topic, schema, encoding, stored in contents:
            kind = {"cdr": "ros2msg", "ros1": "ros1msg"}.get(encoding, encoding)
            number = writer.register_schema(schema, kind, b"")
            channel = writer.register_channel(topic, encoding, number, metadata or {})
            messages += [(at, channel, data) for at, data in stored]
        for log_ns, channel, data in sorted(messages, key=lambda m: m[0]):
            writer.add_message(channel, log_ns, data, log_ns)
        if finish:
            writer.finish()
    return path


def stills(
    count: int, make: Message, *, step_ns: int = SECOND // 10
) -> list[tuple[int, bytes]]:
    """PNGs of grey 20, 25, 30 ..., stamped each ``step_ns`` and logged 5 ms later."""
    return [
        (
            SECOND + k * step_ns + 5_000_000,
            make(SECOND + k * step_ns, "png", png(flat(20 + 5 * k))),
        )
        for k in range(count)
    ]
