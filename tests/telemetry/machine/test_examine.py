"""Machines as a whole: the ten, and ones whose files are garbage."""

import errno
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgepipe.telemetry.machine.examine import Looks, Machine, examine_machine, findings
from edgepipe.telemetry.machine.finding import Area, Finding, Level
from edgepipe.telemetry.machine.text import WIDTH, render_machine
from edgepipe.telemetry.machine.verdict import fitness
from edgepipe.telemetry.sensors.discover import find_sensors
from edgepipe.telemetry.sensors.tree import Handle, Tree
from tests.telemetry.boards import NAMES, Boards, files_of, renumbered, write


def told(machine: Machine) -> dict[tuple[Area, str], Finding]:
    found = findings(machine)
    by_subject = {(each.area, each.subject): each for each in found}
    assert len(by_subject) == len(found), "two findings about one subject"
    return by_subject


def nothing() -> None:
    """A pause in which nothing changes."""


def examined(tree: Tree, pause: Callable[[], None] = nothing) -> Machine:
    sensors = find_sensors("auto", tree, count(0, 1_000_000).__next__)
    return examine_machine(tree, Looks(sensors=sensors, pause=pause))


@pytest.mark.parametrize("name", NAMES)
def test_of_every_machine_all_is_said_in_80_columns(name: str, boards: Boards) -> None:
    found = findings(examined(boards(name).tree()))
    text = render_machine(found, fitness(found))
    assert max(map(len, text.splitlines())) <= WIDTH
    for each in found:
        assert each.subject in text
        assert each.found
        assert not each.level.is_bad or each.costs, f"no cost: {each}"


@pytest.mark.parametrize("name", NAMES)
def test_a_user_without_rights_is_told_no_less(name: str, boards: Boards) -> None:
    everything = told(examined(boards(name).tree()))
    as_user = told(examined(boards(name).tree(user=True)))
    hidden = {(Area.POWER, "total"), (Area.POWER, "channels")}
    assert everything.keys() - hidden <= as_user.keys()


@pytest.mark.parametrize(
    ("name", "against"),
    [
        ("nano-jp4", {"pinned"}),
        ("xavier-nx-jp5", {"pinned"}),
        ("orin-nano-super-jp6", {"pinned"}),
        ("orin-nano-super-jp6.oc3", {"throttling", "GPU"}),
        ("orin-nano-super-jp6.thermal", {"pinned", "temperature", "throttling", "GPU"}),
        ("agx-orin-jp6", {"pinned"}),
        ("agx-thor-jp7", {"pinned"}),
        ("agx-thor-jp7.gpu-gated", {"pinned"}),
        ("x86-rapl", {"pinned"}),
        ("vm-none", set[str]()),
    ],
)
def test_what_speaks_against_a_bench_on_the_ten(
    name: str, against: set[str], boards: Boards
) -> None:
    found = findings(examined(boards(name).tree()))
    assert {each.subject for each in found if each.speaks_against_a_bench} == against


def test_the_hot_board_is_told_in_sentences(boards: Boards) -> None:
    found = told(examined(boards("orin-nano-super-jp6.thermal").tree()))
    throttling = found[Area.HEAT, "throttling"]
    assert (
        "gpu thermal (devfreq-17000000.gpu=4, gpu-throttle-alert=1" in throttling.found
    )
    assert "stages take longer" in throttling.costs
    assert found[Area.HEAT, "temperature"].found.endswith("throttled at 99")
    assert found[Area.HEAT, "events"].found.endswith("oc3 12")
    assert found[Area.CLOCKS, "power mode"].found.startswith("MAXN_SUPER (2)")
    assert found[Area.POWER, "total"].found.startswith("VDD_IN, the module's input")
    assert found[Area.CLOCKS, "pinned"].remedy == "sudo jetson_clocks"


def test_counters_of_energy_that_only_root_may_read_are_told(boards: Boards) -> None:
    as_user = told(examined(boards("x86-rapl").tree(user=True)))
    refused = as_user[Area.POWER, "unreadable"]
    assert refused.found.startswith("package-0, core-0")
    assert "permission" in refused.found
    as_root = told(examined(boards("x86-rapl").tree()))
    assert "processor packages" in as_root[Area.POWER, "total"].found


@pytest.mark.parametrize("name", NAMES)
def test_the_numbers_of_devices_change_nothing(
    name: str, boards: Boards, tmp_path: Path
) -> None:
    numbers = dict(zip(range(6), (4, 2, 5, 0, 3, 1), strict=True))
    moved = write(renumbered(files_of(name), numbers), tmp_path)
    here, there = (
        findings(examined(boards(name).tree())),
        findings(examined(moved.tree())),
    )
    assert here == there


def test_two_looks_tell_of_what_changes_between_them(boards: Boards) -> None:
    machine = boards("orin-nano-super-jp6")
    counter = "sys/class/hwmon/hwmon3/oc3_event_cnt"

    def pause() -> None:
        machine.answer(counter, b"99\n")

    seen = told(examined(machine.tree(), pause))
    assert "over current (oc3" in seen[Area.HEAT, "throttling"].found


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
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.dictionaries(st.integers(0, 6), answers))
def test_garbage_and_refusals_never_raise(
    boards: Boards, caplog: pytest.LogCaptureFixture, data: dict[int, bytes | int]
) -> None:
    machine = boards("x86-rapl")
    tree = Tree(machine.root, _Garbage(data).open)
    found = findings(examined(tree))
    assert render_machine(found, fitness(found))
    assert "bug" not in caplog.text


def test_a_machine_that_shows_nothing_is_no_storm_of_warnings(tmp_path: Path) -> None:
    found = findings(examine_machine(Tree(tmp_path)))
    unknown = [each for each in found if not each.known]
    assert not [each for each in found if each.level.is_bad]
    assert {Area.CLOCKS, Area.HEAT, Area.POWER} <= {each.area for each in unknown}
    assert all(each.level is Level.NOTE for each in unknown)
    assert fitness(found).is_fit
    assert "clocks (pinned)" in fitness(found).unknown
