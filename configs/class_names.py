"""Names of a model's classes, one a line in a text file."""

from collections.abc import Sequence
from pathlib import Path

from edgepipe.configs import characters
from edgepipe.configs.problems import Mark, Problem, one_line, refuse
from edgepipe.configs.syntax import split_lines
from edgepipe.configs.textfile import read_bytes, shown


def read(path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names in class order, and a warning for each that was there before.

    A byte order mark, Windows line ends and blank lines at the end are fine. A blank
    line between names is not: whether it is a class decides what all others mean.

    Raises:
        ConfigError: The file cannot be read, is empty, is no text or has a blank line.
    """
    source = shown(path)
    whole, problems = characters.decode(read_bytes(path), source)
    lines = [line.strip() for line in split_lines(whole.rstrip())]
    if not problems and not whole.strip():
        problems.append(Problem(Mark(source), (), "the file of class names is empty"))
    elif not problems:
        problems += [
            Problem(Mark(source, number, 1), (), "blank line between class names")
            for number, name in enumerate(lines, start=1)
            if not name
        ]
        problems += [
            Problem(Mark(source, number, 1), (), "control character in a class name")
            for number, name in enumerate(lines, start=1)
            if any(character < " " for character in name)
        ]
    if problems:
        refuse(problems)
    places = [f"{source}:{number}" for number in range(1, len(lines) + 1)]
    return tuple(lines), repeated(lines, places)


def repeated(names: Sequence[str], places: Sequence[str]) -> tuple[str, ...]:
    """A warning for every name that stands in the list before, too."""
    first: dict[str, int] = {}
    warnings: list[str] = []
    for index, name in enumerate(names):
        before = first.setdefault(name, index)
        if before != index:
            text = f"class {index} is called {name!r} like class {before}"
            warnings.append(one_line(f"{places[index]}: {text}"))
    return tuple(warnings)
