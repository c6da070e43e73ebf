"""From the name of a recording in a robot's format to one topic of it."""

from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl

from edgepipe.errors import InputError
from edgepipe.stages.recordings.mcap_folder import open_mcap
from edgepipe.stages.recordings.recorded import Recorded, chosen_topic
from edgepipe.stages.sources.fingerprint import fingerprint
from edgepipe.stages.sources.messages import (
    HEADER,
    LOG,
    MessageSource,
    TopicOptions,
)

_KEYS = ("topic", "time", "zero")


class Place(NamedTuple):
    """A recording's path, and what was said behind it."""

    kind: str
    """``mcap``, ``bag``, or empty: the path tells."""
    path: Path
    topic: str | None
    stamps: str | None
    zero_ns: int | None


def open_topic(
    uri: str, *, loop: bool, fps: float | None, decode_threads: int
) -> MessageSource:
    """Open the topic with images that a URI names.

    Raises:
        InputError: There is none, or several and none was chosen.
    """
    place = place_of(uri)
    recorded = open_recorded(place)
    try:
        topic = chosen_topic(recorded, place.topic, str(place.path))
        options = TopicOptions(loop, fps, decode_threads, place.stamps, place.zero_ns)
        path = place.path
        hash_ = fingerprint(path) if path.is_file() else None
        return MessageSource(recorded, topic, uri, options, hash_)
    except BaseException:
        recorded.close()
        raise


def open_recorded(place: Place) -> Recorded:
    """Open a recording, whatever its format.

    Raises:
        InputError: It cannot be read.
    """
    path = place.path
    if not path.exists():
        raise InputError(f"{path}: no such file or folder")
    if _is_bag(place):
        from edgepipe.stages.recordings.bag import open_bag

        return open_bag(path)
    return open_mcap(path)


def _is_bag(place: Place) -> bool:
    if place.kind:
        return place.kind == "bag"
    if place.path.is_dir():
        return (place.path / "metadata.yaml").exists()
    return place.path.suffix.lower() != ".mcap"


def place_of(uri: str) -> Place:
    """Take a URI apart; a ``?`` in the name of a file that is there belongs to it.

    Raises:
        InputError: Something behind the ``?`` is not known.
    """
    kind, colon, rest = uri.partition(":")
    kind = kind.lower()
    if not colon or kind not in ("mcap", "bag"):
        kind, rest = "", uri
    rest = rest.removeprefix("//") if kind else rest
    query = ""
    if not Path(rest).exists():
        name, mark, said = rest.rpartition("?")
        if mark:
            rest, query = name, said
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError as error:
        raise InputError(f"{uri}: {error}") from error
    given = dict(pairs)
    if unknown := [key for key in given if key not in _KEYS]:
        known = ", ".join(_KEYS)
        raise InputError(f"{uri}: unknown key {unknown[0]!r} (known: {known})")
    if len(given) < len(pairs):
        raise InputError(f"{uri}: a key is given twice")
    stamps = given.get("time")
    if stamps not in (None, HEADER, LOG):
        raise InputError(f"{uri}: time: expected {HEADER} or {LOG}, got {stamps!r}")
    return Place(kind, Path(rest), given.get("topic"), stamps, _zero(uri, given))


def _zero(uri: str, given: dict[str, str]) -> int | None:
    text = given.get("zero")
    if text is None:
        return None
    if not text.isdecimal():
        raise InputError(f"{uri}: zero: expected nanoseconds, got {text!r}")
    return int(text)
