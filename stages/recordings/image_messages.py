"""Messages with images, whatever their encoding, as one kind of value."""

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

from edgepipe.stages.recordings.cdr import FieldReader
from edgepipe.stages.recordings.protobuf import Value, fields, timestamp_ns

STILL, RAW = "still", "raw"
"""Formats of an image that stands alone, compressed or not; others are codecs."""

NOT_SHOWN, KEY_FRAME = 1000, 1001
"""Fields that edgepipe adds to foxglove.CompressedVideo; others leave them out."""

_CODECS = {"h264": "h264", "h265": "hevc", "hevc": "hevc", "vp9": "vp9", "av1": "av1"}
"""What a message may call a codec, and what FFmpeg calls it."""


class Layout(NamedTuple):
    """How the bytes of a raw image lie."""

    width: int
    height: int
    encoding: str
    step: int
    """Bytes of a row with its padding."""
    big_endian: bool = False


class ImageMessage(NamedTuple):
    """One image, or one packet of a video."""

    stamp_ns: int
    """When it was taken, as the message says; 0 if it does not."""
    format: str
    """STILL, RAW or FFmpeg's name of a video codec."""
    data: memoryview
    layout: Layout | None = None
    """Of RAW."""
    shown: bool = True
    """False for a packet that others refer to and that is itself cut away."""
    is_key: bool | None = None
    """Whether decoding can begin here; None if the message does not say."""


Parser = Callable[[memoryview], ImageMessage]
"""Raises ValueError for a message that is not what it should be."""


def parser_of(schema: str, encoding: str) -> Parser | None:
    """What reads messages of this schema and encoding; None if they are no images.

    Args:
        schema: Such as ``foxglove.RawImage`` or ``sensor_msgs/msg/Image``.
        encoding: ``protobuf``, ``cdr``, ``ros1`` or ``json``.
    """
    package, _, name = schema.replace("/msg/", "/").replace(".", "/").rpartition("/")
    if encoding in ("cdr", "ros1"):
        read = _IN_ROS.get((package, name))
        ros1 = encoding == "ros1"
        return None if read is None else _with_reader(read, ros1=ros1)
    if package != "foxglove":
        return None
    return _IN_FOXGLOVE.get((encoding, name))


def _with_reader(
    read: Callable[[FieldReader, bool], ImageMessage], *, ros1: bool
) -> Parser:
    return lambda message: read(FieldReader(message, ros1=ros1), ros1)


def _format(said: str) -> str:
    """Of compressed data, from what the message calls it.

    ROS writes things like ``rgb8; jpeg compressed bgr8``.
    """
    said = said.lower()
    if "compresseddepth" in said:
        raise ValueError("a depth image is no picture")
    return next((name for word, name in _CODECS.items() if word in said), STILL)


# --- ROS -----------------------------------------------------------------------------


def _header(reader: FieldReader, ros1: bool) -> int:
    if ros1:
        reader.u32()  # a counter
    stamp_ns = reader.time_ns(ros1=ros1)
    reader.text()
    return stamp_ns


def _ros_image(reader: FieldReader, ros1: bool) -> ImageMessage:
    stamp_ns = _header(reader, ros1)
    height, width, encoding = reader.u32(), reader.u32(), reader.text()
    big_endian, step = bool(reader.u8()), reader.u32()
    layout = Layout(width, height, encoding, step, big_endian)
    return ImageMessage(stamp_ns, RAW, reader.data(), layout)


def _ros_compressed(reader: FieldReader, ros1: bool) -> ImageMessage:
    stamp_ns = _header(reader, ros1)
    format_ = _format(reader.text())
    return ImageMessage(stamp_ns, format_, reader.data())


def _ros_packet(reader: FieldReader, ros1: bool) -> ImageMessage:
    stamp_ns = _header(reader, ros1)
    for _ in range(2):
        reader.i32()  # the size, which the codec knows
    said = reader.text()
    reader.u64()
    is_key = bool(reader.u8() & 1)
    reader.u8()
    format_ = _format(said)
    if format_ is STILL:
        raise ValueError(f"packets of the codec {said!r}")
    return ImageMessage(stamp_ns, format_, reader.data(), is_key=is_key)


def _foxglove_raw(reader: FieldReader, ros1: bool) -> ImageMessage:
    stamp_ns = reader.time_ns(ros1=ros1)
    reader.text()
    width, height = reader.u32(), reader.u32()
    encoding, step = reader.text(), reader.u32()
    layout = Layout(width, height, encoding, step)
    return ImageMessage(stamp_ns, RAW, reader.data(), layout)


