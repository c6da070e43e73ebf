"""Looking ahead on one resource: what fits, what is left out, who would be broken.

Pure functions on integers. ``ends`` are the moments at which each slot of the resource
becomes free, in any order; times are nanoseconds.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush, heapreplace
from typing import NamedTuple

from edgepipe.scheduler.state import FrameState, StreamState

DENSITY_SCALE = 1 << 64
"""Worth by time is compared in whole numbers; a nanosecond of a second still counts."""


class Entry(NamedTuple):
    """A job that waits. Sorted, entries stand in the order of their local deadlines."""

    local_ns: int
    """When it must have left this resource: its deadline less what comes after."""
    order: int
    """Breaks ties."""
    cost_ns: int
    """Time that its frame still needs on this resource."""
    frame: FrameState


class Coming(NamedTuple):
    """A job that waits or is expected. Sorted, they stand in the order of release."""

    release_ns: int
    local_ns: int
    order: int
    cost_ns: int
    stream: StreamState


def fits(entries: Sequence[Entry], ends: Sequence[int]) -> bool:
    """Whether all are in time, one after the other in the order given."""
    if len(ends) == 1:
        end_ns = ends[0]
        for local_ns, _, cost_ns, _ in entries:
            end_ns += cost_ns
            if end_ns > local_ns:
                return False
        return True
    return _first_late(entries, ends) is None


def _first_late(entries: Sequence[Entry], ends: Sequence[int]) -> int | None:
    """Index of the first that is not in time on several slots; None if all are."""
    slots = list(ends)
    heapify(slots)
    for index, (local_ns, _, cost_ns, _) in enumerate(entries):
        end_ns = slots[0] + cost_ns
        if end_ns > local_ns:
            return index
        heapreplace(slots, end_ns)
    return None


def leave_out(
    entries: Sequence[Entry], ends: Sequence[int]
) -> tuple[list[Entry], list[Entry]]:
    """Split into what can be in time together and what is left out for it.

    Moore's and Hodgson's rule (1968), weighted: go through the jobs by deadline; when
    one would be late, leave out the job that is worth least by the time it takes, those
    of the least important criticality first. On a tie the stalest goes. With one slot,
    equal worth and exact costs that keeps the greatest possible number.
    """
    first_ns = min(ends)
    ranks: dict[int, tuple[int, int, int]] = {}
    out = [entry for entry in entries if first_ns + entry.cost_ns > entry.local_ns]
    alive = [entry for entry in entries if first_ns + entry.cost_ns <= entry.local_ns]
    if len(ends) > 1:
        kept, left = alive, list[Entry]()
        while (late := _first_late(kept, ends)) is not None:
            worst = min(range(late + 1), key=lambda i: _rank(kept[i], ranks))
            left.append(kept.pop(worst))
    else:
        kept, left = _one_slot(alive, first_ns, ranks)
    if len(left) > 1:
        _take_back(kept, left, ends, ranks)
    return kept, out + left


def _one_slot(
    entries: Sequence[Entry], end_ns: int, ranks: dict[int, tuple[int, int, int]]
) -> tuple[list[Entry], list[Entry]]:
    """The rule on one slot, in one pass."""
    kept: list[Entry] = []
    left: list[Entry] = []
    for entry in entries:
        kept.append(entry)
        end_ns += entry.cost_ns
        while end_ns > entry.local_ns:
            worst = min(range(len(kept)), key=lambda i: _rank(kept[i], ranks))
            end_ns -= kept[worst].cost_ns
            left.append(kept.pop(worst))
    return kept, left


def _take_back(
    kept: list[Entry],
    left: list[Entry],
    ends: Sequence[int],
    ranks: dict[int, tuple[int, int, int]],
) -> None:
    """Who was left out before a bigger one was may fit now; the best first."""
    last = left[-1]
    for entry in sorted(left[:-1], key=lambda entry: _rank(entry, ranks), reverse=True):
        if entry.cost_ns < last.cost_ns:
            more = sorted([*kept, entry])
            if fits(more, ends):
                kept[:] = more
                left.remove(entry)


def _rank(entry: Entry, ranks: dict[int, tuple[int, int, int]]) -> tuple[int, int, int]:
    """How much a job deserves its place; the smallest goes first."""
    frame = entry.frame
    rank = ranks.get(frame.arrival)
    if rank is None:
        worth = frame.stream.worth(frame) * DENSITY_SCALE
        rank = (-frame.band, worth // max(1, entry.cost_ns), frame.arrival)
        ranks[frame.arrival] = rank
    return rank


def best(entries: Sequence[Entry]) -> Entry:
    """The one that deserves its place most."""
    ranks: dict[int, tuple[int, int, int]] = {}
    return max(entries, key=lambda entry: _rank(entry, ranks))


def broken(ends: Sequence[int], coming: Sequence[Coming]) -> list[Coming]:
    """Which of the jobs could not be in time, served by deadline without preemption.

    ``coming`` is sorted. A job that would be late is not run.
    """
    slots = list(ends)
    heapify(slots)
    late: list[Coming] = []
    ready: list[tuple[int, int, int]] = []
    index, n = 0, len(coming)
    now_ns = slots[0]
    while ready or index < n:
        # It never falls, also when a job that is given up leaves the slot as it was.
        now_ns = max(now_ns, slots[0])
        if not ready and coming[index].release_ns > now_ns:
            now_ns = coming[index].release_ns
        while index < n and coming[index].release_ns <= now_ns:
            job = coming[index]
            heappush(ready, (job.local_ns, job.order, index))
            index += 1
        local_ns, _, chosen = heappop(ready)
        end_ns = now_ns + coming[chosen].cost_ns
        if end_ns > local_ns:
            late.append(coming[chosen])
        else:
            heapreplace(slots, end_ns)
    return late
