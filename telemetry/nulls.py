"""The one rule for what was not measured: null, and a reason beside it.

In a summary or an environment an object that holds a null also holds ``reason``, one
line for people that explains every null in it. ``reason`` is empty when nothing is
missing. Something that is missing as a whole is :func:`missing`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast


class Null(NamedTuple):
    """One value that is not there."""

    path: str
    """Dotted path of the value."""
    reason: str
    """Why; empty if the document breaks the rule."""


def missing(reason: str) -> dict[str, Any]:
    """The object that stands for a value that was not measured."""
    return {"value": None, "reason": reason}


def present(value: object) -> dict[str, Any]:
    """The object for a value that might have been missing and is not."""
    return {"value": value, "reason": ""}


def nulls(document: Mapping[str, Any], path: str = "") -> Iterator[Null]:
    """Every null of a document with its reason, in order."""
    for key, value in document.items():
        here = f"{path}.{key}" if path else key
        if value is None:
            yield Null(here, str(document.get("reason") or ""))
        elif isinstance(value, Mapping):
            yield from nulls(cast("Mapping[str, Any]", value), here)
