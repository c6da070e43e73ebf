import numpy as np
import pytest
from numpy.typing import NDArray

from edgepipe.models.evaluate.bootstrap import (
    Weights,
    block_length,
    block_weights,
    influences,
    upper_bound,
)


def moving(rng: np.random.Generator, frames: int, memory: float) -> NDArray[np.float64]:
    """A series that keeps this share of itself from one frame to the next."""
    series = np.empty(frames)
    series[0] = rng.normal() / np.sqrt(1 - memory**2)
    for k in range(1, frames):
        series[k] = memory * series[k - 1] + rng.normal()
    return series


class MeanOf:
    """The statistic whose spread is known by formula."""

    def __init__(self, series: NDArray[np.float64]) -> None:
        self.series = series

    def __call__(self, weights: Weights) -> NDArray[np.float64]:
        with np.errstate(invalid="ignore"):
            return np.asarray(weights @ self.series / weights.sum(axis=1))


def test_every_draw_has_as_many_frames_as_there_are() -> None:
    weights = block_weights(50, 7, 20, seed=1)
    assert weights.shape == (20, 50)
    assert (weights.sum(axis=1) == 50).all()
    np.testing.assert_array_equal(weights, block_weights(50, 7, 20, seed=1))
    assert (weights != block_weights(50, 7, 20, seed=2)).any()


def test_blocks_are_neighbours_and_go_round_the_end() -> None:
    weights = block_weights(9, 9, 30, seed=3)
    assert (weights == 1).all()
    (one,) = block_weights(9, 4, 1, seed=3)
    assert set(np.flatnonzero(np.diff(np.concatenate([one, one])))) != set()


def test_frames_that_know_nothing_of_each_other_are_drawn_alone_or_nearly_so() -> None:
    rng = np.random.default_rng(0)
    lengths = [block_length(rng.normal(size=800)) for _ in range(20)]
    assert np.median(lengths) <= 4


def test_the_longer_the_memory_the_longer_the_blocks() -> None:
    rng = np.random.default_rng(0)
    medians = [
        np.median([block_length(moving(rng, 800, memory)) for _ in range(20)])
        for memory in (0.0, 0.5, 0.9)
    ]
    assert medians[0] < medians[1] < medians[2]
    # Politis and White's formula for this process: (3 a^2 / (1 - a^2)^2 * 2 n)^(1/3).
    assert medians[2] == pytest.approx((6 * 0.81 / 0.19**2 * 800) ** (1 / 3), rel=0.4)


@pytest.mark.parametrize("series", [[], [1.0], [2.0] * 50])
def test_a_series_without_movement_has_blocks_of_one(series: list[float]) -> None:
    assert block_length(np.array(series)) == 1


def test_the_bound_holds_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    held = [
        upper_bound(MeanOf(moving(rng, 400, 0.6)), 400, resamples=200, seed=k).upper > 0
        for k in range(100)
    ]
    # A block bootstrap is known to be a little too sure of itself: 95 % are meant.
    assert 0.86 <= np.mean(held) <= 1.0


def test_a_bound_that_ignores_memory_is_too_sure_of_itself() -> None:
    statistic = MeanOf(moving(np.random.default_rng(2), 400, 0.9))
    alone = upper_bound(statistic, 400, block=1)
    together = upper_bound(statistic, 400)
    assert together.block > 5
    assert together.upper - together.value > 1.5 * (alone.upper - alone.value)


def test_influences_of_a_mean_are_the_distances_from_it() -> None:
    series = np.array([1.0, 5.0, 3.0, -1.0])
    np.testing.assert_allclose(influences(MeanOf(series), 4), series - series.mean())
    np.testing.assert_allclose(influences(MeanOf(series), 4, group=2), [1.0, -1.0])


def test_draws_that_leave_nothing_are_left_out_and_nothing_at_all_is_refused() -> None:
    def only_the_first(weights: Weights) -> NDArray[np.float64]:
        return np.where(weights[:, 0] > 0, 1.0, np.nan)

    bound = upper_bound(only_the_first, 5, block=1, resamples=100)
    assert bound.upper == 1.0
    assert 40 < bound.resamples < 90
    with pytest.raises(ValueError, match="nothing to judge"):
        upper_bound(lambda weights: np.full(len(weights), np.nan), 5)
