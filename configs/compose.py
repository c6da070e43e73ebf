"""From YAML text to a tree of nodes that know their place, with every mistake."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import yaml
from yaml import events

from edgepipe.configs import syntax
from edgepipe.configs.problems import Mark, Path, Problem
from edgepipe.configs.scalars import Style, Written, is_finite, resolve

MAX_DEPTH = 32
"""Deepest nesting that is read."""
_MAX_REPAIRS = 10
_QUOTE = "quote it if it is text"


@dataclass(frozen=True, slots=True)
class Node:
    """A value and its place."""

    content: "Written | list[Node] | list[Entry]"
    is_mapping: bool
    mark: Mark


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of a mapping with its value."""

    key: Written
    mark: Mark
    """Place of the key."""
    value: Node


class _StopReadingError(Exception):
    """Nothing after the last problem can be understood."""


class _GluedKeyError(Exception):
    """A key goes on where its value should begin; the text can be mended."""

    def __init__(self, problem: Problem, at: int) -> None:
        super().__init__(problem.text)
        self.problem = problem
        self.at = at


def compose(text: str, start: Mark) -> tuple[Node | None, list[Problem]]:
    """The top node of the only document, or None where the text is not YAML.

    Blanks missing after colons are mended on the way, so that one run finds more.
    """
    mended: list[Problem] = []
    while True:
        mending: str | None = None
        composer = _Composer(text, start)
        try:
            return composer.document(), mended + composer.problems
        except _StopReadingError:
            return None, mended + composer.problems
        except _GluedKeyError as error:
            problem = error.problem
            mending = syntax.with_blank(text, error.at)
        except yaml.MarkedYAMLError as error:
            problem, mending = syntax.explain(text, error, start)
        except (yaml.YAMLError, ValueError, OverflowError):
            # PyYAML lets chr() and int() fail on absurd escapes and directives.
            problem = Problem(composer.here(), (), "not valid YAML")
        if mending is None or len(mended) == _MAX_REPAIRS:
            return None, [*mended, *composer.problems, problem]
        mended.append(problem)
        text = mending


class _Composer:
    """Builds nodes from parser events; PyYAML's resolver is not asked."""

    def __init__(self, text: str, start: Mark) -> None:
        self._loader: Any = yaml.SafeLoader(text)  # its stubs give no types
        self._lines = syntax.split_lines(text)
        self._start = start
        self._anchors: dict[str, Node] = {}
        self.problems: list[Problem] = []

    def here(self) -> Mark:
        """How far the text has been read."""
        at = self._loader.get_mark()
        return self._start.at(at.line, at.column)

    def document(self) -> Node:
        """The only document; an empty scalar when there is none."""
        self._next()  # the start of the stream
        event = self._next()
        if isinstance(event, events.StreamEndEvent):
            return Node(Written("", Style.PLAIN), False, self._start)
        root = self._node(self._next(), ())
        self._next()  # the end of the document
        after = self._next()
        if not isinstance(after, events.StreamEndEvent):
            self._report(after, (), "a second document begins here, one is expected")
        return root

    def _node(self, event: events.Event, path: Path) -> Node:
        mark = self._mark(event)
        if len(path) > MAX_DEPTH:
            self._report(event, (), f"nested more than {MAX_DEPTH} levels deep")
            raise _StopReadingError
        if isinstance(event, events.AliasEvent):
            return self._alias(event, path)
        if isinstance(event, events.ScalarEvent):
            node = Node(self._scalar(event, path), False, mark)
        elif isinstance(event, events.SequenceStartEvent):
            node = Node(list(self._items(path)), False, mark)
        else:
            node = Node(list(self._entries(path)), True, mark)
        self._refuse_tag(event, path)
        if anchor := cast(events.NodeEvent, event).anchor:
            self._anchors[anchor] = node
        return node

    def _alias(self, event: events.AliasEvent, path: Path) -> Node:
        if (node := self._anchors.get(event.anchor or "")) is not None:
            return node
        text = f"alias *{event.anchor} has no finished anchor before it"
        self._report(event, path, text)
        return Node(Written("", Style.PLAIN), False, self._mark(event))

    def _scalar(self, event: events.ScalarEvent, path: Path) -> Written:
        text = event.value
        if any("\ud800" <= character <= "\udfff" for character in text):
            self._report(event, path, "an escape makes half a character (surrogate)")
        if event.style:
            return Written(text, Style.QUOTED)
        if not is_finite(resolve(text)):
            self._report(event, path, f"{text} is not a finite number; {_QUOTE}")
        for number in _continued(event):
            if glued := syntax.glued(self._lines[number]):
                mark = self._start.at(number, glued.column)
                self.problems.append(Problem(mark, path, glued.problem))
        return Written(text, Style.PLAIN)

    def _items(self, path: Path) -> Iterator[Node]:
        index = 0
        while not isinstance(event := self._next(), events.SequenceEndEvent):
            yield self._node(event, (*path, index))
            index += 1

    def _entries(self, path: Path) -> Iterator[Entry]:
        first: dict[str, Mark] = {}
        while not isinstance(event := self._next(), events.MappingEndEvent):
            key, mark = self._node(event, (*path, "?")).content, self._mark(event)
            self._refuse_glued(key, event, path)
            below = (*path, str(key) if isinstance(key, Written) else "?")
            value = self._node(self._next(), below)
            if not isinstance(key, Written) or not key:
                self._report(event, path, "a key must be text")
                continue
            if key in first:
                where = f"line {first[key].line}" if mark.line else "before"
                self._report(event, below, f"duplicate key, first given on {where}")
                continue
            first[key] = mark
            yield Entry(key, mark, value)

    def _refuse_glued(self, key: object, event: events.Event, path: Path) -> None:
        """``{enabled:true}`` and ``queue:{capacity: 2}`` have long keys for YAML."""
        if not isinstance(key, Written) or key.style is not Style.PLAIN:
            return
        glued = syntax.glued(key)
        if glued is not None and event.start_mark is not None:
            problem = Problem(self._mark(event), path, glued.problem)
            raise _GluedKeyError(problem, event.start_mark.index + glued.after_colon)

    def _refuse_tag(self, event: events.Event, path: Path) -> None:
        tag = getattr(event, "tag", None)
        if tag not in (None, "!"):
            tag = tag.replace("tag:yaml.org,2002:", "!!")
            self._report(event, path, f"tags such as {tag} are not supported")

    def _report(self, event: events.Event, path: Path, text: str) -> None:
        self.problems.append(Problem(self._mark(event), path, text))

    def _mark(self, event: events.Event) -> Mark:
        at = event.start_mark
        return self._start.at(at.line, at.column) if at else self._start

    def _next(self) -> events.Event:
        event: events.Event = self._loader.get_event()
        return event


def _continued(event: events.Event) -> range:
    """The lines of a scalar after its first."""
    if event.start_mark is None or event.end_mark is None:
        return range(0)
    return range(event.start_mark.line + 1, event.end_mark.line + 1)
