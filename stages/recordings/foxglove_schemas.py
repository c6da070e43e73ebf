"""Descriptors of Foxglove's messages, which an MCAP file carries for its readers.

Each is a FileDescriptorSet of google/protobuf/descriptor.proto, put together field by
field from what the messages' definitions say.
"""

from collections.abc import Mapping, Sequence
from functools import cache

from edgepipe.stages.recordings.foxglove import ANNOTATIONS, IMAGE, RAW, VIDEO
from edgepipe.stages.recordings.image_messages import KEY_FRAME, NOT_SHOWN
from edgepipe.stages.recordings.protobuf import bytes_field, varint_field

# FieldDescriptorProto.Type and .Label.
_DOUBLE, _FIXED32, _BOOL, _STRING, _MESSAGE, _BYTES, _INT32, _INT64, _ENUM = (
    1, 7, 8, 9, 11, 12, 5, 3, 14,
)  # fmt: skip
_OPTIONAL, _REPEATED = 1, 3

_TIME = ".google.protobuf.Timestamp"
_TIMESTAMP_FILE = "google/protobuf/timestamp.proto"
_FILE = "foxglove/edgepipe.proto"

_Field = tuple[str, int, int | str, int]
"""Name, number, a type or the full name of a message, and label."""


def _one(name: str, number: int, kind: int | str) -> _Field:
    return name, number, kind, _OPTIONAL


def _many(name: str, number: int, kind: int | str) -> _Field:
    return name, number, kind, _REPEATED


_TYPE = ".foxglove.PointsAnnotation.Type"
_MESSAGES: Mapping[str, Sequence[_Field]] = {
    "CompressedVideo": (
        _one("timestamp", 1, _TIME),
        _one("frame_id", 2, _STRING),
        _one("data", 3, _BYTES),
        _one("format", 4, _STRING),
        _one("edgepipe_not_shown", NOT_SHOWN, _BOOL),
        _one("edgepipe_key_frame", KEY_FRAME, _INT32),
    ),
    "CompressedImage": (
        _one("timestamp", 1, _TIME),
        _one("data", 2, _BYTES),
        _one("format", 3, _STRING),
        _one("frame_id", 4, _STRING),
    ),
    "RawImage": (
        _one("timestamp", 1, _TIME),
        _one("width", 2, _FIXED32),
        _one("height", 3, _FIXED32),
        _one("encoding", 4, _STRING),
        _one("step", 5, _FIXED32),
        _one("data", 6, _BYTES),
        _one("frame_id", 7, _STRING),
    ),
    "Point2": (_one("x", 1, _DOUBLE), _one("y", 2, _DOUBLE)),
    "Color": tuple(_one(name, n, _DOUBLE) for n, name in enumerate("rgba", 1)),
    "KeyValuePair": (_one("key", 1, _STRING), _one("value", 2, _STRING)),
    "CircleAnnotation": (
        _one("timestamp", 1, _TIME),
        _one("position", 2, ".foxglove.Point2"),
        _one("diameter", 3, _DOUBLE),
        _one("thickness", 4, _DOUBLE),
        _one("fill_color", 5, ".foxglove.Color"),
        _one("outline_color", 6, ".foxglove.Color"),
    ),
    "PointsAnnotation": (
        _one("timestamp", 1, _TIME),
        _one("type", 2, _TYPE),
        _many("points", 3, ".foxglove.Point2"),
        _one("outline_color", 4, ".foxglove.Color"),
        _many("outline_colors", 5, ".foxglove.Color"),
        _one("fill_color", 6, ".foxglove.Color"),
        _one("thickness", 7, _DOUBLE),
    ),
    "TextAnnotation": (
        _one("timestamp", 1, _TIME),
        _one("position", 2, ".foxglove.Point2"),
        _one("text", 3, _STRING),
        _one("font_size", 4, _DOUBLE),
        _one("text_color", 5, ".foxglove.Color"),
        _one("background_color", 6, ".foxglove.Color"),
    ),
    "ImageAnnotations": (
        _many("circles", 1, ".foxglove.CircleAnnotation"),
        _many("points", 2, ".foxglove.PointsAnnotation"),
        _many("texts", 3, ".foxglove.TextAnnotation"),
        _many("metadata", 4, ".foxglove.KeyValuePair"),
    ),
}
_TYPES = ("UNKNOWN", "POINTS", "LINE_LOOP", "LINE_STRIP", "LINE_LIST")
_NEEDED = {
    VIDEO: ("CompressedVideo",),
    IMAGE: ("CompressedImage",),
    RAW: ("RawImage",),
    ANNOTATIONS: (
        "Point2",
        "Color",
        "KeyValuePair",
        "CircleAnnotation",
        "PointsAnnotation",
        "TextAnnotation",
        "ImageAnnotations",
    ),
}


@cache
def schema(name: str) -> bytes:
    """The FileDescriptorSet for a message of that full name."""
    messages = b"".join(bytes_field(4, _message(each)) for each in _NEEDED[name])
    file = b"".join(
        (
            bytes_field(1, _FILE),
            bytes_field(2, "foxglove"),
            bytes_field(3, _TIMESTAMP_FILE),
            messages,
            bytes_field(12, "proto3"),
        )
    )
    return bytes_field(1, _timestamp_file()) + bytes_field(1, file)


def _timestamp_file() -> bytes:
    fields = _field(_one("seconds", 1, _INT64)) + _field(_one("nanos", 2, _INT32))
    return b"".join(
        (
            bytes_field(1, _TIMESTAMP_FILE),
            bytes_field(2, "google.protobuf"),
            bytes_field(4, bytes_field(1, "Timestamp") + fields),
            bytes_field(12, "proto3"),
        )
    )


def _message(name: str) -> bytes:
    fields = b"".join(map(_field, _MESSAGES[name]))
    enum = bytes_field(4, _points_type()) if name == "PointsAnnotation" else b""
    return bytes_field(1, name) + fields + enum


def _points_type() -> bytes:
    values = b"".join(
        # Written although it may be 0: descriptors are proto2.
        bytes_field(2, bytes_field(1, name) + bytes((2 << 3, number)))
        for number, name in enumerate(_TYPES)
    )
    return bytes_field(1, "Type") + values


def _field(field: _Field) -> bytes:
    name, number, kind, label = field
    head = bytes_field(1, name) + varint_field(3, number) + varint_field(4, label)
    if isinstance(kind, int):
        return bytes_field(2, head + varint_field(5, kind))
    of = _ENUM if kind == _TYPE else _MESSAGE
    return bytes_field(2, head + varint_field(5, of) + bytes_field(6, kind))
