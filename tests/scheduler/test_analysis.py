from collections.abc import Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush, heapreplace
from itertools import product
from math import lcm
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgepipe.scheduler.analysis import Interval, Verdict, check, feasible
from edgepipe.scheduler.job import Criticality, Resource, Step, StreamSpec
from edgepipe.scheduler.load import Task, profiled, utilisation

MS = 1_000_000
CRITICAL, NORMAL, BACKGROUND = Criticality


def tasks_of(*numbers: tuple[int, int, int]) -> list[Task]:
    """From (cost, period, deadline)."""
    return [Task(f"t{i}", *each) for i, each in enumerate(numbers)]


# --- a reference: every job is played -------------------------------------------------


def lateness(
    bands: Sequence[Sequence[tuple[Task, Sequence[int]]]], slots: int = 1
) -> list[int]:
    """Play non-preemptive EDF inside bands; the worst end - deadline of each band.

    ``bands`` are tasks with the moments at which they release jobs.
    """
    coming = sorted(
        (release, band, release + task.deadline_ns, task.cost_ns)
        for band, members in enumerate(bands)
        for task, releases in members
        for release in releases
    )
    coming.reverse()
    free = [0] * slots
    heapify(free)
    ready: list[tuple[int, int, int]] = []
    worst = [-(10**9)] * len(bands)
    while coming or ready:
        now = free[0] if ready else max(free[0], coming[-1][0])
        while coming and coming[-1][0] <= now:
            heappush(ready, coming.pop()[1:])
        band, deadline, cost = heappop(ready)
        heapreplace(free, now + cost)
        worst[band] = max(worst[band], now + cost - deadline)
    return worst


def released(task: Task, phase: int, until: int, random: Random | None) -> list[int]:
    """Periodic jobs; sporadic ones if ``random`` says how much later they come."""
    releases: list[int] = []
    at = phase
    while at < until:
        releases.append(at)
        at += task.period_ns
        if random is not None and random.random() < 0.3:
            at += random.randrange(task.period_ns)
    return releases


def at_random(
    tasks: Sequence[Task], random: Random
) -> list[tuple[Task, Sequence[int]]]:
    phases = [random.randrange(task.period_ns) for task in tasks]
    return [
        (t, released(t, at, 300, random)) for t, at in zip(tasks, phases, strict=True)
    ]


