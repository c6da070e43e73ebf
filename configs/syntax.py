"""What a person did when PyYAML says that a text is not YAML."""

import re
from dataclasses import dataclass

import yaml

from edgepipe.configs.characters import before_comment
from edgepipe.configs.problems import Mark, Problem

# The line ends that PyYAML counts; the exotic ones are gone by then.
_LINE_END = re.compile(r"\r\n|\r|\n")
_GLUED = re.compile(r"(\s*(?:- +)*)([A-Za-z_][\w.-]*):(?=[^\s:/\\])")
_PROPER_KEY = re.compile(r":(?:\s|$)")

# What PyYAML says, what that most often means, and whether the cause is where
# PyYAML began (its context) or where it stopped.
_MEANINGS = (
    ("character '\\t'", "tab character; use blanks", False),
    ("could not find expected ':'", "expected ': ' after this key", True),
    (
        "mapping values are not allowed",
        "a key cannot stand here; check the indentation, and quote a text that"
        " holds ': '",
        False,
    ),
    ("expected <block end>", "the indentation does not fit the lines above", False),
    ("found character", "text cannot begin with this character; quote it", False),
    ("unexpected end of stream", "this quote is never closed", True),
    ("but got '<stream end>'", "this bracket is never closed", True),
    ("expected ',' or", "expected a comma or the closing bracket", False),
    (
        "expected alphabetic or numeric",
        "a name must follow, or quote it",
        False,
    ),
    ("unknown escape character", "unknown escape after \\; use single quotes", False),
    ("found unexpected document separator", "this quote is never closed", True),
)


@dataclass(frozen=True, slots=True)
class Glued:
    """A key with no blank after its colon."""

    key: str
    column: int
    """Of the key, counted from 0."""
    after_colon: int
    """Where the blank belongs, counted from 0."""

    @property
    def problem(self) -> str:
        """What to tell."""
        return f"a blank is missing after {self.key + ':'!r}"


def split_lines(text: str) -> list[str]:
    """Lines as PyYAML counts them."""
    return _LINE_END.split(text)


def glued(line: str) -> Glued | None:
    """The key at the start of a line that has no blank after its colon, if any."""
    match = _GLUED.match(before_comment(line).rstrip())
    if match is None:
        return None
    return Glued(match[2], match.start(2), match.end())


def with_blank(text: str, at: int) -> str:
    """The text with a blank put in."""
    return f"{text[:at]} {text[at:]}"


def explain(
    text: str, error: yaml.MarkedYAMLError, start: Mark
) -> tuple[Problem, str | None]:
    """What is wrong where, and the text with it mended where that is clear."""
    lines = split_lines(text)
    for number in _suspects(lines, error):
        if found := glued(lines[number]):
            problem = Problem(start.at(number, found.column), (), found.problem)
            return problem, with_blank(text, _offset(text, number) + found.after_colon)
    return _translate(text, error, start), None


def _translate(text: str, error: yaml.MarkedYAMLError, start: Mark) -> Problem:
    said = error.problem or ""
    at = error.problem_mark or error.context_mark
    meaning = f"not valid YAML: {said}"
    for pattern, words, blame_context in _MEANINGS:
        if pattern in said:
            meaning = words
            at = (error.context_mark or at) if blame_context else at
            break
    if at is None:
        return Problem(start, (), meaning)
    line = split_lines(text)[at.line]
    if "${" in line and "bracket" in meaning:
        meaning += '; inside brackets write "${NAME}" in quotes'
    return Problem(start.at(at.line, at.column), (), meaning)


def _suspects(lines: list[str], error: yaml.MarkedYAMLError) -> list[int]:
    """Line numbers where the blank may be missing, the likeliest first."""
    suspects: list[int] = []
    if error.context_mark is not None:
        suspects.append(error.context_mark.line)
    if error.problem_mark is not None:
        last = error.problem_mark.line
        suspects.append(last)
        # A glued pair is text to YAML, and text goes on over lines: look up to the
        # nearest line with a real key.
        for number in range(last - 1, -1, -1):
            suspects.append(number)
            if _PROPER_KEY.search(before_comment(lines[number])):
                break
    return suspects


def _offset(text: str, number: int) -> int:
    ends = [0, *(match.end() for match in _LINE_END.finditer(text))]
    return ends[number]
