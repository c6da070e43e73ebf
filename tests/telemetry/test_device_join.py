import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.telemetry.device_join import join, service_times, values_at
from edgepipe.telemetry.device_log import (
    HOLD_NS,
    DeviceLog,
    device_format,
    encode_batch,
    read_device,
)
from edgepipe.telemetry.frame_log import (
    FrameLog,
    encode_schema,
    read_frames,
)
from edgepipe.telemetry.frame_log import (
    encode_batch as encode_frames,
)
from edgepipe.telemetry.records import FrameRecord, Span
from edgepipe.telemetry.sensors.reading import Channel, Kind, Reading, no_reading

MakeFrame = Callable[..., FrameRecord]

CLOCK = Channel(Kind.CLOCK, "gpu", "devfreq")
FAN = Channel(Kind.FAN, "pwm-fan", "hwmon")


def frame_log(folder: Path, *frames: FrameRecord) -> FrameLog:
    path = folder / "frames.arrow"
    half = len(frames) // 2
    batches = [encode_frames(part) for part in (frames[:half], frames[half:]) if part]
    path.write_bytes(encode_schema() + b"".join(batches))
    return read_frames(path)


def device_log(folder: Path, readings: Sequence[Reading]) -> DeviceLog:
    path = folder / "device.arrow"
    head = device_format([CLOCK, FAN]).head()
    path.write_bytes(head + encode_batch(readings))
    return read_device(path)


def spans(*times: tuple[int, int]) -> tuple[Span, ...]:
    return tuple(
        Span(f"s{n}", start, start, end, "cpu", 0)
        for n, (start, end) in enumerate(times)
    )


def test_a_frame_meets_the_value_of_the_middle_of_its_longest_work(
    tmp_path: Path, make_frame: MakeFrame
) -> None:
    frames = frame_log(
        tmp_path,
        make_frame(0, spans=spans((100, 110), (120, 180), (190, 200))),
        make_frame(1, spans=spans((300, 400), (410, 411))),
    )
    start, end, at = service_times(frames)
    assert (start.tolist(), end.tolist()) == ([100, 300], [200, 411])
    assert at.tolist() == [150, 350]


def test_a_frame_that_nobody_worked_on_is_placed_where_it_left(
    tmp_path: Path, make_frame: MakeFrame
) -> None:
    lost = make_frame(1, spans=(), done_ns=777)
    frames = frame_log(tmp_path, make_frame(0, spans=spans((1, 3))), lost)
    start, end, at = service_times(frames)
    assert (start.tolist(), end.tolist(), at.tolist()) == ([1, 777], [3, 777], [2, 777])


def test_a_log_without_frames_joins_to_nothing(tmp_path: Path) -> None:
    joined = join(frame_log(tmp_path), device_log(tmp_path, []), [])
    assert joined.throttled_by == []
    assert joined.values["clock.gpu"].tolist() == []


def test_clocks_and_causes_stand_beside_each_frame(
    tmp_path: Path, make_frame: MakeFrame
) -> None:
    frames = frame_log(
        tmp_path,
        make_frame(0, spans=spans((10, 20))),
        make_frame(1, spans=spans((30, 60))),
        make_frame(2, spans=spans((70, 80))),
    )
    device = device_log(
        tmp_path,
        [
            Reading(CLOCK, 9e8, 12),
            Reading(CLOCK, 3e8, 40),
            no_reading(CLOCK, 72, "off"),
        ],
    )
    joined = join(frames, device, [("thermal", 55, 65), ("power_cap", 0, 60)])
    clocks = joined.values["clock.gpu"].tolist()
    assert clocks[:2] == [9e8, 3e8]
    assert math.isnan(clocks[2])
    assert list(joined.values) == ["clock.gpu"]  # nobody asks for the fan
    assert joined.throttled_by == ["power_cap", "thermal, power_cap", ""]


def test_a_value_that_nobody_confirmed_is_no_longer_known() -> None:
    times = np.array([100], np.int64)
    at = np.array([99, 100, 100 + HOLD_NS, 100 + 2 * HOLD_NS], np.int64)
    found = values_at(times, np.array([5.0]), at)
    assert np.isnan(found).tolist() == [True, False, False, True]


@given(
    readings=st.lists(st.tuples(st.integers(0, 10**9), st.floats(-1e6, 1e6))),
    at=st.lists(st.integers(-5, 10**9)),
)
def test_the_newest_reading_that_is_not_later_is_taken(
    readings: list[tuple[int, float]], at: list[int]
) -> None:
    ordered = sorted(readings, key=lambda r: r[0])
    times = np.array([t for t, _ in ordered], np.int64)
    values = np.array([v for _, v in ordered], np.float64)
    found = values_at(times, values, np.array(at, np.int64))
    for moment, value in zip(at, found, strict=True):
        before = [v for t, v in ordered if t <= moment]
        assert math.isnan(value) if not before else value == before[-1]
