"""One MCAP file, or a folder of them that continue each other."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from edgepipe.errors import InputError
from edgepipe.stages.recordings.library import need
from edgepipe.stages.recordings.recorded import Damage, Recorded, Stored, Topic


def open_mcap(path: Path) -> Recorded:
    """Open a file, or all files of a folder in the order of their names.

    Raises:
        InputError: There is none, it cannot be read, or a library is missing.
    """
    need("mcap", str(path))
    from edgepipe.stages.recordings.mcap_file import McapFile

    if not path.is_dir():
        return McapFile(path)
    paths = sorted(path.glob("*.mcap"))
    if not paths:
        raise InputError(f"{path}: no .mcap files in this folder")
    parts: list[Recorded] = []
    try:
        for number, each in enumerate(paths):
            # The newest may have been created and not yet begun when power was lost.
            if number and not each.stat().st_size:
                continue
            parts.append(McapFile(each))
    except BaseException:
        for part in parts:
            part.close()
        raise
    return _Parts(parts)


class _Parts:
    """Recordings one after the other as if they were one."""

    def __init__(self, parts: Sequence[Recorded]) -> None:
        self._parts = parts

    @property
    def topics(self) -> Sequence[Topic]:
        """Topics of all parts; numbers of messages are added up."""
        found: dict[str, Topic] = {}
        for part in self._parts:
            for topic in part.topics:
                before = found.get(topic.name)
                if before is None:
                    found[topic.name] = topic
                elif before.messages is not None and topic.messages is not None:
                    total = before.messages + topic.messages
                    found[topic.name] = before._replace(messages=total)
        return list(found.values())

    @property
    def end_state(self) -> tuple[str, str]:
        """That of the first part that is not whole."""
        states = [part.end_state for part in self._parts]
        return next((s for s in states if s[0] != "ended"), ("ended", ""))

    def messages(self, topic: str) -> Iterator[Stored | Damage]:
        """Those of one topic in all parts."""
        for part in self._parts:
            yield from part.messages(topic)

    def close(self) -> None:
        """Close all parts."""
        for part in self._parts:
            part.close()
