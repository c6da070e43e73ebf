"""Machines as a whole: the ten, and ones whose files are garbage."""

import errno
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgepipe.telemetry.machine.examine import Machine, examine_machine, findings
from edgepipe.telemetry.machine.finding import Area, Finding, Level
from edgepipe.telemetry.machine.text import WIDTH, render_machine
from edgepipe.telemetry.machine.verdict import fitness
from edgepipe.telemetry.sensors.tree import Handle, Tree
from tests.telemetry.boards import NAMES, Boards


def told(machine: Machine) -> dict[tuple[Area, str], Finding]:
    found = findings(machine)
    by_subject = {(each.area, each.subject): each for each in found}
    assert len(by_subject) == len(found), "two findings about one subject"
    return by_subject


@pytest.mark.parametrize("name", NAMES)
def test_of_every_machine_all_is_said_in_80_columns(name: str, boards: Boards) -> None:
    found = findings(examine_machine(boards(name).tree()))
    text = render_machine(found, fitness(found))
    assert max(map(len, text.splitlines())) <= WIDTH
    for each in found:
        assert each.subject in text
        assert each.found
        assert not each.level.is_bad or each.costs, f"no cost: {each}"


@pytest.mark.parametrize("name", NAMES)
def test_a_user_without_rights_is_told_no_less(name: str, boards: Boards) -> None:
    everything = told(examine_machine(boards(name).tree()))
    as_user = told(examine_machine(boards(name).tree(user=True)))
    assert everything.keys() == as_user.keys()


class _Garbage(NamedTuple):
    """Gives for each file what was drawn for it."""

    data: dict[int, bytes | int]

    def open(self, path: Path) -> Handle:
        drawn = self.data.get(crc32(bytes(path)) % 7, errno.ENOENT)
        return _Fixed(drawn)


class _Fixed:
    def __init__(self, answer: bytes | int) -> None:
        self._answer = answer

    def read(self) -> bytes:
        if isinstance(self._answer, int):
            raise OSError(self._answer, "drawn")
        return self._answer

    def close(self) -> None:
        pass


pieces = st.lists(
    st.sampled_from(
        [
            b"0",
            b"-1",
            b"7-3",
            b"0-99999",
            b":",
            b"\n",
            b"cpu ",
            b"(",
            b")",
            b" ",
            b"max",
        ]
    )
    | st.binary(max_size=6),
    max_size=30,
).map(b"".join)
answers = pieces | st.sampled_from([errno.EACCES, errno.EAGAIN, errno.EIO])


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.dictionaries(st.integers(0, 6), answers))
def test_garbage_and_refusals_never_raise(
    boards: Boards, data: dict[int, bytes | int]
) -> None:
    machine = boards("x86-rapl")
    tree = Tree(machine.root, _Garbage(data).open)
    found = findings(examine_machine(tree))
    assert render_machine(found, fitness(found))


def test_a_machine_that_shows_nothing_is_no_storm_of_warnings(tmp_path: Path) -> None:
    found = findings(examine_machine(Tree(tmp_path)))
    unknown = [each for each in found if not each.known]
    assert not [each for each in found if each.level.is_bad]
    assert {Area.CLOCKS, Area.HEAT, Area.POWER} <= {each.area for each in unknown}
    assert all(each.level is Level.NOTE for each in unknown)
    assert fitness(found).is_fit
    assert "clocks (pinned)" in fitness(found).unknown
