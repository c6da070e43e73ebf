from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.stages.sources.mpeg_numbers import MISSING, PictureNumbers

KINDS = {"I": 1, "P": 2, "B": 3}
Picture = tuple[str, int]
Group = tuple[int, int, list[int], bool]
"""B pictures that lead, whether they were cut away, B before each P, fields."""


def header(picture: Picture) -> bytes:
    kind, number = picture
    word = number % 1024 << 6 | KINDS[kind] << 3
    return b"\0\0\1\0" + word.to_bytes(2, "big") + bytes(4)


def group(
    leading: int, cut: int, gaps: Iterable[int], *, fields: bool
) -> list[Picture]:
    """A group of pictures in decoding order."""
    number = leading
    found = [("I", number), *(("B", n) for n in range(min(cut, leading), leading))]
    for gap in gaps:
        found.append(("P", number + gap + 1))
        found += [("B", n) for n in range(number + 1, number + gap + 1)]
        number += gap + 1
    if fields:  # each picture comes in two, that of an I picture as P
        return [
            field
            for kind, number in found
            for field in ((kind, number), ("B" if kind == "B" else "P", number))
        ]
    return found


def faults(numbers: PictureNumbers, pictures: Iterable[Picture]) -> list[str]:
    return [numbers.fault(header(each)) for each in pictures]


GROUPS = st.tuples(
    st.integers(0, 3), st.integers(0, 3), st.lists(st.integers(0, 3)), st.booleans()
)


@given(st.lists(GROUPS, max_size=8))
def test_whatever_the_groups_look_like_nothing_is_missing(groups: list[Group]) -> None:
    numbers = PictureNumbers()
    for leading, cut, gaps, fields in groups:
        assert not any(faults(numbers, group(leading, cut, gaps, fields=fields)))


def trusted(gap: int) -> PictureNumbers:
    numbers = PictureNumbers()
    for _ in range(2):
        assert not any(faults(numbers, group(0, 0, [gap] * 5, fields=False)))
    return numbers


@pytest.mark.parametrize("gap", [0, 1, 2])
@given(data=st.data())
def test_a_lost_picture_that_others_refer_to_is_missed_before_the_next_is_shown(
    gap: int, data: st.DataObject
) -> None:
    numbers = trusted(gap)
    pictures = group(0, 0, [gap] * 6, fields=False)
    anchors = [n for n, (kind, _) in enumerate(pictures) if kind == "P"]
    lost = data.draw(st.sampled_from(anchors[:-1]))
    kept = pictures[:lost] + pictures[lost + 1 :]
    assert not any(faults(numbers, kept[:lost]))
    if gap:  # a B picture that lies before the lost one
        assert numbers.fault(header(kept[lost])) == MISSING
        return
    assert numbers.fault(header(kept[lost])) == ""  # a B picture might follow
    following = kept[lost + 1] if lost + 1 < len(kept) else ("I", 0)
    assert numbers.fault(header(following)) == MISSING
    assert numbers.is_late


def test_a_lost_key_picture_is_missed() -> None:
    numbers = trusted(2)
    _, *rest = group(0, 0, [2] * 5, fields=False)
    assert faults(numbers, rest) == [MISSING] * len(rest)


def test_after_a_loss_all_is_well_from_the_next_key_picture_on() -> None:
    numbers = trusted(1)
    whole = group(0, 0, [1] * 5, fields=False)
    assert any(faults(numbers, whole[:3] + whole[5:]))
    assert not any(faults(numbers, whole))


@pytest.mark.parametrize("step", [0, 2, 7, 512, 1000])
def test_numbers_that_count_something_else_are_not_believed(step: int) -> None:
    numbers = PictureNumbers()
    for _ in range(20):
        pictures = [("I", 0), *(("P", step * n) for n in range(1, 12))]
        assert not any(faults(numbers, pictures))


def test_a_stream_whose_numbers_go_wrong_for_good_is_believed_no_more() -> None:
    numbers = trusted(0)
    odd = [("I", 0), *(("P", 2 * n) for n in range(1, 12))]
    found = [any(faults(numbers, odd)) for _ in range(8)]
    assert found[0]
    assert not any(found[4:])


def test_what_is_no_picture_tells_nothing() -> None:
    numbers = trusted(0)
    for packet in (b"", b"\0\0\1\0", b"\0\0\1\xb3" + bytes(20)):
        assert numbers.fault(packet) == ""
