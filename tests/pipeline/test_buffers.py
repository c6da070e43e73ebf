import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.pipeline.buffers import BufferRing, Slot


def test_a_slot_is_the_size_of_the_network_input() -> None:
    slot = BufferRing(2, height=4, width=6).lend()
    assert slot.array.shape == (4, 6, 3)
    assert slot.array.flags.c_contiguous


def test_lending_more_than_there_is_raises() -> None:
    ring = BufferRing(1, 2, 2)
    ring.lend()
    with pytest.raises(BufferError, match="all 1 buffers are lent"):
        ring.lend()


def test_a_slot_comes_back_once() -> None:
    ring = BufferRing(1, 2, 2)
    slot = ring.lend()
    slot.give_back()
    with pytest.raises(ValueError, match="given back twice"):
        slot.give_back()


def test_a_ring_has_at_least_one_slot() -> None:
    with pytest.raises(ValueError, match="at least 1, got 0"):
        BufferRing(0, 2, 2)


@given(st.integers(1, 4), st.lists(st.booleans(), max_size=60))
def test_no_two_holders_share_a_slot(capacity: int, lends: list[bool]) -> None:
    ring, held, peak = BufferRing(capacity, 2, 2), list[Slot](), 0
    for lend in lends:
        if lend and len(held) < capacity:
            held.append(ring.lend())
        elif held:
            held.pop(0).give_back()
        peak = max(peak, len(held))
        assert len({slot.index for slot in held}) == len(held)
        statistics = ring.statistics()
        assert (statistics.lent, statistics.peak_lent) == (len(held), peak)


def test_a_slot_that_was_written_off_is_replaced_and_may_come_back_unnoticed() -> None:
    ring = BufferRing(2, 2, 2)
    stuck, other = ring.lend(), ring.lend()
    stuck.write_off()
    stuck.write_off()
    assert ring.statistics().lent == 1
    fresh = ring.lend()
    assert not np.shares_memory(fresh.array, stuck.array)
    stuck.give_back()
    assert ring.statistics().lent == 2
    fresh.give_back()
    other.give_back()
    assert ring.statistics().lent == 0


def test_a_slot_that_is_back_already_is_not_written_off() -> None:
    ring = BufferRing(1, 2, 2)
    slot = ring.lend()
    slot.give_back()
    slot.write_off()
    assert ring.lend() is slot
