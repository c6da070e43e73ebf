"""Packets in decoding order get stamps from which their order can be had again."""

from hypothesis import given
from hypothesis import strategies as st

from edgepipe.pipeline.packets import Packet, Taken
from edgepipe.stages.recordings.order_of_packets import (
    MOST_UNSHOWN,
    PacketOrder,
    Placed,
)
from edgepipe.stages.sources.order import PresentationOrder


def packet(tag: int, *, shown: bool = True) -> Packet:
    return Packet(tag, b"", tag == 0, shown)


def placed(decoding: list[int]) -> list[Placed]:
    """What comes of packets that are shown as their tags say: 0, 1, 2 ..."""
    order, found, given_out = PacketOrder(), list[Placed](), 0
    for shown in range(len(decoding)):
        upto = max(given_out, decoding.index(shown) + 1)
        packets = [packet(tag) for tag in decoding[given_out:upto]]
        given_out = upto
        found += order.take(Taken(shown, packets), shown * 10)
    return found + list(order.rest())


def test_without_reordering_a_packet_is_decoded_when_it_is_shown() -> None:
    assert [(p.stamp_ns, p.decoded_ns) for p in placed([0, 1, 2])] == [
        (0, 0),
        (10, 10),
        (20, 20),
    ]


def test_b_frames_are_decoded_after_what_is_shown_after_them() -> None:
    found = placed([0, 3, 1, 2])
    assert [(p.stamp_ns, p.decoded_ns) for p in found] == [
        (0, 0),
        (30, 10),
        (10, 10),
        (20, 20),
    ]


@given(st.permutations(range(9)), st.integers(1, 4))
def test_the_order_of_showing_can_be_had_again(order: list[int], depth: int) -> None:
    # No codec reorders at will: each group of `depth` frames does for itself.
    decoding = sorted(range(9), key=lambda tag: (tag // depth, order.index(tag)))
    found = placed(decoding)
    assert [p.packet.tag for p in found] == decoding
    again = PresentationOrder[int]()
    shown: list[int] = []
    for each in found:
        again.push(each.stamp_ns, each.decoded_ns, each.stamp_ns)
        shown += [stamp for stamp, _ in again.settled()]
    shown += [stamp for stamp, _ in again.rest()]
    assert shown == [k * 10 for k in range(9)]


def test_a_packet_that_is_never_shown_holds_nothing_back_for_ever() -> None:
    order = PacketOrder()
    found = list(order.take(Taken(1, [packet(0), packet(1)]), 0))
    assert found == []
    for tag in range(2, MOST_UNSHOWN + 5):
        found += order.take(Taken(tag, [packet(tag)]), tag)
    assert [p.packet.tag for p in found[:3]] == [0, 1, 2]
    assert [p.packet.is_shown for p in found[:3]] == [False, True, True]


def test_what_is_cut_away_is_kept_and_not_shown() -> None:
    order = PacketOrder()
    hidden = packet(7, shown=False)
    found = list(order.take(Taken(0, [hidden, packet(0)]), 5))
    assert [p.packet.is_shown for p in found] == [False, True]
