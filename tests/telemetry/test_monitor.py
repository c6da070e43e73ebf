from collections.abc import Callable

import pytest

from edgepipe.telemetry.clock import ManualClock
from edgepipe.telemetry.device_facts import NO_SENSOR, DeviceFacts
from edgepipe.telemetry.monitor import DeviceMonitor
from edgepipe.telemetry.records import RecorderFacts
from edgepipe.telemetry.sensors.discover import NONE_WANTED, find_equipment
from edgepipe.telemetry.sensors.equipment import Equipment
from edgepipe.telemetry.sensors.reading import (
    Channel,
    Kind,
    Reading,
    Scope,
    no_reading,
)
from edgepipe.telemetry.sensors.sensor import Pace
from edgepipe.telemetry.sensors.totals import Total
from edgepipe.telemetry.sensors.tree import Tree
from edgepipe.telemetry.throttle_cause import Cause

from .boards import Boards, Machine

SECOND_NS = 10**9

VDD_IN = Channel(Kind.POWER, "VDD_IN", "ina", Scope.MODULE_INPUT, tau_s=0.0)
SOC = Channel(Kind.POWER, "VDD_SOC", "ina", Scope.RAIL, tau_s=0.0)
TOTAL = Total(Scope.MODULE_INPUT, (VDD_IN,), "VDD_IN, the module's input")

Value = Callable[[Channel, float], float | None]


class Named:
    """A sensor that is there; a test gives its readings to the monitor itself."""

    name = "rails"
    pace = Pace.FAST

    def __init__(self, *channels: Channel) -> None:
        self.channels = channels

    def read(self) -> list[Reading]:
        return []

    def close(self) -> None:
        """Nothing is open."""


class Kept:
    """A log that keeps readings in memory."""

    def __init__(self) -> None:
        self.readings: list[Reading] = []

    def add(self, record: Reading) -> None:
        self.readings.append(record)

    def start(self) -> None:
        """Nothing to open."""

    def close(self) -> RecorderFacts:
        return RecorderFacts(len(self.readings), 0, 0)


