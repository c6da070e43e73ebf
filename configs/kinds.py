"""The kinds of values a configuration can hold: how each is read and described.

A :class:`Kind` stands as an annotation in the pydantic models. It gives its own
messages, so that none of pydantic's reaches a user, and its own JSON Schema.
"""

import math
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from edgepipe.configs import units
from edgepipe.configs.scalars import Style, Written, native, resolve, show
from edgepipe.scheduler.job import Contract

BROKEN_RULE = "edgepipe_rule"
"""pydantic's error type for the messages made here; the text is ``ctx["problem"]``."""
ID_RULE = (
    "1 to 64 printable characters of any script; without / \\ { } and without a blank"
    " at either end; not . and not .."
)
_ID_LENGTH = 64
_TIMES = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6})?) ?x")
_YES_OR_NO = frozenset(["yes", "no", "on", "off", "y", "n"])


class UnfitError(Exception):
    """A value is not of the kind; the message says more than that, or is empty."""


def _as_it_is(value: Any) -> object:
    return value


@dataclass(frozen=True)
class Kind:
    """One kind of value."""

    wanted: str
    """What is expected, for messages and for the reference."""
    read: Callable[[object], object]
    """Gives the checked value or raises UnfitError."""
    schema: Mapping[str, Any]
    """JSON Schema of what may be written."""
    write: Callable[[Any], object] = _as_it_is
    """Plain data that ``read`` takes back."""
    nullable: bool = False
    """Whether ``null`` is allowed too; it becomes None."""

    def _read(self, value: object) -> object:
        if self.nullable and native(value) is None:
            return None
        try:
            return self.read(value)
        except UnfitError as error:
            hint = f": {error}" if str(error) else ""
            problem = f"expected {self.wanted}, got {show(value)}{hint}"
            context = {"problem": problem}
            raise PydanticCustomError(BROKEN_RULE, "{problem}", context) from error

    def _write(self, value: Any) -> object:
        return None if value is None else self.write(value)

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Read instead of validate: what ``read`` returns has the right type."""
        writer = core_schema.plain_serializer_function_ser_schema(self._write)
        return core_schema.no_info_plain_validator_function(
            self._read, serialization=writer
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """The kind's own schema."""
        return dict(self.schema)


def or_null(kind: Kind) -> Kind:
    """The same kind with null allowed."""
    schema = {"anyOf": [dict(kind.schema), {"type": "null"}]}
    wanted = f"{kind.wanted} (or null)"
    return replace(kind, wanted=wanted, schema=schema, nullable=True)


def text(wanted: str = "text", longest: int = 1000, *, lines: bool = False) -> Kind:
    """Text exactly as typed: ``no``, ``0755`` and ``1_0`` stay what they are.

    Args:
        wanted: What to call it.
        longest: Most characters.
        lines: Whether it may have several lines.
    """

    def read(value: object) -> str:
        if not isinstance(value, str):
            raise UnfitError
        style = value.style if isinstance(value, Written) else Style.QUOTED
        if style is Style.PLAIN and resolve(value) is None:
            raise UnfitError("quote it if it is meant as text" if value else "")
        if not 0 < len(value) <= longest:
            raise UnfitError(f"it must have 1 to {longest} characters")
        if any(_is_control(c) and not (lines and c == "\n") for c in value):
            raise UnfitError("control characters and broken ones are not allowed")
        return str(value)

    schema = {"type": "string", "minLength": 1, "maxLength": longest}
    return Kind(wanted, read, schema)


def identifier() -> Kind:
    """A name that is safe in file names and in log lines."""
    plain = text()

    def read(value: object) -> str:
        name = cast(str, plain.read(value))
        if not name.isprintable() or name != name.strip() or name in (".", ".."):
            raise UnfitError(ID_RULE)
        if len(name) > _ID_LENGTH or any(character in "/\\{}" for character in name):
            raise UnfitError(ID_RULE)
        return name

    pattern = r"^[^/\\{}\s](?:[^/\\{}]{0,62}[^/\\{}\s])?$"
    return Kind("an id", read, {"type": "string", "pattern": pattern})


def file_path() -> Kind:
    """The path of a file or folder."""
    return text("a path")


def whole(low: int, high: int) -> Kind:
    """A whole number from ``low`` to ``high``."""

    def read(value: object) -> int:
        number = native(value)
        # type(), because True is an int to isinstance.
        if type(number) is not int or not low <= number <= high:
            raise UnfitError(_number_hint(value))
        return number

    wanted = f"{low}" if low == high else f"a whole number from {low} to {high}"
    return Kind(wanted, read, {"type": "integer", "minimum": low, "maximum": high})


def real(low: float, high: float) -> Kind:
    """A finite number from ``low`` to ``high``; whole numbers count."""

    def read(value: object) -> float:
        number = native(value)
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise UnfitError(_number_hint(value))
        # The range first: float() of a huge int overflows. NaN is in no range.
        if not low <= number <= high:
            raise UnfitError
        return float(number)

    assert math.isfinite(low)
    assert math.isfinite(high)
    wanted = f"a number from {low:g} to {high:g}"
    return Kind(wanted, read, {"type": "number", "minimum": low, "maximum": high})


