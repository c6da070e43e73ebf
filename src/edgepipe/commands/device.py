"""The device during a run: opened from the configuration, watched, told about."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from edgepipe.configs.telemetry_schema import SensorsConfig
from edgepipe.telemetry.clock import Clock
from edgepipe.telemetry.device_log import device_format
from edgepipe.telemetry.monitor import DeviceMonitor
from edgepipe.telemetry.recorder import Recorder
from edgepipe.telemetry.sampling_rate import DEFAULT_HZ, sampling_rate
from edgepipe.telemetry.sensors.discover import find_equipment
from edgepipe.telemetry.sensors.tree import Tree

BENCH_IDLE_NS = 5_000_000_000
"""How long a bench measures idle power when nothing else is said."""
_TICK_NS = 100_000_000


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of monotonic time."""

    start_ns: int
    end_ns: int


def open_monitor(
    config: SensorsConfig,
    log_path: Path,
    clock: Clock,
    frame_rates: list[float],
    on_clock: Callable[[str, int], None],
) -> DeviceMonitor:
    """Find the sensors that the configuration wants; nothing is read continuously yet.

    Raises:
        EdgepipeError: The device log cannot be made.
    """
    equipment = find_equipment(config.kind, Tree(Path(config.root)), clock.now_ns)
    wanted_hz = config.rate_hz
    if wanted_hz is None:
        wanted_hz = sampling_rate(DEFAULT_HZ, frame_rates)
    recorder = None
    if equipment.sensors:
        recorder = Recorder(log_path, clock, device_format(equipment.channels))
    return DeviceMonitor(
        equipment,
        clock,
        wanted_hz,
        frame_rates=frame_rates,
        log=recorder,
        on_clock=on_clock,
    )


def power_line(monitor: DeviceMonitor) -> str:
    """What will tell of power, for people."""
    equipment = monitor.equipment
    if not equipment.totals:
        return f"not measured: {equipment.no_power}"
    first = equipment.totals[0]
    source = ", ".join(dict.fromkeys(each.source for each in first.channels))
    return f"{first.scope.value}: {first.rule} ({source}), {monitor.rate_hz:g} Hz"


def measure_idle(
    monitor: DeviceMonitor,
    length_ns: int,
    clock: Clock,
    should_stop: Callable[[], bool],
) -> Window | None:
    """Let the device idle for so long; None if it was cut short or makes no sense."""
    if not (monitor.has_power and length_ns):
        return None
    start_ns = clock.now_ns()
    end_ns = start_ns + length_ns
    monitor.mark(start_ns)
    monitor.mark(end_ns)
    if not _wait_until(end_ns + monitor.settling_ns, monitor, clock, should_stop):
        return None
    return Window(start_ns, end_ns)


def _wait_until(
    at_ns: int,
    monitor: DeviceMonitor,
    clock: Clock,
    should_stop: Callable[[], bool],
) -> bool:
    """Wait, and look after the sensors meanwhile; False if it was cut short."""
    never = Event()
    while (now_ns := clock.now_ns()) < at_ns:
        if should_stop():
            return False
        clock.wait_until(min(at_ns, now_ns + _TICK_NS), never)
        monitor.watch()
    return True


def wait_for_readings(monitor: DeviceMonitor, clock: Clock, end_ns: int) -> None:
    """Wait until the sensors have been read once more after the end of a window."""
    if monitor.has_power:
        _wait_until(end_ns + monitor.settling_ns, monitor, clock, lambda: False)