@st.composite
def task_sets(
    draw: st.DrawFn,
    most: int = 4,
    period: int = 24,
    implicit: bool = False,
    stretch: int = 1,
) -> list[Task]:
    found: list[Task] = []
    for index in range(draw(st.integers(1, most))):
        t = draw(st.integers(1, period))
        c = draw(st.integers(1, max(1, t // 2)))
        d = t if implicit else draw(st.integers(c, stretch * t))
        found.append(Task(f"t{index}", c, t, d))
    return found


# --- tables ---------------------------------------------------------------------------


def test_without_tasks_nothing_can_be_late() -> None:
    assert feasible([]) == Verdict(True, 0)


def test_one_task_may_use_all_of_the_time() -> None:
    assert feasible(tasks_of((5, 5, 5))) == Verdict(True, 1000, None, {"t0": 0})


def test_more_work_than_time_fails_at_once() -> None:
    assert feasible(tasks_of((5, 9, 9), (5, 10, 10))) == Verdict(False, 1056)


def test_a_long_job_with_a_late_deadline_blocks_a_short_one() -> None:
    # EDF with preemption would keep all deadlines of this set.
    verdict = feasible(tasks_of((2, 5, 5), (5, 50, 50)))
    assert not verdict.passes
    assert verdict.failing == Interval(5, 2, 4, "t1")
    assert verdict.room_ns["t0"] == 3
    assert feasible(tasks_of((2, 5, 5), (4, 50, 50))).passes


def test_the_first_failing_interval_need_not_be_the_shortest_deadline() -> None:
    verdict = feasible(tasks_of((1, 4, 4), (4, 8, 8), (4, 40, 20)))
    assert verdict.failing == Interval(8, 6, 3, "t2")


def test_three_cameras_have_19_ms_of_room_for_a_background_job() -> None:
    cameras = [Task(f"{n}", 5 * MS, 33 * MS, 34 * MS) for n in range(3)]
    for longest_ms, passes in ((19, True), (45, False)):
        background = [Task("map", longest_ms * MS, 200 * MS, 400 * MS)]
        verdict = feasible(cameras, below=background)
        assert verdict.passes == passes
        assert set(verdict.room_ns.values()) == {19 * MS}


def test_a_job_in_pieces_blocks_for_the_longest_of_them() -> None:
    short, long = tasks_of((2, 5, 5), (6, 50, 50))
    assert not feasible([short, long]).passes
    assert feasible([short, long._replace(piece_ns=3)]).passes


def test_what_stands_above_goes_first_whatever_its_deadline() -> None:
    own, other = tasks_of((3, 10, 6), (4, 20, 20))
    assert feasible([own, other._replace(cost_ns=3)]).passes
    assert feasible([own], above=[other._replace(cost_ns=3)]).passes
    assert not feasible([own], above=[other]).passes


def test_a_deadline_that_other_steps_have_used_up_cannot_be_kept() -> None:
    verdict = feasible(tasks_of((2, 10, -1), (1, 10, 10)))
    assert verdict.failing == Interval(-1, 2, 0, "t1")
    assert verdict.room_ns["t0"] < 0


def test_when_too_many_intervals_had_to_be_looked_at_the_answer_is_not_yes() -> None:
    # They fill all of the time, and are in step again only after three million.
    periods = (2, 3, 7, 43, 1807, 3263442)
    verdict = feasible(tasks_of(*((1, period, period) for period in periods)))
    assert verdict == Verdict(False, 1000, is_decided=False)


def test_two_slots_let_a_long_job_pass() -> None:
    short, long = tasks_of((2, 5, 5), (40, 50, 50))
    assert not feasible([short, long]).passes
    verdict = feasible([short, long], slots=2)
    assert (verdict.passes, verdict.utilisation_permille) == (True, 600)


def test_a_background_stream_may_occupy_every_slot() -> None:
    short, long = tasks_of((2, 10, 5), (40, 50, 500))
    assert not feasible([short], slots=2, below=[long]).passes
    assert feasible([short], slots=2, below=[long._replace(cost_ns=4)]).passes


def test_with_two_slots_a_no_is_no_more_than_no_proof() -> None:
    verdict = feasible(tasks_of((4, 6, 6), (4, 6, 6), (3, 6, 6)), slots=2)
    assert (verdict.passes, verdict.is_decided) == (False, False)
    assert verdict.failing is not None


def test_with_two_slots_jobs_in_pieces_are_not_decided() -> None:
    pieces = [Task("a", 4, 20, 20, 2)]
    assert feasible(pieces, slots=2) == Verdict(False, 100, is_decided=False)


@pytest.mark.parametrize(
    ("task", "slots"),
    [(Task("a", 0, 5, 5), 1), (Task("a", 5, 0, 5), 1), (Task("a", 1, 5, 5), 0)],
)
def test_what_is_not_known_cannot_be_analysed(task: Task, slots: int) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        feasible([task], slots)


def test_each_band_is_checked_with_what_stands_above_and_below_it() -> None:
    def stream(name: str, cost_ms: int, criticality: Criticality) -> StreamSpec:
        step = Step("infer", "gpu", False, cost_ms * MS)
        return StreamSpec(
            name, (step,), criticality, deadline_ns=40 * MS, period_ns=40 * MS
        )

    streams = [
        stream("front", 5, CRITICAL),
        stream("side", 15, NORMAL),
        stream("map", 21, BACKGROUND),
        replace(stream("idle", 9, NORMAL), period_ns=0),
    ]
    found = check(Resource("gpu"), streams, profiled())
    assert found[CRITICAL].passes
    assert found[CRITICAL].room_ns == {"front": 35 * MS}
    # The worst for the second band: a background job has begun, a critical one comes.
    assert found[NORMAL].failing == Interval(40 * MS, 20 * MS, 21 * MS - 1, "map")
    assert found[BACKGROUND].utilisation_permille == 1025
    assert check(Resource("dla"), streams, profiled()) == {}


# --- against the theory and against every schedule ------------------------------------


def jeffay_stanat_martel(tasks: Sequence[Task]) -> bool:
    """The test of 1991, word by word, for deadlines equal to periods."""
    ordered = sorted(tasks, key=lambda task: task.period_ns)
    if utilisation(ordered) > 1:
        return False
    return all(
        task.cost_ns
        + sum((length - 1) // t.period_ns * t.cost_ns for t in ordered[:index])
        <= length
        for index, task in enumerate(ordered)
        for length in range(ordered[0].period_ns + 1, task.period_ns)
    )


@given(task_sets(implicit=True))
def test_for_deadlines_equal_to_periods_it_is_the_test_of_1991(
    tasks: list[Task],
) -> None:
    assert feasible(tasks).passes == jeffay_stanat_martel(tasks)


@given(task_sets(most=3, period=6, stretch=2))
@settings(deadline=None)
def test_a_set_that_passes_never_misses_at_any_phase(tasks: list[Task]) -> None:
    if not feasible(tasks).passes:
        return
    until = 2 * lcm(*(task.period_ns for task in tasks)) + 12
    for phases in product(*(range(task.period_ns) for task in tasks)):
        jobs = [
            (task, released(task, phase, until, None))
            for task, phase in zip(tasks, phases, strict=True)
        ]
        assert lateness([jobs])[0] <= 0


@given(task_sets(stretch=2), st.integers(0, 2**32))
@settings(deadline=None)
def test_a_set_that_passes_never_misses_when_jobs_come_as_they_like(
    tasks: list[Task], seed: int
) -> None:
    random = Random(seed)
    if feasible(tasks).passes:
        jobs = [
            (t, released(t, random.randrange(t.period_ns), 400, random)) for t in tasks
        ]
        assert lateness([jobs])[0] <= 0


@given(task_sets(stretch=2))
def test_a_set_that_fails_misses_a_deadline_when_jobs_come_as_the_verdict_says(
    tasks: list[Task],
) -> None:
    failing = feasible(tasks).failing
    if failing is None:
        return
    # Everything that is due within the interval comes at its start, just after the
    # job that blocks it.
    jobs = [
        (task, range(1, 2 + failing.length_ns - task.deadline_ns, task.period_ns))
        for task in tasks
        if task.deadline_ns <= failing.length_ns
    ]
    jobs += [(t, range(1)) for t in tasks if t.name == failing.blocked_by]
    assert lateness([jobs])[0] > 0


@given(task_sets(stretch=2))
def test_the_room_is_exactly_the_longest_job_from_below_that_still_fits(
    tasks: list[Task],
) -> None:
    verdict = feasible(tasks)
    if not verdict.passes or not verdict.room_ns:
        return
    room_ns = min(verdict.room_ns.values())
    fits = Task("below", room_ns + 1, 10**6, 10**6)
    assert feasible(tasks, below=[fits]).passes
    assert not feasible(tasks, below=[fits._replace(cost_ns=room_ns + 2)]).passes


@given(task_sets(), st.data(), st.integers(1, 2))
def test_a_set_that_fails_does_not_pass_when_a_job_takes_longer(
    tasks: list[Task], data: st.DataObject, slots: int
) -> None:
    if not feasible(tasks, slots).passes:
        index = data.draw(st.integers(0, len(tasks) - 1))
        longer = tasks[index]._replace(cost_ns=tasks[index].cost_ns + 1)
        tasks[index] = longer
        assert not feasible(tasks, slots).passes


@given(
    task_sets(most=4, stretch=2),
    task_sets(most=3, stretch=2),
    st.integers(1, 3),
    st.integers(0, 2**32),
)
@settings(deadline=None, max_examples=300)
def test_bands_that_pass_on_any_number_of_slots_never_miss(
    upper: list[Task], lower: list[Task], slots: int, seed: int
) -> None:
    first = feasible(upper, slots, below=lower)
    second = feasible(lower, slots, above=upper)
    random = Random(seed)
    late = lateness([at_random(upper, random), at_random(lower, random)], slots)
    assert not first.passes or late[0] <= 0
    assert not (first.passes and second.passes) or late[1] <= 0
