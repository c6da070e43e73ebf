"""Can a resource keep all deadlines? Answered before anything runs, in whole numbers.

The model: tasks release jobs at least a period apart, at any phase; a job takes at most
its cost and must end by its deadline; jobs are served by the earliest deadline and none
is interrupted. The scheduler's bands are in it: ``above`` is what goes first whatever
its deadline, ``below`` what is served only when nothing else waits, but may just have
begun. What the model leaves out: frames that were kept waiting at another resource
arrive closer together than a period. The bound of :mod:`edgepipe.scheduler.response`
has that in it.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from heapq import heapify, heapreplace

from edgepipe.scheduler.job import Criticality, Resource, StreamSpec
from edgepipe.scheduler.load import (
    FULL_QUALITY,
    Costs,
    Task,
    permille,
    tasks_on,
    utilisation,
)

MOST_POINTS = 100_000
"""Intervals that are looked at. Utilisations very close to 1 may need more: then the
answer is that nothing was decided, and never a yes."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A length of time in which more may be asked for than there is."""

    length_ns: int
    demand_ns: int
    """Most work that must be done within such an interval."""
    blocking_ns: int
    """Longest work that may keep it waiting at the beginning."""
    blocked_by: str
    """Whose work that is; empty when there is none."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a test says of the tasks of one band on one resource."""

    passes: bool
    """True is a promise: with the model's assumptions no deadline is missed."""
    utilisation_permille: int
    """Of all slots, by the tasks and what stands above them, rounded up."""
    failing: Interval | None = None
    """The first that does not fit. None when none was found, also because more is
    asked for in the long run than there is."""
    room_ns: Mapping[str, int] = field(default_factory=dict[str, int])
    """By task, how long a job of a lower band may keep it waiting; one that takes one
    nanosecond more than this still fits. Below 0: it is not safe without any. Empty
    when nothing was decided."""
    is_decided: bool = True
    """False when the test cannot tell; then it does not pass."""


def check(
    resource: Resource,
    streams: Sequence[StreamSpec],
    costs: Costs,
    rung: int = FULL_QUALITY,
) -> dict[Criticality, Verdict]:
    """Test each band that uses the resource, with what stands above and below it.

    ``costs`` are those of the given rung. Streams of which a cost or a period is not
    known are left out.
    """
    bands = {
        band: tasks_on(
            resource.name, [s for s in streams if s.criticality is band], costs, rung
        )
        for band in Criticality
    }
    verdicts: dict[Criticality, Verdict] = {}
    for band, tasks in bands.items():
        above = [t for other in bands if other.band < band.band for t in bands[other]]
        below = [t for other in bands if other.band > band.band for t in bands[other]]
        if tasks:
            verdicts[band] = feasible(tasks, resource.slots, above, below)
    return verdicts


def feasible(
    tasks: Sequence[Task],
    slots: int = 1,
    above: Sequence[Task] = (),
    below: Sequence[Task] = (),
) -> Verdict:
    """Whether no job of ``tasks`` can miss its deadline, served without preemption.

    With one slot, nothing above and jobs in one piece a no is as certain as a yes: for
    some releases a deadline is missed. Otherwise only the yes is.

    Raises:
        ValueError: A cost or period is below 1, or ``slots`` is.
    """
    if slots < 1 or any(min(t.cost_ns, t.period_ns) < 1 for t in (*tasks, *above)):
        raise ValueError("slots, costs and periods must be positive")
    load = utilisation((*tasks, *above)) / slots
    if load > 1:
        return Verdict(False, permille(load))
    if not tasks:
        return Verdict(True, permille(load))
    if slots == 1:
        return _one_slot(tasks, above, below, load)
    return _many_slots(tasks, slots, above, below, load)


# --- one slot -------------------------------------------------------------------------


