"""Whole runs on machines that measure power, and on ones that do not."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from edgepipe.cli import main
from edgepipe.commands import device as run_device
from edgepipe.telemetry.device_join import join
from edgepipe.telemetry.device_log import read_device
from edgepipe.telemetry.frame_log import read_frames
from edgepipe.telemetry.sensors.equipment import Equipment
from edgepipe.telemetry.sensors.reading import Channel, Kind, Reading, Scope
from edgepipe.telemetry.sensors.sensor import Pace
from edgepipe.telemetry.sensors.totals import Total
from edgepipe.telemetry.summary_schema import validate

from .telemetry.boards import Boards

SCENE = "synthetic:?seed=3&width=320&height=192&fps=120"

Bench = Callable[..., tuple[int, Path, dict[str, Any]]]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Runs a bench and gives its exit code, folder and summary."""

    def run(root: Path | str, *more: str, seconds: int = 3) -> Any:
        config = {
            "version": 1,
            "streams": [{"id": "scene", "source": {"uri": SCENE}, "deadline": "1s"}],
            "model": {"path": "scene-tiny"},
            "telemetry": {"dir": str(tmp_path / "runs")},
            "run": {"warm_up": "0.2s"},
        }
        path = tmp_path / "robot.yaml"
        path.write_text(json.dumps(config))
        sets = [f"telemetry.sensors.root={root}", "telemetry.sensors.idle=1s", *more]
        words = [word for each in sets for word in ("--set", each)]
        code = main(
            ["bench", "-c", str(path), "--duration", f"{seconds}s", "--json", *words]
        )
        folder = max((tmp_path / "runs").iterdir())
        return code, folder, json.loads((folder / "summary.json").read_text())

    return run


def test_a_board_with_an_input_rail_tells_what_a_frame_costs(
    bench: Bench, boards: Boards, capsys: pytest.CaptureFixture[str]
) -> None:
    code, folder, summary = bench(boards("orin-nano-super-jp6").root)
    validate(summary)
    assert json.loads(capsys.readouterr().out) == summary
    device = summary["device"]
    cost = device["joules_per_frame"]
    assert code == 0
    assert device["power"]["value"] == pytest.approx(4.744768)
    assert device["power"]["scope"] == "module_input"
    assert device["power"]["coverage"] > 0.9
    frames = summary["streams"]["scene"]["completed"]
    expected = 4.744768 * summary["duration_s"] / frames
    assert cost["gross"] == pytest.approx(expected, rel=1e-6)
    assert cost["error_pct"] is not None
    assert device["energy_j"]["idle_w"] == pytest.approx(4.744768)
    assert summary["environment"]["board"]["power_mode"]["value"] == "2 MAXN_SUPER"
    assert "Device" in (folder / "report.html").read_text()


def test_the_two_logs_of_a_run_join_by_time(bench: Bench, boards: Boards) -> None:
    _, folder, summary = bench(boards("orin-nano-super-jp6.thermal").root)
    frames, device = read_frames(folder / "frames.arrow"), read_device(
        folder / "device.arrow"
    )  # fmt: skip
    joined = join(frames, device, [])
    assert len(joined.at_ns) == len(frames.table)
    assert np.isfinite(joined.values["power.VDD_IN"]).all()
    assert set(joined.values["clock.gpu"]) == {612e6}
    assert summary["streams"]["scene"]["by_throttle"]["throttled"]["frames"] > 0
    assert summary["device"]["throttle"]["events"]["thermal"]["seconds"] > 0


def test_a_machine_with_nothing_to_measure_says_so_once_and_passes(
    bench: Bench, boards: Boards, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, summary = bench(boards("vm-none").root)
    device = summary["device"]
    assert code == 0
    for name in ("power", "energy_j", "joules_per_frame", "clocks", "temperature"):
        assert device[name]["value"] is None
        assert device[name]["reason"]
    assert device["throttle"]["events"] is None
    assert summary["warnings"] == []
    assert capsys.readouterr().err.count("no power sensor") == 1


def test_a_bench_that_needs_power_is_invalid_where_there_is_none(
    bench: Bench, boards: Boards
) -> None:
    code, _, summary = bench(
        boards("vm-none").root, "telemetry.sensors.require_power=true"
    )
    assert (code, summary["verdict"]) == (1, "INVALID")
    assert summary["reasons"][0].startswith("telemetry.sensors.require_power: ")


def test_sensors_that_are_not_wanted_are_not_read(bench: Bench) -> None:
    _, folder, summary = bench("/", "telemetry.sensors.kind=none")
    assert not (folder / "device.arrow").exists()
    reason = "no sensor is wanted: telemetry.sensors.kind is none"
    assert summary["device"]["power"]["reason"] == reason


POWER = Channel(Kind.POWER, "VDD_IN", "stuck", Scope.MODULE_INPUT, tau_s=0.0)


class Sticking:
    """A power sensor that answers twice and then never again."""

    name = "stuck"
    pace = Pace.FAST
    channels = (POWER,)

    def __init__(self, now_ns: Callable[[], int], let_go: Event) -> None:
        self._now_ns = now_ns
        self._let_go = let_go
        self._reads = 0

    def read(self) -> Sequence[Reading]:
        self._reads += 1
        if self._reads > 2:
            self._let_go.wait(60)
        return [Reading(POWER, 5.0, self._now_ns())]

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def sticking(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every machine has one sensor, which gets stuck."""
    let_go = Event()

    def find(kind: str, tree: object, now_ns: Callable[[], int]) -> Equipment:
        del kind, tree
        total = Total(Scope.MODULE_INPUT, (POWER,), "VDD_IN, the module's input")
        return Equipment([Sticking(now_ns, let_go)], [total])

    monkeypatch.setattr(run_device, "find_equipment", find)
    yield
    let_go.set()


@pytest.mark.usefixtures("sticking")
def test_a_sensor_that_gets_stuck_costs_no_frame_and_is_told_once(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    code, folder, summary = bench("/", "telemetry.sensors.idle=0s")
    scene = summary["streams"]["scene"]
    assert code == 0
    assert (scene["late"], scene["dropped"], scene["failed"]) == (0, {}, {})
    assert summary["device"]["sampling"]["stuck"] == ["stuck"]
    assert summary["device"]["power"]["value"] is None
    readings = list(read_device(folder / "device.arrow").readings())
    assert readings[-1].quality.value == "stale"
    told = [r for r in caplog.records if "does not answer" in r.getMessage()]
    assert len(told) == 1
