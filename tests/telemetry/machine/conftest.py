"""Machines of a few files."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest

from edgepipe.telemetry.machine.finding import Finding
from edgepipe.telemetry.sensors.board import Board
from edgepipe.telemetry.sensors.tree import Tree

BOARD = Board(
    model=None,
    soc=None,
    l4t=None,
    jetpack=None,
    power_mode=None,
    pinned=None,
    moving=(),
    governors={},
    fan_profile=None,
    fan_rpm=None,
    virtual_machine="",
    container="",
)
"""One of which nothing is known."""

MakeTree = Callable[[Mapping[str, str]], Tree]
OneOf = Callable[[Iterable[Finding], str], Finding]


@pytest.fixture
def make_tree(tmp_path: Path) -> MakeTree:
    """A machine with these files, a newline at the end of each."""

    def make(files: Mapping[str, str]) -> Tree:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")
        return Tree(tmp_path)

    return make


@pytest.fixture
def one_of() -> OneOf:
    """The only finding about a subject."""

    def pick(found: Iterable[Finding], subject: str) -> Finding:
        (one,) = (each for each in found if each.subject == subject)
        return one

    return pick
