from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.scheduler.job import Rung, Step, StreamSpec
from edgepipe.scheduler.load import (
    CHEAPEST,
    Capacity,
    Task,
    batch_permille,
    capacity,
    demand,
    local_deadline_ns,
    permille,
    profiled,
    task_on,
    tasks_on,
    utilisation,
)

MS = 1_000_000
CURVE = (1000, 1600, 2200, 2800)
"""c(b) = c(1) (0.4 + 0.6 b)"""


def camera(infer_ms: float = 6, **changes: object) -> StreamSpec:
    """Decode, infer and track at 10 ms a frame, 50 ms allowed."""
    fields: dict[str, object] = {
        "id": "front",
        "steps": (
            Step("decode", "cpu", False, 3 * MS),
            Step("infer", "gpu", False, round(infer_ms * MS), "net", 4, CURVE,
                 runs_on_track_only=False),
            Step("track", "cpu", True, 2 * MS),
        ),
        "deadline_ns": 50 * MS,
        "period_ns": 10 * MS,
    }  # fmt: skip
    return StreamSpec(**(fields | changes))  # type: ignore[arg-type]


def test_a_stream_asks_a_resource_for_all_its_steps_there() -> None:
    task = task_on("cpu", camera(), profiled())
    assert task is not None
    assert task == Task("front", 5 * MS, 10 * MS, 44 * MS, 3 * MS)
    assert task.longest_ns == 3 * MS
    assert Task("whole", 5, 10, 10).longest_ns == 5


def test_the_local_deadline_leaves_time_for_the_steps_elsewhere_and_no_more() -> None:
    assert local_deadline_ns(camera(), "gpu", profiled()) == 45 * MS
    assert local_deadline_ns(camera(deadline_ns=4 * MS), "gpu", profiled()) == -MS
    assert local_deadline_ns(camera(deadline_ns=0), "gpu", profiled()) is None


def test_a_stream_without_a_deadline_must_keep_up() -> None:
    task = task_on("gpu", camera(deadline_ns=0), profiled())
    assert task is not None
    assert task.deadline_ns == task.period_ns == 10 * MS


@pytest.mark.parametrize(
    ("stream", "resource"),
    [
        (camera(), "vic"),
        (camera(period_ns=0), "gpu"),
        (camera(infer_ms=0), "gpu"),
    ],
    ids=["elsewhere", "unknown period", "unknown cost"],
)
def test_nothing_is_asked_for_where_nothing_is_known(
    stream: StreamSpec, resource: str
) -> None:
    assert task_on(resource, stream, profiled()) is None
    assert tasks_on(resource, [stream], profiled()) == []
    assert demand(resource, stream, profiled()) == 0


