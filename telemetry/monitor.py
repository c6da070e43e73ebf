"""Watches the device during a run: keeps what its sensors say in a bounded space."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Protocol

from edgepipe.telemetry.clock import Clock
from edgepipe.telemetry.device_facts import (
    NO_SENSOR,
    DeviceFacts,
    Level,
    PowerFacts,
    unmeasured,
)
from edgepipe.telemetry.device_log import Thinner
from edgepipe.telemetry.energy import Energy, add_energies
from edgepipe.telemetry.energy_meter import EnergyMeter
from edgepipe.telemetry.levels import LevelMeter
from edgepipe.telemetry.records import RecorderFacts
from edgepipe.telemetry.sampling_rate import needed_rate_warning
from edgepipe.telemetry.sensors.equipment import Equipment
from edgepipe.telemetry.sensors.reading import Channel, Kind, Reading
from edgepipe.telemetry.sensors.sampler import (
    MEDIUM_HZ,
    SLOW_HZ,
    Sampler,
    SamplingFacts,
)
from edgepipe.telemetry.sensors.sensor import Pace
from edgepipe.telemetry.sensors.totals import Total
from edgepipe.telemetry.throttle import Held, ThrottleJudge
from edgepipe.telemetry.throttle_cause import Cause

METERED = frozenset({Kind.POWER, Kind.ENERGY})
LEVELS = frozenset({Kind.CLOCK, Kind.TEMPERATURE})
PARTS = ("cpu", "gpu")
"""Parts of the device whose clocks the scheduler wants to know."""


_RATES_HZ = {Pace.FAST: math.inf, Pace.MEDIUM: MEDIUM_HZ, Pace.SLOW: SLOW_HZ}
"""How often a sensor is read at most."""
_SETTLING_READINGS = 2


class Log(Protocol):
    """Where readings are written."""

    def add(self, record: Reading) -> None:
        """Take one reading; quick, and for one caller at a time."""
        ...

    def start(self) -> None:
        """Begin to write."""
        ...

    def close(self) -> RecorderFacts:
        """Write what waits; say what became of all of it."""
        ...


@dataclass(frozen=True, slots=True)
class Live:
    """What the device says at this moment."""

    readings: Mapping[str, Reading]
    """The newest of each channel, by its key; its time says how old it is."""
    energy_j: Mapping[str, float]
    """Energy since the start by channel, covered time only."""
    throttled_by: Sequence[Cause]
    """Causes that take performance away now."""
    throttle: Sequence[Held]
    """Every cause that held or was counted since the start."""


class DeviceMonitor:
    """Reads the sensors from ``start`` to ``stop`` and knows what they said.

    Args:
        equipment: The sensors, which ``stop`` closes.
        clock: The time.
        rate_hz: How often power is read, a second.
        frame_rates: Of the streams: what the load may come with.
        log: Where readings are written; None: nowhere.
        on_clock: Told when the clock that a part of the device may reach changes: its
            name and thousandths of what it was at the start. Called by the reading
            thread.
    """

    def __init__(
        self,
        equipment: Equipment,
        clock: Clock,
        rate_hz: float,
        *,
        frame_rates: Sequence[float] = (),
        log: Log | None = None,
        on_clock: Callable[[str, int], None] | None = None,
    ) -> None:
        self.equipment = equipment
        self.rate_hz = rate_hz
        self._clock = clock
        self._frame_rates = frame_rates
        self._log = log
        self._on_clock = on_clock
        self._thinner = Thinner()
        self._lock = Lock()
        self._sampler = Sampler(equipment.sensors, clock, rate_hz, self.take)
        self._judge = ThrottleJudge()
        self._latest: dict[str, Reading] = {}
        self._seen: set[Channel] = set()
        self._sampling: SamplingFacts | None = None
        self._logged: RecorderFacts | None = None
        self._rates_hz = {
            channel: min(rate_hz, _RATES_HZ[sensor.pace])
            for sensor in equipment.sensors
            for channel in sensor.channels
            if channel.kind in METERED
        }
        """How often each channel of power is read, as far as is known."""
        self._meters = {
            channel: EnergyMeter(channel, round(1e9 / each_hz))
            for channel, each_hz in self._rates_hz.items()
        }
        self._levels = {
            each: LevelMeter() for each in equipment.channels if each.kind in LEVELS
        }
        self._permille = dict.fromkeys(PARTS, 1000)
        self.throttled = False
        """Whether something takes performance away now. Read by any thread."""

    # --- the owner's side -----------------------------------------------------------

    @property
    def has_power(self) -> bool:
        """Whether anything measures the power of the whole device."""
        return bool(self.equipment.totals)

    @property
    def settling_ns(self) -> int:
        """How long after the end of a window every power sensor has been read again."""
        rates_hz = [
            self._rates_hz[c] for t in self.equipment.totals for c in t.channels
        ]
        return round(_SETTLING_READINGS * 1e9 / min(rates_hz, default=math.inf))

    @property
    def warnings(self) -> list[str]:
        """What may spoil the figures, one line each."""
        hung = [f"sensor {n} does not answer: left out" for n in self.equipment.hung]
        return [*hung, *sorted(self._rate_warnings())]

    def _rate_warnings(self) -> set[str]:
        """Of channels of power whose readings come too seldom, or in step with frames.

        At the rate that they really had, once that is known.
        """
        found: set[str] = set()
        for total in self.equipment.totals:
            for channel in total.channels:
                if channel.kind is Kind.POWER:
                    rate_hz = self._rates_hz[channel]
                    found.add(
                        needed_rate_warning(rate_hz, channel.tau_s, self._frame_rates)
                    )
        return found - {""}

    def start(self) -> None:
        """Begin to read."""
        if self._log is not None:
            self._log.start()
        self._sampler.start()

    def watch(self) -> None:
        """Look after the reading thread; to be called some times a second."""
        self._sampler.watch()

    def mark(self, at_ns: int) -> None:
        """A window of energy may begin or end then."""
        with self._lock:
            for meter in self._meters.values():
                meter.mark(at_ns)

    def begin(self, at_ns: int) -> None:
        """The measured part begins then."""
        self.mark(at_ns)
        with self._lock:
            for level in self._levels.values():
                level.begin(at_ns)

    def end(self, at_ns: int) -> None:
        """The measured part ended then."""
        self.mark(at_ns)
        with self._lock:
            for level in self._levels.values():
                level.end(at_ns)

    def live(self) -> Live:
        """What is known at this moment."""
        with self._lock:
            energy_j = {
                channel.key: joules
                for channel, meter in self._meters.items()
                if (joules := meter.joules) is not None
            }
            now_ns = self._clock.now_ns()
            causes = [c for c in self._judge.state_at(now_ns) if c.throttles]
            return Live(dict(self._latest), energy_j, causes, self._judge.totals)

    def facts(
        self, measured: tuple[int, int], idle: tuple[int, int] | None = None
    ) -> DeviceFacts:
        """What the sensors said of the measured part, and of idle time before it.

        Args:
            measured: From and until, as given to ``begin`` and ``end``.
            idle: The same of a window whose edges were marked; None: there was none.
        """
        with self._lock:
            return self._facts(measured, idle)

    def stop(self) -> None:
        """End reading, close the sensors and the log."""
        self._sampling = self._sampler.stop()
        if self._log is not None:
            self._logged = self._log.close()

    # --- the reading thread ---------------------------------------------------------

    def take(self, readings: list[Reading]) -> None:
        """Take in one sweep; called by the reading thread."""
        with self._lock:
            for reading in readings:
                self._note(reading)
            now_ns = self._clock.now_ns()
            self._judge.take(readings, now_ns)
            self.throttled = any(c.throttles for c in self._judge.state_at(now_ns))
            if self._log is not None:
                for reading in self._thinner.keep(readings):
                    self._log.add(reading)
            changes = self._clock_changes()
        for part, permille in changes:
            # Outside the lock: whoever is told may wait for a lock of his own.
            if self._on_clock is not None:
                self._on_clock(part, permille)

    def _note(self, reading: Reading) -> None:
        channel = reading.channel
        key = channel.key
        self._latest[key] = reading
        if reading.value is not None:
            self._seen.add(channel)
        if (meter := self._meters.get(channel)) is not None:
            meter.add(reading)
        elif (level := self._levels.get(channel)) is not None:
            level.add(reading)

    def _clock_changes(self) -> list[tuple[str, int]]:
        changes: list[tuple[str, int]] = []
        for part, before in self._permille.items():
            permille = self._judge.ceiling_permille(part)
            if permille is not None and permille != before:
                self._permille[part] = permille
                changes.append((part, permille))
        return changes

    # --- what is known at the end ---------------------------------------------------

    def _facts(
        self, measured: tuple[int, int], idle: tuple[int, int] | None
    ) -> DeviceFacts:
        equipment = self.equipment
        if not equipment.sensors:
            return unmeasured(equipment.no_power or NO_SENSOR)
        if measured[1] <= measured[0]:
            return unmeasured("no time was measured")
        verdict = self._judge.verdict(*measured)
        return DeviceFacts(
            powers=[self._power(each, measured, idle) for each in equipment.totals],
            no_power=equipment.no_power or NO_SENSOR,
            rails_w=self._rails(measured),
            clocks_hz=self._levels_of(Kind.CLOCK),
            no_clocks="not measured: nothing tells a clock here",
            temperatures_c=self._levels_of(Kind.TEMPERATURE),
            no_temperatures="not measured: nothing tells a temperature here",
            throttle=None if verdict.throttled is None else verdict,
            no_throttle="not measured: nothing tells of throttling here",
            sampling=self._sampling or self._sampler.statistics(),
            unread=self._unread(),
            log=self._logged,
        )

    def _power(
        self, total: Total, measured: tuple[int, int], idle: tuple[int, int] | None
    ) -> PowerFacts:
        run = self._energy(total, measured)
        if idle is None:
            return PowerFacts(total, run, None, "idle power was not measured")
        return PowerFacts(total, run, self._energy(total, idle))

    def _energy(self, total: Total, window: tuple[int, int]) -> Energy:
        parts = [
            self._meters[channel].between(*window, self._frame_rates)
            for channel in total.channels
        ]
        for channel, part in zip(total.channels, parts, strict=True):
            self._rates_hz[channel] = part.rate_hz or self._rates_hz[channel]
        return add_energies(total, parts)

    def _rails(self, window: tuple[int, int]) -> dict[str, tuple[float | None, str]]:
        """Mean power by name; of a device with both by its energy counter."""
        rails: dict[str, tuple[float | None, str]] = {}
        for channel, meter in self._meters.items():
            found = meter.between(*window)
            known = rails.get(channel.name, (None, ""))[0] is not None
            if not known or (channel.kind is Kind.ENERGY and found.mean_w is not None):
                rails[channel.name] = found.mean_w, found.reason
        return rails

    def _levels_of(self, kind: Kind) -> dict[str, Level]:
        return {
            channel.name: level
            for channel, meter in self._levels.items()
            if channel.kind is kind and (level := meter.level()) is not None
        }

    def _unread(self) -> dict[str, str]:
        """Channels that never had a value, with the newest reason."""
        return {
            channel.key: newest.reason if newest is not None else "it was never read"
            for channel in self.equipment.channels
            if channel not in self._seen
            for newest in [self._latest.get(channel.key)]
        }
