from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from edgepipe.telemetry.device_facts import DeviceFacts, Level, PowerFacts
from edgepipe.telemetry.device_summary import MOST_EPISODES, device_summary
from edgepipe.telemetry.energy import Energy
from edgepipe.telemetry.energy_meter import EnergyMeter
from edgepipe.telemetry.records import FrameRecord, RecorderFacts
from edgepipe.telemetry.run_facts import RunFacts
from edgepipe.telemetry.run_statistics import RunStatistics
from edgepipe.telemetry.sensors.reading import Channel, Kind, Reading, Scope
from edgepipe.telemetry.sensors.sampler import SamplingFacts
from edgepipe.telemetry.sensors.totals import Total
from edgepipe.telemetry.summary import build_summary
from edgepipe.telemetry.summary_schema import validate
from edgepipe.telemetry.throttle import Held, Verdict
from edgepipe.telemetry.throttle_cause import Cause
from edgepipe.telemetry.throttle_episodes import Episode
from edgepipe.telemetry.verdict import invalid_because

MakeFrame = Callable[..., FrameRecord]
MakeRun = Callable[..., tuple[RunFacts, RunStatistics]]

SECOND_NS = 10**9

VDD_IN = Channel(
    Kind.POWER, "VDD_IN", "ina3221 1-0040", Scope.MODULE_INPUT, tau_s=0.0, step=0.04
)
PACKAGE = Channel(Kind.ENERGY, "package-0", "RAPL", Scope.CPU_PACKAGE)


def energy(channel: Channel, watts: float, seconds: int, start_s: int = 0) -> Energy:
    """What a meter finds of a constant power, read ten times a second."""
    meter = EnergyMeter(channel)
    start_ns, end_ns = start_s * SECOND_NS, (start_s + seconds) * SECOND_NS
    meter.mark(start_ns)
    meter.mark(end_ns)
    for tick in range(-1, 10 * seconds + 2):
        at_ns = start_ns + tick * SECOND_NS // 10
        value = watts if channel.kind is Kind.POWER else watts * at_ns / SECOND_NS + 99
        meter.add(Reading(channel, value, at_ns))
    return meter.between(start_ns, end_ns)


def verdict() -> Verdict:
    """20 s of heat and four over-current events in a minute that began idle."""
    return Verdict(
        start_ns=100 * SECOND_NS,
        end_ns=160 * SECOND_NS,
        throttled=True,
        observed=1.0,
        held=(
            Held(Cause.THERMAL, 20.0, 0),
            Held(Cause.OVER_CURRENT, 0.0, 4, lost_s=4 * 0.00107),
            Held(Cause.DVFS_IDLE, 10.0, 0),
        ),
        episodes=(
            Episode(
                Cause.THERMAL, "gpu", 120 * SECOND_NS, 140 * SECOND_NS, 0, "tj 99 C"
            ),
        ),
        blind={Cause.UNDER_VOLTAGE: "no counter oc1"},
    )


def watched(**changes: Any) -> DeviceFacts:
    module = PowerFacts(
        Total(Scope.MODULE_INPUT, (VDD_IN,), "VDD_IN, the module's input"),
        energy(VDD_IN, 12.0, 60, start_s=100),
        energy(VDD_IN, 5.0, 10),
    )
    package = PowerFacts(
        Total(Scope.CPU_PACKAGE, (PACKAGE,), "all packages"),
        energy(PACKAGE, 30.0, 60, start_s=100),
        None,
        "idle power was not measured",
    )
    facts = DeviceFacts(
        powers=[module, package],
        rails_w={"VDD_SOC": (1.5, ""), "VDD_CV": (None, "gated")},
        clocks_hz={"gpu": Level(0.9e9, 0.3e9, 1.02e9, 564)},
        temperatures_c={"tj-thermal": Level(71.5, 70.0, 73.0, 60)},
        throttle=verdict(),
        sampling=SamplingFacts(47.0, 2820, 3, 300_000_000, 60 * SECOND_NS, ()),
        unread={"temperature.cv0-thermal": "gated"},
        log=RecorderFacts(9000, 0, 0),
    )
    return replace(facts, **changes)


