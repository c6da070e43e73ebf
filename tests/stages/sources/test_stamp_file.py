import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.stages.sources.stamp_file import StampError, parse_stamps


def test_a_list_of_names_with_nanoseconds() -> None:
    text = (
        "#timestamp [ns],filename\r\n"
        "1403636579763555584,1403636579763555584.png\r\n"
        "1403636579813555456,b.png\r\n"
    )
    found = parse_stamps(text)
    assert found.unit == "ns"
    assert [tuple(stamp) for stamp in found.stamps] == [
        (1403636579763555584, "1403636579763555584.png"),
        (1403636579813555456, "b.png"),
    ]


def test_dates_are_exact_to_the_nanosecond() -> None:
    found = parse_stamps("2011-09-26 13:02:25.964389445\n2011-09-26 13:02:26\n")
    first, second = (stamp.ns for stamp in found.stamps)
    assert (first, second) == (1317042145964389445, 1317042146000000000)
    assert found.unit == "date"


@pytest.mark.parametrize(
    ("lines", "unit", "step_ns"),
    [
        (["0.000000e+00", "1.036224e-01"], "s", 103_622_400),
        (["1305031102.175304 rgb/1.png", "1305031102.211214 rgb/2.png"], "s", 35910000),
        (["a.jpg 10.5", "b.jpg 11.0"], "s", 500_000_000),
        (["0", "33333333", "66666666"], "ns", 33_333_333),
        (["0", "33333", "66666"], "us", 33_333_000),
        (["0", "33", "67"], "ms", 33_000_000),
        (["0", "1", "2"], "s", 1_000_000_000),
        (["1700000000", "1700000001"], "s", 1_000_000_000),
        (["1700000000000", "1700000000040"], "ms", 40_000_000),
        (["1700000000000000", "1700000000040000"], "us", 40_000_000),
        (["1700000000000", "1700040000000"], "ns", 40_000_000),  # since the boot
    ],
)
def test_the_unit_is_found_by_size(lines: list[str], unit: str, step_ns: int) -> None:
    found = parse_stamps("\n".join(lines))
    assert found.unit == unit
    assert found.stamps[1].ns - found.stamps[0].ns == step_ns


@given(st.integers(0, 2**62), st.integers(1, 9))
def test_seconds_with_a_point_are_read_without_rounding(ns: int, digits: int) -> None:
    cut = ns // 10 ** (9 - digits) * 10 ** (9 - digits)
    text = f"{cut // 10**9}.{cut % 10**9:09d}"[: -(9 - digits) or None]
    assert parse_stamps(text).stamps[0].ns == cut


def test_comments_blank_lines_and_a_heading_are_passed_over() -> None:
    text = "stamp,name\n\n# left\n0.1,a.png  # first\n0.2,b.png\n"
    assert [stamp.name for stamp in parse_stamps(text).stamps] == ["a.png", "b.png"]


def test_a_line_that_is_no_stamp_is_named() -> None:
    with pytest.raises(StampError, match="line 2: expected a time stamp, got 'soon'"):
        parse_stamps("0.1\nsoon\n")
    with pytest.raises(StampError, match="expected a date as in the other lines"):
        parse_stamps("2011-09-26 13:02:25.9\n7\n")
    with pytest.raises(StampError, match="2011-13-26"):
        parse_stamps("2011-13-26 13:02:25.9\n")


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = parse_stamps(text)
    except StampError:
        return
    assert all(isinstance(stamp.ns, int) for stamp in found.stamps)
