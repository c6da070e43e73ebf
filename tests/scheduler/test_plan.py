from collections.abc import Sequence
from itertools import chain, combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgepipe.scheduler import plan
from edgepipe.scheduler.budget import StepCost
from edgepipe.scheduler.job import (
    Contract,
    Criticality,
    Resource,
    Step,
    StreamSpec,
)
from edgepipe.scheduler.plan import Coming, Entry
from edgepipe.scheduler.state import FrameState, ResourceState, StreamState

FAR = 1 << 60
"""When a slot becomes free that never does."""
REPEATABLE = settings(derandomize=True, deadline=None, print_blob=True)


def stream(
    weight: int = 1,
    criticality: Criticality = Criticality.NORMAL,
    contract: Contract | None = None,
    index: int = 0,
) -> StreamState:
    spec = StreamSpec(
        f"s{index}",
        (Step("infer", "gpu", stateful=False),),
        criticality,
        weight=weight,
        contract=contract,
    )
    place = ResourceState(Resource("gpu"), is_planned=True)
    return StreamState(spec, index, [place], [[StepCost(0, ())]])


def entry(
    local: int, cost: int, arrival: int = 0, of: StreamState | None = None
) -> Entry:
    frame = FrameState(of or stream(), arrival, 0, local, arrival, 0)
    return Entry(local, arrival, cost, frame)


def entries(*pairs: tuple[int, int]) -> list[Entry]:
    """Of equal worth, given by local deadline and cost, in the order of arrival."""
    return sorted(entry(local, cost, n) for n, (local, cost) in enumerate(pairs))


def arrivals(found: Sequence[Entry]) -> list[int]:
    return [each.frame.arrival for each in found]


# --- what fits --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pairs", "ends", "expected"),
    [
        pytest.param([], [5], True, id="nothing always fits"),
        pytest.param([(10, 10)], [0], True, id="just in time is in time"),
        pytest.param([(10, 10)], [1], False, id="the slot is free too late"),
        pytest.param([(10, 6), (12, 6)], [0], True, id="one after the other"),
        pytest.param([(10, 6), (11, 6)], [0], False, id="the second is late"),
        pytest.param([(10, 6), (11, 6)], [0, 0], True, id="side by side"),
        pytest.param([(10, 6), (11, 6), (12, 6)], [0, 5], True, id="by turns"),
        pytest.param([(10, 6), (11, 6), (11, 6)], [0, 5], False, id="one too many"),
    ],
)
def test_jobs_fit_if_each_is_in_time_in_their_order(
    pairs: list[tuple[int, int]], ends: list[int], expected: bool
) -> None:
    assert plan.fits(entries(*pairs), ends) is expected


JOBS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 12)), max_size=7)
ENDS = st.lists(st.integers(0, 10), min_size=1, max_size=3)


@REPEATABLE
@given(JOBS, ENDS)
def test_whether_jobs_fit_is_what_playing_them_shows(
    jobs: list[tuple[int, int]], ends: list[int]
) -> None:
    waiting, slots, in_time = entries(*jobs), list(ends), True
    for job in waiting:
        first = slots.index(min(slots))
        slots[first] += job.cost_ns
        in_time = in_time and slots[first] <= job.local_ns
    assert plan.fits(waiting, ends) == in_time


# --- what is left out -------------------------------------------------------------


def subsets(waiting: list[Entry]) -> list[list[Entry]]:
    sizes = range(len(waiting) + 1)
    return [
        list(each)
        for each in chain.from_iterable(combinations(waiting, n) for n in sizes)
    ]


@REPEATABLE
@given(JOBS, st.integers(0, 10))
def test_of_equals_on_one_slot_the_greatest_possible_number_is_kept(
    jobs: list[tuple[int, int]], end: int
) -> None:
    waiting = entries(*jobs)
    kept, _ = plan.leave_out(waiting, [end])
    most = max(len(some) for some in subsets(waiting) if plan.fits(some, [end]))
    assert len(kept) == most


@st.composite
def mixed(draw: st.DrawFn) -> list[Entry]:
    """Jobs of streams that differ in criticality, weight and luck."""
    streams = [
        stream(weight, criticality, contract, index)
        for index, (weight, criticality, contract) in enumerate(
            draw(
                st.lists(
                    st.tuples(
                        st.integers(1, 4),
                        st.sampled_from(Criticality),
                        st.sampled_from([None, Contract(1, 2), Contract(3, 4)]),
                    ),
                    min_size=1,
                    max_size=4,
                )
            )
        )
    ]
    for each in streams:
        for in_time in draw(st.lists(st.booleans(), max_size=4)):
            each.outcome(in_time=in_time)
    return sorted(
        entry(local, cost, n, draw(st.sampled_from(streams)))
        for n, (local, cost) in enumerate(draw(JOBS))
    )


@REPEATABLE
@given(mixed(), ENDS)
def test_what_is_kept_fits_and_nothing_is_lost(
    waiting: list[Entry], ends: list[int]
) -> None:
    kept, out = plan.leave_out(waiting, ends)
    assert plan.fits(kept, ends)
    assert sorted(kept + out) == waiting
    assert kept == sorted(kept)
    assert not out or not plan.fits(waiting, ends)


