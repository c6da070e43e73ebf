"""Where in a configuration something is wrong, and how that is reported."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn

from edgepipe.errors import ConfigError, ConfigErrors

Path = tuple[str | int, ...]
"""Keys and list indices from the top of a configuration down to a value."""

_MOST_SHOWN = 100


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """A place: in a file, or in a text from the command line (line 0)."""

    source: str
    line: int = 0
    """Counted from 1."""
    column: int = 0
    """In characters, counted from 1."""

    def at(self, line: int, column: int) -> "Mark":
        """Another place in the same source, counted from 0; this one without lines."""
        return Mark(self.source, line + 1, column + 1) if self.line else self

    def __str__(self) -> str:
        """``file:line:column``, or only the source without a line."""
        return f"{self.source}:{self.line}:{self.column}" if self.line else self.source


@dataclass(frozen=True, slots=True)
class Problem:
    """One broken rule."""

    mark: Mark
    path: Path
    text: str

    @property
    def order(self) -> tuple[bool, int, int]:
        """Sort key: the order of the file, then the command line."""
        return (self.mark.line == 0, self.mark.line, self.mark.column)


@dataclass(slots=True)
class Marks:
    """Where every key and every value of a configuration stands."""

    whole: Mark
    """Where the document begins."""
    keys: dict[Path, Mark]
    values: dict[Path, Mark]

    def value(self, path: Path) -> Mark:
        """Place of the value at ``path``, or of the nearest thing around it."""
        return self._nearest(path, self.values)

    def key(self, path: Path) -> Mark:
        """Place of the key that ends ``path``; of the value for a list's item."""
        return self.keys.get(path) or self._nearest(path, self.values)

    def _nearest(self, path: Path, table: dict[Path, Mark]) -> Mark:
        for length in range(len(path), 0, -1):
            if found := table.get(path[:length]):
                return found
        return self.whole


def dotted(path: Path) -> str:
    """``streams[0].deadline`` for ``("streams", 0, "deadline")``."""
    parts = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return one_line("".join(parts).removeprefix("."))


def one_line(text: str) -> str:
    """The text with line ends and other unprintable characters escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def refuse(problems: Iterable[Problem]) -> NoReturn:
    """Raise the problems as one error, in the order of the text.

    Raises:
        ConfigErrors: Always; beyond 100 problems the rest is only counted.
    """
    ordered = sorted(dict.fromkeys(problems), key=lambda problem: problem.order)
    errors = [
        ConfigError(str(p.mark), dotted(p.path), one_line(p.text))
        for p in ordered[:_MOST_SHOWN]
    ]
    if (left := len(ordered) - _MOST_SHOWN) > 0:
        source = ordered[0].mark.source
        errors.append(ConfigError(source, "", f"{left} more problems are not shown"))
    raise ConfigErrors(errors)
