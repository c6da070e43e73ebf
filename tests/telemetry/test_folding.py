"""Which log messages are shown, counted, and told later."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.telemetry.folding import (
    BURST_LINES,
    MOST_TOLD,
    RESERVED_LINES,
    Folder,
    LineBudget,
    Message,
    Told,
    pattern,
)

S = 1_000_000_000


def said(text: str, level: int = logging.WARNING, lines: int = 1) -> Message:
    return Message(pattern(text), text, level, lines=lines)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("frame 1 of 'front' failed", "frame 90210 of 'front' failed"),
        ("late by 1.25 ms", "late by 17 ms"),
        ("12:30:01 lost", "23:59:59 lost"),
        ("object at 0x7f3a12", "object at 0xFFEE"),
        ("run 3fa9c1d27b broke", "run 0b11aa22cc broke"),
        ("cannot read frame_000123.jpg", "cannot read frame_000124.jpg"),
        ("on 2026-12-01", "on 2027-01-31"),
    ],
)
def test_messages_that_differ_in_numbers_only_are_of_one_kind(
    one: str, other: str
) -> None:
    assert pattern(one) == pattern(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("stream cam1: lost", "stream cam2: lost"),
        ("stream front: lost", "stream rear: lost"),
        ("/dev/video0 is gone", "/dev/video1 is gone"),
        ("frame 1 failed", "frame 1 is late"),
    ],
)
def test_names_with_a_number_stay_apart(one: str, other: str) -> None:
    assert pattern(one) != pattern(other)


@given(st.text(max_size=200))
def test_any_text_has_a_pattern_that_is_its_own(text: str) -> None:
    assert pattern(pattern(text)) == pattern(text)


def test_the_first_is_shown_at_once_and_what_repeats_is_counted() -> None:
    folder = Folder()
    first = said("bad frame 0")
    assert folder.see(first, 0) == Told(first, 1)
    for number in range(1, 300):
        assert folder.see(said(f"bad frame {number}"), number * S // 30) is None
    latest = said("bad frame 300")
    assert folder.see(latest, 10 * S) == Told(latest, 300, 10 * S - S // 30, False)
    assert folder.seen == 301


def test_what_goes_on_is_told_less_and_less_often() -> None:
    folder = Folder()
    told = [t for t in range(2 * 3600) if folder.see(said(f"bad {t}"), t * S)]
    assert told == [0, 10, 70, 670, 4270]


def test_what_happens_rarely_is_shown_each_time() -> None:
    folder = Folder()
    for day in range(400):
        message = said(f"camera lost on day {day}")
        assert folder.see(message, day * 86_400 * S) == Told(message, 1)


def test_an_old_trouble_that_comes_back_is_told_soon_again() -> None:
    folder = Folder()
    for second in range(3600):
        folder.see(said("bad"), second * S)
    again_ns = 10 * 3600 * S
    shown = [t for t in range(100) if folder.see(said("bad"), again_ns + t * S)]
    assert shown == [0, 10, 70]


def test_messages_that_take_turns_are_folded_each_by_itself() -> None:
    folder = Folder()
    shown = [
        (number, told.message.text)
        for number in range(299)
        if (told := folder.see(said("odd" if number % 2 else "even"), number * S // 30))
    ]
    assert shown == [(0, "even"), (1, "odd")]


def test_what_stopped_is_told_when_something_else_comes() -> None:
    folder = Folder()
    for number in range(5):
        folder.see(said("bad"), number * S)
    assert list(folder.overdue(9 * S)) == []
    assert list(folder.overdue(20 * S)) == [Told(said("bad"), 4, 3 * S, False)]
    assert list(folder.overdue(100 * S)) == []


def test_at_the_end_the_most_frequent_are_told_and_the_rest_summed_up() -> None:
    folder = Folder()
    names = [chr(ord("a") + n) * 3 for n in range(MOST_TOLD + 5)]
    for number, name in enumerate(names):
        for _ in range(number + 2):
            folder.see(said(name), S)
    rest = list(folder.rest(2 * S))
    assert [t.message.text for t in rest[:-1]] == names[:4:-1]
    assert rest[-1].times == 1 + 2 + 3 + 4 + 5
    assert rest[-1].message.text == "messages of other kinds"
    assert list(folder.rest(3 * S)) == []


def test_after_the_end_nothing_is_held_back_for_later() -> None:
    folder = Folder()
    folder.see(said("bad"), 0)
    assert list(folder.rest(S)) == []
    assert folder.see(said("bad"), S) is not None


def test_kinds_beyond_the_bound_are_forgotten_and_their_number_is_not() -> None:
    folder = Folder(LineBudget(burst=0), most_kinds=3)
    for number in range(10):
        folder.see(said("x" * (number + 1)), S)
    rest = list(folder.rest(S))
    assert sum(told.times for told in rest) == 10
    assert rest[-1] == Told(rest[-1].message, 7, 0, False)


def test_warnings_leave_room_for_errors() -> None:
    folder = Folder()
    kinds = [f"{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(200)]
    shown = sum(folder.see(said(kind), S) is not None for kind in kinds)
    assert shown == BURST_LINES - RESERVED_LINES
    assert folder.see(said("worse", logging.ERROR, lines=30), S) is not None


def test_a_traceback_without_room_leaves_its_message() -> None:
    folder = Folder(LineBudget(burst=10))
    told = folder.see(said("broken", logging.ERROR, lines=40), S)
    assert told == Told(said("broken", logging.ERROR, lines=40), 1, 0, False)


def test_what_ends_the_program_is_shown_whatever_flooded_before() -> None:
    folder = Folder(LineBudget(burst=0))
    assert folder.see(said("bad", logging.ERROR), S) is None
    crash = said("this is a bug", logging.CRITICAL, lines=40)
    assert folder.see(crash, S) == Told(crash, 1)


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(0, 100 * S), st.integers(1, 40)),
        max_size=300,
    ),
    st.integers(0, 200),
)
def test_every_message_is_told_exactly_once_and_lines_stay_in_bounds(
    arrivals: list[tuple[int, int, int]], burst: int
) -> None:
    folder = Folder(LineBudget(burst), most_kinds=8)
    now_ns, told = 0, list[Told]()
    for kind, elapsed_ns, lines in arrivals:
        now_ns += elapsed_ns
        message = said("x" * (kind + 1), logging.ERROR, lines)
        shown = folder.see(message, now_ns)
        told += [shown] if shown else []
        told += folder.overdue(now_ns)
    written = sum(t.message.lines if t.is_whole else 1 for t in told)
    assert written <= burst + now_ns / (60 * S)
    told += folder.rest(now_ns)
    assert sum(t.times for t in told) == len(arrivals) == folder.seen
