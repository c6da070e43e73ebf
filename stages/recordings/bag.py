"""ROS bags: files of ROS 1, folders and files of rosbag2."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from edgepipe.errors import InputError
from edgepipe.stages.recordings.library import need
from edgepipe.stages.recordings.recorded import Damage, Recorded, Stored, Topic


class _Reader(Protocol):
    """What the readers of both kinds of bags have in common."""

    @property
    def connections(self) -> Sequence[Any]: ...

    def open(self) -> None: ...

    def close(self) -> None: ...

    def messages(
        self, connections: Sequence[Any]
    ) -> Generator[tuple[Any, int, bytes], None, None]: ...


def open_bag(path: Path) -> Recorded:
    """Open a ``.bag`` of ROS 1, or a folder or file of rosbag2.

    Raises:
        InputError: It cannot be read, or a library is missing.
    """
    is_ros1 = path.is_file() and path.suffix.lower() not in (".db3", ".mcap")
    module = need(f"rosbags.{'rosbag1' if is_ros1 else 'rosbag2'}", str(path))
    try:
        reader: _Reader = module.Reader(path)
        reader.open()
    except Exception as error:  # a library's edge: damage makes it raise anything
        raise InputError(f"{path}: not a bag that can be read: {error}") from error
    return _Bag(reader, "ros1" if is_ros1 else "cdr")


class _Bag:
    """A bag through the reader of its kind, which sorts messages by their times."""

    def __init__(self, reader: _Reader, encoding: str) -> None:
        self._reader, self._encoding = reader, encoding
        self._open = True
        self._cut = ""

    @property
    def topics(self) -> Sequence[Topic]:
        """Topics with their numbers of messages; several publishers are one topic."""
        found: dict[str, Topic] = {}
        for each in self._reader.connections:
            before = found.get(each.topic)
            count = each.msgcount + (before.messages or 0 if before else 0)
            found[each.topic] = Topic(
                each.topic, each.msgtype, self._encoding, count, {}
            )
        return list(found.values())

    @property
    def end_state(self) -> tuple[str, str]:
        """``truncated`` if reading had to stop."""
        return ("truncated", self._cut) if self._cut else ("ended", "")

    def messages(self, topic: str) -> Iterator[Stored | Damage]:
        """Those of one topic."""
        wanted = [c for c in self._reader.connections if c.topic == topic]
        try:
            for _, log_ns, data in self._reader.messages(connections=wanted):
                yield Stored(log_ns, memoryview(data))
        except Exception as error:  # noqa: BLE001 - see open_bag
            self._cut = f"reading stopped: {error}"
            yield Damage(self._cut)

    def close(self) -> None:
        """Close the bag."""
        if self._open:
            self._open = False
            with suppress(
                Exception
            ):  # nothing is written: closing cannot lose anything
                self._reader.close()
