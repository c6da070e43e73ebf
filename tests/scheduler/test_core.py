from collections.abc import Sequence

import pytest

from edgepipe.scheduler.budget import LEAST_SAMPLES, WARM_UP
from edgepipe.scheduler.core import Scheduler
from edgepipe.scheduler.dispatch import PROBE_EVERY
from edgepipe.scheduler.events import (
    Action,
    Failed,
    FrameArrived,
    Grant,
    JobDone,
    JobFailed,
    Leave,
    SetTimer,
    Start,
    Stop,
    TimerFired,
)
from edgepipe.scheduler.fates import Fate, Reason
from edgepipe.scheduler.job import (
    Criticality,
    Job,
    OnMiss,
    Overflow,
    Resource,
    Step,
    StreamSpec,
)
from edgepipe.scheduler.policy import BY_NAME

DECODE = Step("decode", "cpu", stateful=True)
INFER = Step("infer", "cpu", stateful=False)
TRACK = Step("track", "cpu", stateful=True)
CPU = Resource("cpu")

TRUSTED = WARM_UP + LEAST_SAMPLES
"""So many measurements make an estimate."""


def stream(
    name: str = "front",
    *,
    steps: tuple[Step, ...] = (INFER,),
    criticality: Criticality = Criticality.NORMAL,
    on_miss: OnMiss = OnMiss.DROP,
    capacity: int = 2,
    overflow: Overflow = Overflow.DROP_OLDEST,
    queued_steps: int = 1,
    max_in_flight: int = 8,
    waits: bool = False,
) -> StreamSpec:
    return StreamSpec(
        name,
        steps,
        criticality,
        on_miss,
        capacity,
        overflow,
        queued_steps,
        max_in_flight,
        waits,
    )


def arrive(
    core: Scheduler, sequence: int, *, now: int = 0, deadline: int, name: str = "front"
) -> list[Action]:
    return core.handle(now, FrameArrived(name, sequence, now, deadline))


def started(actions: Sequence[Action]) -> list[tuple[str, int]]:
    starts = [a for a in actions if isinstance(a, Start)]
    return [(job.stream, job.sequence) for start in starts for job in start.jobs]


def job_of(actions: Sequence[Action]) -> Job:
    (start,) = [a for a in actions if isinstance(a, Start)]
    (job,) = start.jobs
    return job


def left(actions: Sequence[Action]) -> list[tuple[int, Reason | None]]:
    return [(a.sequence, a.reason) for a in actions if isinstance(a, Leave)]


def test_a_frame_starts_at_once_on_a_free_resource() -> None:
    core = Scheduler([stream()], [CPU])
    assert started(arrive(core, 0, deadline=100)) == [("front", 0)]


def test_the_nearest_deadline_runs_first() -> None:
    core = Scheduler([stream("a"), stream("b"), stream("c")], [CPU])
    running = job_of(arrive(core, 0, deadline=100, name="a"))
    arrive(core, 0, deadline=90, name="b")
    arrive(core, 0, deadline=50, name="c")
    assert started(core.handle(5, JobDone((running,), 5))) == [("c", 0)]


def test_a_critical_stream_goes_before_an_earlier_background_deadline() -> None:
    specs = [
        stream("log", criticality=Criticality.BACKGROUND),
        stream("front", criticality=Criticality.CRITICAL),
        stream("now"),
    ]
    core = Scheduler(specs, [CPU])
    running = job_of(arrive(core, 0, deadline=100, name="now"))
    arrive(core, 0, deadline=10, name="log")
    arrive(core, 0, deadline=90, name="front")
    assert started(core.handle(1, JobDone((running,), 1))) == [("front", 0)]


def test_first_in_first_out_knows_no_deadlines() -> None:
    core = Scheduler([stream("a"), stream("b")], [CPU], BY_NAME["fifo"])
    running = job_of(arrive(core, 0, deadline=100, name="a"))
    arrive(core, 1, deadline=90, name="a")
    arrive(core, 0, deadline=50, name="b")
    assert started(core.handle(1, JobDone((running,), 1))) == [("a", 1)]


