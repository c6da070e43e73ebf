import heapq
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.scheduler.budget import LEAST_SAMPLES
from edgepipe.scheduler.core import PROBE_EVERY, Scheduler
from edgepipe.scheduler.events import (
    Action,
    FrameArrived,
    Grant,
    JobDone,
    JobFailed,
    Leave,
    Start,
    Stop,
)
from edgepipe.scheduler.fates import Fate, Reason
from edgepipe.scheduler.job import (
    Criticality,
    Job,
    OnMiss,
    Overflow,
    Step,
    StreamSpec,
)
from edgepipe.scheduler.policy import first_in_first_out

DECODE = Step("decode", "cpu", stateful=True)
INFER = Step("infer", "cpu", stateful=False)
TRACK = Step("track", "cpu", stateful=True)


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
    return core.handle(now, FrameArrived(name, sequence, deadline))


def started(actions: Sequence[Action]) -> list[tuple[str, int]]:
    return [(a.job.stream, a.job.sequence) for a in actions if isinstance(a, Start)]


def job_of(actions: Sequence[Action]) -> Job:
    (job,) = [a.job for a in actions if isinstance(a, Start)]
    return job


def left(actions: Sequence[Action]) -> list[tuple[int, Reason | None]]:
    return [(a.sequence, a.reason) for a in actions if isinstance(a, Leave)]


def test_a_frame_starts_at_once_on_a_free_resource() -> None:
    core = Scheduler([stream()], {"cpu": 1})
    assert started(arrive(core, 0, deadline=100)) == [("front", 0)]


def test_the_nearest_deadline_runs_first() -> None:
    core = Scheduler([stream("a"), stream("b"), stream("c")], {"cpu": 1})
    running = job_of(arrive(core, 0, deadline=100, name="a"))
    arrive(core, 0, deadline=90, name="b")
    arrive(core, 0, deadline=50, name="c")
    assert started(core.handle(5, JobDone(running, 5))) == [("c", 0)]


def test_a_critical_stream_goes_before_an_earlier_background_deadline() -> None:
    specs = [
        stream("log", criticality=Criticality.BACKGROUND),
        stream("front", criticality=Criticality.CRITICAL),
        stream("now"),
    ]
    core = Scheduler(specs, {"cpu": 1})
    running = job_of(arrive(core, 0, deadline=100, name="now"))
    arrive(core, 0, deadline=10, name="log")
    arrive(core, 0, deadline=90, name="front")
    assert started(core.handle(1, JobDone(running, 1))) == [("front", 0)]


def test_first_in_first_out_knows_no_deadlines() -> None:
    core = Scheduler([stream("a"), stream("b")], {"cpu": 1}, first_in_first_out)
    running = job_of(arrive(core, 0, deadline=100, name="a"))
    arrive(core, 1, deadline=90, name="a")
    arrive(core, 0, deadline=50, name="b")
    assert started(core.handle(1, JobDone(running, 1))) == [("a", 1)]


def test_equal_deadlines_keep_the_order_of_arrival() -> None:
    core = Scheduler([stream(n) for n in "zab"], {"cpu": 1})
    running = job_of(arrive(core, 0, deadline=9, name="z"))
    arrive(core, 0, deadline=50, name="b")
    arrive(core, 0, deadline=50, name="a")
    assert started(core.handle(1, JobDone(running, 1))) == [("b", 0)]


@pytest.mark.parametrize(
    ("overflow", "dropped"),
    [(Overflow.DROP_OLDEST, 1), (Overflow.DROP_NEWEST, 3), (Overflow.BLOCK, 3)],
)
def test_a_full_queue_drops_by_its_policy(overflow: Overflow, dropped: int) -> None:
    core = Scheduler([stream(capacity=2, overflow=overflow)], {"cpu": 1})
    for sequence in range(3):  # one runs, two wait
        assert left(arrive(core, sequence, deadline=100)) == []
    assert left(arrive(core, 3, deadline=100)) == [(dropped, Reason.OVERFLOW)]


def test_a_running_frame_is_never_the_victim_of_overflow() -> None:
    spec = stream(steps=(DECODE, INFER), queued_steps=2, capacity=1)
    core = Scheduler([spec], {"cpu": 1})
    arrive(core, 0, deadline=100)  # being decoded: occupies the only place
    assert left(arrive(core, 1, deadline=100)) == [(1, Reason.OVERFLOW)]