@pytest.fixture
def device() -> dict[str, Any]:
    return device_summary(watched(), 1800, 100 * SECOND_NS)


def test_energy_per_frame_stands_with_its_boundary_and_error(
    device: dict[str, Any],
) -> None:
    power, cost = device["power"], device["joules_per_frame"]
    assert power["value"] == pytest.approx(12.0)
    assert (power["scope"], power["sensor"]) == ("module_input", "ina3221 1-0040")
    assert power["rule"] == "VDD_IN, the module's input"
    assert (power["method"], power["coverage"]) == ("trapezoid", 1.0)
    assert power["rate_hz"] == pytest.approx(10, rel=0.02)
    assert cost["gross"] == pytest.approx(12.0 * 60 / 1800)
    assert cost["net"] == pytest.approx(7.0 * 60 / 1800)
    assert 0 < cost["error_pct"] < 1
    assert cost["error_pct"] < cost["net_error_pct"] < 2
    assert cost["reason"] == ""


def test_energy_is_gross_and_net_of_idle_power(device: dict[str, Any]) -> None:
    energy_j = device["energy_j"]
    assert energy_j["gross"] == energy_j["value"] == pytest.approx(720.0)
    assert energy_j["net"] == pytest.approx(420.0)
    assert energy_j["idle_w"] == pytest.approx(5.0)


def test_another_boundary_stands_apart_and_is_never_added(
    device: dict[str, Any],
) -> None:
    assert list(device["other_scopes"]) == ["cpu_package"]
    package = device["other_scopes"]["cpu_package"]
    assert package["power"]["value"] == pytest.approx(30.0, rel=1e-3)
    assert package["power"]["method"] == "counter"
    assert package["joules_per_frame"]["net"] is None
    assert package["joules_per_frame"]["reason"] == "idle power was not measured"


def test_without_a_frame_there_is_no_energy_per_frame_but_there_is_energy() -> None:
    device = device_summary(watched(), 0, 100 * SECOND_NS)
    assert device["joules_per_frame"]["value"] is None
    assert "no frame" in device["joules_per_frame"]["reason"]
    assert device["energy_j"]["value"] == pytest.approx(720.0)


def test_a_sensor_that_never_answered_leaves_null_and_its_reason() -> None:
    meter = EnergyMeter(VDD_IN)
    meter.mark(0)
    meter.mark(SECOND_NS)
    total = Total(Scope.MODULE_INPUT, (VDD_IN,), "VDD_IN, the module's input")
    lost = PowerFacts(total, meter.between(0, SECOND_NS), None, "not measured either")
    device = device_summary(watched(powers=[lost]), 1800, 0)
    for name in ("power", "energy_j", "joules_per_frame"):
        assert device[name]["value"] is None
        assert "no reading" in device[name]["reason"]
    assert device["power"]["scope"] == "module_input"


def test_rails_clocks_and_temperatures_are_in_units_that_people_use(
    device: dict[str, Any],
) -> None:
    assert device["rails_w"] == {
        "VDD_SOC": {"value": 1.5, "reason": ""},
        "VDD_CV": {"value": None, "reason": "gated"},
    }
    assert device["clocks"]["value"]["gpu"] == {
        "mean_mhz": 900.0,
        "min_mhz": 300.0,
        "max_mhz": 1020.0,
        "readings": 564,
    }
    assert device["temperature"]["value"]["tj-thermal"]["max_c"] == 73.0
    assert device["unread"] == {"temperature.cv0-thermal": "gated"}


def test_throttling_is_told_apart_from_what_only_explains_a_low_clock(
    device: dict[str, Any],
) -> None:
    throttle = device["throttle"]
    assert throttle["events"] == {
        "thermal": {
            "events": 0,
            "episodes": 1,
            "seconds": 20.0,
            "takes_performance": True,
        },
        "over_current": {
            "events": 4,
            "episodes": 0,
            "seconds": 0.0,
            "takes_performance": True,
            "estimated_lost_s": 0.00428,
        },
        "dvfs_idle": {
            "events": 0,
            "episodes": 0,
            "seconds": 10.0,
            "takes_performance": False,
        },
    }
    (episode,) = throttle["episodes"]
    assert (episode["from_s"], episode["until_s"]) == (20.0, 40.0)
    assert throttle["not_observable"] == ["under_voltage: no counter oc1"]


