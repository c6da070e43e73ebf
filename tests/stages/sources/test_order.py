from hypothesis import given
from hypothesis import strategies as st

from edgepipe.stages.sources.order import PresentationOrder


@st.composite
def reordered(draw: st.DrawFn) -> list[tuple[int, int]]:
    """(presentation, decoding) stamps in decoding order, decoding never later."""
    depth = draw(st.integers(0, 4))
    groups = draw(st.lists(st.permutations(range(depth + 1)), min_size=1, max_size=8))
    shown = [
        k * (depth + 1) + place for k, group in enumerate(groups) for place in group
    ]
    return [(stamp, number - depth) for number, stamp in enumerate(shown)]


@given(reordered())
def test_stamps_come_out_in_order_and_none_is_lost(
    packets: list[tuple[int, int]],
) -> None:
    order, out = PresentationOrder(), list[int]()
    for stamp, decoding_stamp in packets:
        order.push(stamp, decoding_stamp)
        out.extend(order.settled())
    out.extend(order.rest())
    assert out == sorted(stamp for stamp, _ in packets)


def test_without_reordering_nothing_is_held_back() -> None:
    order = PresentationOrder()
    for stamp in (0, 40, 80):
        order.push(stamp, stamp)
        assert list(order.settled()) == [stamp]


def test_equal_stamps_are_both_kept() -> None:
    order = PresentationOrder()
    order.push(40, 40)
    order.push(40, 41)
    assert list(order.settled()) == [40, 40]
    assert list(order.rest()) == []
