from hypothesis import given
from hypothesis import strategies as st

from edgepipe.stages.sources.order import MOST_REORDERED, PresentationOrder


@st.composite
def reordered(draw: st.DrawFn) -> list[tuple[int, int]]:
    """(presentation, decoding) stamps in decoding order, decoding never later."""
    depth = draw(st.integers(0, 4))
    groups = draw(st.lists(st.permutations(range(depth + 1)), min_size=1, max_size=8))
    shown = [
        k * (depth + 1) + place for k, group in enumerate(groups) for place in group
    ]
    return [(stamp, number - depth) for number, stamp in enumerate(shown)]


def sort(packets: list[tuple[int, int | None]]) -> list[int]:
    order, out = PresentationOrder[int](), list[int]()
    for stamp, decoding_stamp in packets:
        order.push(stamp, decoding_stamp, -stamp)
        out.extend(-item for _, item in order.settled())
    out.extend(stamp for stamp, _ in order.rest())
    return out


@given(reordered(), st.integers(0, 40))
def test_stamps_come_out_in_order_and_none_is_lost(
    packets: list[tuple[int, int]], unknown: int
) -> None:
    """Also where the first packets do not say when they are decoded."""
    partly = [(s, None if k < unknown else d) for k, (s, d) in enumerate(packets)]
    assert sort(partly) == sorted(stamp for stamp, _ in packets)


def test_without_reordering_nothing_is_held_back() -> None:
    order = PresentationOrder[str]()
    for stamp in (0, 40, 80):
        order.push(stamp, stamp, "frame")
        assert list(order.settled()) == [(stamp, "frame")]


def test_equal_stamps_are_both_kept_in_the_order_of_reading() -> None:
    order = PresentationOrder[str]()
    order.push(40, 40, "b")
    order.push(40, 41, "a")
    assert list(order.settled()) == [(40, "b"), (40, "a")]
    assert list(order.rest()) == []


def test_without_decoding_stamps_as_little_is_held_back_as_codecs_allow() -> None:
    order = PresentationOrder[None]()
    for stamp in range(MOST_REORDERED):
        order.push(stamp, None, None)
        assert list(order.settled()) == []
    order.push(MOST_REORDERED, None, None)
    assert list(order.settled()) == [(0, None)]
