"""Why a file is not a video, in words for its owner."""

from pathlib import Path

_LOOK_BYTES = 4096
_MP4_BRANDS = (b"ftyp", b"styp")
_MOST_BOXES = 1000


def why_unreadable(path: Path) -> str:
    """The likeliest reason why no decoder takes this file."""
    try:
        with path.open("rb") as file:
            start = file.read(_LOOK_BYTES)
        if not start:
            return "the file is empty"
        if start[4:8] in _MP4_BRANDS and b"moov" not in _boxes(path):
            return "an MP4 without its index ('moov'): truncated, or never finished"
        if _is_text(start):
            return "this is text, not a video"
    except OSError as error:
        return error.strerror or "cannot be read"
    return "not a video that can be read"


def _boxes(path: Path) -> set[bytes]:
    """The types of an MP4's outermost boxes, as far as they can be followed."""
    kinds: set[bytes] = set()
    with path.open("rb") as file:
        for _ in range(_MOST_BOXES):
            at, header = file.tell(), file.read(16)
            if len(header) < 8:
                break
            kinds.add(header[4:8])
            size = int.from_bytes(header[:4], "big")
            if size == 1:  # the size did not fit 32 bits and follows the type
                size = int.from_bytes(header[8:], "big")
            if size < 8:  # 0: up to the end of the file
                break
            file.seek(at + size)
    return kinds


def _is_text(start: bytes) -> bool:
    try:
        text = start.decode("utf-8")
    except UnicodeDecodeError as error:
        # The last character may have been cut in two.
        if error.start < len(start) - 3:
            return False
        text = start[: error.start].decode("utf-8")
    return all(character.isprintable() or character in "\t\r\n" for character in text)
