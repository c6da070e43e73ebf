import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.scheduler.budget import ServiceTimes


def test_nothing_observed_estimates_nothing() -> None:
    assert ServiceTimes().estimate_ns() == 0


def test_the_estimate_is_a_low_quantile() -> None:
    times = ServiceTimes(window=100, quantile_percent=25)
    for value in range(100):
        times.observe(value)
    assert times.estimate_ns() == 24


def test_old_times_are_forgotten() -> None:
    times = ServiceTimes(window=4)
    for value in (900, 900, 900, 900, 5, 5, 5, 5):
        times.observe(value)
    assert times.estimate_ns() == 5


@given(st.lists(st.integers(0, 10**12), min_size=1), st.integers(1, 20))
def test_the_estimate_is_one_of_the_recent_times(values: list[int], n: int) -> None:
    times = ServiceTimes(window=n)
    for value in values:
        times.observe(value)
    recent = sorted(values[-n:])
    assert times.estimate_ns() == recent[(len(recent) - 1) // 4]


@pytest.mark.parametrize("bad", [{"window": 0}, {"quantile_percent": 101}])
def test_an_estimator_without_sense_is_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be"):
        ServiceTimes(**bad)
