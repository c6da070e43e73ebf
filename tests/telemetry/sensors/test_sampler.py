"""Reading sensors beside the pipeline."""

from collections.abc import Callable, Sequence
from threading import Event, Semaphore

import pytest

from edgepipe.telemetry.clock import ManualClock
from edgepipe.telemetry.sensors.reading import Channel, Kind, Quality, Reading
from edgepipe.telemetry.sensors.sampler import MOST_STUCK, Sampler
from edgepipe.telemetry.sensors.sensor import Pace

SECOND_NS = 10**9
WAIT_S = 20.0
"""Nobody waits so long: a test that fails ends."""


class Counting:
    """A sensor that says how often it was read."""

    def __init__(
        self,
        name: str,
        clock: ManualClock,
        pace: Pace = Pace.FAST,
        before: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self.pace = pace
        self.channels = [Channel(Kind.POWER, name, "test")]
        self.reads = 0
        self.closed = 0
        self._clock = clock
        self._before = before

    def read(self) -> Sequence[Reading]:
        self.reads += 1
        self._before()
        return [Reading(self.channels[0], float(self.reads), self._clock.now_ns())]

    def close(self) -> None:
        self.closed += 1


class Sweeps:
    """Takes sweeps and lets a test wait for them."""

    def __init__(self) -> None:
        self.all: list[list[Reading]] = []
        self._came = Semaphore(0)

    def take(self, readings: list[Reading]) -> None:
        self.all.append(readings)
        self._came.release()

    def wait(self, count: int = 1) -> None:
        for _ in range(count):
            assert self._came.acquire(timeout=WAIT_S)

    def named(self) -> list[list[str]]:
        return [[r.channel.name for r in sweep] for sweep in self.all]


class Rig:
    """A sampler on a clock that a test moves."""

    def __init__(self, *sensors: Counting, rate_hz: float, clock: ManualClock) -> None:
        self.clock = clock
        self.sweeps = Sweeps()
        self.sampler = Sampler(sensors, clock, rate_hz, self.sweeps.take)
        self.sampler.start()

    def advance(self, seconds: float) -> None:
        self.clock.advance(round(seconds * SECOND_NS))

    def sweep_each(self, seconds: float, times: int) -> None:
        for _ in range(times):
            self.advance(seconds)
            self.sweeps.wait()


def test_each_sensor_is_read_at_its_pace() -> None:
    clock = ManualClock()
    fast = Counting("fast", clock)
    medium = Counting("medium", clock, Pace.MEDIUM)
    slow = Counting("slow", clock, Pace.SLOW)
    rig = Rig(fast, medium, slow, rate_hz=47, clock=clock)
    rig.sweeps.wait()
    rig.sweep_each(1 / 47, 47)
    rig.sampler.stop()
    assert (fast.reads, medium.reads, slow.reads) == (48, 10, 2)


@pytest.mark.parametrize(
    ("paces", "rate_hz"),
    [
        ([Pace.SLOW], 1.0),
        ([Pace.SLOW, Pace.MEDIUM], 9.4),
        ([Pace.SLOW, Pace.MEDIUM, Pace.FAST], 47.0),
    ],
)
def test_there_are_no_more_sweeps_than_a_sensor_wants(
    paces: list[Pace], rate_hz: float
) -> None:
    clock = ManualClock()
    sensors = [Counting(pace.value, clock, pace) for pace in paces]
    sampler = Sampler(sensors, clock, 47.0, lambda _: None)
    assert sampler.statistics().rate_hz == rate_hz


def test_sweeps_that_are_overdue_are_left_out_and_counted() -> None:
    clock = ManualClock()
    rig = Rig(Counting("power", clock), rate_hz=10, clock=clock)
    rig.sweeps.wait()
    rig.advance(1.0)
    rig.sweeps.wait()
    facts = rig.sampler.stop()
    assert (facts.sweeps, facts.skipped) == (2, 9)


def test_a_slow_sensor_does_not_wait_a_lap_because_its_sweep_was_left_out() -> None:
    clock = ManualClock()
    slow = Counting("slow", clock, Pace.SLOW)
    rig = Rig(slow, Counting("power", clock), rate_hz=10, clock=clock)
    rig.sweeps.wait()
    rig.advance(1.15)
    rig.sweeps.wait()
    rig.sampler.stop()
    assert slow.reads == 2


def test_sensors_are_closed_once_at_the_end() -> None:
    clock = ManualClock()
    sensor = Counting("power", clock)
    rig = Rig(sensor, rate_hz=10, clock=clock)
    rig.sweeps.wait()
    rig.sampler.stop()
    rig.sampler.stop()
    assert sensor.closed == 1


def test_nothing_to_read_needs_no_thread() -> None:
    clock = ManualClock()
    sampler = Sampler([], clock, 47.0, lambda _: None)
    sampler.start()
    sampler.watch()
    clock.advance(SECOND_NS)
    facts = sampler.stop()
    assert (facts.sweeps, facts.cpu_share) == (0, 0.0)


def test_a_sensor_that_raises_costs_only_its_own_channels() -> None:
    def fail() -> None:
        raise RuntimeError("no such register")

    clock = ManualClock()
    bad = Counting("bad", clock, before=fail)
    rig = Rig(bad, Counting("good", clock), rate_hz=10, clock=clock)
    rig.sweeps.wait()
    rig.sampler.stop()
    first, second = rig.sweeps.all[0]
    assert (first.value, second.value) == (None, 1.0)
    assert first.reason == "the sensor failed: RuntimeError: no such register"


class Hanging:
    """Blocks reads from the n-th on, until it is let go."""

    def __init__(self, after: int = 0) -> None:
        self.inside = Semaphore(0)
        self.let_go = Event()
        self._left = after

    def __call__(self) -> None:
        self._left -= 1
        if self._left < 0:
            self.inside.release()
            assert self.let_go.wait(WAIT_S)

    def wait(self) -> None:
        assert self.inside.acquire(timeout=WAIT_S)


def test_a_sensor_that_hangs_is_left_out_and_the_rest_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    hang = Hanging(after=1)
    bad = Counting("bad", clock, before=hang)
    rig = Rig(bad, Counting("good", clock), rate_hz=10, clock=clock)
    rig.sweeps.wait()
    rig.advance(0.1)
    hang.wait()
    rig.advance(5.0)
    rig.sampler.watch()
    rig.sweeps.wait()
    rig.sweep_each(0.1, 20)
    bads, goods = zip(*rig.sweeps.all[1:], strict=True)
    facts = rig.sampler.stop()
    hang.let_go.set()
    assert {r.quality for r in bads} == {Quality.STALE}
    assert bads[0].value is None
    assert bads[0].reason == "stale: the sensor has not answered for 5.0 s"
    assert [r.value for r in goods] == [float(n) for n in range(2, 23)]
    assert facts.stuck == ("bad",)
    assert bad.closed == 0  # its thread still uses it
    assert [r.getMessage() for r in caplog.records] == [
        "sensor bad does not answer: it is left out until it does"
    ]


def test_a_sensor_that_answers_late_is_taken_back_without_that_answer() -> None:
    clock = ManualClock()
    hang = Hanging(after=1)
    bad = Counting("bad", clock, before=hang)
    rig = Rig(bad, rate_hz=10, clock=clock)
    rig.sweeps.wait()
    rig.advance(0.1)
    hang.wait()
    rig.advance(30.0)
    rig.sampler.watch()
    rig.sweeps.wait()
    hang.let_go.set()
    hang.inside.release()  # so that no later read is waited for
    while rig.sampler.statistics().stuck:
        pass
    rig.sweep_each(0.1, 3)
    rig.sampler.stop()
    values = [sweep[0].value for sweep in rig.sweeps.all]
    assert values[:2] == [1.0, None]
    assert values[2:] == [3.0, 4.0, 5.0]
    assert bad.closed == 1


def test_stopping_does_not_wait_for_a_sensor_that_hangs() -> None:
    clock = ManualClock()
    hang = Hanging()
    bad = Counting("bad", clock, before=hang)
    rig = Rig(bad, rate_hz=10, clock=clock)
    hang.wait()
    rig.sampler.stop()
    assert bad.closed == 0
    hang.let_go.set()


def test_threads_that_hang_are_bounded_and_one_that_returns_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    hangs = [Hanging() for _ in range(MOST_STUCK + 2)]
    sensors = [Counting(f"s{n}", clock, before=h) for n, h in enumerate(hangs)]
    rig = Rig(*sensors, rate_hz=10, clock=clock)
    for hang in hangs[: MOST_STUCK + 1]:
        hang.wait()
        rig.advance(5.0)
        rig.sampler.watch()
    assert sensors[-1].reads == 0
    assert caplog.records[-1].getMessage() == (
        f"more than {MOST_STUCK} sensors hang: none is read any more"
    )
    hangs[-1].let_go.set()
    hangs[0].let_go.set()
    rig.sweeps.wait()
    assert sensors[-1].reads == 1
    rig.sampler.stop()
    for hang in hangs:
        hang.let_go.set()


def test_the_cost_of_reading_is_measured() -> None:
    clock = ManualClock()
    rig = Rig(Counting("power", clock), rate_hz=10, clock=clock)
    rig.sweeps.wait()
    rig.sweep_each(0.1, 30)
    facts = rig.sampler.stop()
    assert facts.cpu_ns > 0
    assert facts.elapsed_ns == 3 * SECOND_NS
    assert facts.cpu_share == facts.cpu_ns / facts.elapsed_ns