def _one_slot(
    tasks: Sequence[Task], above: Sequence[Task], below: Sequence[Task], load: Fraction
) -> Verdict:
    """George, Rivierre and Spuri (1996), for any deadlines.

    In every interval of length t the jobs that are released and due within it must fit
    beside the longest job with a later deadline, which began just before:

        max(C_j - 1 for D_j > t) + sum(max(0, floor((t - D_i) / T_i) + 1) * C_i) <= t

    For deadlines equal to periods that is the test of Jeffay, Stanat and Martel (1991).
    A task above the band adds all its jobs of the interval, ceil(t / T) * C.
    """
    nearest_ns = min(task.deadline_ns for task in tasks)
    furthest_ns = max(task.deadline_ns for task in tasks)
    horizon = _Horizon(tasks, above, load, furthest_ns)
    room_ns: dict[str, int] = {}
    failing: Interval | None = None
    worst_below = max((_blocking(task) for task in below), default=(0, ""))
    for count, (length_ns, demand_ns) in enumerate(_demands(tasks, above)):
        if count == MOST_POINTS:
            is_decided = failing is not None
            return Verdict(False, permille(load), failing, is_decided=is_decided)
        if length_ns < nearest_ns:
            continue
        left_ns = length_ns - demand_ns
        for task in tasks:
            if task.deadline_ns <= length_ns:
                room_ns[task.name] = min(room_ns.get(task.name, left_ns), left_ns)
        later = [_blocking(task) for task in tasks if task.deadline_ns > length_ns]
        blocking_ns, blocked_by = max([worst_below, *later])
        if failing is None and left_ns < blocking_ns:
            failing = Interval(length_ns, demand_ns, blocking_ns, blocked_by)
        if horizon.is_reached(length_ns, left_ns, worst_below[0]):
            break
    return Verdict(failing is None, permille(load), failing, room_ns)


def _blocking(task: Task) -> tuple[int, str]:
    # It began at least a nanosecond before the interval did.
    return task.longest_ns - 1, task.name


def _demands(tasks: Sequence[Task], above: Sequence[Task]) -> Iterator[tuple[int, int]]:
    """The lengths at which more becomes due, ascending, and what is due by then."""
    coming = [(t.deadline_ns, t.period_ns, t.cost_ns) for t in tasks]
    coming += [(1, t.period_ns, t.cost_ns) for t in above]
    heapify(coming)
    demand_ns = 0
    while True:
        length_ns = coming[0][0]
        while coming[0][0] == length_ns:
            _, period_ns, cost_ns = coming[0]
            demand_ns += cost_ns
            heapreplace(coming, (length_ns + period_ns, period_ns, cost_ns))
        yield length_ns, demand_ns


class _Horizon:
    """How long an interval has to be before longer ones cannot be tighter."""

    def __init__(
        self,
        tasks: Sequence[Task],
        above: Sequence[Task],
        load: Fraction,
        furthest_ns: int,
    ) -> None:
        # The demand in t is at most load * t + beyond.
        self._beyond = Fraction(sum(t.cost_ns for t in above))
        for task in tasks:
            late_ns = max(0, task.period_ns - task.deadline_ns)
            self._beyond += Fraction(task.cost_ns * late_ns, task.period_ns)
        self._load = load
        self._furthest_ns = furthest_ns
        self._repeats_ns = math.lcm(*(t.period_ns for t in (*tasks, *above)))
        self._least_ns: int | None = None
        """Least that was left in any interval beyond the furthest deadline."""
        self._end_ns = 0

    def is_reached(self, length_ns: int, left_ns: int, below_ns: int) -> bool:
        """Whether nothing tighter can come after an interval that leaves so much."""
        if length_ns < self._furthest_ns:
            return False
        if self._least_ns is None or left_ns < self._least_ns:
            self._least_ns = left_ns
            self._end_ns = self._find_end_ns(max(left_ns, below_ns))
        return length_ns >= self._end_ns

    def _find_end_ns(self, enough_ns: int) -> int:
        """From here on at least so much is left in every interval."""
        if self._load == 1:
            return self._furthest_ns + self._repeats_ns
        return math.ceil((enough_ns + self._beyond) / (1 - self._load))