class Rig:
    """A monitor that is given a sweep each tenth of a second of a manual clock."""

    def __init__(self, equipment: Equipment) -> None:
        self.clock = ManualClock()
        self.log = Kept()
        self.told: list[tuple[str, int]] = []
        self.monitor = DeviceMonitor(
            equipment,
            self.clock,
            10.0,
            frame_rates=[30.0],
            log=self.log,
            on_clock=lambda part, permille: self.told.append((part, permille)),
        )

    def sweep_until(self, end_s: float, read: Callable[[], list[Reading]]) -> None:
        while self.clock.now_ns() <= end_s * SECOND_NS:
            self.monitor.take(read())
            self.clock.advance(SECOND_NS // 10)

    def give_until(self, end_s: float, value: Value, *channels: Channel) -> None:
        def read() -> list[Reading]:
            at_ns = self.clock.now_ns()
            values = [(c, value(c, at_ns / SECOND_NS)) for c in channels]
            return [
                no_reading(c, at_ns, "gated") if v is None else Reading(c, v, at_ns)
                for c, v in values
            ]

        self.sweep_until(end_s, read)


def rails() -> Rig:
    return Rig(Equipment([Named(VDD_IN, SOC)], [TOTAL]))


def test_energy_is_that_of_the_measured_part_and_of_idle_time() -> None:
    rig = rails()
    rig.monitor.mark(0)
    rig.monitor.mark(10 * SECOND_NS)
    rig.monitor.begin(20 * SECOND_NS)
    rig.give_until(80.5, lambda _, at_s: 5.0 if at_s < 15 else 12.0, VDD_IN, SOC)
    rig.monitor.end(80 * SECOND_NS)
    facts = rig.monitor.facts((20 * SECOND_NS, 80 * SECOND_NS), (0, 10 * SECOND_NS))
    (power,) = facts.powers
    assert power.run.joules == pytest.approx(12.0 * 60)
    assert power.idle is not None
    assert power.idle.mean_w == pytest.approx(5.0)
    assert facts.rails_w["VDD_SOC"][0] == pytest.approx(12.0)


def test_without_idle_time_the_net_figures_are_missing_with_a_reason() -> None:
    rig = rails()
    rig.monitor.begin(0)
    rig.give_until(10, lambda _, __: 5.0, VDD_IN, SOC)
    rig.monitor.end(9 * SECOND_NS)
    (power,) = rig.monitor.facts((0, 9 * SECOND_NS)).powers
    assert (power.idle, power.no_idle) == (None, "idle power was not measured")


def test_a_rail_that_never_gave_a_value_is_listed_with_its_reason() -> None:
    rig = rails()
    rig.monitor.begin(0)
    rig.give_until(10, lambda c, _: None if c is SOC else 5.0, VDD_IN, SOC)
    rig.monitor.end(9 * SECOND_NS)
    facts = rig.monitor.facts((0, 9 * SECOND_NS))
    assert facts.unread == {"power.VDD_SOC": "gated"}
    assert facts.rails_w["VDD_SOC"][0] is None


def test_of_a_device_with_both_the_counter_of_energy_tells_its_power() -> None:
    power = Channel(Kind.POWER, "gpu0", "NVML", Scope.GPU_BOARD)
    energy = Channel(Kind.ENERGY, "gpu0", "NVML", Scope.GPU_BOARD)
    total = Total(Scope.GPU_BOARD, (energy,), "GPU boards, gpu0")
    rig = Rig(Equipment([Named(power, energy)], [total]))
    rig.monitor.begin(0)
    rig.give_until(12, lambda c, at_s: 99.0 if c is power else 80 * at_s, power, energy)
    rig.monitor.end(10 * SECOND_NS)
    facts = rig.monitor.facts((0, 10 * SECOND_NS))
    assert facts.rails_w["gpu0"][0] == pytest.approx(80.0)


def test_a_machine_without_sensors_says_why_everywhere() -> None:
    rig = Rig(Equipment(no_power="no power sensor: a virtual machine"))
    facts = rig.monitor.facts((0, SECOND_NS))
    reasons = {
        facts.no_power, facts.no_clocks, facts.no_temperatures, facts.no_throttle
    }  # fmt: skip
    assert reasons == {"no power sensor: a virtual machine"}
    assert Rig(Equipment()).monitor.facts((0, 1)).no_power == NO_SENSOR


def test_a_run_without_a_measured_part_has_no_figures() -> None:
    rig = rails()
    facts = rig.monitor.facts((5, 5))
    assert (facts.powers, facts.no_power) == ((), "no time was measured")


def test_a_rate_that_locks_to_the_frames_is_warned_of() -> None:
    (warning,) = rails().monitor.warnings
    assert "10 times a second" in warning
    assert "30 times" in warning


def test_sensors_that_hung_at_the_start_are_warned_of() -> None:
    rig = Rig(Equipment(hung=["ina3221 1-0040"]))
    assert rig.monitor.warnings == ["sensor ina3221 1-0040 does not answer: left out"]


def test_nothing_is_read_where_nothing_is_wanted() -> None:
    equipment = find_equipment("none", Tree(), lambda: 0)
    assert (equipment.sensors, equipment.no_power) == ((), NONE_WANTED)


class Board:
    """A Jetson whose files a test changes while it is watched."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.now_ns: Callable[[], int] = lambda: 0
        self.equipment = find_equipment("auto", machine.tree(), lambda: self.now_ns())
        self.rig = Rig(self.equipment)
        self.now_ns = self.rig.clock.now_ns

    def watch_until(self, end_s: float) -> None:
        self.rig.sweep_until(
            end_s, lambda: [r for s in self.equipment.sensors for r in s.read()]
        )

    def facts(self, start_s: float, end_s: float) -> DeviceFacts:
        return self.rig.monitor.facts(
            (round(start_s * SECOND_NS), round(end_s * SECOND_NS))
        )


@pytest.fixture
def orin(boards: Boards) -> Board:
    return Board(boards("orin-nano-super-jp6"))


def test_a_clock_that_is_capped_is_told_once_and_again_when_it_is_free(
    orin: Board,
) -> None:
    ceiling = "sys/devices/system/cpu/cpufreq/policy{}/scaling_max_freq"
    orin.watch_until(2)
    assert orin.rig.told == []
    for policy in (0, 4):
        orin.machine.answer(ceiling.format(policy), b"864000\n")
    orin.watch_until(4)
    assert orin.rig.told == [("cpu", 500)]
    for policy in (0, 4):
        orin.machine.answer(ceiling.format(policy), b"1728000\n")
    orin.watch_until(6)
    assert orin.rig.told == [("cpu", 500), ("cpu", 1000)]


def test_frames_are_marked_while_a_cooling_device_is_on(orin: Board) -> None:
    monitor = orin.rig.monitor
    alert = next(
        path
        for path in orin.machine.root.glob("sys/class/thermal/cooling_device*/type")
        if path.read_text().strip() == "gpu-throttle-alert"
    )
    state = str((alert.parent / "cur_state").relative_to(orin.machine.root))
    monitor.begin(0)
    orin.watch_until(2)
    before = monitor.throttled
    orin.machine.answer(state, b"1\n")
    orin.watch_until(4)
    during = monitor.throttled
    assert Cause.THERMAL in monitor.live().throttled_by
    orin.machine.answer(state, b"0\n")
    orin.watch_until(6)
    assert (before, during, monitor.throttled) == (False, True, False)
    monitor.end(6 * SECOND_NS)
    throttle = orin.facts(0, 6).throttle
    assert throttle is not None
    thermal = next(h for h in throttle.held if h.cause is Cause.THERMAL)
    assert thermal.seconds == pytest.approx(2.0, abs=0.11)


def test_live_values_are_the_newest_of_each_channel(orin: Board) -> None:
    orin.watch_until(3)
    live = orin.rig.monitor.live()
    assert live.readings["power.VDD_IN"].value == pytest.approx(4.744768)
    assert live.energy_j["power.VDD_IN"] == pytest.approx(4.744768 * 3, rel=0.05)
    assert live.throttled_by == []


def test_levels_and_totals_of_a_board_come_from_its_files(orin: Board) -> None:
    orin.rig.monitor.begin(0)
    orin.watch_until(5)
    orin.rig.monitor.end(5 * SECOND_NS)
    facts = orin.facts(0, 5)
    assert facts.powers[0].total.scope is Scope.MODULE_INPUT
    assert facts.powers[0].run.mean_w == pytest.approx(4.744768)
    assert facts.clocks_hz["cpu0"].mean == pytest.approx(729.6e6)
    assert facts.temperatures_c["tj-thermal"].high == pytest.approx(51.718)
    assert "temperature.cv0-thermal" in facts.unread


def test_what_is_written_is_what_was_read(orin: Board) -> None:
    orin.watch_until(2)
    written = {each.channel.key for each in orin.rig.log.readings}
    assert written == {each.key for each in orin.equipment.channels}
