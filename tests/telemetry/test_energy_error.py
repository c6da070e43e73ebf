"""What makes the estimate of the error large, one thing at a time."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from edgepipe.telemetry.energy import Energy
from edgepipe.telemetry.energy_meter import EnergyMeter
from edgepipe.telemetry.sensors.reading import Channel, Kind, Reading, Scope

S = 1_000_000_000

RAIL = Channel(Kind.POWER, "VDD_IN", "ina3221", Scope.MODULE_INPUT, tau_s=0.0)

Power = Callable[[float], float]


def energy(
    power: Power,
    channel: Channel = RAIL,
    *,
    rate_hz: float = 47.0,
    seconds: int = 30,
    frame_rates: tuple[float, ...] = (30.0,),
) -> Energy:
    """A window that begins a second after the first reading."""
    meter = EnergyMeter(channel, round(S / rate_hz))
    meter.mark(S)
    meter.mark((1 + seconds) * S)
    for i in range(round((seconds + 2) * rate_hz)):
        at_s = i / rate_hz
        meter.add(Reading(channel, power(at_s), round(at_s * S)))
    return meter.between(S, (1 + seconds) * S, frame_rates)


def error(power: Power, channel: Channel = RAIL, rate_hz: float = 47.0) -> float:
    found = energy(power, channel, rate_hz=rate_hz)
    assert found.error_pct is not None
    return found.error_pct


def constant(_: float) -> float:
    return 5.0


def frames(at_s: float) -> float:
    """Twelve milliseconds of 20 W in each of 30 frames a second."""
    return 20.0 if at_s * 30 % 1 < 0.36 else 6.0


def noise(at_s: float) -> float:
    """Work that comes as it likes."""
    return 20.0 if random.Random(at_s).random() < 0.36 else 6.0


def test_constant_power_is_known_exactly() -> None:
    assert error(constant) == pytest.approx(0)


def test_a_coarse_sensor_is_off_by_half_a_step_while_its_reading_stands_still() -> None:
    coarse = replace(RAIL, step=0.4)
    assert error(constant, coarse) == pytest.approx(100 * 0.2 / 5)


def test_a_coarse_sensor_averages_out_when_its_readings_move() -> None:
    assert error(frames, replace(RAIL, step=0.4)) < 1.05 * error(frames) + 0.1


def test_more_readings_and_longer_windows_know_more() -> None:
    base = energy(noise, seconds=20, frame_rates=())
    longer = energy(noise, seconds=100, frame_rates=())
    faster = energy(noise, seconds=20, rate_hz=350.0, frame_rates=())
    errors = [each.error_pct or 0.0 for each in (base, longer, faster)]
    assert errors[1] < 0.7 * errors[0]
    assert errors[2] < 0.7 * errors[0]


def test_a_rate_that_locks_is_not_believed_however_still_its_readings_are() -> None:
    locked = energy(frames, rate_hz=10.0)
    assert locked.error_pct is not None
    assert locked.error_pct > 80
    assert locked.low == (
        "readings fall on 1 moment(s) of each frame at 30 frames a second",
    )


def test_a_rate_that_locks_is_not_noticed_without_the_frame_rate() -> None:
    assert energy(frames, rate_hz=10.0, frame_rates=()).low == ()


def test_a_known_filter_makes_a_lock_harmless() -> None:
    slow = replace(RAIL, tau_s=0.5)
    assert error(constant, slow, rate_hz=10.0) < 2


def test_a_filter_that_is_not_known_costs_what_the_slowest_would() -> None:
    unknown = replace(RAIL, tau_s=None)

    def step(at_s: float) -> float:
        return 5.0 if at_s < 1.1 else 9.0

    assert error(step, unknown) == pytest.approx(100 * 3.4 * 4 / 9 / 30, rel=0.05)
    assert error(constant, unknown) == pytest.approx(0)


def test_a_filter_that_is_not_known_makes_short_windows_doubtful() -> None:
    unknown = replace(RAIL, tau_s=None)
    assert energy(constant, unknown, seconds=10).low == (
        "the sensor's filter is not known: 10 s is less than 20 s",
    )
    assert energy(constant, unknown, seconds=20).quality == "good"


def test_a_filter_that_is_known_is_known_to_a_tenth() -> None:
    slow = replace(RAIL, tau_s=3.4)

    def ramp(at_s: float) -> float:
        return 5.0 + at_s / 10

    found = energy(ramp, slow)
    assert found.correction_j == pytest.approx(3.4 * 3)
    assert found.error_w == pytest.approx(0.34 * 3 / 30, rel=0.3)


def test_a_few_seconds_of_a_gpu_s_average_are_doubtful() -> None:
    gpu = Channel(Kind.POWER, "gpu0", "NVML", Scope.GPU_BOARD, tau_s=0.0)
    assert energy(constant, gpu, seconds=4).quality == "low"
    assert energy(constant, gpu, seconds=5).quality == "good"