def test_a_frame_that_arrives_after_its_deadline_is_stale() -> None:
    core = Scheduler([stream()], {"cpu": 1})
    assert left(arrive(core, 0, now=101, deadline=100)) == [(0, Reason.STALE)]


def test_a_stale_frame_of_a_stream_that_takes_late_results_still_runs() -> None:
    core = Scheduler([stream(on_miss=OnMiss.DELIVER_LATE)], {"cpu": 1})
    actions = arrive(core, 0, now=101, deadline=100)
    assert [type(a) for a in actions] == [Start]
    assert actions == [Start(job_of(actions), latest_start_ns=None)]


def learn(core: Scheduler, *costs: int) -> int:
    """Take frames through all steps until their costs are known; the next sequence."""
    for sequence in range(LEAST_SAMPLES):
        actions = arrive(core, sequence, deadline=10**9)
        for cost in costs:
            actions = core.handle(0, JobDone(job_of(actions), service_ns=cost))
    return LEAST_SAMPLES


def test_a_frame_that_cannot_finish_in_time_is_given_up_before_the_work_is_spent() -> (
    None
):
    core = Scheduler([stream()], {"cpu": 1})
    first = learn(core, 30)
    running = job_of(arrive(core, first, now=60, deadline=160))
    arrive(core, first + 1, now=60, deadline=160)
    actions = core.handle(135, JobDone(running, service_ns=30))
    assert Leave("front", first + 1, Fate.DROPPED, Reason.DOOMED, short_ns=5) in actions
    assert started(actions) == []


def test_later_steps_count_when_a_frame_is_judged_doomed() -> None:
    core = Scheduler([stream(steps=(INFER, TRACK))], {"cpu": 1})
    n = learn(core, 30, 20)
    start = arrive(core, n, now=100, deadline=200)[0]
    assert isinstance(start, Start)
    assert start.latest_start_ns == 200 - 30 - 20
    assert left(arrive(core, n + 1, now=100, deadline=149)) == []  # waits for the slot
    actions = core.handle(101, JobFailed(start.job, Fate.FAILED, Reason.STAGE_ERROR))
    assert left(actions) == [(n, Reason.STAGE_ERROR), (n + 1, Reason.DOOMED)]


def test_one_in_a_row_of_doomed_frames_is_run_so_that_the_estimate_can_recover() -> (
    None
):
    core = Scheduler([stream()], {"cpu": 1})
    first = learn(core, 1000)
    runs = [
        bool(started(arrive(core, n, now=n * 100, deadline=n * 100 + 50)))
        for n in range(first, first + PROBE_EVERY)
    ]
    assert runs == [False] * (PROBE_EVERY - 1) + [True]


def test_a_stream_recovers_from_an_estimate_that_was_spoilt_at_a_later_step() -> None:
    steps = (DECODE, INFER, TRACK)
    core = Scheduler([stream(steps=steps, queued_steps=2)], {"cpu": 1})
    now, completed = 1_000, 0
    costs = dict.fromkeys(range(LEAST_SAMPLES), (1, 150, 1))  # then as fast as it can
    for sequence in range(400):
        now += 200
        actions = arrive(core, sequence, now=now, deadline=now + 100)
        for cost in costs.get(sequence, (1, 5, 1)):
            if not started(actions):
                break
            actions = core.handle(now, JobDone(job_of(actions), service_ns=cost))
        completed += (sequence, None) in left(actions)
    assert completed > 300


def test_jobs_of_frames_that_left_do_not_pile_up_behind_a_busier_band() -> None:
    specs = [
        stream("front", criticality=Criticality.CRITICAL),
        stream("log", criticality=Criticality.BACKGROUND),
    ]
    core = Scheduler(specs, {"cpu": 1})
    running = job_of(arrive(core, 0, deadline=10**9))
    for n in range(1, 2000):
        arrive(core, n, deadline=10**9)
        arrive(core, n, deadline=10**9, name="log")
        running = job_of(core.handle(n, JobDone(running, 1)))
    assert core.jobs_waiting() < 100


def test_a_stateful_step_sees_its_stream_in_order() -> None:
    core = Scheduler([stream(steps=(INFER, TRACK))], {"cpu": 2})
    first = job_of(arrive(core, 0, deadline=100))
    second = job_of(arrive(core, 1, deadline=110))
    assert started(core.handle(5, JobDone(second, 5))) == []  # frame 0 is not through
    track = core.handle(9, JobDone(first, 9))
    assert started(track) == [("front", 0)]
    assert started(core.handle(10, JobDone(job_of(track), 1))) == [("front", 1)]


