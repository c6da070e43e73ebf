"""What MCAP files and ROS bags have in common for whoever reads them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from edgepipe.errors import InputError
from edgepipe.stages.recordings.image_messages import Parser, parser_of

STREAM, STAMPS = "edgepipe.stream", "edgepipe.stamps"
"""Keys of a channel's metadata: the stream's id, and that edgepipe wrote it: stamps in
the headers are those of the captures, log times those of decoding."""


class Topic(NamedTuple):
    """One channel of a recording."""

    name: str
    schema: str
    encoding: str
    """Of its messages: ``protobuf``, ``cdr``, ``ros1``, ``json``."""
    messages: int | None
    """How many there are; None if nobody has counted."""
    metadata: Mapping[str, str]

    @property
    def parser(self) -> Parser | None:
        """What reads its messages; None if they are no images."""
        return parser_of(self.schema, self.encoding)


class Stored(NamedTuple):
    """One message as it lies in a recording."""

    log_ns: int
    """When it was recorded."""
    data: memoryview


class Damage(NamedTuple):
    """Messages are missing here, nobody knows how many."""

    detail: str


class Recorded(Protocol):
    """An opened recording."""

    @property
    def topics(self) -> Sequence[Topic]:
        """All of them, in the order of the recording."""
        ...

    def messages(self, topic: str) -> Iterator[Stored | Damage]:
        """Those of one topic, from the beginning, in the order of ``log_ns``."""
        ...

    @property
    def end_state(self) -> tuple[str, str]:
        """``ended``, or ``truncated`` and why, as far as it has been read."""
        ...

    def close(self) -> None:
        """Close the files; calling it again does nothing."""
        ...


def image_topics(recorded: Recorded) -> list[Topic]:
    """Topics with images, without those that have no message."""
    return [t for t in recorded.topics if t.parser is not None and t.messages != 0]


def chosen_topic(recorded: Recorded, wanted: str | None, place: str) -> Topic:
    """The topic that was asked for, or the only one with images.

    Raises:
        InputError: There is none, or several; the message lists them.
    """
    with_images = image_topics(recorded)
    names = ", ".join(topic.name for topic in with_images)
    if wanted is None:
        if len(with_images) == 1:
            return with_images[0]
        if with_images:
            raise InputError(
                f"{place}: several topics with images, add ?topic= and one of {names}"
            )
        if empty := [t.name for t in recorded.topics if t.parser is not None]:
            end = ": ".join(part for part in recorded.end_state if part)
            raise InputError(
                f"{place}: no whole image in it; empty: {', '.join(empty)} ({end})"
            )
        kinds = sorted({f"{t.schema} ({t.encoding})" for t in recorded.topics})
        held = f"; it holds {', '.join(kinds)}" if kinds else ""
        raise InputError(f"{place}: no topic with images in it{held}")
    for topic in recorded.topics:
        if topic.name == wanted:
            if topic.parser is None:
                kind = f"{topic.schema or 'no schema'} as {topic.encoding}"
                raise InputError(f"{place}: {wanted} holds no images: {kind}")
            return topic
    raise InputError(f"{place}: no topic {wanted} (with images: {names or 'none'})")
