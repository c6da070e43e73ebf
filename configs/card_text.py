"""A model card as text: what is known as keys, what is not as comments."""

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from math import inf
from typing import Any, NamedTuple, cast

# Its type information is incomplete.
_dump: Any = import_module("yaml").safe_dump
_WIDTH = 88
UNKNOWN = "NOT KNOWN"
"""How the comment begins that stands in place of a value."""
_SECTION = re.compile(r"(?:# )?([a-z_]+):(?:$| #)")
_QUESTION = re.compile(rf"( *)# ([a-z_]+): {UNKNOWN}:? ?(.*)")
_SECTIONS = ("input", "head", "classes")


class Line(NamedTuple):
    """One key of a card."""

    key: str
    """With dots: ``input.color``."""
    value: Any
    """None: not known."""
    comment: str
    """Where the value comes from; of an unknown one, what to fill in."""


def write_card_text(lines: Sequence[Line], file: str, precision: str) -> str:
    """The card of one model file.

    A key without a value is a comment, so that reading the card fails until it is
    filled in.
    """
    top = [line for line in lines if "." not in line.key]
    parts = [_entry(line, "") for line in top if line.key == "name"]
    path = scalar(file)
    parts.append(f"files:\n  - {{precision: {precision}, path: {path}}}\n")
    for section in _SECTIONS:
        parts += _section(
            section, [x for x in lines if x.key.startswith(f"{section}.")]
        )
    parts += [_entry(line, "") for line in top if line.key not in ("name", "precision")]
    return "".join(parts)


def open_questions(text: str) -> Iterator[tuple[tuple[str, ...], int, str]]:
    """The keys that stand in a card as comments only, with line and question."""
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if found := _SECTION.match(line):
            section = found[1]
        if found := _QUESTION.match(line):
            inside = (section,) if found[1] else ()
            yield (*inside, found[2]), number, found[3]


def _section(name: str, lines: Sequence[Line]) -> Iterator[str]:
    """A section; wholly a comment if nothing in it is known."""
    if not lines:
        return
    known = any(line.value is not None for line in lines)
    yield f"{name}:\n" if known else f"# {name}:\n"
    for line in lines:
        yield _entry(line._replace(key=line.key.partition(".")[2]), "  ")


def _entry(line: Line, indent: str) -> str:
    if line.value is None:
        return f"{indent}# {line.key}: {_one_line(line.comment)}\n"
    text = f"{indent}{line.key}: {scalar(line.value)}"
    comment = _one_line(line.comment)
    if not comment:
        return f"{text}\n"
    if len(text) + len(comment) + 4 <= _WIDTH:
        return f"{text}  # {comment}\n"
    return f"{indent}# {comment}\n{text}\n"


def scalar(value: Any) -> str:
    """A value as YAML writes it on one line."""
    if isinstance(value, Mapping):
        value = dict(cast(Mapping[str, Any], value))
    text = str(_dump(value, default_flow_style=True, allow_unicode=True, width=inf))
    return text.removesuffix("...\n").strip()


def _one_line(text: str) -> str:
    """A comment that nothing in it can end."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
