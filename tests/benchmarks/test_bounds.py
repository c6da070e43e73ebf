"""No schedule beats the bounds, and they see what they are meant to see."""

from collections.abc import Callable, Sequence
from random import Random

import pytest
from bounds.exact import available, exact_bound
from bounds.flow import flow_bound, largest_batches
from bounds.problem import Clock, Problem, Worth, problem
from bounds.program import Program, whole
from bounds.starts import scarce_resources, starts_bound
from bounds.trying import anyhow, optimum
from hypothesis import given, settings
from hypothesis import strategies as st

from edgepipe.scheduler.job import Criticality, Resource, Rung, Step, StreamSpec
from edgepipe.scheduler.scenario import Camera, ClockStep, Scenario, ServiceModel
from edgepipe.scheduler.workload import TraceFrame

US = 1000
"""Everything is whole microseconds: bounds may shorten a step by some nanoseconds."""


def frame(
    arrival_us: int,
    allowed_us: int,
    costs_us: Sequence[int],
    *,
    sequence: int = 0,
    stream: str = "cam",
    weight: int = 1,
) -> TraceFrame:
    """A frame with one rung."""
    return TraceFrame(
        stream,
        sequence,
        arrival_us * US,
        arrival_us * US,
        (arrival_us + allowed_us) * US,
        weight,
        (tuple(cost * US for cost in costs_us),),
    )


def step(resource: str, batch_max: int = 1, curve: tuple[int, ...] = ()) -> Step:
    """A step named after its resource."""
    key = f"{resource}-key" if batch_max > 1 else ""
    return Step(resource, resource, False, 0, key, batch_max, curve)


def scenario(
    steps: Sequence[Step],
    slots: dict[str, int] | None = None,
    clock_steps: tuple[ClockStep, ...] = (),
) -> Scenario:
    """One stream called cam whose frames take these steps."""
    slots = slots or {}
    names = dict.fromkeys(step.resource for step in steps)
    return Scenario(
        "tiny",
        10**9,
        tuple(Resource(name, slots.get(name, 1)) for name in names),
        (
            Camera(
                StreamSpec("cam", tuple(steps), deadline_ns=1),
                tuple(ServiceModel(1) for _ in steps),
                30_000,
            ),
        ),
        clock_steps,
    )


CURVE = (1000, 1600, 2200, 2800)
"""c(b) = c(1) (0.4 + 0.6 b), in thousandths."""
ONE = scenario([step("gpu")])
PIPELINE = scenario([step("cpu"), step("gpu")], {"cpu": 2})
BATCHED = scenario([step("gpu", 3, CURVE)])
BATCHED_PIPELINE = scenario([step("cpu"), step("gpu", 3, CURVE)])

needs_ortools = pytest.mark.skipif(not available(), reason="OR-Tools is not installed")


def starts(posed: Problem, bucket_us: int = 4) -> float:
    """The bound by starts with all resources scarce."""
    return starts_bound(posed, posed.slots, bucket_us * US)


BOUNDS: dict[str, Callable[[Problem], float]] = {
    "flow": flow_bound,
    "flow in pieces": lambda posed: flow_bound(posed, 10 * US),
    "starts": starts,
    "starts, large buckets": lambda posed: starts(posed, 17),
    "starts, small buckets": lambda posed: starts(posed, 1),
}
each_bound = pytest.mark.parametrize("name", BOUNDS)


def traces(steps: int, most: int) -> st.SearchStrategy[list[TraceFrame]]:
    """Frames that come in each other's way."""
    times = st.integers(0, 60)
    lengths = st.integers(5, 60)
    costs = st.lists(st.integers(1, 25), min_size=steps, max_size=steps)
    weights = st.integers(1, 3)
    drawn = st.lists(st.tuples(times, lengths, costs, weights), max_size=most)
    return drawn.map(
        lambda rows: [
            frame(arrival, allowed, cost, sequence=number, weight=weight)
            for number, (arrival, allowed, cost, weight) in enumerate(rows)
        ]
    )


def posed(tiny: Scenario, frames: Sequence[TraceFrame], *, batched: bool) -> Problem:
    """Frames of a tiny scenario, each worth its weight."""
    found = problem(tiny, frames, Worth.UTILITY, batched=batched)
    assert found.total == 1000 * sum(f.weight for f in frames)
    return found


