"""The degradation ladder, through the simulator and the core."""

from dataclasses import replace

import pytest

from edgepipe.commands.scenario import load_scenario
from edgepipe.scheduler.core import Scheduler
from edgepipe.scheduler.events import (
    Action,
    Admitted,
    Cause,
    ClockChanged,
    FrameArrived,
    JobDone,
    Leave,
    Refused,
    RungChanged,
    Start,
    StreamAdded,
)
from edgepipe.scheduler.fates import Reason
from edgepipe.scheduler.job import Criticality, Resource, Rung, Step, StreamSpec
from edgepipe.scheduler.outcome import Outcome
from edgepipe.scheduler.policy import BY_NAME
from edgepipe.scheduler.scenario import ClockStep, Scenario
from edgepipe.scheduler.simulate import simulate

MS, S = 10**6, 10**9
LADDER = BY_NAME["slack+ladder"]
GPU = Resource("gpu")
SMALL = Rung("small", 850, (450,))


def camera(
    name: str,
    cost_ns: int = 10 * MS,
    criticality: Criticality = Criticality.NORMAL,
    ladder: tuple[Rung, ...] = (Rung("full"), SMALL),
) -> StreamSpec:
    step = Step("detect", "gpu", stateful=False, cost_ns=cost_ns)
    return StreamSpec(
        name,
        (step,),
        criticality,
        queue_capacity=4,
        deadline_ns=60 * MS,
        period_ns=33 * MS,
        ladder=ladder,
    )


def moves(actions: list[Action]) -> list[tuple[str, int, Cause]]:
    return [(a.stream, a.rung, a.cause) for a in actions if isinstance(a, RungChanged)]


def arrive(core: Scheduler, name: str, sequence: int, now_ns: int) -> list[Action]:
    event = FrameArrived(name, sequence, now_ns, now_ns + 60 * MS)
    return core.handle(now_ns, event)


def play(scenario: Scenario, duration_ns: int) -> Outcome:
    return simulate(replace(scenario, duration_ns=duration_ns), LADDER, seed=1)


def test_a_clock_that_falls_moves_streams_down_before_anything_is_missed() -> None:
    core = Scheduler([camera("a"), camera("b")], [GPU], LADDER)
    for name in "ab":
        arrive(core, name, 0, 0)
    assert moves(core.handle(1, ClockChanged("gpu", 1000))) == []
    assert moves(core.handle(2, ClockChanged("gpu", 500))) == [("a", 1, Cause.CLOCK)]


def test_a_stream_that_is_admitted_moves_others_down_at_once() -> None:
    core = Scheduler([camera("a"), camera("b"), camera("c")], [GPU], LADDER)
    for name in "abc":
        arrive(core, name, 0, 0)
    answer = core.handle(1, StreamAdded(camera("d")))
    assert Admitted("d") in answer
    assert moves(answer) == [("a", 1, Cause.ADMISSION), ("b", 1, Cause.ADMISSION)]


def test_a_stream_that_fits_on_no_rung_is_refused_and_moves_nobody() -> None:
    core = Scheduler([camera(name, 14 * MS) for name in "abc"], [GPU], LADDER)
    for name in "abc":
        arrive(core, name, 0, 0)
    answer = core.handle(1, StreamAdded(camera("d", 34 * MS)))
    assert [type(action) for action in answer] == [Refused]
    late = core.handle(2, FrameArrived("d", 0, 2, 60 * MS))
    assert [a.reason for a in late if isinstance(a, Leave)] == [Reason.REFUSED]


def test_who_matters_least_goes_down_first_and_critical_streams_last() -> None:
    specs = [
        camera("critical", 20 * MS, Criticality.CRITICAL),
        camera("normal", 20 * MS),
        camera("background", 20 * MS, Criticality.BACKGROUND),
    ]
    core = Scheduler(specs, [GPU], LADDER)
    order = [name for name, _, _ in moves(arrive(core, "normal", 0, 0))]
    order += [name for name, _, _ in moves(core.handle(1, ClockChanged("gpu", 400)))]
    assert order == ["background", "normal", "critical"]


