"""Plain data against a schema: every broken rule, in edgepipe's own words."""

import difflib
from collections.abc import Iterator
from functools import cache
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from edgepipe.configs import section
from edgepipe.configs.kinds import BROKEN_RULE
from edgepipe.configs.problems import Marks, Path, Problem
from edgepipe.configs.scalars import is_list, is_mapping, show
from edgepipe.configs.section import Section
from edgepipe.configs.strict_yaml import missing_blank_hint

S = TypeVar("S", bound=Section)

_EXTENSION = "x-"
_CONTAINERS = {
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "tuple_type": "a list",
}


def without_extensions(data: object) -> object:
    """The data without the keys that begin with ``x-``, at any depth."""
    if is_mapping(data):
        return {
            key: without_extensions(value)
            for key, value in data.items()
            if not key.startswith(_EXTENSION)
        }
    if is_list(data):
        return [without_extensions(item) for item in data]
    return data


def check(
    schema: type[S], data: object, marks: Marks
) -> tuple[S | None, list[Problem]]:
    """The checked section, or None and what is wrong with the data."""
    try:
        return schema.model_validate(data), []
    except ValidationError as error:
        details = error.errors(include_url=False)
        return None, [p for one in details for p in _explain(schema, one, marks)]


def _explain(
    schema: type[Section], detail: ErrorDetails, marks: Marks
) -> Iterator[Problem]:
    location, value = detail["loc"], detail["input"]
    kind = detail["type"]
    path = _path(schema, location)
    if kind == "extra_forbidden":
        yield from _unknown(schema, location, path, value, marks)
    elif kind == "missing":
        yield Problem(marks.value(path[:-1]), path, "this key is required")
    elif kind == "too_short":
        # pydantic counts the items without mistakes only.
        if not value:
            yield Problem(marks.value(path), path, "at least one item is required")
    elif kind in ("union_tag_not_found", "union_tag_invalid"):
        yield from _alternative(schema, location, path, value, marks)
    else:
        yield Problem(marks.value(path), path, _mismatch(detail))


def _mismatch(detail: ErrorDetails) -> str:
    value = detail["input"]
    if detail["type"] == BROKEN_RULE:
        return str(detail.get("ctx", {})["problem"])
    if wanted := _CONTAINERS.get(detail["type"]):
        return f"expected {wanted}, got {show(value)}{missing_blank_hint(value)}"
    return f"{show(value)} is not allowed here"


def _path(schema: type[Section], location: tuple[str | int, ...]) -> Path:
    """The place as a person writes it: pydantic's without tags of alternatives."""
    path: Path = ()
    for depth, step in enumerate(location):
        around = section.at(schema, location[:depth])
        is_tag = len(around) > 1 and step in [section.tag(part) for part in around]
        path = path if is_tag else (*path, step)
    return path


def _unknown(
    schema: type[Section],
    location: tuple[str | int, ...],
    path: Path,
    value: object,
    marks: Marks,
) -> Iterator[Problem]:
    """The key, and every key below it: they are just as unknown."""
    around = section.at(schema, location[:-1])
    siblings = [key for part in around for key in section.keys(part)]
    yield Problem(marks.key(path), path, _suggest(schema, siblings, str(path[-1])))
    for below in _keys_below(value, path):
        yield Problem(marks.key(below), below, _suggest(schema, [], str(below[-1])))


def _suggest(schema: type[Section], siblings: list[str], key: str) -> str:
    if near := difflib.get_close_matches(key, siblings, 1):
        return f"unknown key, did you mean {near[0]!r}?"
    elsewhere = _every_key(schema)
    # Short keys are never very close: for a swapped letter the length must be equal.
    as_long = [known for known in elsewhere if len(known) == len(key)]
    near = difflib.get_close_matches(key, elsewhere, 1, 0.75)
    if near or (near := difflib.get_close_matches(key, as_long, 1)):
        return f"unknown key, did you mean {elsewhere[near[0]]!r}?"
    known = f", known here are {', '.join(siblings)}" if siblings else ""
    return f"unknown key{known}"


@cache
def _every_key(schema: type[Section]) -> dict[str, str]:
    # Of keys with one name the one nearest to the top is meant.
    deepest_first = sorted(
        section.every_key(schema), key=lambda item: -item[1].count(".")
    )
    return dict(deepest_first)


def _keys_below(value: object, path: Path) -> Iterator[Path]:
    steps: Any = ()
    if is_mapping(value):
        steps = value.items()
    elif is_list(value):
        steps = enumerate(value)
    for step, inner in steps:
        below: Path = (*path, step)
        if isinstance(step, str):
            yield below
        yield from _keys_below(inner, below)


def _alternative(
    schema: type[Section],
    location: tuple[str | int, ...],
    path: Path,
    value: object,
    marks: Marks,
) -> Iterator[Problem]:
    """An item whose ``kind`` is missing or unknown; its keys are still checked."""
    if not is_mapping(value):
        hint = missing_blank_hint(value)
        text = f"expected a mapping, got {show(value)}{hint}"
        yield Problem(marks.value(path), path, text)
        return
    parts = section.at(schema, location)
    kinds = ", ".join(str(section.tag(part)) for part in parts)
    place: Path = (*path, "kind")
    if "kind" in value:
        text = f"expected one of {kinds}, got {show(value['kind'])}"
        yield Problem(marks.value(place), place, text)
    else:
        text = f"this key is required, one of {kinds}"
        yield Problem(marks.value(path), place, text)
    known = {key for part in parts for key in section.keys(part)}
    for key in value:
        if key not in known:
            below = (*path, key)
            yield from _unknown(schema, (*location, key), below, value[key], marks)
