from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.stages.sources.rate import other_rate

MS = Fraction(1, 1000)


def at(fps: float, count: int = 60) -> list[int]:
    """Stamps in milliseconds, rounded as Matroska does."""
    return [round(1000 * k / fps) for k in range(count)]


@pytest.mark.parametrize("fps", [5, 15, 23.976, 25, 29.97, 30, 60])
def test_an_honest_header_is_believed_although_stamps_are_rounded(fps: float) -> None:
    assert other_rate(fps, at(fps), MS) is None


@pytest.mark.parametrize(("said", "real"), [(120, 15), (25, 5), (10, 30), (1, 25)])
def test_frames_are_believed_more_than_a_header(said: float, real: float) -> None:
    assert other_rate(said, at(real), MS) == pytest.approx(real, rel=0.002)


def test_a_mean_rate_is_honest_where_frames_come_unevenly() -> None:
    uneven = [*at(30, 30), *(2000 + k for k in at(30, 30))]
    mean = 59 / (uneven[-1] / 1000)
    assert other_rate(mean, uneven, MS) is None
    assert other_rate(30, uneven, MS) is None
    assert other_rate(90, uneven, MS) == pytest.approx(30, rel=0.02)


def test_a_pause_and_stamps_that_come_twice_change_nothing() -> None:
    stamps = [*at(25), *(10**6 + k for k in at(25)), 40, 40]
    assert other_rate(100, stamps, MS) == 25


@given(st.lists(st.integers(0, 10**9), max_size=8))
def test_few_frames_tell_nothing(stamps: list[int]) -> None:
    assert other_rate(25, stamps, MS) is None
