"""Rules that span several values of a configuration.

They look at the plain data, not at checked objects, so that they can be reported in one
run with everything else; whatever has the wrong shape is left to the schema.
"""

import posixpath
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence

from edgepipe.configs import ladder_rules
from edgepipe.configs.problems import Marks, Path, Problem
from edgepipe.configs.scalars import is_list, is_mapping, native, show
from edgepipe.configs.schema import SchedulerConfig, StreamConfig

STREAM = "{stream}"
"""Stands for a stream's id in the path of a sink that writes a file for each."""
_PER_STREAM = ("mot", "coco", "video")
"""Kinds of sinks whose format has no place for the id of the stream."""
_BRACES = re.compile(r"\{[^{}]*\}|[{}]")


def check(data: object, marks: Marks) -> Iterator[Problem]:
    """Every broken rule."""
    top = data if is_mapping(data) else {}
    streams, sinks = _mappings(top, "streams"), _mappings(top, "sinks")
    streams += [
        ((*path, *below), branch)
        for path, stream in streams
        for below, branch in _mappings(stream, "branches")
    ]
    yield from _once(_texts(streams, "id"), _same_id, "stream id", marks)
    yield from _once(_texts(sinks, "path"), posixpath.normpath, "path", marks)
    yield from _capacities(top, streams, marks)
    yield from _min_services(streams, marks)
    yield from _no_waiting(streams, marks)
    yield from _speeds(streams, marks)
    yield from ladder_rules.check(top, streams, marks)
    yield from _classifiers(top, streams, marks)
    for path, sink in sinks:
        text = sink.get("path")
        if isinstance(text, str):
            per_stream = sink.get("kind") in _PER_STREAM
            problem = _placeholders(text, per_stream, len(streams))
            if problem:
                place: Path = (*path, "path")
                yield Problem(marks.value(place), place, problem)


def _capacities(
    top: Mapping[str, object],
    streams: Sequence[tuple[Path, Mapping[str, object]]],
    marks: Marks,
) -> Iterator[Problem]:
    """A queue cannot hold more frames than may be in flight."""
    scheduler = top.get("scheduler")
    bound: object = SchedulerConfig.model_fields["max_in_flight"].default
    if is_mapping(scheduler):
        bound = native(scheduler.get("max_in_flight", bound))
    for path, stream in streams:
        queue = stream.get("queue")
        capacity = native(queue.get("capacity")) if is_mapping(queue) else None
        if isinstance(capacity, int) and isinstance(bound, int) and capacity > bound:
            place: Path = (*path, "queue", "capacity")
            text = f"{capacity} is more than scheduler.max_in_flight, which is {bound}"
            yield Problem(marks.value(place), place, text)


def _speeds(
    streams: Sequence[tuple[Path, Mapping[str, object]]], marks: Marks
) -> Iterator[Problem]:
    """What is played as fast as it goes has no speed."""
    for path, stream in streams:
        source = stream.get("source")
        if not is_mapping(source) or source.get("pace") != "fast":
            continue
        if source.get("speed", "1x") != "1x":
            place: Path = (*path, "source", "speed")
            text = "it has no effect with pace: fast"
            yield Problem(marks.value(place), place, text)


def _classifiers(
    top: dict[str, object],
    streams: Sequence[tuple[Path, Mapping[str, object]]],
    marks: Marks,
) -> Iterator[Problem]:
    """Each has a name of its own, and whoever names one names one that there is."""
    entries = _mappings(top, "classifiers")
    yield from _once(_texts(entries, "name"), str, "classifier", marks)
    names = [native(entry.get("name")) for _, entry in entries]
    for path, stream in streams:
        used = stream.get("classifiers")
        for index, name in enumerate(used if is_list(used) else ()):
            if isinstance(native(name), str) and native(name) not in names:
                place: Path = (*path, "classifiers", index)
                text = f"no classifier {show(name)} in classifiers"
                yield Problem(marks.value(place), place, text)


def _min_services(
    streams: Sequence[tuple[Path, Mapping[str, object]]], marks: Marks
) -> Iterator[Problem]:
    """Only who goes last can be starved, and only it may cost others a frame."""
    otherwise: object = StreamConfig.model_fields["criticality"].default
    for path, stream in streams:
        criticality = stream.get("criticality", otherwise)
        given = native(stream.get("min_service")) is not None
        if given and criticality in ("critical", "normal"):
            place: Path = (*path, "min_service")
            text = f"only a background stream can have one, this one is {criticality}"
            yield Problem(marks.value(place), place, text)


def _no_waiting(
    streams: Sequence[tuple[Path, Mapping[str, object]]], marks: Marks
) -> Iterator[Problem]:
    """What a stream has decoded comes to its branches whether they have room or not."""
    for path, stream in streams:
        queue = stream.get("queue")
        overflow = queue.get("overflow") if is_mapping(queue) else None
        if "branches" in path and overflow == "block":
            place: Path = (*path, "queue", "overflow")
            text = "a branch cannot make its stream wait"
            yield Problem(marks.value(place), place, text)


def _placeholders(text: str, per_stream: bool, streams: int) -> str | None:
    unknown = [found for found in _BRACES.findall(text) if found != STREAM]
    if unknown:
        return f"{unknown[0]!r} stands for nothing, only {STREAM} does"
    if per_stream and streams > 1 and STREAM not in text:
        return f"{streams} streams cannot share the file, put {STREAM} in {show(text)}"
    return None


def _once(
    values: Iterator[tuple[Path, str]],
    same: Callable[[str], str],
    noun: str,
    marks: Marks,
) -> Iterator[Problem]:
    first: dict[str, Path] = {}
    for path, value in values:
        before = first.setdefault(same(value), path)
        if before is not path:
            mark = marks.value(before)
            where = f"line {mark.line}" if mark.line else str(mark)
            text = f"{noun} {show(value)} is given twice, first on {where}"
            yield Problem(marks.value(path), path, text)


def _same_id(text: str) -> str:
    """Ids that look alike are alike: an accent may be written in two ways."""
    return unicodedata.normalize("NFC", text)


def _texts(
    items: list[tuple[Path, dict[str, object]]], key: str
) -> Iterator[tuple[Path, str]]:
    for path, item in items:
        if isinstance(text := item.get(key), str) and text:
            yield (*path, key), text


def _mappings(top: dict[str, object], key: str) -> list[tuple[Path, dict[str, object]]]:
    items = top.get(key)
    listed = items if is_list(items) else []
    return [
        ((key, index), item) for index, item in enumerate(listed) if is_mapping(item)
    ]
