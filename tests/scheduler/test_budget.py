import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.scheduler.budget import LEAST_SAMPLES, ServiceTimes


def test_the_first_times_are_no_guide() -> None:
    times = ServiceTimes()
    for _ in range(LEAST_SAMPLES - 1):
        times.observe(900)
    assert times.estimate_ns() == 0
    times.observe(900)
    assert times.estimate_ns() == 900


def test_the_estimate_is_a_low_quantile() -> None:
    times = ServiceTimes(window=100, quantile_percent=25)
    for value in range(100):
        times.observe(value)
    assert times.estimate_ns() == 24


def test_old_times_are_forgotten() -> None:
    times = ServiceTimes(window=5)
    for value in (900, 900, 900, 900, 900, 5, 5, 5, 5, 5):
        times.observe(value)
    assert times.estimate_ns() == 5


@given(st.lists(st.integers(0, 10**12), min_size=5), st.integers(5, 20))
def test_the_estimate_is_one_of_the_recent_times(values: list[int], n: int) -> None:
    times = ServiceTimes(window=n)
    for value in values:
        times.observe(value)
    recent = sorted(values[-n:])
    assert times.estimate_ns() == recent[(len(recent) - 1) // 4]


@pytest.mark.parametrize("bad", [{"window": 4}, {"quantile_percent": 101}])
def test_an_estimator_without_sense_is_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be"):
        ServiceTimes(**bad)
