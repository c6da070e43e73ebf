"""What exporters write into a file beside the network. Read as data, never run."""

import ast
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, cast

_LONGEST = 1_000_000
"""Characters of one value."""
_MOST_NAMES = 100_000


def _literal(text: str) -> Any:
    """A value written as Python or JSON writes it; None if it is neither."""
    if len(text) > _LONGEST:
        return None
    with suppress(ValueError, RecursionError):
        return json.loads(text)
    with suppress(ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return ast.literal_eval(text)
    return None


def class_names(metadata: Mapping[str, str]) -> tuple[str, ...] | None:
    """The ``names`` of Ultralytics' exports and the like, in class order.

    None if there are none, or they are not numbered from 0 without a gap.
    """
    keys = [key for key in ("names", "classes", "labels") if key in metadata]
    found = _in_order(_literal(metadata[keys[0]])) if keys else None
    if not found or len(found) > _MOST_NAMES:
        return None
    names = [_plain(name) for name in found]
    return None if None in names else tuple(name for name in names if name is not None)


def _in_order(value: Any) -> list[Any] | None:
    """A list as it is, a mapping of 0, 1, 2 and so on in that order; else None."""
    if isinstance(value, list | tuple):
        return list(cast(Iterable[Any], value))
    if not isinstance(value, dict):
        return None
    given = cast(Mapping[Any, Any], value)
    numbered = {str(key): name for key, name in given.items()}
    keys = [str(index) for index in range(len(given))]
    return [numbered[key] for key in keys] if set(numbered) == set(keys) else None


def _plain(name: object) -> str | None:
    """A name on one line; None if it is empty or has control characters."""
    text = str(name).strip()
    return text if text and text.isprintable() else None


def image_size(metadata: Mapping[str, str]) -> tuple[int, int] | None:
    """Height and width of ``imgsz``."""
    found = _literal(metadata.get("imgsz", ""))
    sizes = [found, found] if isinstance(found, int) else _in_order(found) or []
    fit = [each for each in sizes if isinstance(each, int) and 8 <= each <= 8192]
    return (fit[0], fit[1]) if len(fit) == len(sizes) == 2 else None


def task(metadata: Mapping[str, str]) -> str | None:
    """What the network was trained for, as Ultralytics call it."""
    return metadata.get("task")


def is_ultralytics(metadata: Mapping[str, str]) -> bool:
    """Whether this is an export of theirs: their metadata have these keys."""
    return "stride" in metadata and "names" in metadata


def licence(metadata: Mapping[str, str]) -> str | None:
    """Terms of the weights, on one line."""
    return _line(metadata.get("license", metadata.get("licence", "")))


def description(metadata: Mapping[str, str]) -> str | None:
    """Where the network comes from, on one line."""
    parts = (
        metadata.get(key, "") for key in ("description", "author", "version", "date")
    )
    return _line(", ".join(part for part in parts if part))


def _line(text: str) -> str | None:
    return " ".join(text.split())[:500] or None