def test_a_failed_frame_lets_its_successors_pass() -> None:
    core = Scheduler([stream(steps=(INFER, TRACK))], {"cpu": 2})
    first = job_of(arrive(core, 0, deadline=100))
    second = job_of(arrive(core, 1, deadline=110))
    core.handle(5, JobDone(second, 5))
    failed = core.handle(9, JobFailed(first, Fate.FAILED, Reason.STAGE_ERROR))
    assert started(failed) == [("front", 1)]


def test_a_doomed_frame_lets_a_successor_pass_on_another_resource() -> None:
    steps = (Step("infer", "gpu", stateful=False), Step("track", "cpu", stateful=True))
    core = Scheduler([stream(steps=steps)], {"cpu": 1, "gpu": 1})
    n = learn(core, 400, 1)
    first = job_of(arrive(core, n, now=500, deadline=1000))
    arrive(core, n + 1, now=500, deadline=1000)
    after = core.handle(900, JobDone(first, 400))
    assert (n + 1, Reason.DOOMED) in left(after)
    assert started(after) == [("front", n)]


def test_frames_in_flight_are_bounded_whatever_the_queue_holds() -> None:
    spec = stream(steps=(INFER, TRACK), capacity=9, max_in_flight=3)
    core = Scheduler([spec], {"cpu": 1})
    for sequence in range(3):
        arrive(core, sequence, deadline=100)
    assert left(arrive(core, 3, deadline=100)) == [(1, Reason.OVERFLOW)]
    assert core.in_flight("front") == 3


def test_credits_come_back_when_a_frame_leaves_the_queue() -> None:
    spec = stream(capacity=2, overflow=Overflow.BLOCK, waits=True)
    core = Scheduler([spec], {"cpu": 1})
    assert core.initial_grants() == [Grant("front", 2)]
    first = arrive(core, 0, deadline=100)
    assert Grant("front", 1) in first  # it runs: its place is free again
    assert not any(isinstance(a, Grant) for a in arrive(core, 1, deadline=100))
    assert Grant("front", 1) in core.handle(5, JobDone(job_of(first), 5))


def test_stopping_drops_what_waits_and_delivers_what_was_on_its_last_step() -> None:
    core = Scheduler([stream()], {"cpu": 1})
    running = job_of(arrive(core, 0, deadline=100))
    arrive(core, 1, deadline=100)
    assert left(core.handle(1, Stop())) == [(1, Reason.SHUTDOWN)]
    assert left(core.handle(2, JobDone(running, 2))) == [(0, None)]
    assert left(arrive(core, 2, deadline=100)) == [(2, Reason.SHUTDOWN)]


def test_stopping_cuts_a_journey_short_between_two_steps() -> None:
    core = Scheduler([stream(steps=(INFER, TRACK))], {"cpu": 1})
    running = job_of(arrive(core, 0, deadline=100))
    core.handle(1, Stop())
    assert left(core.handle(2, JobDone(running, 2))) == [(0, Reason.SHUTDOWN)]


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
        Scheduler([stream()], {"gpu": 1})


@dataclass
class World:
    """Drives a scheduler in virtual time and checks the rules while it does."""

    specs: list[StreamSpec]
    slots: dict[str, int]
    now: int = 0
    busy: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    running: list[tuple[int, int, Job]] = field(
        default_factory=list[tuple[int, int, Job]]
    )
    fates: dict[tuple[str, int], Reason | None] = field(
        default_factory=dict[tuple[str, int], Reason | None]
    )
    passed: dict[tuple[str, int], list[int]] = field(
        default_factory=lambda: defaultdict(list)
    )
    credits: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    log: list[list[Action]] = field(default_factory=list[list[Action]])

    def __post_init__(self) -> None:
        self.core = Scheduler(self.specs, self.slots)
        self.by_name = {spec.id: spec for spec in self.specs}
        for grant in self.core.initial_grants():
            self.credits[grant.stream] += grant.credits

    def act(self, event: FrameArrived | JobDone | JobFailed | Stop, cost: int) -> None:
        actions = self.core.handle(self.now, event)
        self.log.append(actions)
        for action in actions:
            if isinstance(action, Start):
                job = action.job
                step = self.by_name[job.stream].steps[job.step]
                self.busy[job.resource] += 1
                assert self.busy[job.resource] <= self.slots[job.resource]
                if step.stateful:
                    order = self.passed[job.stream, job.step]
                    assert all(job.sequence > before for before in order)
                    order.append(job.sequence)
                heapq.heappush(self.running, (self.now + cost, len(self.log), job))
            elif isinstance(action, Leave):
                key = (action.stream, action.sequence)
                assert key not in self.fates
                self.fates[key] = action.reason
            else:
                self.credits[action.stream] += action.credits

    def finish_until(self, now: int, cost: int, failures: set[int]) -> None:
        while self.running and self.running[0][0] <= now:
            self.now, order, job = heapq.heappop(self.running)
            self.busy[job.resource] -= 1
            if order in failures:
                event = JobFailed(job, Fate.FAILED, Reason.STAGE_ERROR)
                self.act(event, cost)
            else:
                self.act(JobDone(job, cost), cost)
        self.now = max(self.now, now)


