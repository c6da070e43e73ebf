"""Files that say when images were taken, one time a line. Pure."""

import re
from collections.abc import Sequence
from datetime import datetime, timezone
from itertools import pairwise
from statistics import median_low
from typing import NamedTuple

_DATE = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?\d*Z?")
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?")
_SEPARATOR = re.compile(r"\s*[,;\t]\s*|\s+")
_UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
"""How many nanoseconds each is."""
_DATES_NS = (10**18, 3 * 10**18)
"""Since 1970: 2001 to 2065."""
_PLAUSIBLE_NS = (10**5, 3600 * 10**9)
"""Between two frames."""
_STEPS = {"ns": 10**6, "us": 10**3, "ms": 5}
"""From which step on a number counts what, where it is no date."""


class Stamp(NamedTuple):
    """One line."""

    ns: int
    name: str | None
    """The image that it names, if it does."""


class StampError(ValueError):
    """A line that is none; the message says which one, and what is in it."""


class StampFile(NamedTuple):
    """All lines in the order of the file."""

    stamps: Sequence[Stamp]
    unit: str
    """What the numbers count; ``date`` where they are dates."""


def parse_stamps(text: str) -> StampFile:
    """Read the lines of a file; empty ones and comments (``#``) are passed over.

    The unit is not said anywhere, so it is found by size: whole numbers are dates in
    our times if they can be, or else their usual step tells.

    Raises:
        StampError: A line is not a time stamp, nor one with the name of an image.
    """
    words: list[str] = []
    names: list[str | None] = []
    for number, line in enumerate(text.splitlines(), 1):
        content = line.partition("#")[0].strip().strip("\ufeff")
        if not content:
            continue
        stamp, name = _fields(content)
        if not stamp:
            if not words:  # a heading
                continue
            raise StampError(f"line {number}: expected a time stamp, got {content!r}")
        words.append(stamp)
        names.append(name)
    values, unit = _nanoseconds(words)
    pairs = zip(values, names, strict=True)
    return StampFile([Stamp(value, name) for value, name in pairs], unit)


def _fields(content: str) -> tuple[str, str | None]:
    """The stamp of a line and the name in it; an empty stamp if there is none."""
    date = _DATE.match(content)
    if date is not None:
        name = content[date.end() :].strip(" ,;\t")
        return date.group(), name or None
    words: list[str] = _SEPARATOR.split(content)
    if _NUMBER.fullmatch(words[0]):
        named = [word for word in words[1:] if not _NUMBER.fullmatch(word)]
        return words[0], named[0] if named else None
    if len(words) > 1 and _NUMBER.fullmatch(words[1]):
        return words[1], words[0]
    return "", None


def _nanoseconds(words: Sequence[str]) -> tuple[list[int], str]:
    if any(_DATE.match(word) for word in words):
        return [_of_date(word) for word in words], "date"
    if any("." in word or "e" in word.lower() for word in words):
        return [_of_seconds(word) for word in words], "s"
    numbers = [int(word) for word in words]
    steps = [abs(b - a) for a, b in pairwise(numbers) if a != b]
    unit = _unit(min(numbers, default=0), median_low(steps) if steps else None)
    return [number * _UNITS[unit] for number in numbers], unit


def _unit(smallest: int, step: int | None) -> str:
    for unit, factor in _UNITS.items():
        is_date = _DATES_NS[0] <= smallest * factor <= _DATES_NS[1]
        least, most = _PLAUSIBLE_NS
        if is_date and (step is None or least <= step * factor <= most):
            return unit
    for unit, least in _STEPS.items():
        if step is not None and step >= least:
            return unit
    return "s"


def _of_date(word: str) -> int:
    date = _DATE.match(word)
    if date is None:
        raise StampError(f"expected a date as in the other lines, got {word!r}")
    day, time, fraction = date.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{time}").replace(tzinfo=timezone.utc)
    except ValueError as error:
        raise StampError(f"{word!r}: {error}") from error
    return int(moment.timestamp()) * 10**9 + int((fraction or "0").ljust(9, "0"))


def _of_seconds(word: str) -> int:
    """Exactly, as a float would not be: 19 digits are usual."""
    digits, _, exponent = word.lower().partition("e")
    whole, _, fraction = digits.partition(".")
    power = 9 + int(exponent or 0) - len(fraction)
    value = int(whole + fraction)
    scale: int = 10 ** abs(power)
    return value * scale if power >= 0 else value // scale
