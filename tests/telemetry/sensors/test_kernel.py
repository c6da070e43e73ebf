"""Everything the kernel tells of ten machines."""

import pytest

from edgepipe.telemetry.sensors.kernel import find_board
from edgepipe.telemetry.sensors.reading import Kind, Reading
from edgepipe.telemetry.sensors.sensor import Sensor
from edgepipe.telemetry.sensors.totals import choose_totals
from tests.telemetry.boards import EXPECTED, NAMES, Boards, Machine, read_once


def board_sensors(machine: Machine, *, user: bool = False) -> list[Sensor]:
    return find_board(machine.tree(user=user), lambda: 1_000)


def values(readings: dict[str, Reading], kind: Kind) -> dict[str, float | None]:
    return {
        each.channel.name: each.value
        for each in readings.values()
        if each.channel.kind is kind
    }


@pytest.mark.parametrize("name", NAMES)
def test_each_machine_is_read_as_expected(boards: Boards, name: str) -> None:
    expected = EXPECTED[name]
    readings = read_once(board_sensors(boards(name)))
    celsius = {
        zone: None if mc is None else mc / 1000
        for zone, mc in expected["temps_mc"].items()
    }
    permille = expected["gpu_load_permille"]
    assert values(readings, Kind.POWER) == pytest.approx(expected["rails_w"])
    assert values(readings, Kind.TEMPERATURE) == celsius
    assert values(readings, Kind.EVENTS) == {
        f"oc{i}": count for i, count in expected["oc"].items()
    }
    assert values(readings, Kind.LOAD) == (
        {} if permille is None else {"gpu": permille / 1000}
    )


@pytest.mark.parametrize("name", NAMES)
def test_each_machine_has_the_expected_total(boards: Boards, name: str) -> None:
    readings = read_once(board_sensors(boards(name)))
    totals = choose_totals([each.channel for each in readings.values()])
    if EXPECTED[name]["total_w"] is None:
        assert totals.found == ()
        assert totals.reason
        return
    (total,) = totals.found
    rails = [readings[channel.key].value or 0 for channel in total.channels]
    names = "+".join(channel.name for channel in total.channels)
    assert sum(rails) == pytest.approx(EXPECTED[name]["total_w"])
    assert names == EXPECTED[name]["total_rail"]


@pytest.mark.parametrize("name", NAMES)
def test_a_reading_is_a_value_or_a_reason(boards: Boards, name: str) -> None:
    sensors = board_sensors(boards(name), user=True)
    for sensor in sensors:
        assert [reading.channel for reading in sensor.read()] == list(sensor.channels)
    for reading in read_once(sensors).values():
        assert reading.value is not None or reading.reason
