"""What edgepipe writes, read with Google's library and the descriptors in the file."""

from typing import Any

import pytest

from edgepipe.stages.recordings import foxglove
from edgepipe.stages.recordings.foxglove_schemas import schema

descriptor_pb2: Any = pytest.importorskip("google.protobuf.descriptor_pb2")
descriptor_pool: Any = pytest.importorskip("google.protobuf.descriptor_pool")
message_factory: Any = pytest.importorskip("google.protobuf.message_factory")


def parsed(name: str, message: bytes) -> Any:
    """The message, as any reader of the file sees it."""
    files = descriptor_pb2.FileDescriptorSet.FromString(schema(name))
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    described = pool.FindMessageTypeByName(name)
    return message_factory.GetMessageClass(described).FromString(message)


def test_a_video_packet() -> None:
    data = foxglove.video(3_000_000_007, "front", b"abc", "h264", key=True, shown=True)
    found = parsed(foxglove.VIDEO, data)
    assert (found.timestamp.seconds, found.timestamp.nanos) == (3, 7)
    assert (found.frame_id, found.data, found.format) == ("front", b"abc", "h264")
    assert (found.edgepipe_key_frame, found.edgepipe_not_shown) == (2, False)


def test_a_compressed_image() -> None:
    found = parsed(foxglove.IMAGE, foxglove.image(1, "front", b"\xff\xd8", "jpeg"))
    assert (found.data, found.format, found.frame_id) == (b"\xff\xd8", "jpeg", "front")


def test_a_raw_image() -> None:
    data = foxglove.raw(1, "front", (4, 2), "bgr8", bytes(24))
    found = parsed(foxglove.RAW, data)
    assert (found.width, found.height, found.step) == (4, 2, 12)
    assert (found.encoding, found.data) == ("bgr8", bytes(24))


def test_boxes_with_labels() -> None:
    box = foxglove.box(5, (1, 2, 30, 40), (1, 0.5, 0))
    label = foxglove.label(5, (1, 2), "person 7", (1, 0.5, 0))
    found = parsed(foxglove.ANNOTATIONS, foxglove.annotations([box], [label]))
    (points,), (text,) = found.points, found.texts
    assert [(p.x, p.y) for p in points.points] == [(1, 2), (30, 2), (30, 40), (1, 40)]
    assert (points.type, points.thickness, points.timestamp.nanos) == (2, 2, 5)
    assert (points.outline_color.r, points.outline_color.g) == (1, 0.5)
    assert (text.text, text.position.x, text.position.y) == ("person 7", 1, 2)


@pytest.mark.parametrize(
    "name",
    [foxglove.VIDEO, foxglove.IMAGE, foxglove.RAW, foxglove.ANNOTATIONS],
)
def test_an_empty_message_has_a_type_in_its_own_schema(name: str) -> None:
    assert parsed(name, b"").DESCRIPTOR.full_name == name
