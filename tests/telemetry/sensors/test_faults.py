"""Whatever one file does, everything else is as before, and nothing raises."""

import errno
import math
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgepipe.telemetry.sensors.board import identify, why_no_power
from edgepipe.telemetry.sensors.kernel import find_board
from edgepipe.telemetry.sensors.reading import Kind, Reading
from edgepipe.telemetry.sensors.sensor import Sensor
from edgepipe.telemetry.sensors.totals import choose_totals
from tests.telemetry.boards import (
    NAMES,
    Boards,
    Machine,
    files_of,
    read_all,
    read_once,
)

MACHINES = [name for name in NAMES if name != "vm-none"]
ANSWERS = st.one_of(
    st.sampled_from(
        [
            errno.EIO, errno.EAGAIN, errno.EACCES, errno.ENODEV, errno.ENOENT,
            errno.ENXIO, errno.EINVAL, errno.ENODATA, errno.ETIMEDOUT,
        ]
    ),
    st.sampled_from(
        [
            b"", b"\n", b"\0", b"-1\n", b"0\n", b"32760 ma\n", b"1e9\n", b"0x10\n",
            b"<unknown>\n", b"9" * 30, b"-" + b"9" * 19, b"18446744073709551615\n",
            b"-256000\n", b"nan\n", b"\xff\xfe\n", b"1 2 3\n", b"12.5\n",
        ]
    ),
    st.binary(max_size=40),
    st.integers(-(2**70), 2**70).map(lambda number: f"{number}\n".encode()),
)  # fmt: skip


class Time:
    """A clock that goes on a little at each look."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        self.now_ns += 1_000_000
        return self.now_ns


@cache
def paths(name: str) -> list[str]:
    """The files of a machine that are there to be read."""
    return sorted(
        path
        for path, entry in files_of(name).items()
        if not (isinstance(entry, dict) and "link" in entry)
    )


def sweep(sensors: list[Sensor]) -> dict[str, Reading]:
    for sensor in sensors:
        assert [r.channel for r in sensor.read()] == list(sensor.channels)
    return read_all(sensors)


def told(readings: dict[str, Reading]) -> dict[str, tuple[object, ...]]:
    return {key: (r.value, r.reason, r.quality) for key, r in readings.items()}


def check(readings: dict[str, Reading]) -> None:
    for reading in readings.values():
        if reading.value is None:
            assert reading.reason
        else:
            assert math.isfinite(reading.value)
            assert reading.channel.kind is not Kind.TEMPERATURE or reading.value > -100


class Running:
    """A machine whose sensors are open."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.time = Time()
        self.sensors = find_board(machine.tree(), self.time)
        self.before = told(sweep(self.sensors))


@pytest.fixture(scope="module")
def running(boards: Boards) -> dict[str, Running]:
    return {name: Running(boards(name)) for name in MACHINES}


@settings(max_examples=400, derandomize=True, deadline=None)
@given(st.data())
def test_a_file_that_fails_while_it_runs_costs_its_own_channels(
    running: dict[str, Running], data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(MACHINES))
    path, answer = data.draw(st.sampled_from(paths(name))), data.draw(ANSWERS)
    run = running[name]
    saved = dict(run.machine.answers)
    run.machine.answers[path] = answer
    try:
        readings = sweep(run.sensors)
    finally:
        run.machine.answers = saved
    check(readings)
    changed = [key for key, now in told(readings).items() if now != run.before[key]]
    assert len({key.partition(".")[2] for key in changed}) <= 1 or path.endswith(
        "meminfo"
    )
    run.time.now_ns += 6_000_000_000
    assert told(sweep(run.sensors)) == run.before


@settings(
    max_examples=60,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_a_file_that_fails_from_the_start_costs_its_own_device(
    boards: Boards, running: dict[str, Running], data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(MACHINES))
    path, answer = data.draw(st.sampled_from(paths(name))), data.draw(ANSWERS)
    machine, before = boards(name), running[name].before
    machine.answers[path] = answer
    tree = machine.tree()
    sensors = find_board(tree, Time())
    readings = read_once(sensors)
    check(readings)
    choose_totals([channel for sensor in sensors for channel in sensor.channels])
    identify(tree)
    why_no_power(tree)
    after = told(readings)
    others = {key for key in before if after.get(key) != before[key]}
    families = {key.partition(".")[0] for key in others}
    allowed = [{"power", "voltage", "current"}, {"temperature", "fan"}]
    assert (
        len(families) <= 1
        or any(families <= kinds for kinds in allowed)
        or families
        <= {"clock", "clock_floor", "clock_ceiling", "clock_measured", "load"}
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_machine_all_of_whose_files_fail_has_reasons_only(
    boards: Boards, name: str
) -> None:
    machine = boards(name)
    sensors = find_board(machine.tree(), Time())
    for path in paths(name):
        machine.answers[path] = errno.EIO
    readings = read_once(sensors)
    assert all(reading.value is None for reading in readings.values())
    assert all("EIO" in reading.reason for reading in readings.values())
    assert find_board(machine.tree(), Time()) is not None
    identify(machine.tree())