def times_as_fast(low: str, high: str) -> Kind:
    """How many times as fast, such as ``4x``; an exact fraction once read."""

    def read(value: object) -> Fraction:
        if not isinstance(value, str):
            raise UnfitError("write it with an x, such as 4x")
        found = _TIMES.fullmatch(value)
        if found is None:
            raise UnfitError("write it as a number with an x, such as 4x")
        times = Fraction(found[1])
        if not Fraction(low) <= times <= Fraction(high):
            raise UnfitError
        return times

    def write(value: Fraction) -> str:
        return f"{float(value):.15g}x"

    wanted = f"a speed from {low}x to {high}x"
    return Kind(
        wanted, read, {"type": "string", "pattern": f"^{_TIMES.pattern}$"}, write
    )


def switch() -> Kind:
    """``true`` or ``false``, and no other word."""

    def read(value: object) -> bool:
        meant = native(value)
        if not isinstance(meant, bool):
            like_yes = isinstance(meant, str) and meant.lower() in _YES_OR_NO
            raise UnfitError("write true or false" if like_yes else "")
        return meant

    return Kind("true or false", read, {"type": "boolean"})


def choice(options: tuple[str, ...]) -> Kind:
    """One of a few words."""

    def read(value: object) -> str:
        if not isinstance(value, str) or value not in options:
            raise UnfitError
        return str(value)

    wanted = options[0] if len(options) == 1 else f"one of {', '.join(options)}"
    # Typed without quotes, null is no text to an editor.
    also: list[str | None] = [None] if "null" in options else []
    return Kind(wanted, read, {"enum": [*options, *also]})


def duration(*, zero: bool = False) -> Kind:
    """A duration with its unit, in integer nanoseconds once read.

    Args:
        zero: Whether ``0s`` is allowed.
    """

    def read(value: object) -> int:
        if not isinstance(value, str):
            raise UnfitError
        try:
            ns = units.duration_ns(value)
        except units.UnitError as error:
            raise UnfitError(str(error)) from error
        if not (zero or ns):
            raise UnfitError("it must be longer than nothing")
        return ns

    wanted = f"{units.DURATION.noun} such as {units.DURATION.examples}"
    part = rf"[0-9]+(\.[0-9]+)? ?({'|'.join(units.DURATION.units)})"
    schema = {"type": "string", "pattern": f"^{part}( ?{part})*$"}
    return Kind(wanted, read, schema, units.format_duration)


def frequency(low_hz: float, high_hz: float) -> Kind:
    """A frequency with its unit, in hertz once read."""

    def read(value: object) -> float:
        if not isinstance(value, str):
            raise UnfitError
        try:
            hz = units.frequency_hz(value)
        except units.UnitError as error:
            raise UnfitError(str(error)) from error
        if not low_hz <= hz <= high_hz:
            raise UnfitError
        return float(hz)

    def write(value: float) -> str:
        return f"{value:.15g}Hz"

    wanted = f"a frequency from {low_hz:g}Hz to {high_hz:g}Hz"
    part = rf"[0-9]+(\.[0-9]+)? ?({'|'.join(units.FREQUENCY.units)})"
    return Kind(wanted, read, {"type": "string", "pattern": f"^{part}$"}, write)


def processors() -> Kind:
    """Numbers of processors as Linux writes them: ``0-3,6``; a tuple once read."""
    pattern = r"[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*"

    def read(value: object) -> tuple[int, ...]:
        written = native(value)
        if type(written) is int and 0 <= written <= 9999:
            return (written,)
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise UnfitError
        cpus: set[int] = set()
        for part in value.split(","):
            first, _, last = part.partition("-")
            if last and int(last) < int(first):
                raise UnfitError(f"{part} ends before it begins")
            cpus.update(range(int(first), int(last or first) + 1))
        return tuple(sorted(cpus))

    def write(value: tuple[int, ...]) -> str:
        return ",".join(map(str, value))

    schema = {
        "anyOf": [
            {"type": "integer", "minimum": 0, "maximum": 9999},
            {"type": "string", "pattern": f"^{pattern}$"},
        ]
    }
    return Kind("processors such as 0-3,6", read, schema, write)


def promise() -> Kind:
    """A promise of so many frames in time of any so many in a row."""
    pattern = r"([1-9][0-9]?) of ([1-9][0-9]?)"

    def read(value: object) -> Contract:
        found = re.fullmatch(pattern, value) if isinstance(value, str) else None
        if found is None:
            raise UnfitError
        try:
            return Contract(int(found[1]), int(found[2]))
        except ValueError as error:
            rule = "the first number is at most the second, which is at most 64"
            raise UnfitError(rule) from error

    def write(value: Contract) -> str:
        return f"{value.m} of {value.k}"

    schema = {"type": "string", "pattern": f"^{pattern}$"}
    return Kind("a promise such as 9 of 10", read, schema, write)


def _is_control(character: str) -> bool:
    # Surrogates come from bytes in the environment that are no text.
    return unicodedata.category(character) in ("Cc", "Cs")


def _number_hint(value: object) -> str:
    if not isinstance(value, Written):
        return ""
    if value.style is Style.QUOTED and isinstance(resolve(value), int | float):
        return "in quotes it is text"
    if value.lstrip("+-").replace("_", "").isdecimal() and not value.isdecimal():
        return "write digits only"
    if value.startswith("0") and value.isdecimal() and len(value) > 1:
        return "write it without leading zeros"
    return ""
