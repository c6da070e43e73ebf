"""The estimators that are compared do what they are named after."""

from collections.abc import Sequence
from itertools import islice

import estimators
import pytest
from estimators import (
    FACTORIES,
    KEPT,
    LEVELS,
    Estimator,
    Restarting,
    Scheduler,
    Window,
    rank,
)


def fed(estimator: Estimator, values: Sequence[int]) -> Sequence[int]:
    """What it says after these."""
    for value in values:
        estimator.observe(value)
    return estimator.estimates


def test_ranks_of_99_samples_leave_out_exactly_the_asked_for_share() -> None:
    assert [rank(level, 99) + 1 for level in LEVELS] == [25, 75, 95, 99]


@pytest.mark.parametrize("name", FACTORIES)
def test_estimates_settle_near_the_quantiles_of_steady_times(name: str) -> None:
    steady = [sample.service for sample in islice(estimators.times(1, None), 2000)]
    low, middle, high = fed(FACTORIES[name](KEPT), steady)
    assert 0.85 < low / estimators.BASE_NS < 1.05
    assert 0.95 < middle / estimators.BASE_NS < 1.15
    assert low < high < 1.25 * estimators.BASE_NS


def test_a_window_forgets_what_is_older_than_its_size() -> None:
    assert fed(Window((500,), 5), [9] * 50 + [1] * 5) == [1]


def test_a_restart_forgets_at_once_what_was_before_a_shift() -> None:
    times = [100 + n % 7 for n in range(200)]
    plain, restarting = Window(KEPT, 99), Restarting(KEPT, 99, 8)
    fed(plain, times)
    fed(restarting, times)
    halved = [time // 2 for time in times[:8]]
    assert min(fed(plain, halved)) > 90
    assert max(fed(restarting, halved)) < 60


def test_equal_times_are_no_shift() -> None:
    estimator = Restarting(KEPT, 99, 8)
    fed(estimator, [5] * 300)
    assert len(estimator.ordered) == 99


def test_the_schedulers_own_estimator_is_among_them() -> None:
    steady = [sample.service for sample in islice(estimators.times(2, None), 1500)]
    plain = fed(Window(KEPT, 99), steady)
    assert fed(Scheduler(KEPT), steady) == pytest.approx(plain, rel=0.05)
    with pytest.raises(ValueError, match="keeps"):
        Scheduler(LEVELS)


def test_a_told_clock_shows_in_what_is_believed_and_not_in_the_times() -> None:
    told, untold = list(estimators.times(1, 15)), list(estimators.times(1, None))
    assert [s.service for s in told] == [s.service for s in untold]
    changed = estimators.HALVED + 15
    assert [told[changed - 1].clock, told[changed].clock] == [1000, 500]


def test_the_worst_stretch_is_found_anywhere() -> None:
    exceeded = [False] * 10 + [True] * 3 + [False, True] + [False] * 10
    assert estimators.worst(exceeded, 4) == 3
    assert estimators.worst(exceeded, 5) == 4