specs = st.builds(
    stream,
    st.just("?"),
    steps=st.sampled_from(
        [(INFER,), (DECODE, INFER, TRACK), (INFER, TRACK), (DECODE, TRACK)]
    ),
    criticality=st.sampled_from(Criticality),
    on_miss=st.sampled_from(OnMiss),
    capacity=st.integers(1, 3),
    overflow=st.sampled_from(Overflow),
    max_in_flight=st.integers(1, 5),
    waits=st.booleans(),
)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    drawn = draw(st.lists(specs, min_size=1, max_size=3))
    named = [
        StreamSpec(
            f"s{index}",
            spec.steps,
            spec.criticality,
            spec.on_miss,
            spec.queue_capacity,
            spec.overflow,
            draw(st.integers(1, len(spec.steps))),
            spec.max_in_flight,
            spec.credits,
        )
        for index, spec in enumerate(drawn)
    ]
    return World(named, {"cpu": draw(st.integers(1, 3))})


ARRIVALS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(1, 60)), max_size=40
)


def drive(
    world: World, arrivals: list[tuple[int, int, int]], cost: int, failures: set[int]
) -> dict[str, int]:
    """Feed the arrivals (stream, time to the next, relative deadline) to the end."""
    sent: dict[str, int] = defaultdict(int)
    for which, gap, allowed in arrivals:
        spec = world.specs[which % len(world.specs)]
        if spec.credits and world.credits[spec.id] == 0:
            world.finish_until(world.now + gap, cost, failures)
            continue
        if spec.credits:
            world.credits[spec.id] -= 1
        event = FrameArrived(spec.id, sent[spec.id], world.now + allowed)
        sent[spec.id] += 1
        world.act(event, cost)
        waiting = sum(
            1
            for name in (spec.id,)
            for sequence in range(sent[name])
            if (name, sequence) not in world.fates
        )
        assert waiting == world.core.in_flight(spec.id) <= spec.max_in_flight
        world.finish_until(world.now + gap, cost, failures)
    world.finish_until(10**9, cost, failures)
    return sent


@given(worlds(), ARRIVALS, st.integers(0, 30), st.sets(st.integers(0, 60)))
def test_every_frame_leaves_once_and_no_rule_is_broken(
    world: World,
    arrivals: list[tuple[int, int, int]],
    cost: int,
    failures: set[int],
) -> None:
    sent = drive(world, arrivals, cost, failures)
    frames = {(name, n) for name, count in sent.items() for n in range(count)}
    assert set(world.fates) == frames
    assert all(world.core.in_flight(spec.id) == 0 for spec in world.specs)


@given(worlds(), ARRIVALS, st.integers(0, 30))
def test_a_source_that_waits_for_credits_never_overflows(
    world: World, arrivals: list[tuple[int, int, int]], cost: int
) -> None:
    drive(world, arrivals, cost, set())
    overflowed = {name for (name, _), r in world.fates.items() if r is Reason.OVERFLOW}
    assert overflowed.isdisjoint(spec.id for spec in world.specs if spec.credits)


@given(worlds(), ARRIVALS, st.integers(0, 30))
def test_the_same_events_give_the_same_decisions(
    world: World, arrivals: list[tuple[int, int, int]], cost: int
) -> None:
    twin = World(world.specs, world.slots)
    drive(world, arrivals, cost, set())
    drive(twin, arrivals, cost, set())
    assert world.log == twin.log