# --- several slots --------------------------------------------------------------------


def _many_slots(
    tasks: Sequence[Task],
    slots: int,
    above: Sequence[Task],
    below: Sequence[Task],
    load: Fraction,
) -> Verdict:
    """A sufficient test for several slots that share one queue.

    A job that has not begun ``deadline - cost`` after its release found all slots busy
    at each of those ``span`` instants: with jobs due no later than its own, at most as
    much as Bertogna, Cirinei and Lipari (2005) say, with jobs from above, and with at
    most one job for each slot that began before it came though it is due later. If all
    that is less than ``slots * span`` the job is in time. Only the yes is certain, and
    only for jobs in one piece; else nothing is decided. What stands above must pass its
    own test.
    """
    if any(task.longest_ns < task.cost_ns for task in tasks):
        return Verdict(False, permille(load), is_decided=False)
    room_ns: dict[str, int] = {}
    failing: Interval | None = None
    for task in tasks:
        span_ns = task.deadline_ns - task.cost_ns + 1
        work_ns = sum(_due_before(task, other, span_ns) for other in tasks)
        work_ns += sum(_run_within(other, span_ns) for other in above)
        begun = [
            each
            for other in tasks
            if other.deadline_ns > task.deadline_ns
            for each in _begun_before(task, other, span_ns, slots)
        ]
        for other in below:  # late or not: it may be on every slot
            begun += [(min(span_ns, other.longest_ns - 1), other.name)] * slots
        longest = sorted(begun, reverse=True)[:slots]
        blocking_ns = sum(max(0, each_ns) for each_ns, _ in longest)
        left_ns = slots * span_ns - 1 - work_ns
        room_ns[task.name] = left_ns // slots
        if failing is None and left_ns < blocking_ns:
            blocked_by = longest[0][1] if blocking_ns > 0 else ""
            failing = Interval(task.deadline_ns, work_ns, blocking_ns, blocked_by)
    is_decided = failing is None
    return Verdict(failing is None, permille(load), failing, room_ns, is_decided)


def _due_before(task: Task, other: Task, span_ns: int) -> int:
    """Most work of another task's jobs that are due no later than a job of ``task``.

    For the task itself, of its earlier jobs. All others are taken to be in time.
    """
    own = other is task
    length_ns = task.deadline_ns - (task.period_ns if own else 0)
    if length_ns <= 0:
        return 0
    jobs, rest_ns = divmod(length_ns, other.period_ns)
    work_ns = jobs * other.cost_ns + min(other.cost_ns, rest_ns)
    return min(work_ns, (_side_by_side(other) - own) * span_ns)


def _begun_before(
    task: Task, other: Task, span_ns: int, slots: int
) -> list[tuple[int, str]]:
    """What jobs of another task add that are due later but began before."""
    jobs = _side_by_side(other)
    left_ns = jobs * span_ns - _due_before(task, other, span_ns)
    added: list[tuple[int, str]] = []
    for _ in range(min(jobs, slots)):
        each_ns = min(left_ns, span_ns, other.longest_ns - 1)
        left_ns -= each_ns
        added.append((each_ns, other.name))
    return added


def _run_within(task: Task, span_ns: int) -> int:
    """Most work of a task in any time of that length, all its jobs being in time."""
    reach_ns = max(0, span_ns + task.deadline_ns - task.cost_ns)
    jobs, rest_ns = divmod(reach_ns, task.period_ns)
    work_ns = jobs * task.cost_ns + min(task.cost_ns, rest_ns)
    return min(work_ns, _side_by_side(task) * max(0, span_ns))


def _side_by_side(task: Task) -> int:
    """Most jobs of a task at one time, all being in time."""
    return -(-task.deadline_ns // task.period_ns)
