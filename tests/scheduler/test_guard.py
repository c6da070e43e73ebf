"""Inserted idle time: long jobs of lower classes and the frames of higher ones."""

from itertools import pairwise

from edgepipe.scheduler.core import Scheduler
from edgepipe.scheduler.events import (
    Action,
    FrameArrived,
    JobDone,
    SetTimer,
    Start,
    TimerFired,
)
from edgepipe.scheduler.job import (
    Contract,
    Criticality,
    Job,
    Resource,
    Rung,
    Step,
    StreamSpec,
)
from edgepipe.scheduler.policy import BY_NAME

MS = 10**6
GPU = Resource("gpu")


def spec(
    name: str,
    cost_ms: int,
    deadline_ms: int,
    period_ms: int,
    criticality: Criticality = Criticality.CRITICAL,
    contract: Contract | None = None,
    min_service_ms: int = 0,
    weight: int = 1,
    ladder: tuple[Rung, ...] = (Rung("full"),),
) -> StreamSpec:
    step = Step("work", "gpu", stateful=False, cost_ns=cost_ms * MS * 10 // 11)
    return StreamSpec(
        name,
        (step,),
        criticality,
        queue_capacity=8,
        deadline_ns=deadline_ms * MS,
        period_ns=period_ms * MS,
        contract=contract,
        min_service_ns=min_service_ms * MS,
        weight=weight,
        ladder=ladder,
    )


def background(
    cost_ms: int, min_service_ms: int = 0, ladder: tuple[Rung, ...] = (Rung("full"),)
) -> StreamSpec:
    return spec(
        "map",
        cost_ms,
        10_000,
        1000,
        Criticality.BACKGROUND,
        min_service_ms=min_service_ms,
        ladder=ladder,
    )


def arrive(core: Scheduler, of: StreamSpec, sequence: int, at_ms: int) -> list[Action]:
    now_ns = at_ms * MS
    event = FrameArrived(of.id, sequence, now_ns, now_ns + of.deadline_ns)
    return core.handle(now_ns, event)


def started(actions: list[Action]) -> list[tuple[str, int]]:
    starts = [a for a in actions if isinstance(a, Start)]
    return [(job.stream, job.sequence) for start in starts for job in start.jobs]


def jobs(actions: list[Action]) -> tuple[Job, ...]:
    (start,) = [a for a in actions if isinstance(a, Start)]
    return start.jobs


def test_a_long_job_does_not_start_just_before_a_critical_frame_is_due() -> None:
    front, long = spec("front", 10, 29, 50), background(60)
    core = Scheduler([front, long], [GPU])
    first = jobs(arrive(core, front, 0, 0))
    arrive(core, long, 0, 1)
    after = core.handle(10 * MS, JobDone(first, 10 * MS))
    # It would end at 70, and the frame that is due at 50 has to start by 69.
    assert started(after) == []
    assert any(isinstance(action, SetTimer) for action in after)
    assert started(arrive(core, front, 1, 50)) == [("front", 1)]


def test_a_job_that_fits_into_the_gap_starts() -> None:
    front, short = spec("front", 10, 29, 50), background(55)
    core = Scheduler([front, short], [GPU])
    first = jobs(arrive(core, front, 0, 0))
    arrive(core, short, 0, 1)
    assert started(core.handle(10 * MS, JobDone(first, 10 * MS))) == [("map", 0)]


def test_when_the_expected_frame_stays_away_the_job_starts_after_all() -> None:
    front, long = spec("front", 10, 29, 50), background(60)
    core = Scheduler([front, long], [GPU])
    first = jobs(arrive(core, front, 0, 0))
    arrive(core, long, 0, 1)
    core.handle(10 * MS, JobDone(first, 10 * MS))
    begun = [
        at_ms
        for at_ms in range(15, 400, 5)
        if started(core.handle(at_ms * MS, TimerFired()))
    ]
    assert begun == [150]  # three periods of silence: nobody is expected any more


def test_a_job_that_nobody_has_measured_waits_while_something_critical_waits() -> None:
    front = spec("front", 10, 29, 50)
    step = Step("work", "gpu", stateful=False)
    unknown = StreamSpec("map", (step,), Criticality.BACKGROUND, queue_capacity=8)
    core = Scheduler([front, unknown], [GPU])
    first = jobs(arrive(core, front, 0, 0))
    core.handle(1, FrameArrived("map", 0, 1, 10**12))
    arrive(core, front, 1, 5)
    assert started(core.handle(10 * MS, JobDone(first, 10 * MS))) == [("front", 1)]


def fill(
    core: Scheduler, front: StreamSpec, periods: int, first: tuple[Job, ...]
) -> list[tuple[int, str]]:
    """A critical frame each 50 ms; what starts when, in milliseconds.

    ``first`` is a job of 10 ms that has begun at 0.
    """
    begun: list[tuple[int, str]] = []
    running: tuple[int, tuple[Job, ...]] | None = (10, first)
    costs = {"front": 10, "map": 60}
    for at_ms in range(0, periods * 50, 5):
        actions: list[Action] = []
        if running is not None and running[0] <= at_ms:
            done = running[1]
            cost_ns = costs[done[0].stream] * MS
            running = None
            actions += core.handle(at_ms * MS, JobDone(done, cost_ns))
        if at_ms and at_ms % 50 == 0:
            actions += arrive(core, front, at_ms // 50, at_ms)
        actions += core.handle(at_ms * MS, TimerFired())
        for action in actions:
            if isinstance(action, Start):
                name = action.jobs[0].stream
                begun.append((at_ms, name))
                running = (at_ms + costs[name], action.jobs)
    return begun


def test_a_starving_stream_is_served_within_its_bound_if_a_contract_allows() -> None:
    front = spec("front", 10, 29, 50, contract=Contract(9, 10))
    long = background(60, min_service_ms=1000)
    core = Scheduler([front, long], [GPU])
    first = jobs(arrive(core, front, 0, 0))
    for n in range(5):
        arrive(core, long, n, 1)
    served = [at for at, name in fill(core, front, 80, first) if name == "map"]
    gaps = [b - a for a, b in pairwise(served)]
    assert gaps
    assert all(900 <= gap <= 1100 for gap in gaps)


def test_a_critical_stream_without_a_contract_is_never_broken_on_purpose() -> None:
    front, long = spec("front", 10, 29, 50), background(60, min_service_ms=1000)
    core = Scheduler([front, long], [GPU])
    first = jobs(arrive(core, front, 0, 0))
    arrive(core, long, 0, 1)
    assert "map" not in {name for _, name in fill(core, front, 80, first)}


def test_a_job_that_finds_no_chance_takes_a_cheaper_rung_for_itself() -> None:
    front = spec("front", 10, 29, 50)
    ladder = (Rung("full"), Rung("half", 850, (500,)))
    long = background(60, ladder=ladder)
    core = Scheduler([front, long], [GPU], BY_NAME["slack+ladder"])
    running = jobs(arrive(core, front, 0, 0))
    arrive(core, long, 0, 1)
    for n in range(1, 200):
        after = core.handle((n * 50 - 40) * MS, JobDone(running, 10 * MS))
        if started(after):
            (job,) = jobs(after)
            assert (job.stream, job.rung) == ("map", 1)
            assert n * 50 > 10_000 // 2 - 100  # it waited half of its time first
            return
        running = jobs(arrive(core, front, n, n * 50))
    raise AssertionError("the background job never started")
