import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.telemetry.samples import Samples


@given(st.integers(1, 20), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=60))
def test_the_newest_samples_are_kept_in_order_and_all_are_counted(
    capacity: int, values: list[int]
) -> None:
    samples = Samples(capacity)
    for value in values:
        samples.append(value)
    assert samples.values().tolist() == values[-capacity:]
    assert len(samples) == min(len(values), capacity)
    assert samples.total == len(values)


def test_what_was_read_does_not_change_afterwards() -> None:
    samples = Samples(2)
    samples.append(1)
    before = samples.values()
    samples.append(2)
    samples.append(3)
    assert before.tolist() == [1]


def test_a_store_for_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1, got 0"):
        Samples(0)