@REPEATABLE
@given(mixed(), st.integers(0, 10))
def test_a_slot_that_never_gets_free_is_no_slot(waiting: list[Entry], end: int) -> None:
    assert plan.leave_out(waiting, [end]) == plan.leave_out(waiting, [end, FAR])


@REPEATABLE
@given(mixed(), st.integers(0, 10))
def test_less_important_jobs_take_nothing_from_more_important_ones(
    waiting: list[Entry], end: int
) -> None:
    kept, _ = plan.leave_out(waiting, [end])
    for band in range(3):
        important = [each for each in waiting if each.frame.band <= band]
        assert [each for each in kept if each.frame.band <= band] == plan.leave_out(
            important, [end]
        )[0]


def test_the_dearest_of_equals_is_left_out() -> None:
    kept, out = plan.leave_out(entries((10, 4), (11, 6), (12, 3)), [0])
    assert (arrivals(kept), arrivals(out)) == ([0, 2], [1])


def test_on_a_tie_the_stalest_is_left_out() -> None:
    kept, out = plan.leave_out(entries((10, 6), (11, 6)), [0])
    assert (arrivals(kept), arrivals(out)) == ([1], [0])


def test_what_is_worth_more_by_the_time_it_takes_stays() -> None:
    heavy = stream(weight=3)
    waiting = [entry(10, 6, 0, heavy), entry(11, 3, 1), entry(11, 3, 2)]
    kept, out = plan.leave_out(waiting, [0])
    assert (arrivals(kept), arrivals(out)) == ([0, 2], [1])


def test_a_stream_that_just_missed_is_not_left_out_again() -> None:
    unlucky = stream()
    unlucky.outcome(in_time=False)
    kept, _ = plan.leave_out([entry(10, 6, 0, unlucky), entry(11, 6, 1)], [0])
    assert arrivals(kept) == [0]


def test_a_frame_that_a_contract_cannot_spare_stays() -> None:
    strict = stream(contract=Contract(3, 4))
    strict.outcome(in_time=False)
    strict.outcome(in_time=True)
    waiting = [entry(10, 6, 0, strict), entry(11, 6, 1, stream(weight=7))]
    assert arrivals(plan.leave_out(waiting, [0])[0]) == [0]


def test_times_are_compared_to_the_last_nanosecond_of_a_second() -> None:
    second = 10**9
    waiting = entries((second, second - 1), (second, second))
    assert arrivals(plan.leave_out(waiting, [0])[0]) == [0]


@REPEATABLE
@given(mixed().filter(bool))
def test_the_best_is_the_one_that_would_be_left_out_last(waiting: list[Entry]) -> None:
    best = plan.best(waiting)
    for other in waiting:
        longest = max(best.cost_ns, other.cost_ns)
        pair = sorted(each._replace(local_ns=longest) for each in (best, other))
        if other is not best:
            assert arrivals(plan.leave_out(pair, [0])[1]) == [other.frame.arrival]


# --- who would be broken ----------------------------------------------------------


def coming(*jobs: tuple[int, int, int]) -> list[Coming]:
    """Given by release, local deadline and cost."""
    one = stream()
    return sorted(
        Coming(release, local, order, cost, one)
        for order, (release, local, cost) in enumerate(jobs)
    )


def played(ends: Sequence[int], jobs: Sequence[Coming]) -> set[int]:
    """The orders of the late ones, found by letting time pass in whole steps."""
    free, waiting, late = list(ends), list(jobs), set[int]()
    now = 0
    while waiting:
        for slot, free_at in enumerate(free):
            ready = [job for job in waiting if job.release_ns <= now]
            while free_at <= now and ready:
                job = min(ready, key=lambda each: (each.local_ns, each.order))
                ready.remove(job)
                waiting.remove(job)
                if now + job.cost_ns > job.local_ns:
                    late.add(job.order)
                else:
                    free[slot] = free_at = now + job.cost_ns
        now += 1
    return late


@REPEATABLE
@given(
    ENDS,
    st.lists(
        st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(1, 9)),
        max_size=7,
    ),
)
def test_who_is_broken_is_what_playing_the_jobs_shows(
    ends: list[int], jobs: list[tuple[int, int, int]]
) -> None:
    expected = coming(*((at, at + allowed, cost) for at, allowed, cost in jobs))
    late = plan.broken(ends, expected)
    assert {job.order for job in late} == played(ends, expected)
    assert len({job.order for job in late}) == len(late)


def test_a_job_that_would_be_late_takes_no_time_from_others() -> None:
    late = plan.broken([0], coming((0, 3, 5), (0, 6, 6)))
    assert [job.order for job in late] == [0]


def test_a_job_is_not_begun_before_it_is_there_because_another_was_given_up() -> None:
    late = plan.broken([0], coming((5, 6, 3), (5, 7, 3)))
    assert [job.order for job in late] == [0, 1]


def test_an_earlier_deadline_does_not_stop_what_has_begun() -> None:
    late = plan.broken([0], coming((0, 20, 6), (1, 6, 3)))
    assert [job.order for job in late] == [1]