def test_equal_deadlines_keep_the_order_of_arrival() -> None:
    core = Scheduler([stream(n) for n in "zab"], [CPU])
    running = job_of(arrive(core, 0, deadline=9, name="z"))
    arrive(core, 0, deadline=50, name="b")
    arrive(core, 0, deadline=50, name="a")
    assert started(core.handle(1, JobDone((running,), 1))) == [("b", 0)]


@pytest.mark.parametrize(
    ("overflow", "dropped"),
    [(Overflow.DROP_OLDEST, 1), (Overflow.DROP_NEWEST, 3), (Overflow.BLOCK, 3)],
)
def test_a_full_queue_drops_by_its_policy(overflow: Overflow, dropped: int) -> None:
    core = Scheduler([stream(capacity=2, overflow=overflow)], [CPU])
    for sequence in range(3):  # one runs, two wait
        assert left(arrive(core, sequence, deadline=100)) == []
    assert left(arrive(core, 3, deadline=100)) == [(dropped, Reason.OVERFLOW)]


def test_a_running_frame_is_never_the_victim_of_overflow() -> None:
    spec = stream(steps=(DECODE, INFER), queued_steps=2, capacity=1)
    core = Scheduler([spec], [CPU])
    arrive(core, 0, deadline=100)  # being decoded: occupies the only place
    assert left(arrive(core, 1, deadline=100)) == [(1, Reason.OVERFLOW)]


def test_a_frame_that_arrives_after_its_deadline_is_stale() -> None:
    core = Scheduler([stream()], [CPU])
    assert left(arrive(core, 0, now=101, deadline=100)) == [(0, Reason.STALE)]


def test_a_stale_frame_of_a_stream_that_takes_late_results_still_runs() -> None:
    core = Scheduler([stream(on_miss=OnMiss.DELIVER_LATE)], [CPU])
    actions = arrive(core, 0, now=101, deadline=100)
    assert [type(a) for a in actions] == [Start]
    assert actions == [Start((job_of(actions),), latest_start_ns=None)]


def learn(core: Scheduler, *costs: int) -> int:
    """Take frames through all steps until their costs are known; the next sequence."""
    for sequence in range(TRUSTED):
        actions = arrive(core, sequence, deadline=10**9)
        for cost in costs:
            actions = core.handle(0, JobDone((job_of(actions),), service_ns=cost))
    return TRUSTED


def test_a_frame_that_cannot_finish_in_time_is_given_up_before_the_work_is_spent() -> (
    None
):
    core = Scheduler([stream()], [CPU])
    first = learn(core, 30)
    running = job_of(arrive(core, first, now=60, deadline=160))
    arrive(core, first + 1, now=60, deadline=160)
    actions = core.handle(135, JobDone((running,), service_ns=30))
    (gone,) = [a for a in actions if isinstance(a, Leave) and a.fate is Fate.DROPPED]
    assert (gone.sequence, gone.reason, gone.short_ns) == (first + 1, Reason.DOOMED, 5)
    assert started(actions) == []


def test_later_steps_count_when_a_frame_is_judged_doomed() -> None:
    core = Scheduler([stream(steps=(INFER, TRACK))], [CPU])
    n = learn(core, 30, 20)
    start = arrive(core, n, now=100, deadline=200)[0]
    assert isinstance(start, Start)
    assert start.latest_start_ns == 200 - 30 - 20
    assert left(arrive(core, n + 1, now=100, deadline=149)) == []  # waits for the slot
    actions = core.handle(
        101, JobFailed((start.jobs[0],), Fate.FAILED, Reason.STAGE_ERROR)
    )
    assert left(actions) == [(n + 1, Reason.DOOMED), (n, Reason.STAGE_ERROR)]