@each_bound
@given(data=st.data())
@settings(max_examples=25, deadline=None)
@pytest.mark.parametrize(
    ("tiny", "most"),
    [(ONE, 5), (PIPELINE, 3), (BATCHED, 4), (BATCHED_PIPELINE, 3)],
    ids=["one step", "two steps", "batches", "two steps, batches"],
)
def test_no_schedule_of_a_tiny_trace_beats_a_bound(
    data: st.DataObject, tiny: Scenario, most: int, name: str
) -> None:
    steps = tiny.cameras[0].spec.steps
    frames = data.draw(traces(len(steps), most))
    batched = any(step.batch_max > 1 for step in steps)
    bound = BOUNDS[name](posed(tiny, frames, batched=batched))
    assert whole(bound) >= 1000 * optimum(tiny, frames)


@each_bound
@given(data=st.data(), random=st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
@pytest.mark.parametrize("tiny", [PIPELINE, BATCHED_PIPELINE], ids=["alone", "batches"])
def test_no_schedule_of_a_longer_trace_beats_a_bound(
    data: st.DataObject, random: Random, tiny: Scenario, name: str
) -> None:
    frames = data.draw(traces(2, 12))
    bound = BOUNDS[name](posed(tiny, frames, batched=tiny is BATCHED_PIPELINE))
    assert whole(bound) >= 1000 * anyhow(tiny, frames, random.randrange)


@needs_ortools
@given(frames=traces(2, 4))
@settings(max_examples=30, deadline=None)
def test_the_exact_bound_is_the_best_that_can_be_found_by_trying(
    frames: list[TraceFrame],
) -> None:
    found = exact_bound(posed(PIPELINE, frames, batched=False), unit_ns=1)
    assert found == (1000 * optimum(PIPELINE, frames),) * 2


@needs_ortools
@given(frames=traces(1, 4))
@settings(max_examples=30, deadline=None)
def test_the_exact_bound_with_batches_is_what_trying_finds(
    frames: list[TraceFrame],
) -> None:
    alike = [f._replace(cost_ns=((9 * US,),)) for f in frames]
    found = exact_bound(posed(BATCHED, alike, batched=True), unit_ns=1)
    assert found == (1000 * optimum(BATCHED, alike),) * 2


@needs_ortools
@given(frames=traces(2, 8), batched=st.booleans())
@settings(max_examples=20, deadline=None)
def test_a_bound_of_the_relaxed_problem_is_not_below_the_exact_optimum(
    frames: list[TraceFrame], batched: bool
) -> None:
    tiny = posed(BATCHED_PIPELINE, frames, batched=batched)
    optimal = exact_bound(tiny, unit_ns=1).value
    assert whole(flow_bound(tiny)) >= optimal
    assert whole(starts(tiny)) >= optimal


def test_as_many_frames_fit_as_there_is_time_for() -> None:
    frames = [frame(0, 50, [10], sequence=i) for i in range(9)]
    tiny = problem(ONE, frames)
    assert whole(flow_bound(tiny)) == whole(starts(tiny)) == 5


def test_only_starts_see_that_a_job_is_not_interrupted() -> None:
    long, short = frame(0, 100, [60]), frame(45, 10, [10], sequence=1)
    tiny = problem(ONE, [long, short])
    assert optimum(ONE, [long, short]) == 1
    assert whole(flow_bound(tiny)) == 2
    assert whole(starts(tiny)) == 1


def test_batches_fit_more_frames_into_the_same_time() -> None:
    frames = [frame(0, 22, [10], sequence=i) for i in range(4)]
    assert whole(flow_bound(problem(BATCHED, frames))) == 2
    together = problem(BATCHED, frames, batched=True)
    assert whole(flow_bound(together)) == whole(starts(together)) == 3


def test_frames_that_never_meet_cannot_share_a_batch() -> None:
    frames = [frame(20 * i, 19, [12], sequence=i) for i in range(4)]
    tiny = problem(BATCHED, frames, batched=True)
    parts = [f.choices[0].parts[0] for f in tiny.frames]
    batching = tiny.batching["gpu-key"]
    assert set(largest_batches(parts, batching, tiny, "gpu").values()) == {1}


def test_frames_that_meet_too_late_for_a_batch_are_charged_in_full() -> None:
    early, late = frame(0, 40, [20]), frame(19, 40, [20], sequence=1)
    tiny = problem(BATCHED, [early, late], batched=True)
    parts = [f.choices[0].parts[0] for f in tiny.frames]
    batching = tiny.batching["gpu-key"]
    # From 19 on there are 21 until the first deadline; a batch of two takes 32.
    assert set(largest_batches(parts, batching, tiny, "gpu").values()) == {1}


def test_a_cheap_helper_may_shorten_a_batch() -> None:
    # The mean of a batch counts: 100 alone, 1.6 times the mean of 100 and 1 together.
    frames = [frame(0, 90, [100]), frame(0, 1, [1], sequence=1)]
    batching = problem(BATCHED, frames, batched=True).batching["gpu-key"]
    assert batching.least(1, 100 * US) < 81 * US


def test_half_the_clock_is_half_the_work() -> None:
    frames = [frame(0, 50, [10], sequence=i) for i in range(9)]
    halved = scenario([step("gpu")], clock_steps=(ClockStep(0, "gpu", 500),))
    # What begins at the very moment of the change may still have the old clock.
    later = [f._replace(arrival_ns=1, deadline_ns=f.deadline_ns + 1) for f in frames]
    assert whole(flow_bound(problem(halved, later))) == 2


def test_a_clock_is_as_fast_as_at_its_best_moment() -> None:
    steps = (ClockStep(100, "gpu", 500), ClockStep(200, "gpu", 750))
    clock = Clock(steps)
    assert [clock.best(*r) for r in ((0, 50), (50, 150), (150, 180), (150, 200))] == [
        1000,
        1000,
        500,
        750,
    ]
    assert clock.best(100, 150) == 1000  # the end of the old clock still counts
    assert clock.best(101, 150) == 500


def test_a_cheaper_rung_serves_more_frames_and_is_worth_less() -> None:
    spec = StreamSpec(
        "cam",
        (step("gpu"),),
        deadline_ns=1,
        ladder=(Rung("full"), Rung("small", value_permille=800)),
    )
    camera = Camera(spec, (ServiceModel(1),), 30_000)
    tiny = Scenario("tiny", 10**9, ONE.resources, (camera,))
    frames = [
        frame(0, 20, [10], sequence=i)._replace(cost_ns=((10 * US,), (5 * US,)))
        for i in range(4)
    ]
    assert whole(flow_bound(problem(tiny, frames))) == 2
    assert whole(flow_bound(problem(tiny, frames, ladder=True))) == 4
    best = flow_bound(problem(tiny, frames, Worth.UTILITY, ladder=True))
    assert whole(best) == 4 * 800


def test_frames_of_another_criticality_need_not_be_served() -> None:
    tiny = problem(ONE, [frame(0, 20, [10])], only=Criticality.CRITICAL)
    assert (tiny.captured, flow_bound(tiny)) == (0, 0.0)


def test_a_frame_that_cannot_be_in_time_alone_is_not_in_the_problem() -> None:
    tiny = problem(PIPELINE, [frame(0, 29, [20, 10]), frame(0, 30, [20, 10])])
    assert (tiny.captured, len(tiny.frames)) == (2, 1)


def test_a_resource_is_scarce_when_much_of_a_second_is_asked_for() -> None:
    busy = [frame(1000 * i, 1000, [700, 300], sequence=i) for i in range(1000)]
    assert scarce_resources(problem(scenario([step("gpu"), step("cpu")]), busy)) == [
        "gpu"
    ]


def test_pieces_of_time_lose_little_of_a_long_overload() -> None:
    frames = [frame(8 * i, 50, [11], sequence=i) for i in range(500)]
    tiny = problem(ONE, frames)
    at_once, in_pieces = flow_bound(tiny, 10**9), flow_bound(tiny, 400 * US)
    assert at_once <= in_pieces < 1.01 * at_once


def test_prices_of_a_solver_that_stops_early_still_bound_the_optimum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import bounds.program

    class Poor:
        """A solver whose prices are far off."""

        status = 0

        class ineqlin:  # noqa: N801
            """As SciPy calls it."""

            marginals = -0.3

    def poor(*_given: object, **_options: object) -> type[Poor]:
        return Poor

    monkeypatch.setattr(bounds.program.optimize, "linprog", poor)
    program = Program()
    columns = [program.column(0, 1.0, 1.0) for _ in range(3)]
    program.row(0, [(column, 1.0) for column in columns], 2.0)
    assert program.bound(1, 0) == pytest.approx(0.3 * 2 + 3 * 0.7)
