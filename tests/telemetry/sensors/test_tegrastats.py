"""The sensor that reads tegrastats, with real processes that print recorded lines."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgepipe.telemetry.sensors.reading import Kind, Quality, Reading, Scope
from edgepipe.telemetry.sensors.sensor import Pace, Sensor
from edgepipe.telemetry.sensors.tegrastats import (
    SILENT_NS,
    find_tegrastats,
    sensors_of,
    values_of,
)
from edgepipe.telemetry.sensors.tegrastats_feed import Feed
from edgepipe.telemetry.sensors.tegrastats_line import parse_line

from .fake_time import FakeTime

S = 1_000_000_000
SAMPLES = Path(__file__).with_name("tegrastats_samples.jsonl")
LINES = {
    each["id"]: each["line"]
    for text in SAMPLES.read_text().splitlines()
    for each in [json.loads(text)]
}
NANO = LINES["orin-nano-nosudo-r36"]


class Printer:
    """A stand-in for the program, which prints what a test sends it."""

    def __init__(self, folder: Path) -> None:
        self.fifo = folder / "lines"
        os.mkfifo(self.fifo)
        self.command = ["sh", "-c", 'exec cat "$0"', str(self.fifo)]

    def send(self, *lines: str) -> None:
        with self.fifo.open("w") as stream:
            stream.writelines(f"{line}\n" for line in lines)


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def closing() -> Iterator[list[Sensor]]:
    """Sensors that are closed at the end."""
    found: list[Sensor] = []
    yield found
    for sensor in found:
        sensor.close()


def says(text: str, then: str = "sleep 60") -> list[str]:
    """A program that prints a text and does something else then."""
    return ["sh", "-c", f'printf "%s\\n" "$0"; {then}', text]


def readings(sensors: list[Sensor]) -> dict[str, Reading]:
    return {r.channel.key: r for sensor in sensors for r in sensor.read()}


def test_the_first_line_says_what_there_is(
    time: FakeTime, closing: list[Sensor]
) -> None:
    closing += find_tegrastats(time, command=says(NANO))
    found = readings(closing)
    assert {key: r.value for key, r in found.items() if "cpu" not in key} == {
        "power.VDD_IN": 4.744,
        "power.VDD_CPU_GPU_CV": 1.273,
        "power.VDD_SOC": 1.234,
        "load.gpu": 0.0,
        "clock.gpu": None,
        "temperature.soc2": 51.093,
        "temperature.soc0": 50.125,
        "temperature.gpu": 51.593,
        "temperature.tj": 51.718,
        "temperature.soc1": 50.343,
    }
    assert found["power.VDD_IN"].channel.scope is Scope.MODULE_INPUT
    assert found["power.VDD_SOC"].channel.scope is Scope.RAIL
    assert found["power.VDD_IN"].at_ns == time.ns
    assert [each.pace for each in closing] == [Pace.FAST, Pace.MEDIUM, Pace.SLOW]


@pytest.mark.parametrize("name", LINES)
def test_no_recorded_line_gives_a_value_that_was_not_measured(name: str) -> None:
    values = values_of(parse_line(LINES[name]))
    assert (Kind.POWER, "NC") not in values
    assert (Kind.TEMPERATURE, "PMIC") not in values
    for (kind, _), value in values.items():
        assert value != -256
        assert not (kind is Kind.CLOCK and value == 0)


def test_a_zone_that_is_left_out_while_it_is_off_comes_back(
    time: FakeTime, tmp_path: Path, closing: list[Sensor]
) -> None:
    off = LINES["agx-orin-r36.4"]
    assert "gpu@" not in off
    printer = Printer(tmp_path)
    feed = Feed(printer.command, time, back_off_s=[0.0])
    printer.send(off)
    closing += sensors_of(feed, time, 10)
    gated = readings(closing)["temperature.gpu"]
    assert (gated.value, gated.quality) == (None, Quality.MISSING)
    printer.send(f"{off} gpu@48.5C")
    time.until(lambda: readings(closing)["temperature.gpu"].value == 48.5)


def test_a_silent_process_is_stale_and_is_replaced(
    time: FakeTime, tmp_path: Path, closing: list[Sensor]
) -> None:
    starts = tmp_path / "starts"
    program = f'echo x >>{starts}; printf "%s\\n" "$0"; sleep 60'
    feed = Feed(["sh", "-c", program, NANO], time, back_off_s=[0.0])
    closing += sensors_of(feed, time, 10)
    time.ns += SILENT_NS
    stale = readings(closing)
    assert {r.quality for r in stale.values()} == {Quality.STALE}
    assert {r.value for r in stale.values()} == {None}
    assert {r.reason for r in stale.values()} == {"tegrastats is silent"}
    assert starts.read_text() == "x\n"
    time.ns += 10 * S
    readings(closing)
    time.until(lambda: readings(closing)["power.VDD_IN"].value == 4.744)
    assert starts.read_text() == "x\nx\n"


def test_a_process_that_ends_is_started_again_and_its_end_is_told(
    time: FakeTime, tmp_path: Path, closing: list[Sensor]
) -> None:
    printer = Printer(tmp_path)
    feed = Feed(printer.command, time, back_off_s=[0.0])
    printer.send(NANO)
    closing += sensors_of(feed, time, 10)
    time.until(lambda: feed.starts == 2)
    time.ns += SILENT_NS
    gone = readings(closing)["power.VDD_IN"]
    assert (gone.value, gone.reason) == (None, "tegrastats ended (exit code 0)")
    printer.send(NANO.replace("VDD_IN 4744mW", "VDD_IN 9000mW"))
    time.until(lambda: readings(closing)["power.VDD_IN"].value == 9.0)


def test_a_line_that_was_cut_off_is_not_read(time: FakeTime, tmp_path: Path) -> None:
    printer = Printer(tmp_path)
    feed = Feed(printer.command, time, back_off_s=[0.0])
    feed.hold()
    with printer.fifo.open("w") as stream:
        stream.write("y" * 20_000 + " VDD_IN 1mW/1mW\n" + NANO + "\nVDD_IN 2mW/2mW")
    time.until(lambda: feed.starts == 2)
    assert feed.newest is not None
    assert feed.newest.line.rails[0].watts == 4.744
    feed.release()


def test_unknown_words_are_counted_and_arguments_and_language_are_given(
    time: FakeTime,
) -> None:
    feed = Feed(
        ["sh", "-c", 'echo "$LC_ALL,$1,$2 APE 25"', "x", "--interval", "53"], time
    )
    feed.hold()
    assert feed.wait(10) is not None
    assert feed.unknown == {"C,--interval,53": 1}
    feed.release()


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (["/nowhere/tegrastats"], "cannot be run: No such file or directory"),
        (["sh", "-c", "exit 3"], "tegrastats ended (exit code 3)"),
        (["sh", "-c", "kill -9 $$"], "tegrastats ended (signal 9)"),
        (["sh", "-c", "echo permission denied"], "tegrastats ended (exit code 0)"),
        (["sh", "-c", "sleep 60"], "it prints nothing"),
    ],
)
def test_what_gives_no_line_is_not_used_and_said_once(
    time: FakeTime, command: list[str], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert find_tegrastats(time, command=command, first_line_s=0.3) == []
    (said,) = caplog.records
    assert said.getMessage().endswith(reason)


def test_where_there_is_no_tegrastats_nothing_is_said(
    time: FakeTime, caplog: pytest.LogCaptureFixture
) -> None:
    if shutil.which("tegrastats"):
        pytest.skip("this machine has it")
    assert find_tegrastats(time) == []
    assert caplog.records == []


def test_no_process_is_left_behind(time: FakeTime, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    # A wrapper whose child prints, as packages have them.
    program = f'sh -c \'echo $$ >{pid}; printf "%s\\n" "$0"; sleep 60\' "$0"; true'
    sensors = find_tegrastats(time, command=["sh", "-c", program, NANO])
    child = Path(f"/proc/{pid.read_text().strip()}")
    assert child.exists()
    for sensor in sensors:
        sensor.close()
        sensor.close()
    time.until(lambda: not child.exists() or _is_dead(child))


def _is_dead(process: Path) -> bool:
    try:
        return process.joinpath("stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
