import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.scheduler.budget import (
    LEAST_SAMPLES,
    RUN,
    WARM_UP,
    WINDOW,
    ServiceTimes,
    StepCost,
)


def fed(*values: int, times: ServiceTimes | None = None) -> ServiceTimes:
    """An estimator that has seen these after its warm-up."""
    times = times or ServiceTimes()
    for value in (10**9,) * WARM_UP + values:
        times.observe(value)
    return times


def test_the_first_times_are_no_guide() -> None:
    times = fed(*(900,) * (LEAST_SAMPLES - 1))
    assert (times.shed_ns, times.plan_ns, times.guard_ns) == (0, 0, 0)
    times.observe(900)
    assert (times.shed_ns, times.plan_ns, times.guard_ns) == (900, 900, 900)


def test_a_profile_serves_until_something_was_measured() -> None:
    times = ServiceTimes(1000)
    assert (times.shed_ns, times.plan_ns, times.guard_ns) == (500, 1100, 1100)
    assert fed(*(400,) * 5, times=times).plan_ns == 400


def test_exactly_the_asked_for_share_of_a_full_window_lies_above() -> None:
    times = fed(*(n * 37 % WINDOW for n in range(WINDOW)))
    assert (times.shed_ns, times.plan_ns, times.guard_ns) == (24, 74, 94)


def test_a_halved_clock_doubles_every_estimate_at_once_and_back() -> None:
    times = fed(*range(100, 200))
    before = (times.shed_ns, times.plan_ns, times.guard_ns)
    times.set_clock(500)
    assert (times.shed_ns, times.plan_ns, times.guard_ns) == tuple(
        2 * value for value in before
    )
    times.set_clock(1000)
    assert (times.shed_ns, times.plan_ns, times.guard_ns) == before


def test_times_at_a_halved_clock_count_as_half_the_work() -> None:
    times = ServiceTimes()
    times.set_clock(500)
    fed(*(200,) * 9, times=times).set_clock(1000)
    assert times.plan_ns == 100


def test_a_change_that_nobody_announced_is_learned_in_a_few_samples() -> None:
    times = fed(*(100 + n % 7 for n in range(200)))
    for n in range(RUN + 1):
        times.observe(200 + n % 7)
    assert times.shed_ns >= 200
    for n in range(RUN + 1):
        times.observe(100 + n % 7)
    assert times.plan_ns < 120


def test_now_and_then_a_slow_one_is_no_change() -> None:
    times = fed(*(400 if n % 12 == 0 else 100 + n % 7 for n in range(600)))
    assert times.plan_ns <= 107 < times.guard_ns == 400


@given(st.lists(st.integers(1, 10**12), min_size=5, max_size=300))
def test_estimates_are_recent_times_in_ascending_order(values: list[int]) -> None:
    times = fed(*values)
    assert times.shed_ns <= times.plan_ns <= times.guard_ns
    assert {times.shed_ns, times.plan_ns, times.guard_ns} <= set(values[-WINDOW:])


@given(st.lists(st.integers(1, 10**9), min_size=5, max_size=300), st.integers(2, 9))
def test_estimates_scale_with_the_unit(values: list[int], scale: int) -> None:
    one, other = fed(*values), fed(*(value * scale for value in values))
    assert other.shed_ns == scale * one.shed_ns
    assert other.plan_ns == scale * one.plan_ns
    assert other.guard_ns == scale * one.guard_ns


@pytest.mark.parametrize(
    ("curve", "size", "expected"),
    [((), 3, 300), ((1000, 1600), 2, 160), ((1000, 1600), 4, 360), ((), 1, 100)],
)
def test_a_batch_never_seen_costs_what_the_profile_says(
    curve: tuple[int, ...], size: int, expected: int
) -> None:
    cost = StepCost(0, curve)
    for _ in range(WARM_UP + LEAST_SAMPLES):
        cost.observe(1, 100)
    assert (cost.plan_ns(size), cost.guard_ns(size)) == (expected, expected)


def test_a_batch_seen_often_enough_costs_what_was_measured() -> None:
    cost = StepCost(100, (1000, 1600))
    for _ in range(WARM_UP + LEAST_SAMPLES):
        cost.observe(2, 130)
    assert cost.plan_ns(2) == 130
    cost.set_clock(500)
    assert cost.plan_ns(2) == 260
