"""Messages with images that are not what they should be."""

import pytest

from edgepipe.stages.recordings.image_messages import parser_of


@pytest.mark.parametrize("name", ["RawImage", "CompressedImage", "CompressedVideo"])
@pytest.mark.parametrize(
    "message",
    [
        b'{"data": ' + b"[" * 200_000,
        b'{"data": {"a": 1}}',
        b'{"timestamp": {"sec": 1e999}}',
        b'{"timestamp": {"sec": []}}',
        b'{"timestamp": 5}',
        b'{"data": "not base64"}',
        b"[1, 2]",
        b"\xff\xfe",
        b"",
    ],
)
def test_json_of_any_other_shape_is_refused(name: str, message: bytes) -> None:
    parse = parser_of(f"foxglove.{name}", "json")
    assert parse is not None
    with pytest.raises(ValueError, match=r"\S"):
        parse(memoryview(message))


@pytest.mark.parametrize("width", [b"[]", b"1e999", b'"wide"', b"{}"])
def test_a_size_in_json_that_is_no_number_is_refused(width: bytes) -> None:
    parse = parser_of("foxglove.RawImage", "json")
    assert parse is not None
    with pytest.raises(ValueError, match=r"\S"):
        parse(memoryview(b'{"data": "", "width": ' + width + b"}"))
