"""From the name of a recording in a robot's format to one topic of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode

from edgepipe.errors import InputError
from edgepipe.stages.recordings.mcap_folder import open_mcap
from edgepipe.stages.recordings.recorded import (
    STREAM,
    Recorded,
    Topic,
    chosen_topic,
    image_topics,
)
from edgepipe.stages.sources.fingerprint import fingerprint
from edgepipe.stages.sources.messages import MessageSource
from edgepipe.stages.sources.topic_times import HEADER, LOG, TopicOptions

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
        # Only with a common zero do media times of two topics mean the same.
        alone = place.zero_ns is None
        timeline = None if alone else f"{path.absolute()} {place.zero_ns}"
        return MessageSource(recorded, topic, uri, options, hash_, timeline)
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


class Replayable(NamedTuple):
    """One stream of a recording, ready to be opened."""

    stream: str
    uri: str


def replayable(uri: str, topics: Sequence[str] = ()) -> list[Replayable]:
    """The streams of a recording, on one clock.

    Of a recording without topics, such as a video file, it is the recording itself.

    Args:
        uri: As for a source, without ``?topic=``.
        topics: Which of its topics; all with images if none is named.

    Raises:
        InputError: It cannot be read, or lacks a topic.
    """
    from edgepipe.stages.sources.open import is_robots

    place = place_of(uri)
    if not place.kind and not is_robots(uri):
        if topics:
            raise InputError(f"{uri}: has no topics")
        return [Replayable("recording", uri)]
    recorded = open_recorded(place)
    try:
        wanted = topics or ([place.topic] if place.topic else [])
        found = [chosen_topic(recorded, name, str(place.path)) for name in wanted]
        found = found or image_topics(recorded)
        if not found:
            chosen_topic(recorded, None, str(place.path))
    finally:
        recorded.close()
    zeros: list[int] = []
    for topic in found:
        source = open_topic(_uri(place, topic), loop=False, fps=None, decode_threads=1)
        zeros.append(source.info.origin_ns)
        source.close()
    place = place._replace(zero_ns=min(zeros) if len(found) > 1 else None)
    return [
        Replayable(
            topic.metadata.get(STREAM, topic.name.lstrip("/")), _uri(place, topic)
        )
        for topic in found
    ]


def _uri(place: Place, topic: Topic) -> str:
    kind = place.kind or ("bag" if _is_bag(place) else "mcap")
    said = {"topic": topic.name}
    if place.stamps is not None:
        said["time"] = place.stamps
    if place.zero_ns is not None:
        said["zero"] = str(place.zero_ns)
    return f"{kind}:{place.path}?{urlencode(said, safe='/')}"
