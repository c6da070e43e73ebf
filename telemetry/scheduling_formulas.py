"""How well a schedule kept its promises: one formula each, on the frames of a stream.

Frames come as arrays in the order of their sequence, times are monotonic nanoseconds.
A frame is on time when its result was delivered by its deadline; late, dropped and
failed ones are misses alike. A value that the frames cannot give is None.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Times: TypeAlias = NDArray[np.int64]
"""(n,): nanoseconds, one for each frame."""
Flags: TypeAlias = NDArray[np.bool_]
"""(n,): whether each frame was on time."""

_SECOND_NS = 1_000_000_000
_MINUTE_NS = 60 * _SECOND_NS

WINDOW_NS = _SECOND_NS
"""Recovery is looked for in windows of one second."""
WINDOWS = 3
"""So many good windows in a row are a recovery; fewer may be luck."""
RECOVERED_PERMILLE = 990
"""Share of a window's frames that must be on time."""


def longest_miss_run(on_time: Flags) -> int:
    """The most frames in a row that were not on time."""
    kept = np.flatnonzero(on_time)
    edges = np.concatenate(([-1], kept, [len(on_time)]))
    return int(np.diff(edges).max()) - 1


def window_violations(on_time: Flags, m: int, k: int) -> int:
    """How many windows of ``k`` frames in a row have fewer than ``m`` on time.

    The (m,k)-firm promise of Hamdaoui and Ramanathan (1995). Windows overlap, so one
    miss too many can break ``k`` of them; fewer than ``k`` frames make no window.
    """
    return int(np.count_nonzero(_kept_in_windows(on_time, k) < m))


def _kept_in_windows(on_time: Flags, k: int) -> NDArray[np.int64]:
    """(n - k + 1,): frames on time among the ``k`` from each frame on."""
    kept = np.concatenate(([0], np.cumsum(on_time)))
    return kept[k:] - kept[:-k]


def conforming_after(
    capture_ns: Times, on_time: Flags, m: int, k: int, event_ns: int
) -> int | None:
    """Response to a change of mode: time until the (m,k) promise is kept.

    From the event to the capture of the first frame, none older than the event, that
    begins ``k`` frames of which ``m`` are on time. None: no such window came.
    """
    after = capture_ns >= event_ns
    good = np.flatnonzero(_kept_in_windows(on_time[after], k) >= m)
    return int(capture_ns[after][good[0]]) - event_ns if len(good) else None


def recovery_s(
    capture_ns: Times,
    on_time: Flags,
    event_ns: int,
    until_ns: int,
    permille: int = RECOVERED_PERMILLE,
) -> int | None:
    """Seconds from an event to the first of three good windows in a row.

    Windows of one second count from the event and take frames by their capture, in
    any order. One is good when it ended by ``until_ns``, frames were captured in it
    and ``permille`` of them were on time. None: there are no three.
    """
    windows = (until_ns - event_ns) // WINDOW_NS
    if windows < WINDOWS:
        return None
    index = (capture_ns - event_ns) // WINDOW_NS
    inside = (index >= 0) & (index < windows)
    captured = np.bincount(index[inside], minlength=windows)
    kept = np.bincount(index[inside & on_time], minlength=windows)
    good = (captured > 0) & (kept * 1000 >= captured * permille)
    found = np.flatnonzero(_kept_in_windows(good, WINDOWS) == WINDOWS)
    return int(found[0]) if len(found) else None


def peak_ages(capture_ns: Times, done_ns: Times, until_ns: int) -> Times:
    """Age of the newest delivered frame just before each next output, and at the end.

    For the delivered frames of one stream: (n,) for n of them, (n - 1,) if the last
    was delivered at ``until_ns`` or later. The greatest age is also the greatest
    reaction time (Günzel et al., ECRTS 2023).
    """
    if not len(done_ns):
        return np.empty(0, np.int64)
    order = np.argsort(done_ns, kind="stable")
    outputs_ns = done_ns[order]
    newest_ns = np.maximum.accumulate(capture_ns[order])
    ages = np.append(outputs_ns[1:], until_ns) - newest_ns
    return ages if until_ns > outputs_ns[-1] else ages[:-1]


def interval_errors(done_ns: Times, period_ns: int) -> Times:
    """(n - 1,): how far each gap between outputs is from the period, either way."""
    return np.abs(np.diff(np.sort(done_ns)) - period_ns)


def jain(shares: Sequence[float]) -> float | None:
    """Jain's index of fairness: 1 for equal shares, 1/n when one stream has it all.

    None without shares, or when all of them are zero: nothing was handed out.
    """
    squares = sum(share * share for share in shares)
    return min(sum(shares) ** 2 / (len(shares) * squares), 1.0) if squares else None


def per_second(n: int, duration_ns: int) -> float | None:
    """How many in each second; None without time."""
    return n * _SECOND_NS / duration_ns if duration_ns > 0 else None


def moves_per_minute(moves: int, duration_ns: int) -> float | None:
    """Moves on the ladder by time; None without time."""
    return moves * _MINUTE_NS / duration_ns if duration_ns > 0 else None


def most_moves_in_a_minute(moves_ns: Sequence[int]) -> int:
    """The most moves within any 60 seconds, the end of them not included: flapping."""
    moves = np.sort(np.array(moves_ns, np.int64))
    ends = np.searchsorted(moves, moves + _MINUTE_NS)
    return int((ends - np.arange(len(moves))).max(initial=0))
