"""When a picture was taken, from when it came and what the camera says."""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from edgepipe.stages.sources.capture_clock import CaptureClock

MS = 1_000_000
SECOND_NS = 1_000_000_000


def captured(came_ns: Sequence[int], media_ns: Sequence[int]) -> list[int]:
    clock = CaptureClock()
    return [clock.captured_ns(*each) for each in zip(came_ns, media_ns, strict=True)]


def test_what_the_network_adds_is_age_and_not_a_later_capture() -> None:
    media = [n * 40 * MS for n in range(6)]
    waits = [3, 0, 25, 90, 50, 10]
    came = [SECOND_NS + at + wait * MS for at, wait in zip(media, waits, strict=True)]
    found = captured(came, media)
    assert found[0] == came[0]  # nothing better is known yet
    for at, stamp in zip(media[1:], found[1:], strict=True):
        assert abs(stamp - (SECOND_NS + at)) < MS


def test_frames_that_waited_in_a_burst_keep_their_own_times() -> None:
    media = [n * 40 * MS for n in range(10)]
    came = [SECOND_NS + at for at in media[:5]] + [SECOND_NS + 2000 * MS] * 5
    found = captured(came, media)
    steps = [b - a for a, b in pairwise(found[1:])]
    assert all(abs(step - 40 * MS) < MS for step in steps)


def test_a_camera_whose_clock_runs_slow_is_followed() -> None:
    """A hundred parts in a million slow, for a quarter of an hour."""
    media = [n * 40 * MS for n in range(22_500)]
    came = [SECOND_NS + at + at // 10_000 for at in media]
    found = captured(came, media)
    assert came[-1] - found[-1] < MS


def test_a_media_time_that_begins_anew_is_followed_too() -> None:
    media = [3_600 * SECOND_NS, 3_600 * SECOND_NS + 40 * MS, 0, 40 * MS]
    came = [SECOND_NS + n * 40 * MS for n in range(4)]
    assert captured(came, media) == came


def test_without_media_time_the_arrival_counts() -> None:
    clock = CaptureClock()
    assert clock.captured_ns(5, None) == 5


def test_a_camera_that_is_trusted_is_believed_unless_it_speaks_of_the_future() -> None:
    clock = CaptureClock()
    assert clock.captured_ns(100 * MS, 0, 60 * MS) == 60 * MS
    assert clock.captured_ns(140 * MS, 40 * MS, 500 * MS) == 140 * MS


@given(
    st.lists(
        st.tuples(st.integers(0, 10**10), st.one_of(st.none(), st.integers(0, 10**13))),
        min_size=1,
    )
)
def test_captures_are_never_after_the_arrival(
    frames: list[tuple[int, int | None]],
) -> None:
    clock, came_ns = CaptureClock(), 0
    for step_ns, media_ns in frames:
        came_ns += step_ns
        assert clock.captured_ns(came_ns, media_ns) <= came_ns
