import importlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgepipe.errors import InputError
from edgepipe.telemetry.arrow_stream import END_OF_STREAM
from edgepipe.telemetry.clock import ManualClock
from edgepipe.telemetry.device_log import (
    HOLD_NS,
    Thinner,
    device_format,
    encode_batch,
    read_device,
)
from edgepipe.telemetry.recorder import Recorder
from edgepipe.telemetry.sensors.reading import (
    Channel,
    Kind,
    Quality,
    Reading,
    Scope,
    no_reading,
)

arrow: Any = importlib.import_module("pyarrow")

POWER = Channel(
    Kind.POWER,
    "VDD_IN",
    "ina3221 1-0040",
    Scope.MODULE_INPUT,
    tau_s=3.38,
    step=0.04,
    limits={"crit": 25.0},
)
ZONE = Channel(Kind.TEMPERATURE, "tj-thermal", "thermal zones", limits={"passive": 99})
CHANNELS = (POWER, ZONE)

readings = st.builds(
    Reading,
    st.sampled_from(CHANNELS),
    st.none() | st.floats(allow_nan=False),
    st.integers(0, 2**62),
    st.text(max_size=20),
    st.sampled_from(Quality),
)


def written(path: Path, *batches: Sequence[Reading]) -> Path:
    pieces = [device_format(CHANNELS).head(), *map(encode_batch, batches)]
    path.write_bytes(b"".join(pieces) + END_OF_STREAM)
    return path


@settings(max_examples=50)
@given(batches=st.lists(st.lists(readings, max_size=5), max_size=3))
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[Reading]]
) -> None:
    log = read_device(written(tmp_path_factory.mktemp("log") / "d.arrow", *batches))
    assert list(log.readings()) == [each for batch in batches for each in batch]
    assert log.warning == ""


def test_channels_are_described_in_the_log(tmp_path: Path) -> None:
    channels = read_device(written(tmp_path / "d.arrow")).channels
    assert channels == {"power.VDD_IN": POWER, "temperature.tj-thermal": ZONE}
    assert channels["power.VDD_IN"].limits == {"crit": 25.0}


def test_a_log_that_was_cut_anywhere_gives_its_whole_batches(tmp_path: Path) -> None:
    path = tmp_path / "device.arrow"
    batches = [[Reading(POWER, float(n), n)] for n in range(3)]
    pieces = [device_format(CHANNELS).head(), *map(encode_batch, batches)]
    ends = [sum(map(len, pieces[: n + 1])) for n in range(len(pieces))]
    whole = b"".join(pieces) + END_OF_STREAM
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        log = read_device(path)
        assert len(log.table) == sum(end <= size for end in ends[1:])
        assert log.warning


def test_another_program_can_read_it(tmp_path: Path) -> None:
    path = written(tmp_path / "device.arrow", [no_reading(ZONE, 7, "gated")])
    with path.open("rb") as file:
        table = arrow.ipc.open_stream(file).read_all()
    assert table.to_pylist() == [
        {
            "at_ns": 7,
            "channel": "temperature.tj-thermal",
            "value": None,
            "quality": "missing",
            "reason": "gated",
        }
    ]


@pytest.mark.parametrize("data", [b"hello", b"\x00" * 64])
def test_something_else_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "device.arrow"
    path.write_bytes(data)
    with pytest.raises(InputError, match="not a device log"):
        read_device(path)


def test_another_arrow_stream_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "device.arrow"
    schema = arrow.schema([("at_ns", arrow.int64())])
    with arrow.OSFile(str(path), "wb") as file, arrow.ipc.new_stream(file, schema):
        pass
    with pytest.raises(InputError, match="not a device log of this version"):
        read_device(path)


def test_a_series_has_nan_where_nothing_was_measured(tmp_path: Path) -> None:
    rows = [
        Reading(POWER, 5.0, 20),
        no_reading(POWER, 30, "gated"),
        Reading(ZONE, 1, 5),
    ]
    log = read_device(written(tmp_path / "d.arrow", [*rows, Reading(POWER, 4.0, 10)]))
    times, values = log.series("power.VDD_IN")
    assert times.tolist() == [10, 20, 30]
    assert values[:2].tolist() == [4.0, 5.0]
    assert math.isnan(values[2])
    assert log.series("power.none")[0].dtype == np.int64


def test_the_recorder_writes_it_beside_the_run(tmp_path: Path) -> None:
    path = tmp_path / "device.arrow"
    recorder = Recorder(path, ManualClock(), device_format(CHANNELS))
    recorder.add(Reading(POWER, 4.7, 1))
    recorder.close()
    assert list(read_device(path).readings()) == [Reading(POWER, 4.7, 1)]


def test_a_value_that_stays_the_same_is_written_once_in_a_while() -> None:
    thinner = Thinner()
    kept = [
        at_ns
        for at_ns in range(0, 3 * HOLD_NS, HOLD_NS // 10)
        if thinner.keep([Reading(ZONE, 41.0, at_ns)])
    ]
    assert kept == [0, HOLD_NS, 2 * HOLD_NS]


def test_every_power_reading_and_every_change_is_written() -> None:
    rows = [
        Reading(POWER, 5.0, 1),
        Reading(POWER, 5.0, 2),
        Reading(ZONE, 41.0, 1),
        Reading(ZONE, 41.0, 2),
        Reading(ZONE, 42.0, 3),
        no_reading(ZONE, 4, "gated"),
        no_reading(ZONE, 5, "gated", Quality.STALE),
        no_reading(ZONE, 6, "gated for longer", Quality.STALE),
        Reading(ZONE, 42.0, 7),
    ]
    kept = Thinner().keep(rows)
    assert [each.at_ns for each in kept] == [1, 2, 1, 3, 4, 5, 7]