def test_one_in_a_row_of_doomed_frames_is_run_so_that_the_estimate_can_recover() -> (
    None
):
    core = Scheduler([stream()], [CPU])
    first = learn(core, 1000)
    runs = [
        bool(started(arrive(core, n, now=n * 100, deadline=n * 100 + 50)))
        for n in range(first, first + PROBE_EVERY)
    ]
    assert runs == [False] * (PROBE_EVERY - 1) + [True]


def test_a_stream_recovers_from_an_estimate_that_was_spoilt_at_a_later_step() -> None:
    steps = (DECODE, INFER, TRACK)
    core = Scheduler([stream(steps=steps, queued_steps=2)], [CPU])
    now, completed = 1_000, 0
    costs = dict.fromkeys(range(TRUSTED), (1, 150, 1))  # then as fast as it can
    for sequence in range(400):
        now += 200
        actions = arrive(core, sequence, now=now, deadline=now + 100)
        for cost in costs.get(sequence, (1, 5, 1)):
            if not started(actions):
                break
            actions = core.handle(now, JobDone((job_of(actions),), service_ns=cost))
        completed += (sequence, None) in left(actions)
    assert completed > 300


def test_jobs_of_frames_that_left_do_not_pile_up_behind_a_busier_band() -> None:
    specs = [
        stream("front", criticality=Criticality.CRITICAL),
        stream("log", criticality=Criticality.BACKGROUND),
    ]
    core = Scheduler(specs, [CPU])
    running = job_of(arrive(core, 0, deadline=10**9))
    for n in range(1, 2000):
        arrive(core, n, deadline=10**9)
        arrive(core, n, deadline=10**9, name="log")
        running = job_of(core.handle(n, JobDone((running,), 1)))
    assert core.jobs_waiting() < 100


def test_a_stateful_step_sees_its_stream_in_order() -> None:
    core = Scheduler([stream(steps=(INFER, TRACK))], [Resource("cpu", 2)])
    first = job_of(arrive(core, 0, deadline=100))
    second = job_of(arrive(core, 1, deadline=110))
    assert (
        started(core.handle(5, JobDone((second,), 5))) == []
    )  # frame 0 is not through
    track = core.handle(9, JobDone((first,), 9))
    assert started(track) == [("front", 0)]
    assert started(core.handle(10, JobDone((job_of(track),), 1))) == [("front", 1)]


def test_a_failed_frame_lets_its_successors_pass() -> None:
    core = Scheduler([stream(steps=(INFER, TRACK))], [Resource("cpu", 2)])
    first = job_of(arrive(core, 0, deadline=100))
    second = job_of(arrive(core, 1, deadline=110))
    core.handle(5, JobDone((second,), 5))
    failed = core.handle(9, JobFailed((first,), Fate.FAILED, Reason.STAGE_ERROR))
    assert started(failed) == [("front", 1)]


def test_a_doomed_frame_lets_a_successor_pass_on_another_resource() -> None:
    steps = (Step("infer", "gpu", stateful=False), Step("track", "cpu", stateful=True))
    core = Scheduler([stream(steps=steps)], [CPU, Resource("gpu")])
    n = learn(core, 400, 1)
    first = job_of(arrive(core, n, now=500, deadline=1000))
    arrive(core, n + 1, now=500, deadline=1000)
    after = core.handle(900, JobDone((first,), 400))
    assert (n + 1, Reason.DOOMED) in left(after)
    assert started(after) == [("front", n)]


def test_frames_in_flight_are_bounded_whatever_the_queue_holds() -> None:
    spec = stream(steps=(INFER, TRACK), capacity=9, max_in_flight=3)
    core = Scheduler([spec], [CPU])
    for sequence in range(3):
        arrive(core, sequence, deadline=100)
    assert left(arrive(core, 3, deadline=100)) == [(1, Reason.OVERFLOW)]
    assert core.in_flight("front") == 3