def test_a_rung_costs_less_and_takes_fewer_frames() -> None:
    ladder = (
        Rung("full"),
        Rung("small", 850, (1000, 450, 1000), stride=2, infer_every=3),
    )
    stream = camera(ladder=ladder)
    gpu = task_on("gpu", stream, profiled(CHEAPEST), CHEAPEST)
    cpu = task_on("cpu", stream, profiled(CHEAPEST), CHEAPEST)
    assert gpu is not None
    assert cpu is not None
    assert (gpu.cost_ns, gpu.period_ns) == (6 * MS * 450 // 1000, 60 * MS)
    assert (cpu.cost_ns, cpu.period_ns) == (5 * MS, 20 * MS)


def test_utilisation_is_exact_and_shown_rounded_up() -> None:
    third = Task("a", 1, 3, 3)
    assert utilisation([third, third, third]) == 1
    assert permille(utilisation([third, third, third])) == 1000
    assert permille(utilisation([third])) == 334
    assert utilisation([]) == 0


@pytest.mark.parametrize(
    ("curve", "size", "cost"),
    [
        ((), 1, 1000),
        ((), 3, 3000),  # no profile: a batch saves nothing
        (CURVE, 1, 1000),
        (CURVE, 2, 1600),
        (CURVE, 4, 2800),
        (CURVE, 6, 4800),  # past the end each job costs as much as the first
    ],
)
def test_the_cost_of_a_batch_is_that_of_its_profile(
    curve: tuple[int, ...], size: int, cost: int
) -> None:
    assert batch_permille(curve, size) == cost


@pytest.mark.parametrize(
    ("deadline_ms", "batch"),
    [(9, 0), (10, 1), (31, 1), (32, 2), (44, 3), (56, 4), (1000, 4), (None, 4)],
)
def test_a_batch_lasts_half_the_deadline_at_most(
    deadline_ms: int | None, batch: int
) -> None:
    deadline_ns = None if deadline_ms is None else deadline_ms * MS
    assert capacity(10 * MS, CURVE, 4, deadline_ns).batch == batch


def test_batches_raise_the_rate_and_so_do_slots() -> None:
    alone = capacity(10 * MS, CURVE, 1, 100 * MS)
    batched = capacity(10 * MS, CURVE, 4, 100 * MS, slots=2)
    assert alone == Capacity(1, 10 * MS, Fraction(100))
    assert batched == Capacity(4, 28 * MS, Fraction(2 * 4 * 1000, 28))


def test_a_batch_that_saves_nothing_is_not_made() -> None:
    assert capacity(10 * MS, (), 8, None).batch == 1


@pytest.mark.parametrize(("cost", "batch_max"), [(0, 1), (1, 0)])
def test_a_capacity_needs_a_cost_and_a_batch(cost: int, batch_max: int) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        capacity(cost, (), batch_max, None)


@given(st.integers(1, 100), st.integers(1, 8), st.integers(1, 500))
def test_a_longer_deadline_or_a_larger_batch_never_lowers_the_capacity(
    cost: int, batch_max: int, deadline: int
) -> None:
    rate = capacity(cost, CURVE, batch_max, deadline).rate
    assert capacity(cost, CURVE, batch_max, deadline + 1).rate >= rate
    assert capacity(cost, CURVE, batch_max + 1, deadline).rate >= rate
    assert capacity(cost + 1, CURVE, batch_max, deadline).rate <= rate


@pytest.mark.parametrize("deadline_ns", [29, 60, 200])
def test_a_queue_at_that_rate_never_keeps_a_frame_beyond_its_deadline(
    deadline_ns: int,
) -> None:
    # One frame each period, all that wait go as one batch: the next begins when the
    # last has ended.
    cost_ns, period_ns = 10, 10
    found = capacity(cost_ns, CURVE, 4, deadline_ns)
    assert (found.rate * period_ns >= 10**9) == (found.batch >= 1)
    waiting: list[int] = []
    now_ns = worst_ns = 0
    arrivals = list(range(0, 2000 * period_ns, period_ns))
    while arrivals or waiting:
        now_ns = max(now_ns, arrivals[0]) if arrivals and not waiting else now_ns
        while arrivals and arrivals[0] <= now_ns:
            waiting.append(arrivals.pop(0))
        batch, waiting = waiting[: found.batch], waiting[found.batch :]
        now_ns += cost_ns * batch_permille(CURVE, len(batch)) // 1000
        worst_ns = max(worst_ns, *(now_ns - arrival for arrival in batch))
    assert worst_ns <= deadline_ns


def test_the_demand_counts_batches_as_large_as_the_deadline_allows() -> None:
    # 45 ms are left for the network: three jobs take 13.2 ms, four 16.8.
    assert demand("gpu", camera(), profiled()) == Fraction(168, 400)
    assert demand("gpu", camera(), profiled(), batched=False) == Fraction(6, 10)
    # 14 ms are left: two jobs take 9.6 ms, twice that is too long.
    assert demand("gpu", camera(deadline_ns=19 * MS), profiled()) == Fraction(6, 10)
    assert demand("gpu", camera(deadline_ns=0), profiled()) == Fraction(168, 400)


def test_a_rung_may_make_smaller_batches() -> None:
    stream = camera(ladder=(Rung("full"), Rung("small", batch_max=2)))
    assert demand("gpu", stream, profiled(CHEAPEST), CHEAPEST) == Fraction(48, 100)


def test_frames_beyond_the_rate_cap_ask_for_nothing() -> None:
    stream = camera(min_interval_ns=20 * MS)
    assert demand("cpu", stream, profiled()) == Fraction(5, 20)


def test_frames_that_are_always_late_cost_what_they_cost() -> None:
    assert demand("gpu", camera(deadline_ns=MS), profiled()) == Fraction(6, 10)
