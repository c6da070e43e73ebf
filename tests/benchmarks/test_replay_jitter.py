from fractions import Fraction

import pytest
import replay_jitter as bench


@pytest.mark.parametrize("way", bench.WAYS)
def test_every_way_releases_all_frames_and_none_early(way: str) -> None:
    released = bench.WAYS[way](6, Fraction(50))
    assert len(released.late_ns) == len(released.spacing_ns) == 5
    assert min(released.late_ns) >= 0


def test_figures_are_in_microseconds() -> None:
    values = [1000 * k for k in range(101)]
    assert bench.figures(values) == {"p50_us": 50, "p99_us": 99, "max_us": 100}
