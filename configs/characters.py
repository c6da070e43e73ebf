"""Bytes to text, and the characters that no configuration may hold."""

import re
import unicodedata

from edgepipe.configs.problems import Mark, Problem

MAX_BYTES = 128 * 1024
"""Longest configuration text that is read."""

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|$)")
_SUSPECT = re.compile(r"[^\x20-\x7e\t\r\n]")
_BAD_CATEGORIES = frozenset(["Zs", "Zl", "Zp", "Cc", "Cf", "Cs"])
_NON_CHARACTERS = "\ufffe\uffff"
# A comment begins at a '#' that stands first or after a blank, outside quotes.
_BEFORE_COMMENT = re.compile(r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|(?<=\S)\#|[^#])*""")


def decode(raw: bytes, source: str) -> tuple[str, list[Problem]]:
    """UTF-8 text without its byte order mark; empty with a problem if it is none."""
    if len(raw) > MAX_BYTES:
        return "", [Problem(Mark(source), (), f"larger than {MAX_BYTES // 1024} KiB")]
    try:
        return raw.decode("utf-8").removeprefix("\ufeff"), []
    except UnicodeDecodeError as error:
        before = re.split(r"\r\n|\r|\n", raw[: error.start].decode("utf-8"))
        where = Mark(source, len(before), len(before[-1]) + 1)
        byte = raw[error.start]
        text = f"not UTF-8 text: byte 0x{byte:02x}"
        if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
            text += " (it looks like UTF-16; save it as UTF-8)"
        return "", [Problem(where, (), text)]


def check(text: str, start: Mark) -> tuple[str, list[Problem], bool]:
    """Find tabs in indentation and characters that look like blanks or like nothing.

    Comments may hold any space they like.

    Returns:
        The text with every bad character replaced by a blank, the problems (one for
        each line and character), and whether the indentation can be trusted.
    """
    problems: list[Problem] = []
    if "\t" not in text and not _SUSPECT.search(text):
        return text, problems, True
    lines = [match[0] for match in _LINE.finditer(text) if match[0]]
    sound = True
    for number, line in enumerate(lines):
        if (column := _indenting_tab(line)) is not None:
            sound = False
            where = start.at(number, column)
            problems.append(Problem(where, (), "tab character in the indentation"))
        problems += _bad_characters(line, start.at(number, 0))
    return _SUSPECT.sub(_blank_if_bad, text), problems, sound


def before_comment(line: str) -> str:
    """A line of YAML without its comment, quotes respected within the line."""
    match = _BEFORE_COMMENT.match(line)
    return match[0] if match else line


def _bad_characters(line: str, begin: Mark) -> list[Problem]:
    found: dict[str, int] = {}
    for match in _SUSPECT.finditer(line):
        if _is_bad(match[0]):
            found.setdefault(match[0], match.start())
    if not found:
        return []
    end = len(before_comment(line))
    return [
        Problem(
            begin.at(begin.line - 1, at),
            (),
            f"{_name(character)}: use an ordinary blank, or an escape in double quotes",
        )
        for character, at in found.items()
        if at < end or unicodedata.category(character) == "Cc"
    ]


def _indenting_tab(line: str) -> int | None:
    indentation = line[: len(line) - len(line.lstrip(" \t"))]
    return indentation.index("\t") if "\t" in indentation else None


def _is_bad(character: str) -> bool:
    category = unicodedata.category(character)
    return category in _BAD_CATEGORIES or character in _NON_CHARACTERS


def _blank_if_bad(match: re.Match[str]) -> str:
    return " " if _is_bad(match[0]) else match[0]


def _name(character: str) -> str:
    name = unicodedata.name(character, "control character")
    return f"U+{ord(character):04X} {name}"
