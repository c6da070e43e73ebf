"""Messages and schemas of Foxglove, as its viewer expects them in Protobuf."""

from collections.abc import Iterable, Sequence

from edgepipe.stages.recordings.image_messages import KEY_FRAME, NOT_SHOWN
from edgepipe.stages.recordings.protobuf import (
    bytes_field,
    double_field,
    fixed32_field,
    timestamp_field,
    varint_field,
)

VIDEO = "foxglove.CompressedVideo"
IMAGE = "foxglove.CompressedImage"
RAW = "foxglove.RawImage"
ANNOTATIONS = "foxglove.ImageAnnotations"

VIDEO_FORMATS = {"h264": "h264", "hevc": "h265", "vp9": "vp9", "av1": "av1"}
"""FFmpeg's name of a codec, and Foxglove's."""

Color = tuple[float, float, float]
"""Red, green, blue in 0..1."""

_LINE_LOOP = 2
_NO, _YES = 1, 2


def video(
    stamp_ns: int, frame_id: str, data: bytes, format_: str, *, key: bool, shown: bool
) -> bytes:
    """A CompressedVideo, with fields that only edgepipe knows."""
    return b"".join(
        (
            timestamp_field(1, stamp_ns),
            bytes_field(2, frame_id),
            bytes_field(3, data),
            bytes_field(4, format_),
            varint_field(NOT_SHOWN, not shown),
            varint_field(KEY_FRAME, _YES if key else _NO),
        )
    )


def image(stamp_ns: int, frame_id: str, data: bytes, format_: str) -> bytes:
    """A CompressedImage."""
    head = timestamp_field(1, stamp_ns) + bytes_field(2, data)
    return head + bytes_field(3, format_) + bytes_field(4, frame_id)


def raw(
    stamp_ns: int, frame_id: str, size: tuple[int, int], encoding: str, data: bytes
) -> bytes:
    """A RawImage of (width, height) without padding."""
    width, height = size
    return b"".join(
        (
            timestamp_field(1, stamp_ns),
            fixed32_field(2, width),
            fixed32_field(3, height),
            bytes_field(4, encoding),
            fixed32_field(5, len(data) // height),
            bytes_field(6, data),
            bytes_field(7, frame_id),
        )
    )


def box(
    stamp_ns: int, xyxy: Sequence[float], color: Color, thickness: float = 2
) -> bytes:
    """A PointsAnnotation around a box in pixels."""
    x1, y1, x2, y2 = xyxy
    corners = ((x1, y1), (x2, y1), (x2, y2), (x1, y2))
    points = b"".join(bytes_field(3, _point(x, y)) for x, y in corners)
    head = timestamp_field(1, stamp_ns) + varint_field(2, _LINE_LOOP)
    return head + points + bytes_field(4, _color(color)) + double_field(7, thickness)


def label(stamp_ns: int, at: tuple[float, float], text: str, color: Color) -> bytes:
    """A TextAnnotation at a place in pixels."""
    return b"".join(
        (
            timestamp_field(1, stamp_ns),
            bytes_field(2, _point(*at)),
            bytes_field(3, text),
            double_field(4, 12),
            bytes_field(5, _color((1, 1, 1))),
            bytes_field(6, _color(color)),
        )
    )


def annotations(boxes: Iterable[bytes], labels: Iterable[bytes]) -> bytes:
    """An ImageAnnotations."""
    return b"".join(
        [bytes_field(2, each) for each in boxes]
        + [bytes_field(3, each) for each in labels]
    )


def _point(x: float, y: float) -> bytes:
    return double_field(1, x) + double_field(2, y)


def _color(color: Color) -> bytes:
    numbers = (*color, 1.0)
    return b"".join(double_field(n, value) for n, value in enumerate(numbers, 1))
