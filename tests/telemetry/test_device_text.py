from collections.abc import Callable
from dataclasses import replace
from typing import Any

from edgepipe.telemetry.device_facts import DeviceFacts
from edgepipe.telemetry.device_text import device_lines
from edgepipe.telemetry.records import FrameRecord
from edgepipe.telemetry.run_facts import RunFacts
from edgepipe.telemetry.run_statistics import RunStatistics
from edgepipe.telemetry.summary import build_summary
from edgepipe.telemetry.text_summary import render_text

from .test_device_summary import verdict, watched

MakeFrame = Callable[..., FrameRecord]
MakeRun = Callable[..., tuple[RunFacts, RunStatistics]]


def lines(
    make_run: MakeRun, make_frame: MakeFrame, device: DeviceFacts, throttled: int = 0
) -> dict[str, Any]:
    run, _ = make_run([make_frame()])
    statistics = RunStatistics(1000)
    for n in range(300):
        statistics.add(make_frame(n, latency_ms=20), throttled=n < throttled)
    summary = build_summary(replace(run, device=device), statistics)
    assert all(len(line) <= 80 for line in render_text(summary).splitlines())
    return {"summary": summary, "lines": list(device_lines(summary))}


def test_power_stands_with_boundary_cost_error_and_rule(
    make_run: MakeRun, make_frame: MakeFrame
) -> None:
    found = lines(make_run, make_frame, watched())["lines"]
    head, words = found[0]
    assert head == "power"
    assert words.startswith("12.0 W (module_input), 2.40 J a frame +- ")
    assert words.endswith("J of it above idle; VDD_IN, the module's input")
    assert found[1][1].startswith("cpu_package: 30.0 W (cpu_package), 6.00 J a frame")


def test_what_is_not_measured_says_why_in_one_line(
    make_run: MakeRun, make_frame: MakeFrame
) -> None:
    device = DeviceFacts(no_power="not measured: this is a virtual machine")
    found = lines(make_run, make_frame, device)["lines"]
    assert found == [("power", "not measured: this is a virtual machine")]


def test_frames_that_met_throttling_stand_beside_the_others(
    make_run: MakeRun, make_frame: MakeFrame
) -> None:
    found = lines(make_run, make_frame, watched(), throttled=60)["lines"]
    assert ("throttling", "thermal 20.0 s, over_current 0.0 s (4 events)") in found
    assert found[-1][1].startswith("front: 60 frames met it, 0.00 % missed")


def test_none_seen_is_not_none_where_it_cannot_be_seen(
    make_run: MakeRun, make_frame: MakeFrame
) -> None:
    blind = replace(verdict(), held=(), episodes=())
    found = lines(make_run, make_frame, watched(throttle=blind))["lines"]
    assert found[-1] == (
        "throttling",
        "none was seen; not observable here: under_voltage: no counter oc1",
    )


def test_clocks_and_the_hottest_zones_are_shown(
    make_run: MakeRun, make_frame: MakeFrame
) -> None:
    found = dict(lines(make_run, make_frame, watched())["lines"])
    assert found["clocks (MHz)"] == "gpu 300 to 1020"
    assert found["heat (C)"] == "tj-thermal at most 73.0"
