"""``--set streams[0].deadline=50ms``: single values from the command line."""

import re
from collections.abc import Sequence

from edgepipe.configs.compose import MAX_DEPTH
from edgepipe.configs.problems import Mark, Marks, Path, Problem, dotted
from edgepipe.configs.scalars import Style, Written, is_list, is_mapping, show
from edgepipe.configs.strict_yaml import parse_value

ORIGIN = Mark("--set")
"""Where these values come from, for messages."""

_INDEX = r"\[(?:0|[1-9][0-9]{0,3})\]"
_KEY = r"[^.\[\]\s]+"
_PATH = re.compile(rf"{_KEY}(?:\.{_KEY}|{_INDEX})*")
_STEP = re.compile(rf"{_INDEX}|{_KEY}")


class _NoSuchPlaceError(Exception):
    """The path leads nowhere; the argument says why."""


def apply(
    data: dict[str, object], marks: Marks, overrides: Sequence[str]
) -> list[Problem]:
    """Put each ``path=value`` into the data, in order, and mark where it came from.

    The value is YAML. A list takes an index of an item that it has, or the next one.
    """
    return [problem for one in overrides for problem in _apply_one(data, marks, one)]


def _apply_one(data: dict[str, object], marks: Marks, override: str) -> list[Problem]:
    left, equals, right = override.partition("=")
    path = _parse_path(left)
    if not equals or path is None:
        text = f"expected path=value such as streams[0].deadline=50ms, got {override!r}"
        return [Problem(ORIGIN, (), text)]
    document = parse_value(right, ORIGIN)
    if document.problems:
        return [Problem(ORIGIN, path, problem.text) for problem in document.problems]
    try:
        _put(data, path, document.data)
    except _NoSuchPlaceError as error:
        return [Problem(ORIGIN, path, str(error))]
    for table in (marks.keys, marks.values):
        for old in [known for known in table if known[: len(path)] == path]:
            del table[old]
    marks.keys[path] = marks.values[path] = ORIGIN
    for length in range(1, len(path)):
        marks.values.setdefault(path[:length], ORIGIN)
    return []


def _parse_path(text: str) -> Path | None:
    if not _PATH.fullmatch(text):
        return None
    steps = _STEP.findall(text)
    if len(steps) > MAX_DEPTH:
        return None
    return tuple(int(step[1:-1]) if step[0] == "[" else step for step in steps)


def _put(data: dict[str, object], path: Path, value: object) -> None:
    """Set the value, making the mappings and lists on the way to it."""
    place: object = data
    for depth, step in enumerate(path):
        last = depth + 1 == len(path)
        fresh: object = value
        if not last:
            fresh = [] if isinstance(path[depth + 1], int) else {}
        place = _enter(place, step, fresh, dotted(path[:depth]), replace=last)


def _enter(
    place: object, step: str | int, fresh: object, name: str, *, replace: bool
) -> object:
    """The value one step down: ``fresh``, if none is there or it is to be replaced."""
    if isinstance(step, str):
        if not is_mapping(place):
            hint = f", write {name}[0].{step}" if is_list(place) else ""
            raise _NoSuchPlaceError(f"{name} is {show(place)}, not a mapping{hint}")
        if replace or _is_nothing(place.get(step)):
            place[step] = fresh
        return place[step]
    if not is_list(place):
        raise _NoSuchPlaceError(f"{name} is {show(place)}, not a list")
    count = len(place)
    if step > count:
        raise _NoSuchPlaceError(f"the next item of {name} is [{count}]")
    if step == count:
        place.append(fresh)
    elif replace:
        place[step] = fresh
    return place[step]


def _is_nothing(value: object) -> bool:
    return value is None or (
        isinstance(value, Written) and not value and value.style is Style.PLAIN
    )