def test_credits_come_back_when_a_frame_leaves_the_queue() -> None:
    spec = stream(capacity=2, overflow=Overflow.BLOCK, waits=True)
    core = Scheduler([spec], [CPU])
    assert core.initial_grants() == [Grant("front", 2)]
    first = arrive(core, 0, deadline=100)
    assert Grant("front", 1) in first  # it runs: its place is free again
    assert not any(isinstance(a, Grant) for a in arrive(core, 1, deadline=100))
    assert Grant("front", 1) in core.handle(5, JobDone((job_of(first),), 5))


def test_stopping_drops_what_waits_and_delivers_what_was_on_its_last_step() -> None:
    core = Scheduler([stream()], [CPU])
    running = job_of(arrive(core, 0, deadline=100))
    arrive(core, 1, deadline=100)
    assert left(core.handle(1, Stop())) == [(1, Reason.SHUTDOWN)]
    assert left(core.handle(2, JobDone((running,), 2))) == [(0, None)]
    assert left(arrive(core, 2, deadline=100)) == [(2, Reason.SHUTDOWN)]


def test_stopping_cuts_a_journey_short_between_two_steps() -> None:
    core = Scheduler([stream(steps=(INFER, TRACK))], [CPU])
    running = job_of(arrive(core, 0, deadline=100))
    core.handle(1, Stop())
    assert left(core.handle(2, JobDone((running,), 2))) == [(0, Reason.SHUTDOWN)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": ()}, "has no steps"),
        ({"capacity": 0}, "queue_capacity must be at least 1"),
        ({"max_in_flight": 0}, "max_in_flight must be at least 1"),
        ({"queued_steps": 2}, "queued_steps must be 1..1"),
    ],
)
def test_a_stream_without_sense_is_refused(
    change: dict[str, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        stream(**change)  # type: ignore[arg-type]


def test_a_step_on_an_unknown_resource_is_refused() -> None:
    with pytest.raises(ValueError, match="needs resource 'cpu'"):
        Scheduler([stream()], [Resource("gpu")])


def test_a_deadline_passes_when_it_is_due_and_not_when_somebody_next_looks() -> None:
    core = Scheduler([stream()], [CPU])
    n = learn(core, 30)
    arrive(core, n, now=0, deadline=1000)  # runs, and does not come back
    waits = arrive(core, n + 1, now=10, deadline=110)
    assert SetTimer(81) in waits  # 110 less 30 is the last good moment
    assert left(core.handle(80, TimerFired())) == []
    assert left(core.handle(81, TimerFired())) == [(n + 1, Reason.DOOMED)]


def test_a_frame_behind_a_stuck_one_is_given_up_when_it_is_due() -> None:
    core = Scheduler([stream(steps=(DECODE, INFER))], [Resource("cpu", 2)])
    arrive(core, 0, deadline=1000)  # decodes for ever
    assert SetTimer(101) in arrive(core, 1, deadline=100)
    assert left(core.handle(101, TimerFired())) == [(1, Reason.DOOMED)]


def test_one_of_a_batch_can_fail_while_the_others_go_on() -> None:
    step = Step("infer", "gpu", stateful=False, cost_ns=10, batch_key="m", batch_max=4)
    core = Scheduler([stream(steps=(step, TRACK), capacity=4)], [CPU, Resource("gpu")])
    first = job_of(arrive(core, 0, deadline=1000))
    arrive(core, 1, deadline=1000)
    arrive(core, 2, deadline=1000)
    after = core.handle(10, JobDone((first,), 10))
    batch = max((a.jobs for a in after if isinstance(a, Start)), key=len)
    assert [job.sequence for job in batch] == [1, 2]
    bad = Failed(batch[0], Fate.FAILED, Reason.BAD_OUTPUT)
    assert left(core.handle(30, JobDone(batch, 20, (bad,)))) == [(1, Reason.BAD_OUTPUT)]
    assert core.in_flight("front") == 2
