"""Reads sensors beside the running pipeline, without ever holding it up."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event, Lock, Thread

from edgepipe.telemetry.clock import Clock
from edgepipe.telemetry.sensors.reading import Quality, Reading, no_reading
from edgepipe.telemetry.sensors.sensor import Pace, Sensor

log = logging.getLogger(__name__)

SECOND_NS = 10**9
MEDIUM_HZ = 9.4
"""About so often clocks and cooling devices are read."""
SLOW_HZ = 1.0
"""How often temperatures and counters are read."""
STUCK_AFTER_NS = 2 * SECOND_NS
"""A sensor that has not answered by then is left to its thread."""
MOST_STUCK = 4
"""Threads that may hang in sensors at once; with one more nothing is read any more."""
_JOIN_S = 1.0


@dataclass(frozen=True, slots=True)
class SamplingFacts:
    """What reading the sensors took."""

    rate_hz: float
    """Sweeps a second that were asked for."""
    sweeps: int
    skipped: int
    """Sweeps left out because the one before took too long or the thread waited."""
    cpu_ns: int
    """Processor time of the reading threads; those that hang are not in it."""
    elapsed_ns: int
    """Since the start."""
    stuck: tuple[str, ...]
    """Sensors that did not answer, and still do not."""

    @property
    def cpu_share(self) -> float | None:
        """Processor time by elapsed time: the part of one core; None: no time yet."""
        return self.cpu_ns / self.elapsed_ns if self.elapsed_ns > 0 else None


class _Entry:
    """A sensor and how it fares."""

    def __init__(self, sensor: Sensor, every: int) -> None:
        self.sensor = sensor
        self.every = every
        """It is read each so many sweeps."""
        self.due = 0
        """The sweep at which it is read next, or the first one after it."""
        self.stuck_since_ns: int | None = None
        """When the read began that does not come back; None: none hangs."""
        self.has_hung = False
        """Whether that was ever so, and was said."""


class Sampler:
    """Reads every sensor at its pace, from ``start`` to ``stop``, in one thread.

    Sweeps lie on a fixed comb: ``start + k / rate_hz``. One that is overdue is left
    out, never made up for. A sensor that does not answer for ``stuck_after_ns`` keeps
    the thread that it holds; another one goes on with the rest, and its channels are
    stale until it comes back.

    Args:
        sensors: Closed by ``stop``, but for those that hang.
        clock: The time.
        rate_hz: Sweeps a second; fewer where no sensor wants so many.
        on_sweep: Called with the readings of each sweep by the reading thread, one
            call at a time.
        stuck_after_ns: See above.
    """

    def __init__(
        self,
        sensors: Sequence[Sensor],
        clock: Clock,
        rate_hz: float,
        on_sweep: Callable[[list[Reading]], None],
        stuck_after_ns: int = STUCK_AFTER_NS,
    ) -> None:
        rate_hz = _enough(rate_hz, {each.pace for each in sensors})
        medium = max(1, round(rate_hz / MEDIUM_HZ))
        # A multiple, so that what is read together is of one moment.
        slow = medium * max(1, round(rate_hz / SLOW_HZ / medium))
        every = {Pace.FAST: 1, Pace.MEDIUM: medium, Pace.SLOW: slow}
        self._entries = [_Entry(each, every[each.pace]) for each in sensors]
        self._clock = clock
        self._rate_hz = rate_hz
        self._on_sweep = on_sweep
        self._stuck_after_ns = stuck_after_ns
        self._lock = Lock()
        self._wake = Event()
        self._stopping = False
        self._given_up = False
        """Whether so many sensors hang that no thread is risked any more."""
        self._thread: Thread | None = None
        self._busy: tuple[_Entry, int] | None = None
        """What the reading thread is in, and since when."""
        self._started_ns: int | None = None
        self._stopped_ns: int | None = None
        self._next = 0
        """The sweep that comes next, counted from the start."""
        self._sweeps = self._skipped = self._cpu_ns = 0

    # --- the owner's side -----------------------------------------------------------

    def start(self) -> None:
        """Begin to read; does nothing where there is nothing to read."""
        self._started_ns = self._clock.now_ns()
        if self._entries:
            self._begin()

    def _begin(self) -> None:
        thread = Thread(target=self._run, name="sensors", daemon=True)
        self._thread = thread
        thread.start()

    def watch(self) -> None:
        """Look after the thread; to be called some times a second."""
        busy = self._busy
        if busy is None or self._stopping:
            return
        entry, since_ns = busy
        if self._clock.now_ns() - since_ns < self._stuck_after_ns:
            return
        with self._lock:
            if self._busy is not busy:
                return  # it has just answered
            self._busy = None
            entry.stuck_since_ns = since_ns
            self._given_up = len(self._stuck()) > MOST_STUCK
        self._complain(entry)
        if not self._given_up:
            self._begin()
        else:
            log.warning("more than %d sensors hang: none is read any more", MOST_STUCK)

    def _complain(self, entry: _Entry) -> None:
        if not entry.has_hung:
            entry.has_hung = True
            log.warning(
                "sensor %s does not answer: it is left out until it does",
                entry.sensor.name,
            )

    def _stuck(self) -> list[_Entry]:
        return [each for each in self._entries if each.stuck_since_ns is not None]

    def stop(self) -> SamplingFacts:
        """End reading and close the sensors; takes a second at most."""
        if not self._stopping:
            self._stopping = True
            self._wake.set()
            thread = self._thread
            if thread is not None:
                thread.join(_JOIN_S)
            hangs = self._busy
            self._stopped_ns = self._clock.now_ns()
            for entry in self._entries:
                # What a thread still uses must not be pulled away from under it.
                in_use = hangs is not None and hangs[0] is entry
                if entry.stuck_since_ns is None and not in_use:
                    entry.sensor.close()
        return self.statistics()

    def statistics(self) -> SamplingFacts:
        """What it took so far."""
        started_ns = self._started_ns
        now_ns = self._clock.now_ns() if self._stopped_ns is None else self._stopped_ns
        return SamplingFacts(
            self._rate_hz,
            self._sweeps,
            self._skipped,
            self._cpu_ns,
            0 if started_ns is None else now_ns - started_ns,
            tuple(each.sensor.name for each in self._stuck()),
        )

    # --- the reading thread ---------------------------------------------------------

    def _run(self) -> None:
        cpu_ns = time.thread_time_ns()
        while self._wait_for_sweep():
            readings = self._sweep(self._next)
            if readings is None:
                return  # given up meanwhile: another thread goes on
            if readings:
                self._on_sweep(readings)
            self._next += 1
            self._sweeps += 1
            before_ns, cpu_ns = cpu_ns, time.thread_time_ns()
            self._cpu_ns += cpu_ns - before_ns

    def _wait_for_sweep(self) -> bool:
        """Wait for the next place of the comb; False when it is over."""
        while not self._stopping:
            self._wake.clear()
            at_ns = self._next_place()
            if self._clock.now_ns() >= at_ns:
                return True
            # Set after the flag, so no stop is lost between these two lines.
            if not self._stopping:
                self._clock.watch_until(at_ns, self._wake)
        return False

    def _next_place(self) -> int:
        """When the next sweep is due; those that are overdue already are left out."""
        started_ns = self._started_ns or 0
        elapsed_ns = self._clock.now_ns() - started_ns
        place = int(elapsed_ns * self._rate_hz / SECOND_NS)
        if place > self._next:
            self._skipped += place - self._next
            self._next = place
        return started_ns + round(self._next * SECOND_NS / self._rate_hz)

    def _sweep(self, number: int) -> list[Reading] | None:
        readings: list[Reading] = []
        for entry in self._entries:
            if number < entry.due:
                continue
            # Places that were left out must not make a slow sensor wait for a lap.
            entry.due = (number // entry.every + 1) * entry.every
            if entry.stuck_since_ns is not None:
                readings += self._stale(entry)
                continue
            found = self._read(entry)
            if found is None:
                return None
            readings += found
        return readings

    def _read(self, entry: _Entry) -> Sequence[Reading] | None:
        """The sensor's readings; None if they came so late that another took over."""
        busy = self._busy = (entry, self._clock.now_ns())
        try:
            readings = entry.sensor.read()
        except Exception as error:  # noqa: BLE001  # a sensor may not end the sweep
            reason = f"the sensor failed: {type(error).__name__}: {error}"
            at_ns = self._clock.now_ns()
            readings = [no_reading(c, at_ns, reason) for c in entry.sensor.channels]
        with self._lock:
            if self._busy is busy:
                self._busy = None
                return readings
            entry.stuck_since_ns = None
            resumes, self._given_up = self._given_up, False
        if self._stopping:
            entry.sensor.close()
        elif resumes:
            self._begin()
        return None

    def _stale(self, entry: _Entry) -> list[Reading]:
        now_ns = self._clock.now_ns()
        since_ns = entry.stuck_since_ns
        age_s = (now_ns - (now_ns if since_ns is None else since_ns)) / SECOND_NS
        reason = f"stale: the sensor has not answered for {age_s:.1f} s"
        return [
            no_reading(channel, now_ns, reason, Quality.STALE)
            for channel in entry.sensor.channels
        ]


def _enough(rate_hz: float, paces: set[Pace]) -> float:
    """No more sweeps than the fastest sensor wants."""
    if Pace.FAST in paces:
        return rate_hz
    return min(rate_hz, MEDIUM_HZ if Pace.MEDIUM in paces else SLOW_HZ)