def _foxglove_data(reader: FieldReader, ros1: bool) -> ImageMessage:
    """CompressedImage and CompressedVideo, which have the same fields."""
    stamp_ns = reader.time_ns(ros1=ros1)
    reader.text()
    data = reader.data()
    return ImageMessage(stamp_ns, _format(reader.text()), data)


_IN_ROS = {
    ("sensor_msgs", "Image"): _ros_image,
    ("sensor_msgs", "CompressedImage"): _ros_compressed,
    ("foxglove_msgs", "RawImage"): _foxglove_raw,
    ("foxglove_msgs", "CompressedImage"): _foxglove_data,
    ("foxglove_msgs", "CompressedVideo"): _foxglove_data,
    ("ffmpeg_image_transport_msgs", "FFMPEGPacket"): _ros_packet,
}


# --- Protobuf ------------------------------------------------------------------------


def _bytes(value: Value) -> memoryview:
    if isinstance(value, int):
        raise ValueError("expected bytes, got a number")
    return value


def _text(value: Value) -> str:
    return bytes(_bytes(value)).decode("utf-8", "replace")


def _number(value: Value) -> int:
    if not isinstance(value, int):
        raise ValueError("expected a number, got bytes")
    return value


def _proto_raw(message: memoryview) -> ImageMessage:
    found = dict(fields(message))
    layout = Layout(
        _number(found.get(2, 0)),
        _number(found.get(3, 0)),
        _text(found.get(4, memoryview(b""))),
        _number(found.get(5, 0)),
    )
    data = _bytes(found.get(6, memoryview(b"")))
    return ImageMessage(_proto_stamp(found), RAW, data, layout)


def _proto_data(data_field: int, format_field: int) -> Parser:
    def parse(message: memoryview) -> ImageMessage:
        found = dict(fields(message))
        said = _text(found.get(format_field, memoryview(b"")))
        data = _bytes(found.get(data_field, memoryview(b"")))
        format_ = said if KEY_FRAME in found else _format(said)
        return ImageMessage(
            _proto_stamp(found),
            _CODECS.get(format_, format_),
            data,
            shown=not found.get(NOT_SHOWN),
            is_key=_number(found[KEY_FRAME]) == _YES if KEY_FRAME in found else None,
        )

    return parse


_YES = 2
"""KEY_FRAME is 1 for no and 2 for yes: a Protobuf field cannot be there and be 0."""


def _proto_stamp(found: Mapping[int, Value]) -> int:
    return timestamp_ns(found[1]) if 1 in found else 0


# --- JSON ----------------------------------------------------------------------------


def _json(message: memoryview) -> tuple[dict[str, Any], memoryview, int]:
    """The fields, the decoded data and the stamp."""
    parsed = json.loads(bytes(message))
    if not isinstance(parsed, dict):
        raise ValueError("expected a JSON object")
    found = cast(dict[str, Any], parsed)
    data = base64.b64decode(found.get("data", ""), validate=True)
    stamp: Any = found.get("timestamp") or cast(Any, {})
    stamp_ns = int(stamp.get("sec", 0)) * 10**9 + int(stamp.get("nsec", 0))
    return found, memoryview(data), stamp_ns


def _json_raw(message: memoryview) -> ImageMessage:
    found, data, stamp_ns = _json(message)
    width, height, step = (int(found.get(k, 0)) for k in ("width", "height", "step"))
    layout = Layout(width, height, str(found.get("encoding", "")), step)
    return ImageMessage(stamp_ns, RAW, data, layout)


def _json_data(message: memoryview) -> ImageMessage:
    found, data, stamp_ns = _json(message)
    return ImageMessage(stamp_ns, _format(str(found.get("format", ""))), data)


def _of_any_json(read: Parser) -> Parser:
    """It, with ValueError for fields of any other type, size or depth."""

    def parse(message: memoryview) -> ImageMessage:
        try:
            return read(message)
        except (TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise ValueError(f"a field is not what it should be: {error}") from error

    return parse


_IN_FOXGLOVE: Mapping[tuple[str, str], Parser] = {
    ("protobuf", "RawImage"): _proto_raw,
    ("protobuf", "CompressedImage"): _proto_data(2, 3),
    ("protobuf", "CompressedVideo"): _proto_data(3, 4),
    ("json", "RawImage"): _of_any_json(_json_raw),
    ("json", "CompressedImage"): _of_any_json(_json_data),
    ("json", "CompressedVideo"): _of_any_json(_json_data),
}
