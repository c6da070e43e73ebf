"""YAML read strictly: plain data, the place of every value, and every mistake.

The rules beyond YAML's own: one document with a mapping on top; no key twice; keys are
scalars and stay the text typed; no tags; no infinite numbers or NaN; no tab in the
indentation and no exotic blanks; at most 32 levels. Anchors, aliases and ``<<`` may be
used as long as no more than 10 000 values come out. Numbers and booleans are those of
YAML 1.2 (see :mod:`edgepipe.configs.scalars`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import yaml
from yaml import events

from edgepipe.configs import characters, syntax
from edgepipe.configs.problems import Mark, Marks, Path, Problem
from edgepipe.configs.scalars import Style, Written, is_finite, resolve, show

MAX_DEPTH = 32
MAX_VALUES = 10_000
_MAX_REPAIRS = 10


@dataclass(frozen=True, slots=True)
class Document:
    """What was found in one text; complete only if there are no problems."""

    data: object
    """Dicts, lists and :class:`Written` scalars; None if YAML could not be read."""
    marks: Marks
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class _Node:
    """A value with its place; a mapping's or a list's parts are nodes too."""

    content: "Written | list[_Node] | dict[str, _Entry]"
    mark: Mark


@dataclass(frozen=True, slots=True)
class _Entry:
    key_mark: Mark
    value: _Node


class _StopReading(Exception):
    """Nothing after this problem can be understood."""


def parse(source: bytes | str, name: str) -> Document:
    """Read one configuration; ``name`` stands in front of every message."""
    document = parse_value(source, Mark(name, 1, 1))
    if document.data is None or isinstance(document.data, dict):
        return document
    if document.data == "":
        text = "the configuration is empty, expected a mapping"
    else:
        text = f"expected a mapping at the top level, got {show(document.data)}"
        text += syntax.missing_blank_hint(document.data)
    problem = Problem(document.marks.whole, (), text)
    return Document(None, document.marks, (*document.problems, problem))


def parse_value(source: bytes | str, start: Mark) -> Document:
    """Read a text that may hold any value. ``start`` has line 0 for no line numbers."""
    marks = Marks(start, {}, {})
    problems: list[Problem] = []
    if isinstance(source, bytes):
        source, problems = characters.decode(source, start.source)
    elif len(source) > characters.MAX_BYTES:
        problems = [Problem(start, (), "the text is too long")]
    if problems:
        return Document(None, marks, tuple(problems))
    text, problems, sound = characters.check(source.removeprefix("\ufeff"), start)
    if not sound:
        return Document(None, marks, tuple(problems))
    root, found = _compose(text, start)
    lines = {problem.mark.line for problem in problems}
    problems += [problem for problem in found if problem.mark.line not in lines]
    if root is None:
        return Document(None, marks, tuple(problems))
    marks.whole = root.mark
    data = _Expansion(marks, problems).expand(root, ())
    return Document(data, marks, tuple(problems))


def _compose(text: str, start: Mark) -> tuple[_Node | None, list[Problem]]:
    """Compose, mending missing blanks after colons so that more can be found."""
    mended: list[Problem] = []
    while True:
        composer = _Composer(text, start)
        try:
            return composer.document(), mended + composer.problems
        except _StopReading:
            return None, mended + composer.problems
        except yaml.MarkedYAMLError as error:
            repair = syntax.missing_blank(text, error, start)
            if repair is None or len(mended) == _MAX_REPAIRS:
                problem = syntax.explain(text, error, start)
                return None, [*mended, *composer.problems, problem]
            text, problem = repair
            mended.append(problem)
        except (yaml.YAMLError, ValueError, OverflowError) as error:
            # PyYAML lets chr() and int() fail on absurd escapes and directives.
            problem = Problem(start, (), f"not valid YAML: {error}")
            return None, [*mended, *composer.problems, problem]


class _Composer:
    """Builds nodes from parser events, in one pass and without PyYAML's resolver."""

    def __init__(self, text: str, start: Mark) -> None:
        self._loader = yaml.SafeLoader(text)
        self._start = start
        self._anchors: dict[str, _Node] = {}
        self.problems: list[Problem] = []

    def document(self) -> _Node:
        """The only document of the text; an empty scalar when there is none."""
        self._next()  # the start of the stream
        if isinstance(self._peek(), events.StreamEndEvent):
            return _Node(Written("", Style.PLAIN), self._start)
        self._next()  # the start of the document
        root = self._node(self._next(), 0)
        self._next()  # the end of the document
        after = self._next()
        if not isinstance(after, events.StreamEndEvent):
            self._report(after, "a second document begins here, expected one")
        return root

    def _node(self, event: events.Event, depth: int) -> _Node:
        mark = self._mark(event)
        if depth > MAX_DEPTH:
            self._report(event, f"more than {MAX_DEPTH} levels")
            raise _StopReading
        if isinstance(event, events.AliasEvent):
            return self._alias(event)
        assert isinstance(event, events.NodeEvent)
        if getattr(event, "tag", None) not in (None, "!"):
            self._report(event, f"tag {event.tag!r} is not supported, quote text")  # type: ignore[attr-defined]
        if isinstance(event, events.ScalarEvent):
            node = _Node(self._scalar(event), mark)
        elif isinstance(event, events.SequenceStartEvent):
            node = _Node(list(self._items(depth)), mark)
        else:
            node = _Node(self._entries(depth), mark)
        if event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _alias(self, event: events.AliasEvent) -> _Node:
        if (node := self._anchors.get(event.anchor or "")) is not None:
            return node
        self._report(event, f"alias *{event.anchor} has no anchor before it")
        return _Node(Written("", Style.PLAIN), self._mark(event))

    def _scalar(self, event: events.ScalarEvent) -> Written:
        written = Written(event.value, Style.QUOTED if event.style else Style.PLAIN)
        if not event.style:
            if not is_finite(resolve(event.value)):
                self._report(event, f"{event.value} is not a finite number")
            if typo := syntax.glued_line(self._loader.buffer, event):
                self._report(event, typo)
        if any("\ud800" <= character <= "\udfff" for character in written):
            self._report(event, "an escape stands for half a character (surrogate)")
        return written
