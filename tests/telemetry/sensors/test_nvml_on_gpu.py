"""NVML on a real GPU; skipped where there is none."""

import importlib.util
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from edgepipe.telemetry.sensors.nvml import find_nvml, other_gpu_users
from edgepipe.telemetry.sensors.nvml_library import open_library
from edgepipe.telemetry.sensors.reading import Kind, Quality, Reading
from edgepipe.telemetry.sensors.sensor import Sensor

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def sensors() -> Iterator[list[Sensor]]:
    if importlib.util.find_spec("pynvml") is None:
        pytest.skip("nvidia-ml-py is not installed")
    found = find_nvml(time.monotonic_ns)
    if not found:
        pytest.skip("no NVIDIA GPU answers")
    yield found
    for sensor in found:
        sensor.close()


def readings(sensors: list[Sensor]) -> dict[str, Reading]:
    return {r.channel.key: r for sensor in sensors for r in sensor.read()}


PLAUSIBLE = {
    Kind.POWER: (1.0, 2000.0),
    Kind.ENERGY: (1.0, 1e12),
    Kind.CLOCK: (50e6, 20e9),
    Kind.LOAD: (0.0, 1.0),
    Kind.TEMPERATURE: (1.0, 120.0),
    Kind.REASONS: (0, (1 << 12) - 1),
    Kind.THROTTLED: (0.0, 1e9),
}


def test_every_value_is_plausible_and_every_lack_has_a_reason(
    sensors: list[Sensor],
) -> None:
    found = readings(sensors)
    for reading in found.values():
        if reading.value is None:
            assert reading.reason
        else:
            low, high = PLAUSIBLE[reading.channel.kind]
            assert low <= reading.value <= high, reading
    assert found["power.gpu0"].value is not None
    assert found["clock.gpu0"].value is not None


def test_energy_grows_by_about_what_the_power_says(sensors: list[Sensor]) -> None:
    first = readings(sensors)
    if first["energy.gpu0"].value is None:
        pytest.skip("this GPU counts no energy")
    watts = [first["power.gpu0"].value or 0.0]
    until_ns = first["energy.gpu0"].at_ns + 3_000_000_000
    last = first
    while last["energy.gpu0"].at_ns < until_ns:
        last = readings(sensors)
        watts.append(last["power.gpu0"].value or 0.0)
    before, after = first["energy.gpu0"], last["energy.gpu0"]
    assert after.quality is Quality.GOOD
    grown_j = (after.value or 0.0) - (before.value or 0.0)
    mean_w = grown_j / ((after.at_ns - before.at_ns) / 1e9)
    assert 0.5 * min(watts) < mean_w < 1.5 * max(watts)


class Counting:
    """The real library, with its calls counted by name."""

    def __init__(self, api: Any) -> None:
        self._api = api
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        found: Any = getattr(self._api, name)
        if not name.startswith("nvmlDevice"):
            return found
        return self._counted(name, found)

    def _counted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            self.calls[name] += 1
            return function(*args)

        return call


def test_channels_without_a_value_cost_no_call_any_more(sensors: list[Sensor]) -> None:
    opened = open_library()
    assert opened is not None
    counting = Counting(opened.api)
    found = find_nvml(time.monotonic_ns, counting)
    counting.calls.clear()
    answered = [r for r in readings(found).values() if r.value is not None]
    # A value costs one call; NVML is asked for nothing else.
    assert counting.calls.total() == len(answered)
    for sensor in found:
        sensor.close()


def test_who_uses_the_gpu_can_be_asked(sensors: list[Sensor]) -> None:
    users = other_gpu_users()
    assert users.users is not None or users.reason
