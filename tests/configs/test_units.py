from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.configs import units
from edgepipe.configs.units import (
    UnitError,
    duration_ns,
    format_duration,
    frequency_hz,
    power_w,
    size_bytes,
)


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1ns", 1),
        ("500us", 500_000),
        ("33ms", 33_000_000),
        ("1.5 s", 1_500_000_000),
        ("1m30s", 90_000_000_000),
        ("1h 30m", 5_400_000_000_000),
        ("2d", 172_800_000_000_000),
        ("0s", 0),
        ("0.000000001s", 1),
        ("1m0.5s", 60_500_000_000),
    ],
)
def test_a_duration_is_read_exactly(text: str, ns: int) -> None:
    assert duration_ns(text) == ns


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("10", "a bare number needs a unit"),
        ("-3", "a bare number needs a unit"),
        ("1.5", "a bare number needs a unit"),
        ("-1s", "it must not be negative"),
        ("5 parsecs", "unknown unit 'parsecs'"),
        ("1H", "unknown unit 'H'"),
        ("1hr", "unknown unit 'hr'"),
        ("3 min", "unknown unit 'min'"),
        ("1S", "unknown unit 'S'"),
        ("30s1m", "from large to small"),
        ("1s1s", "from large to small"),
        ("1.5m30s", "only the last part"),
        ("0.1ns", "finer than a nanosecond"),
        ("106752d", "longer than 106751 days"),
        ("", "write a number and a unit"),
        ("s", "write a number and a unit"),
        (" 1s", "write a number and a unit"),
        ("1s ", "write a number and a unit"),
        ("1  s", "write a number and a unit"),
        ("+1s", "write a number and a unit"),
        (".5s", "write a number and a unit"),
        ("1,5s", "write a number and a unit"),
        ("1e3ms", "unknown unit 'e'"),
        ("1_0s", "write a number and a unit"),
        ("٣s", "write a number and a unit"),
        ("9" * 5000 + "s", "write a number and a unit"),
    ],
)
def test_a_text_that_is_no_duration_is_refused_with_the_reason(
    text: str, reason: str
) -> None:
    with pytest.raises(UnitError, match=reason):
        duration_ns(text)


@given(st.integers(0, 2**63 - 1))
def test_a_formatted_duration_reads_back_to_the_same_nanoseconds(ns: int) -> None:
    assert duration_ns(format_duration(ns)) == ns


@given(
    st.lists(st.integers(0, 59), min_size=3, max_size=3),
    st.integers(0, 999_999_999),
)
def test_the_parts_of_a_compound_duration_add_up(clock: list[int], ns: int) -> None:
    hours, minutes, seconds = clock
    text = f"{hours}h{minutes}m {seconds}.{ns:09d}s"
    whole = hours * 3600 + minutes * 60 + seconds
    assert duration_ns(text) == whole * 10**9 + ns


@given(st.text())
def test_any_text_is_a_duration_or_is_refused(text: str) -> None:
    with suppress(UnitError):
        assert 0 <= duration_ns(text) < 2**63


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [("64MiB", 67_108_864), ("10 kB", 10_000), ("2GB", 2 * 10**9), ("1.5KiB", 1536)],
)
def test_binary_and_decimal_sizes_differ(text: str, bytes_: int) -> None:
    assert size_bytes(text) == bytes_


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (power_w, "15W", Fraction(15)),
        (power_w, "500mW", Fraction(1, 2)),
        (frequency_hz, "1.1GHz", Fraction(1_100_000_000)),
        (frequency_hz, "29.97Hz", Fraction(2997, 100)),
    ],
)
def test_powers_and_frequencies_are_exact(
    read: Callable[[str], Fraction], text: str, value: Fraction
) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "text", "reason"),
    [
        (size_bytes, "10 KB", "unknown unit 'KB'"),
        (size_bytes, "64", "a bare number needs a unit"),
        (size_bytes, "0.5B", "not a whole number of bytes"),
        (power_w, "-15W", "it must not be negative"),
        (power_w, "15w", "unknown unit 'w'"),
        (frequency_hz, "1.1", "a bare number needs a unit"),
        (frequency_hz, "1GHz5MHz", "write a number and a unit"),
    ],
)
def test_other_quantities_are_refused_with_the_reason(
    read: Callable[[str], object], text: str, reason: str
) -> None:
    with pytest.raises(UnitError, match=reason):
        read(text)


@given(st.integers(0, 10**15), st.sampled_from(sorted(units.SIZE.units)))
def test_a_whole_number_of_any_size_unit_is_a_whole_number_of_bytes(
    count: int, unit: str
) -> None:
    assert size_bytes(f"{count}{unit}") == count * units.SIZE.units[unit]