def test_frames_take_the_rung_that_their_stream_has_when_they_start() -> None:
    core = Scheduler([camera("a")], [GPU], LADDER)
    (start,) = [a for a in arrive(core, "a", 0, 0) if isinstance(a, Start)]
    arrive(core, "a", 1, 1)
    core.handle(2, ClockChanged("gpu", 250))
    after = core.handle(40 * MS, JobDone(start.jobs, 40 * MS))
    (second,) = [a for a in after if isinstance(a, Start)]
    assert (start.jobs[0].rung, second.jobs[0].rung) == (0, 1)


def test_a_stride_drops_frames_as_misses_and_says_so() -> None:
    spec = camera("a", 30 * MS, ladder=(Rung("full"), Rung("half", stride=2)))
    core = Scheduler([spec], [GPU], LADDER)
    arrive(core, "a", 0, 0)
    assert moves(core.handle(1, ClockChanged("gpu", 600))) == [("a", 1, Cause.CLOCK)]
    reasons = [
        action.reason
        for n in range(1, 7)
        for action in arrive(core, "a", n, n * 33 * MS)
        if isinstance(action, Leave)
    ]
    assert reasons.count(Reason.STRIDE) == 3


def test_a_track_only_frame_leaves_the_network_out() -> None:
    steps = (
        Step("decode", "cpu", stateful=False, cost_ns=MS),
        Step(
            "detect", "gpu", stateful=False, cost_ns=40 * MS, runs_on_track_only=False
        ),
        Step("track", "cpu", stateful=True, cost_ns=MS),
    )
    ladder = (Rung("full"), Rung("coast", infer_every=2))
    spec = StreamSpec("a", steps, deadline_ns=90 * MS, period_ns=33 * MS, ladder=ladder)
    core = Scheduler([spec], [GPU, Resource("cpu", 2)], LADDER)
    arrive(core, "a", 0, 0)  # the demand is 1.2: it goes down at its first look
    (decode,) = [a for a in arrive(core, "a", 1, MS) if isinstance(a, Start)]
    assert decode.jobs[0].track_only
    after = core.handle(2 * MS, JobDone(decode.jobs, MS))
    started = [a.jobs[0] for a in after if isinstance(a, Start)]
    assert [(job.sequence, job.step) for job in started if job.sequence == 1] == []
    assert core.in_flight("a") == 2  # it waits for frame 0 to pass the tracker


@pytest.mark.parametrize("reported", [True, False])
def test_full_quality_returns_when_the_load_ends(reported: bool) -> None:
    base = load_scenario("thermal")
    told = 0 if reported else None
    steps = (ClockStep(5 * S, "gpu", 500, told), ClockStep(15 * S, "gpu", 1000, told))
    outcome = play(replace(base, clock_steps=steps), 40 * S)
    last = {move.stream: move.rung for _, move in outcome.moves}
    assert outcome.moves
    assert set(last.values()) == {0}
    assert max(at_ns for at_ns, _ in outcome.moves) < 30 * S


def test_under_steady_overload_streams_do_not_change_their_minds() -> None:
    outcome = play(load_scenario("overload"), 60 * S)
    assert 1 <= len(outcome.moves) <= 6


def test_moves_for_misses_become_rare() -> None:
    outcome = play(load_scenario("bimodal"), 120 * S)
    late = [at_ns for at_ns, _ in outcome.moves if at_ns > 60 * S]
    assert len(late) <= 12


def test_a_shortage_elsewhere_degrades_nobody_for_nothing() -> None:
    assert play(load_scenario("crowd-surge"), 60 * S).moves == []


def test_a_camera_that_stood_still_degrades_nobody() -> None:
    assert play(load_scenario("stall-burst"), 60 * S).moves == []
