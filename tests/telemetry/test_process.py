import os
from collections.abc import Iterator
from math import isclose
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.telemetry.nulls import nulls
from edgepipe.telemetry.process import (
    ProcessReading,
    ProcessSampler,
    Trend,
    read_process,
)

SECOND = 1_000_000_000


def sampled(readings: list[ProcessReading]) -> ProcessSampler:
    waiting: Iterator[ProcessReading] = iter(readings)
    sampler = ProcessSampler(read=lambda: next(waiting))
    for second in range(len(readings)):
        sampler.sample(second * SECOND)
    return sampler


def reading(rss_mb: float = 100, cpu_s: float = 0, threads: int = 5) -> ProcessReading:
    return ProcessReading(int(cpu_s * 1e9), int(rss_mb * 1e6), threads, 12)


def test_this_process_has_memory_threads_and_open_files() -> None:
    found = read_process()
    assert found.cpu_ns > 0
    assert found.rss_bytes is not None
    assert found.rss_bytes > 1_000_000
    assert found.threads is not None
    assert found.threads >= 1


def test_one_more_open_file_is_one_more() -> None:
    before = read_process().fds
    with open(os.devnull) as _:
        after = read_process().fds
    assert before is not None
    assert after == before + 1


@pytest.mark.parametrize("statm", [None, "", "1", "x y"])
def test_a_system_without_such_files_gives_none_and_never_zero(
    tmp_path: Path, statm: str | None
) -> None:
    if statm is not None:
        (tmp_path / "statm").write_text(statm)
    found = read_process(tmp_path)
    assert (found.rss_bytes, found.threads, found.fds) == (None, None, None)


def test_processor_time_is_shared_out_over_the_delivered_frames() -> None:
    sampler = sampled([reading(cpu_s=2), reading(cpu_s=7)])
    assert sampler.summary(100)["cpu_s_per_frame"] == {"value": 0.05, "reason": ""}


def test_without_delivered_frames_there_is_no_processor_time_for_each() -> None:
    found = sampled([reading(), reading()]).summary(0)["cpu_s_per_frame"]
    assert found == {"value": None, "reason": "no frame was delivered"}


def test_start_and_end_are_the_first_and_the_last_reading() -> None:
    found = sampled([reading(100), reading(250, threads=9), reading(110, threads=6)])
    summary = found.summary(1)
    assert (summary["rss_mb"]["start"], summary["rss_mb"]["end"]) == (100, 110)
    assert summary["threads"] == {"start": 5, "end": 6, "reason": ""}


def test_a_short_run_claims_no_memory_slope() -> None:
    rss = sampled([reading()] * 59).summary(1)["rss_mb"]
    assert rss["slope_per_h"] is None
    assert rss["reason"] == "a slope needs 60 samples, there are 59"


def test_steady_growth_is_its_slope_with_a_tight_interval() -> None:
    growing = [reading(100 + 0.01 * second) for second in range(120)]
    rss = sampled(growing).summary(1)["rss_mb"]
    assert isclose(rss["slope_per_h"], 36)
    assert isclose(rss["slope_per_h_low"], 36, abs_tol=0.1)
    assert isclose(rss["slope_per_h_high"], 36, abs_tol=0.1)
    assert rss["n"] == 120


def test_noise_around_a_level_leaves_zero_inside_the_interval() -> None:
    noisy = [reading(100 + (-1) ** second) for second in range(120)]
    rss = sampled(noisy).summary(1)["rss_mb"]
    assert rss["slope_per_h_low"] < 0 < rss["slope_per_h_high"]


@pytest.mark.parametrize(
    "readings", [[], [ProcessReading(0, None, None, None)] * 2], ids=["none", "blind"]
)
def test_what_was_not_read_is_null_with_a_reason(
    readings: list[ProcessReading],
) -> None:
    found = list(nulls(sampled(readings).summary(10)))
    assert {"rss_mb.start", "threads.end", "fds.start"} <= {null.path for null in found}
    assert all(null.reason.startswith("not measured: ") for null in found)


@given(
    st.floats(-1e3, 1e3),
    st.floats(-1e3, 1e3),
    st.lists(st.floats(-100, 100), min_size=3, max_size=30, unique_by=round),
)
def test_a_straight_line_has_its_own_slope(
    slope: float, offset: float, xs: list[float]
) -> None:
    trend = Trend()
    for x in xs:
        trend.add(x, slope * x + offset)
    found = trend.slope()
    assert found is not None
    assert isclose(found.value, slope, rel_tol=1e-6, abs_tol=1e-6)
    assert found.low <= found.value <= found.high


@pytest.mark.parametrize("xs", [[], [1.0, 2.0], [3.0, 3.0, 3.0]])
def test_too_few_points_have_no_slope(xs: list[float]) -> None:
    trend = Trend()
    for x in xs:
        trend.add(x, 1.0)
    assert trend.slope() is None