def test_the_newest_episodes_are_listed_and_the_others_counted() -> None:
    episodes = [Episode(Cause.THERMAL, "gpu", n, n + 1, 0, "") for n in range(250)]
    found = replace(verdict(), episodes=tuple(episodes))
    throttle = device_summary(watched(throttle=found), 1, 0)["throttle"]
    assert len(throttle["episodes"]) == MOST_EPISODES
    assert throttle["left_out"] == 250 - MOST_EPISODES
    assert throttle["episodes"][-1]["from_s"] == 249 / SECOND_NS


def test_what_reading_the_sensors_took_is_told(device: dict[str, Any]) -> None:
    sampling = device["sampling"]
    assert sampling["cpu_share"] == pytest.approx(0.005)
    assert (sampling["sweeps"], sampling["skipped"]) == (2820, 3)
    assert (sampling["written"], sampling["lost"]) == (9000, 0)


@pytest.mark.parametrize("facts", [DeviceFacts(), watched()])
def test_the_whole_summary_fits_its_schema(
    make_run: MakeRun, make_frame: MakeFrame, facts: DeviceFacts
) -> None:
    pytest.importorskip("jsonschema")
    run, statistics = make_run([make_frame(n) for n in range(200)])
    validate(build_summary(replace(run, device=facts), statistics))


def test_frames_of_a_throttled_device_are_told_apart(
    make_run: MakeRun, make_frame: MakeFrame
) -> None:
    run, _ = make_run([make_frame()])
    statistics = RunStatistics(1000)
    for n in range(100):
        statistics.add(make_frame(n, latency_ms=20))
    for n in range(100, 140):
        slow = make_frame(n, latency_ms=50, fate="late" if n % 2 else "completed")
        statistics.add(slow, throttled=True)
    statistics.add(make_frame(140, fate="dropped", reason="doomed"), throttled=True)
    statistics.add(make_frame(141, latency_ms=21))
    front = build_summary(run, statistics)["streams"]["front"]
    throttled, clear = front["by_throttle"].values()
    assert (throttled["frames"], throttled["missed"]) == (41, 21)
    assert (clear["frames"], clear["missed"]) == (101, 0)
    assert throttled["latency_ms"]["p50"] == pytest.approx(50)
    assert (clear["latency_ms"]["total"], clear["latency_ms"]["max"]) == (101, 21)


def test_without_throttling_frames_are_not_told_apart(
    make_run: MakeRun, make_frame: MakeFrame
) -> None:
    summary = build_summary(*make_run([make_frame(n) for n in range(10)]))
    assert "by_throttle" not in summary["streams"]["front"]


def reasons(run: RunFacts, statistics: RunStatistics, **changes: Any) -> Sequence[str]:
    return invalid_because(replace(run, **changes), statistics)


def test_a_run_that_needs_a_power_figure_is_invalid_without_one(
    make_run: MakeRun, make_frame: MakeFrame
) -> None:
    made = make_run([make_frame(n) for n in range(300)])
    unmeasured = DeviceFacts(no_power="no power sensor (virtual machine)")
    assert reasons(*made, device=unmeasured) == []
    assert reasons(*made, device=watched(), power_required=True) == []
    assert reasons(*made, device=unmeasured, power_required=True) == [
        "telemetry.sensors.require_power: no power sensor (virtual machine)"
    ]


def test_half_a_power_figure_is_not_enough_where_one_is_needed(
    make_run: MakeRun, make_frame: MakeFrame
) -> None:
    made = make_run([make_frame(n) for n in range(300)])
    whole = watched().powers[0]
    half = replace(whole, run=replace(whole.run, coverage=0.5))
    assert reasons(*made, device=watched(powers=[half]), power_required=True) == [
        "telemetry.sensors.require_power: only 50 % of the time was measured"
    ]
