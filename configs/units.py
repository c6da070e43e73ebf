"""Quantities with units as people type them, read exactly.

A number is decimal digits with an optional fraction; at most one blank stands between
it and its unit. Units are written exactly as listed: ``1H``, ``1hr`` and ``10 KB`` are
refused, and so are signs, exponents and a number without a unit.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import NoReturn

_PART = re.compile(r"([0-9]{1,19}(?:\.[0-9]{1,19})?) ?([^\W\d_]+)")
_BARE = re.compile(r"[+-]?[0-9]*\.?[0-9]+")
_MAX_NS = 2**63 - 1
_MAX_TEXT = 100


class UnitError(ValueError):
    """A text is not the quantity it should be; the message says why."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """One kind of quantity and the units in which it may be written."""

    noun: str
    examples: str
    units: Mapping[str, Fraction]
    """Unit to its size in base units, from small to large."""

    @property
    def unit_list(self) -> str:
        """The units, for a message."""
        return ", ".join(self.units)


DURATION = Quantity(
    "a duration",
    "33ms, 1.5s or 1h",
    {
        "ns": Fraction(1),
        "us": Fraction(10**3),
        "ms": Fraction(10**6),
        "s": Fraction(10**9),
        "m": Fraction(60 * 10**9),
        "h": Fraction(3600 * 10**9),
        "d": Fraction(86400 * 10**9),
    },
)
"""Base unit: the nanosecond."""
SIZE = Quantity(
    "a size",
    "64MiB or 2GB",
    {
        "B": Fraction(1),
        "kB": Fraction(10**3),
        "KiB": Fraction(2**10),
        "MB": Fraction(10**6),
        "MiB": Fraction(2**20),
        "GB": Fraction(10**9),
        "GiB": Fraction(2**30),
        "TB": Fraction(10**12),
        "TiB": Fraction(2**40),
    },
)
"""Base unit: the byte."""
POWER = Quantity(
    "a power",
    "15W or 500mW",
    {"mW": Fraction(1, 1000), "W": Fraction(1), "kW": Fraction(1000)},
)
"""Base unit: the watt."""
FREQUENCY = Quantity(
    "a frequency",
    "30Hz or 1.1GHz",
    {
        "mHz": Fraction(1, 1000),
        "Hz": Fraction(1),
        "kHz": Fraction(10**3),
        "MHz": Fraction(10**6),
        "GHz": Fraction(10**9),
    },
)
"""Base unit: the hertz."""


def duration_ns(text: str) -> int:
    """Nanoseconds in ``33ms``, ``1.5 s`` or ``1m30s``.

    Parts of a compound duration go from large to small, each unit once, and only the
    last may have a fraction.

    Raises:
        UnitError: The text is no duration, finer than 1 ns or longer than 2**63 ns.
    """
    total, position, smallest = Fraction(0), 0, None
    parts = list(_PART.finditer(text)) if len(text) <= _MAX_TEXT else []
    for part in parts:
        gap = text[position : part.start()]
        if gap not in ("", " ") or (gap and not position):
            break
        size = _size(DURATION, part[2])
        if smallest is not None and size >= smallest:
            raise UnitError("parts must go from large to small, like 1m30s")
        if "." in part[1] and part is not parts[-1]:
            raise UnitError("only the last part may have a fraction")
        total, position, smallest = total + Fraction(part[1]) * size, part.end(), size
    if position != len(text) or not parts:
        _refuse(DURATION, text)
    if total > _MAX_NS:
        raise UnitError("longer than 106751 days")
    return _whole(total, "finer than a nanosecond")


def size_bytes(text: str) -> int:
    """Bytes in ``64MiB`` (binary) or ``10 kB`` (decimal).

    Raises:
        UnitError: The text is no size, or no whole number of bytes.
    """
    return _whole(_read(SIZE, text), "not a whole number of bytes")


def power_w(text: str) -> Fraction:
    """Watts in ``15W`` or ``500mW``.

    Raises:
        UnitError: The text is no power.
    """
    return _read(POWER, text)


def frequency_hz(text: str) -> Fraction:
    """Hertz in ``30Hz`` or ``1.1GHz``.

    Raises:
        UnitError: The text is no frequency.
    """
    return _read(FREQUENCY, text)


def format_duration(ns: int) -> str:
    """The shortest spelling in one unit that reads back to the same duration."""
    if ns == 0:
        return "0s"
    for unit, size in reversed(list(DURATION.units.items())):
        if ns % size == 0:
            return f"{ns // size}{unit}"
    raise AssertionError("every whole number is a multiple of 1 ns")


def _read(quantity: Quantity, text: str) -> Fraction:
    match = _PART.fullmatch(text) if len(text) <= _MAX_TEXT else None
    if match is None:
        _refuse(quantity, text)
    return Fraction(match[1]) * _size(quantity, match[2])


def _size(quantity: Quantity, unit: str) -> Fraction:
    if unit not in quantity.units:
        raise UnitError(f"unknown unit {unit!r}, units are {quantity.unit_list}")
    return quantity.units[unit]


def _refuse(quantity: Quantity, text: str) -> NoReturn:
    if _BARE.fullmatch(text):
        raise UnitError(f"a bare number needs a unit ({quantity.unit_list})")
    if text.startswith("-"):
        raise UnitError("it must not be negative")
    raise UnitError(f"write a number and a unit ({quantity.unit_list})")


def _whole(value: Fraction, otherwise: str) -> int:
    if value.denominator != 1:
        raise UnitError(otherwise)
    return value.numerator
