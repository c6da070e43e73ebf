"""What holds of whole runs: theorems, bounds, and what must not make a difference.

That a decision is the same at another time, in another unit and under other names is
tested on the runs of :mod:`tests.scheduler.test_invariants_machine`, in other processes
and Pythons by :mod:`tests.scheduler.test_determinism`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from edgepipe.commands.scenario import load_scenario
from edgepipe.scheduler import analysis, budget
from edgepipe.scheduler.budget import ServiceTimes
from edgepipe.scheduler.core import Scheduler
from edgepipe.scheduler.events import (
    Action,
    Cause,
    FrameArrived,
    JobDone,
    Leave,
    RungChanged,
    Start,
)
from edgepipe.scheduler.job import (
    Contract,
    Criticality,
    Resource,
    Rung,
    Step,
    StreamSpec,
)
from edgepipe.scheduler.ladder import HOLD_NS
from edgepipe.scheduler.load import Task
from edgepipe.scheduler.outcome import Outcome
from edgepipe.scheduler.policy import BY_NAME
from edgepipe.scheduler.scenario import Camera, Scenario
from edgepipe.scheduler.workload import mix
from tests.scheduler.reference_world import World
from tests.scheduler.small_scenarios import (
    MS,
    SECOND,
    camera,
    load,
    longest_miss_run,
    play,
)

GPU = Resource("gpu")
REPEATABLE = settings(derandomize=True, deadline=None, print_blob=True)
FEW = settings(REPEATABLE, max_examples=25)
BY_DEADLINE = ("edf", "edf-drop", "edf-profile", "slack-unbatched", "slack")
"""Policies that serve the earliest deadline first as long as all can be in time."""

Frame = tuple[str, int]
"""Stream and sequence."""


def in_time(
    specs: list[StreamSpec],
    arrivals: Sequence[tuple[int, str]],
    policy: str,
    cost_ns: Callable[[Frame], int],
) -> set[Frame]:
    """The frames in time, if they arrive then, fresh, and take so long on one slot.

    Every decision on the way is judged by the reference world.
    """
    world = World(specs, [GPU], BY_NAME[policy])
    books, to_come = world.books, sorted(arrivals, reverse=True)
    sent = dict.fromkeys((spec.id for spec in specs), 0)
    while to_come or books.batches:
        batch = books.batches[0] if books.batches else None
        end_ns = None
        if batch is not None:
            (job,) = batch.jobs
            end_ns = batch.start_ns + cost_ns((job.stream, job.sequence))
        if batch is not None and (not to_come or end_ns <= to_come[-1][0]):  # type: ignore[operator]
            world.finish(batch, end_ns)  # type: ignore[arg-type]
        else:
            at_ns, name = to_come.pop()
            world.arrive(name, sent[name], at_ns, at_ns)
            sent[name] += 1
    world.drain()
    return delivered(world)


def delivered(world: World) -> set[Frame]:
    """The frames of the log that took their last step by their deadline."""
    deadlines = {
        (event.stream, event.sequence): event.deadline_ns
        for _, event, _ in world.log
        if isinstance(event, FrameArrived)
    }
    return {
        (action.stream, action.sequence)
        for at_ns, _, actions in world.log
        for action in actions
        if isinstance(action, Leave)
        and action.fate is None
        and at_ns <= deadlines[action.stream, action.sequence]
    }


def detector(name: str, cost_ns: int, **more: object) -> StreamSpec:
    """A stream whose frames take one step on the gpu."""
    step = Step("infer", "gpu", stateful=False, cost_ns=cost_ns)
    return StreamSpec(name, (step,), **more)  # type: ignore[arg-type]


# --- theorems ---------------------------------------------------------------------


def passes(tasks: Sequence[Task]) -> bool:
    """The test of George, Rivierre and Spuri (1996), written down as it stands.

    Over any time of length t, what must be done within it and the longest job that may
    just have begun, which need not be done, have to fit.
    """
    load_ = sum(Fraction(task.cost_ns, task.period_ns) for task in tasks)
    if load_ > 1:
        return False
    horizon = sum(task.cost_ns for task in tasks)
    while True:
        longer = sum(-(-horizon // task.period_ns) * task.cost_ns for task in tasks)
        if longer == horizon:
            break
        horizon = longer
    lengths = {
        task.deadline_ns + n * task.period_ns
        for task in tasks
        for n in range(horizon // task.period_ns + 1)
    }
    for length in lengths:
        due = sum(
            max(0, (length - task.deadline_ns) // task.period_ns + 1) * task.cost_ns
            for task in tasks
        )
        blocking = max(
            (t.cost_ns - 1 for t in tasks if t.deadline_ns > length), default=0
        )
        if due + blocking > length:
            return False
    return True


TASKS = st.lists(
    st.tuples(st.integers(1, 12), st.integers(8, 60), st.integers(4, 80)),
    min_size=1,
    max_size=4,
).map(
    lambda rows: [
        Task(f"s{n}", cost * MS, period * MS, deadline * MS)
        for n, (cost, period, deadline) in enumerate(rows)
    ]
)


@REPEATABLE
@given(TASKS)
def test_the_shipped_test_says_what_the_formula_says(tasks: list[Task]) -> None:
    assume(sum(Fraction(task.cost_ns, task.period_ns) for task in tasks) < 1)
    assert analysis.feasible(tasks).passes == passes(tasks)


@st.composite
def sporadic(draw: st.DrawFn, tasks: list[Task]) -> list[tuple[int, str]]:
    """Arrivals at least a period apart, from any phase on."""
    arrivals: list[tuple[int, str]] = []
    for task in tasks:
        at_ns = draw(st.integers(0, 60)) * MS
        for extra in draw(st.lists(st.sampled_from([0, 0, 0, 1, 7]), max_size=12)):
            arrivals.append((at_ns, task.name))
            at_ns += task.period_ns + extra * MS
    return arrivals


@settings(REPEATABLE, max_examples=60)
@given(TASKS.filter(passes), st.sampled_from(BY_DEADLINE), st.booleans(), st.data())
def test_a_set_that_passes_the_test_never_misses(
    tasks: list[Task], policy: str, exact: bool, data: st.DataObject
) -> None:
    """Jeffay, Stanat and Martel (1991): among those that never idle, EDF is optimal.

    With a profile that is believed with ten per cent added, the set must pass with
    costs that are that much higher.
    """
    if not exact:
        dearer = [task._replace(cost_ns=task.cost_ns * 11 // 10) for task in tasks]
        assume(passes(dearer))
    arrivals = data.draw(sporadic(tasks))
    specs = [
        detector(
            task.name,
            task.cost_ns,
            deadline_ns=task.deadline_ns,
            period_ns=task.period_ns,
            queue_capacity=100,
            max_in_flight=100,
        )
        for task in tasks
    ]
    costs = {task.name: task.cost_ns for task in tasks}
    with pytest.MonkeyPatch.context() as patch:
        if exact:
            patch.setattr(budget, "MARGIN_PERMILLE", 1000)
        served = in_time(specs, arrivals, policy, lambda frame: costs[frame[0]])
    assert len(served) == len(arrivals)


# --- bounds -----------------------------------------------------------------------

JOBS = st.lists(
    st.tuples(
        st.integers(0, 30), st.integers(1, 40), st.integers(1, 20), st.integers(1, 4)
    ),
    min_size=1,
    max_size=6,
)
"""Arrival, time allowed, cost and worth of one frame of a stream each."""


def most(jobs: Mapping[int, tuple[int, int, int, int]], now: int = 0) -> int:
    """The greatest worth that can be served in time by who knows everything."""
    best = 0
    for index, (arrival, allowed, cost, worth) in jobs.items():
        end = max(now, arrival) + cost
        if end <= arrival + allowed:
            rest = {other: job for other, job in jobs.items() if other != index}
            best = max(best, worth + most(rest, end))
    return best


@settings(REPEATABLE, max_examples=20)
@given(JOBS, st.sampled_from([500, 1000, 2000]))
@pytest.mark.parametrize("policy", BY_NAME)
def test_nobody_does_better_than_who_knows_everything(
    policy: str, jobs: list[tuple[int, int, int, int]], believed_permille: int
) -> None:
    specs = [
        detector(
            str(n),
            cost * MS * believed_permille // 1000,
            deadline_ns=allowed * MS,
            weight=worth,
        )
        for n, (_, allowed, cost, worth) in enumerate(jobs)
    ]
    arrivals = [(arrival * MS, str(n)) for n, (arrival, _, _, _) in enumerate(jobs)]
    served = in_time(specs, arrivals, policy, lambda frame: jobs[int(frame[0])][2] * MS)
    assert sum(jobs[int(name)][3] for name, _ in served) <= most(dict(enumerate(jobs)))


@REPEATABLE
@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 20)), max_size=6),
    st.integers(1, 20),
)
def test_of_frames_that_wait_together_as_many_are_in_time_as_can_be(
    jobs: list[tuple[int, int]], busy: int
) -> None:
    """Moore (1968): for equal worth and exact costs, the slot being busy at first."""
    specs = [
        detector(str(n), cost * MS, deadline_ns=allowed * MS)
        for n, (allowed, cost) in enumerate(jobs)
    ]
    specs.insert(0, detector("before", busy * MS, deadline_ns=100 * MS))
    costs = {spec.id: spec.steps[0].cost_ns for spec in specs}
    arrivals = [(0, "before"), *((1, spec.id) for spec in specs[1:])]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(budget, "MARGIN_PERMILLE", 1000)
        served = in_time(specs, arrivals, "slack-unbatched", lambda f: costs[f[0]])
    late_by = busy * MS - 1
    possible = most(
        {
            n: (0, allowed * MS - late_by, cost * MS, 1)
            for n, (allowed, cost) in enumerate(jobs)
        }
    )
    assert len(served) == 1 + possible


# --- nobody starves -----------------------------------------------------------------


@FEW
@given(
    st.integers(2, 5),
    st.integers(5, 40),
    st.sampled_from([45, 60, 80]),
    st.lists(st.integers(0, 32), min_size=5, max_size=5),
)
def test_of_equal_streams_each_is_served_again_and_again_in_any_overload(
    count: int, cost: int, deadline: int, phases: list[int]
) -> None:
    """Every stream gets its turn within a few rounds of all of them."""
    cameras = [
        camera(f"c{n}", cost * MS, deadline_ns=deadline * MS, phase_ns=phases[n] * MS)
        for n in range(count)
    ]
    outcome = play(load(3 * SECOND, cameras), "slack")
    round_ = -(-count * cost // 33)
    for one in cameras:
        assert longest_miss_run(outcome, one.spec.id) <= 20 + 3 * round_


@st.composite
def guarded(draw: st.DrawFn) -> tuple[list[Camera], Camera]:
    """Critical cameras with a contract that have time to spare, and a long job."""
    count = draw(st.integers(1, 3))
    cameras = [
        camera(
            f"c{n}",
            draw(st.integers(2, 5)) * MS,
            deadline_ns=40 * MS,
            phase_ns=draw(st.integers(0, 32)) * MS,
            criticality=Criticality.CRITICAL,
            contract=draw(st.sampled_from([Contract(9, 10), Contract(4, 5)])),
            weight=4,
        )
        for n in range(count)
    ]
    job = camera(
        "map",
        draw(st.integers(20, 50)) * MS,
        period_ns=200 * MS,
        deadline_ns=400 * MS,
        phase_ns=draw(st.integers(0, 199)) * MS,
        criticality=Criticality.BACKGROUND,
        min_service_ns=SECOND,
    )
    return cameras, job


@FEW
@given(guarded())
def test_background_work_gets_its_turn_and_breaks_no_contract(
    streams: tuple[list[Camera], Camera],
) -> None:
    cameras, job = streams
    outcome = play(load(4 * SECOND, [*cameras, job]), "slack")
    for one in cameras:
        contract = one.spec.contract
        assert contract is not None
        assert violations(outcome, one.spec.id, contract) == 0
    starts = [
        span.start_ns
        for record in outcome.records
        if record.stream == "map"
        for span in record.spans
    ]
    gaps = zip([0, *sorted(starts)], [*sorted(starts), 4 * SECOND], strict=True)
    assert max(after - before for before, after in gaps) < 2 * SECOND


def violations(outcome: Outcome, stream: str, contract: Contract) -> int:
    """Windows of k frames in a row with fewer than m in time."""
    records = sorted(
        (r for r in outcome.records if r.stream == stream), key=lambda r: r.sequence
    )
    hits = [record.fate == "completed" for record in records]
    windows = (hits[n : n + contract.k] for n in range(len(hits) - contract.k + 1))
    return sum(sum(window) < contract.m for window in windows)


# --- the ladder -------------------------------------------------------------------

LADDER = (Rung("full"), Rung("small", 850, (450,)), Rung("tiny", 600, (200,)))


def on_ladders(count: int, cost: int, **more: object) -> list[Camera]:
    return [
        camera(f"c{n}", cost * MS, phase_ns=n * 5 * MS, ladder=LADDER, **more)  # type: ignore[arg-type]
        for n in range(count)
    ]


def rungs(outcome: Outcome) -> Iterator[tuple[int, RungChanged, dict[str, int]]]:
    """Each move and where all streams that ever moved stand after it."""
    now: dict[str, int] = {}
    for at_ns, move in outcome.moves:
        now[move.stream] = move.rung
        yield at_ns, move, dict(now)


@settings(REPEATABLE, max_examples=15)
@given(st.integers(1, 5), st.integers(2, 20))
def test_under_constant_load_the_ladder_comes_to_rest(count: int, cost: int) -> None:
    outcome = play(load(12 * SECOND, on_ladders(count, cost)), "slack+ladder")
    assert all(0 <= rung < 3 for _, _, now in rungs(outcome) for rung in now.values())
    late_moves = [at_ns for at_ns, _ in outcome.moves if at_ns > 4 * SECOND]
    assert len(late_moves) <= 4, "a few tries, each held for longer than the last"
    moments = [(at_ns, move.cause) for at_ns, move in outcome.moves]
    for (before_ns, _), (at_ns, cause) in pairwise(moments):
        if cause is Cause.PROBE:
            assert at_ns - before_ns >= HOLD_NS, "up only after a while of rest"


@settings(REPEATABLE, max_examples=10)
@given(st.integers(1, 3), st.integers(2, 6), st.integers(1, 3))
def test_when_the_load_has_gone_quality_comes_back(
    stay: int, cost: int, guests: int
) -> None:
    assume(stay * cost < 28)
    visitors = [
        replace(
            camera(f"guest{n}", 12 * MS, phase_ns=n * MS, ladder=LADDER),
            ends_ns=2 * SECOND,
        )
        for n in range(guests)
    ]
    cameras = [*on_ladders(stay, cost), *visitors]
    outcome = play(load(12 * SECOND, cameras), "slack+ladder")
    where = dict.fromkeys((f"c{n}" for n in range(stay)), 0)
    for _, _, now in rungs(outcome):
        where |= {name: rung for name, rung in now.items() if name in where}
    assert set(where.values()) == {0}
    full = [r for r in outcome.records if r.capture_ns > 11 * SECOND]
    assert {record.variant for record in full} == {"full"}


@pytest.mark.parametrize("cost", [12, 20])
def test_critical_streams_go_down_last(cost: int) -> None:
    cameras = on_ladders(4, cost)
    for index, criticality in ((0, Criticality.CRITICAL), (1, Criticality.BACKGROUND)):
        spec = replace(cameras[index].spec, criticality=criticality)
        cameras[index] = replace(cameras[index], spec=spec)
    outcome = play(load(2 * SECOND, cameras), "slack+ladder")
    for _, move, now in rungs(outcome):
        if move.stream == "c0" and move.cause is not Cause.PROBE:
            others = [now.get(f"c{n}", 0) for n in (1, 2, 3)]
            assert min(others) == len(LADDER) - 1


# --- estimates --------------------------------------------------------------------


@pytest.mark.parametrize("change", [1, 2, 3])
@pytest.mark.parametrize("key", range(5))
def test_estimates_are_exceeded_about_as_often_as_they_say(
    key: int, change: int
) -> None:
    """Of the times from before, and of those after all have grown at once."""
    times = ServiceTimes()
    above = {"shed": 0, "plan": 0, "guard": 0}
    for n in range(2400):
        drawn = 800 + mix(key * 10_000 + n) % 400
        value = drawn * change if n >= 1200 else drawn
        is_settled = n > 150 and not 1200 <= n < 1230
        above["shed"] += is_settled and value > times.shed_ns
        above["plan"] += is_settled and value > times.plan_ns
        above["guard"] += is_settled and value > times.guard_ns
        times.observe(value)
        assert n < 20 or times.guard_ns >= times.plan_ns >= times.shed_ns > 0
    settled = 2400 - 151 - 30
    assert 700 <= above["shed"] * 1000 // settled <= 800
    assert 210 <= above["plan"] * 1000 // settled <= 300
    assert 35 <= above["guard"] * 1000 // settled <= 75


# --- against the baselines --------------------------------------------------------

SHIPPED = (
    "quad-nominal",
    "quad-background",
    "quad-background-4",
    "quad-background-8",
    "overload",
    "bimodal",
    "mixed-criticality",
    "sync-six",
)
"""Those in which something happens within the first seconds."""


def worth(outcome: Outcome, scenario: Scenario) -> int:
    """Weights of the frames in time."""
    weights = {one.spec.id: one.spec.weight for one in scenario.cameras}
    return sum(
        weights[record.stream]
        for record in outcome.records
        if record.fate == "completed"
    )


@pytest.mark.parametrize("name", SHIPPED)
def test_no_baseline_serves_more_of_what_matters(name: str) -> None:
    """A regression test of the reference loads and no theorem."""
    scenario = replace(load_scenario(name), duration_ns=3 * SECOND)
    ours = worth(play(scenario, "slack"), scenario)
    for baseline in ("leaky-newest-1", "edf-drop", "edf-profile"):
        assert ours >= 0.99 * worth(play(scenario, baseline), scenario)


# --- what must not matter ---------------------------------------------------------


@REPEATABLE
@given(
    st.permutations(range(4)),
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 25), st.integers(0, 60)),
        max_size=30,
    ),
    st.sampled_from(sorted({*BY_NAME} - {"fixed-priority", "rate-monotonic"})),
)
def test_the_order_in_which_streams_are_declared_does_not_matter(
    order: list[int], frames: list[tuple[int, int, int]], policy: str
) -> None:
    """Where no two deadlines are the same; fixed priorities are that order."""
    specs = [
        detector(
            f"s{n}",
            (4 + 3 * n) * MS,
            criticality=list(Criticality)[n % 3],
            period_ns=(30 + n) * MS,
            weight=n + 1,
        )
        for n in range(4)
    ]
    plain = Scheduler(specs, [GPU], BY_NAME[policy])
    other = Scheduler([specs[n] for n in order], [GPU], BY_NAME[policy])
    now, running = 0, dict[int, JobDone]()
    for sequence, (stream, gap, allowed) in enumerate(frames):
        now += gap * MS
        due = sorted(end for end in running if end <= now)
        events: list[tuple[int, FrameArrived | JobDone]] = [
            (end, running.pop(end)) for end in due
        ]
        deadline = now + allowed * MS + sequence
        events.append((now, FrameArrived(f"s{stream}", sequence, now, deadline)))
        for at, event in events:
            actions = plain.handle(at, event)
            assert plainly(actions) == plainly(other.handle(at, event))
            for action in actions:
                if isinstance(action, Start):
                    jobs = action.jobs
                    cost = sum(specs[int(j.stream[1])].steps[0].cost_ns for j in jobs)
                    running[at + cost] = JobDone(jobs, cost)


def plainly(actions: list[Action]) -> list[str]:
    """What was decided, in any order."""
    return sorted(map(repr, actions))
