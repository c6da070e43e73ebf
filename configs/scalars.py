"""Scalars of a YAML text: what was typed, and what YAML 1.2 makes of it."""

import math
import re
from enum import Enum
from typing import TypeGuard

from edgepipe.telemetry.environment import hide_credentials

_NULL = frozenset(["", "~", "null", "Null", "NULL"])
_BOOL = {
    **dict.fromkeys(["true", "True", "TRUE"], True),
    **dict.fromkeys(["false", "False", "FALSE"], False),
}
# Leading zeros are left out on purpose: 0755 is 493 to YAML 1.1, 755 to YAML 1.2 and
# most often a name, so it is a number to nobody here.
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_OCTAL = re.compile(r"0o[0-7]+")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
)
_INFINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)")
_NAN = frozenset([".nan", ".NaN", ".NAN"])
_LONGEST_NUMBER = 100
_LONGEST_SHOWN = 60

Native = str | int | float | bool | None
"""What a scalar can stand for."""


class Style(Enum):
    """How a scalar got its text."""

    PLAIN = "plain"
    """Typed without quotes: it may stand for a number, a boolean or null."""
    QUOTED = "quoted"
    """Typed in quotes or as a block: it is text."""
    FILLED = "filled"
    """A ``${VAR}`` was replaced: text where text is wanted, else read like PLAIN."""


class Written(str):
    """The text of a scalar together with the way it was written."""

    __slots__ = ("style",)
    style: Style

    def __new__(cls, text: str, style: Style) -> "Written":
        """Keep ``text`` exactly."""
        made = super().__new__(cls, text)
        made.style = style
        return made


def resolve(text: str) -> Native:
    """What a plain scalar stands for by the YAML 1.2 core schema.

    ``yes``, ``on``, ``0755``, ``1_0`` and ``12:30`` are text. Numbers may come out
    infinite or NaN; a text of more than 100 characters is never a number.
    """
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    return text if len(text) > _LONGEST_NUMBER else _number(text)


def _number(text: str) -> int | float | str:
    if _INT.fullmatch(text):
        return int(text)
    if _OCTAL.fullmatch(text) or _HEX.fullmatch(text):
        return int(text, base=0)
    if _FLOAT.fullmatch(text):
        return float(text)
    if text in _NAN or _INFINITE.fullmatch(text):
        return float(text.replace(".", "", 1))
    return text


def native(value: object) -> object:
    """The value that a scalar stands for; anything else is returned as it is."""
    if not isinstance(value, Written):
        return value
    return str(value) if value.style is Style.QUOTED else resolve(value)


def is_finite(value: object) -> bool:
    """False for the numbers infinity and NaN, true for everything else."""
    return not isinstance(value, float) or math.isfinite(value)


def is_mapping(value: object) -> TypeGuard[dict[str, object]]:
    """Whether the value is a mapping; its keys are text."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[object]]:
    """Whether the value is a list."""
    return isinstance(value, list)


def show(value: object) -> str:
    """A short form of a value for the end of a message, on one line."""
    if is_mapping(value):
        return "a mapping"
    if is_list(value):
        return "a list"
    meant = native(value)
    if not isinstance(meant, str):
        return (str(value) or "nothing") if isinstance(value, str) else repr(meant)
    meant = hide_credentials(meant)
    cut = meant if len(meant) <= _LONGEST_SHOWN else meant[:_LONGEST_SHOWN] + "…"
    return repr(cut)
