"""YAML read strictly: plain data, the place of every value, and every mistake.

The rules beyond YAML's own: one document with a mapping on top; no key twice; keys are
scalars and stay the text typed; no tags; no infinite numbers or NaN; no tab in the
indentation and no exotic blanks; at most 32 levels. Anchors, aliases and ``<<`` may be
used as long as no more than 5000 values come out. Numbers and booleans are those of
YAML 1.2 (see :mod:`edgepipe.configs.scalars`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from edgepipe.configs import characters, syntax
from edgepipe.configs.compose import MAX_DEPTH, Entry, Node, compose
from edgepipe.configs.problems import Mark, Marks, Path, Problem
from edgepipe.configs.scalars import Style, Written, is_mapping, show

MAX_VALUES = 5000
"""Most values that come out when every alias is filled in."""
_MERGE = "<<"


@dataclass(frozen=True, slots=True)
class Document:
    """What was found in one text; to be used only if there are no problems."""

    data: object
    """Dicts, lists and :class:`Written` scalars; None if the text cannot be read."""
    marks: Marks
    problems: tuple[Problem, ...]


def parse(source: bytes | str, name: str) -> Document:
    """Read a text with a mapping on top; ``name`` stands before every message."""
    document = parse_value(source, Mark(name, 1, 1))
    data, marks = document.data, document.marks
    if data is None or is_mapping(data):
        return document
    if data == "":
        text = "the file is empty, expected a mapping"
    else:
        text = f"expected a mapping at the top level, got {show(data)}"
        text += missing_blank_hint(data)
    return Document(None, marks, (*document.problems, Problem(marks.whole, (), text)))


def parse_value(source: bytes | str, start: Mark) -> Document:
    """Read a text that may hold any value. Marks have no line if ``start`` has none."""
    marks = Marks(start, {}, {})
    if isinstance(source, bytes):
        source, problems = characters.decode(source, start.source)
        if problems:
            return Document(None, marks, tuple(problems))
    text, problems, sound = characters.check(source.removeprefix("\ufeff"), start)
    if not sound:
        return Document(None, marks, tuple(problems))
    root, found = compose(text, start)
    # A bad character often breaks the syntax too: one message for one line.
    lines = {problem.mark.line for problem in problems}
    problems += [problem for problem in found if problem.mark.line not in lines]
    if root is None:
        return Document(None, marks, tuple(problems))
    marks.whole = root.mark
    expansion = _Expansion(marks, problems)
    data = expansion.fill(root, ())
    return Document(data if expansion.complete else None, marks, tuple(problems))


def missing_blank_hint(value: object) -> str:
    """The end of a message where ``key:value`` was read as a text."""
    if not isinstance(value, Written) or value.style is not Style.PLAIN:
        return ""
    found = syntax.glued(value)
    return f": {found.problem}" if found else ""


class _Expansion:
    """Turns nodes into plain data, every alias into a copy of what it stands for."""

    def __init__(self, marks: Marks, problems: list[Problem]) -> None:
        self.marks = marks
        self._problems = problems
        self._left = MAX_VALUES

    @property
    def complete(self) -> bool:
        """Whether everything was filled in."""
        return self._left >= 0

    def fill(self, node: Node, path: Path) -> object:
        """Plain data for ``node``, whose place in the configuration is ``path``."""
        self._spend(1)
        if self._left < 0:
            return Written("", Style.PLAIN)
        if len(path) > MAX_DEPTH:
            text = f"aliases nest more than {MAX_DEPTH} levels deep"
            self._problems.append(Problem(node.mark, path, text))
            return Written("", Style.PLAIN)
        self.marks.values[path] = node.mark
        if isinstance(node.content, Written):
            return node.content
        if not node.is_mapping:
            items = cast(list[Node], node.content)
            return [self.fill(item, (*path, i)) for i, item in enumerate(items)]
        return self._mapping(node, path)

    def _mapping(self, node: Node, path: Path) -> dict[str, object]:
        filled: dict[str, object] = {}
        for entry in self._entries(node, 0):
            key = str(entry.key)
            if key not in filled:
                self.marks.keys[(*path, key)] = entry.mark
                filled[key] = self.fill(entry.value, (*path, key))
        return filled

    def _entries(self, node: Node, depth: int) -> Iterator[Entry]:
        """A mapping's own entries, then those merged into it, which yield to them."""
        merges: list[Node] = []
        for entry in cast(list[Entry], node.content):
            if entry.key == _MERGE and entry.key.style is Style.PLAIN:
                merges += _listed(entry.value)
            else:
                yield entry
        for merged in merges:
            self._spend(1 + len(merged.content))
            if self._left < 0:
                return
            if merged.is_mapping and depth < MAX_DEPTH:
                yield from self._entries(merged, depth + 1)
            else:
                text = "<< takes a mapping or a list of mappings, nested at most "
                text += f"{MAX_DEPTH} levels deep"
                self._problems.append(Problem(merged.mark, (), text))

    def _spend(self, values: int) -> None:
        if self._left >= 0 > self._left - values:
            text = f"more than {MAX_VALUES} values, with every alias filled in"
            self._problems.append(Problem(self.marks.whole, (), text))
        self._left -= values


def _listed(node: Node) -> list[Node]:
    if isinstance(node.content, list) and not node.is_mapping:
        return cast(list[Node], node.content)
    return [node]
