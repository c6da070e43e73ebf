"""Loads that break naive schedulers, by name. Shares are of frames captured."""

from itertools import pairwise
from typing import Any

import pytest

from edgepipe.scheduler.core import Scheduler
from edgepipe.scheduler.events import (
    Action,
    FrameArrived,
    JobDone,
    JobFailed,
    Leave,
    Start,
    StreamRemoved,
)
from edgepipe.scheduler.fates import Fate, Reason
from edgepipe.scheduler.job import (
    Contract,
    Criticality,
    Resource,
    Rung,
    Step,
    StreamSpec,
)
from edgepipe.scheduler.outcome import Outcome
from edgepipe.scheduler.policy import BY_NAME
from edgepipe.scheduler.scenario import (
    Camera,
    ClockStep,
    Phases,
    Scenario,
    ServiceModel,
    Slow,
    Stall,
    StampError,
)
from tests.scheduler.small_scenarios import (
    MS,
    SECOND,
    camera,
    load,
    longest_miss_run,
    play,
    reasons,
    share,
)

OURS = ("slack-unbatched", "slack")
FOUR = ("c0", "c1", "c2", "c3")


def quad(cost: int | ServiceModel, apart_ns: int = 8 * MS, **more: Any) -> list[Camera]:
    """Four cameras of 30 frames a second."""
    return [
        camera(name, cost, phase_ns=n * apart_ns, **more) for n, name in enumerate(FOUR)
    ]


def contract_violations(outcome: Outcome, stream: str, contract: Contract) -> int:
    """Windows of k frames in a row with fewer than m in time."""
    records = sorted(
        (r for r in outcome.records if r.stream == stream), key=lambda r: r.sequence
    )
    hits = [record.fate == "completed" for record in records]
    windows = (hits[n : n + contract.k] for n in range(len(hits) - contract.k + 1))
    return sum(sum(window) < contract.m for window in windows)


def wasted_ns(outcome: Outcome, resource: str) -> int:
    """Time of the resource that went to frames which were not in time."""
    return sum(
        span.end_ns - span.start_ns
        for record in outcome.records
        if record.fate != "completed"
        for span in record.spans
        if span.resource == resource
    )


# --- overload ---------------------------------------------------------------------


@pytest.mark.parametrize("policy", OURS)
def test_domino_five_per_cent_too_much_costs_five_per_cent_not_everything(
    policy: str,
) -> None:
    domino = load(4 * SECOND, quad(8_662_500))  # U = 1.05
    assert share(play(domino, "edf")) < 0.25
    assert share(play(domino, "edf-drop")) < 0.25
    ours = play(domino, policy)
    assert share(ours) >= share(play(domino, "leaky-newest-1")) > 0.95
    assert max(longest_miss_run(ours, name) for name in FOUR) == 1


@pytest.mark.parametrize("policy", OURS)
def test_who_drops_only_what_has_expired_always_serves_the_frame_with_least_time(
    policy: str,
) -> None:
    trap = load(2 * SECOND, [camera("one", 40 * MS, deadline_ns=60 * MS)])
    assert share(play(trap, "edf-drop")) < 0.1
    # 33 of 40 ms could be used: 82 % is the most that anybody can do.
    assert share(play(trap, policy)) > 0.7


@pytest.mark.parametrize("policy", OURS)
def test_doom_at_a_later_stage_is_seen_before_the_first_is_paid_for(
    policy: str,
) -> None:
    plain = [
        camera(f"p{n}", 10 * MS, deadline_ns=60 * MS, phase_ns=n * 9 * MS)
        for n in range(3)
    ]
    # After the accelerator these need 34 of their 50 ms.
    deep = [camera(f"d{n}", 4 * MS, post=34 * MS, phase_ns=n * 16 * MS) for n in (0, 1)]
    later = load(2 * SECOND, [*plain, *deep])
    naive, ours = play(later, "edf-drop"), play(later, policy)
    assert wasted_ns(naive, "gpu") > naive.busy_ns["gpu"] // 2
    assert wasted_ns(ours, "gpu") < ours.busy_ns["gpu"] // 100
    assert share(naive) < 0.2
    assert share(ours) > 0.8
    assert share(ours, "d0", "d1") > 0.7


def test_a_queue_of_two_fails_where_a_queue_of_one_holds() -> None:
    # Two deep, four streams and 9 ms: what is served has waited 72 of its 50 ms.
    deep = load(4 * SECOND, quad(9 * MS))
    one, two = play(deep, "leaky-newest-1"), play(deep, "leaky-newest-2")
    assert share(two) < 0.2
    assert share(one) > 0.9
    assert share(play(deep, "slack")) >= share(one)


# --- blocking ---------------------------------------------------------------------

CRITICAL = [
    camera(
        f"c{n}",
        5 * MS,
        deadline_ns=40 * MS,
        phase_ns=n * 11 * MS,
        criticality=Criticality.CRITICAL,
        contract=Contract(9, 10),
        weight=4,
    )
    for n in range(3)
]


def background(cost_ns: int, **more: Any) -> Camera:
    return camera(
        "map",
        cost_ns,
        period_ns=200 * MS,
        deadline_ns=400 * MS,
        criticality=Criticality.BACKGROUND,
        **more,
    )


def test_a_long_background_job_does_not_start_just_before_critical_frames() -> None:
    at_once = [
        camera(f"c{n}", 5 * MS, deadline_ns=40 * MS, criticality=Criticality.CRITICAL)
        for n in range(3)
    ]
    worst = camera(
        "map",
        45 * MS,
        period_ns=200 * MS,
        deadline_ns=400 * MS,
        phase_ns=195 * MS,
        criticality=Criticality.BACKGROUND,
    )
    blocked = load(3 * SECOND, [*at_once, worst])
    names = ("c0", "c1", "c2")
    assert share(play(blocked, "edf-drop"), *names) < 0.93
    assert share(play(blocked, "slack"), *names) == 1
    assert share(play(blocked, "slack"), "map") > 0


def test_a_sixty_millisecond_job_costs_a_critical_camera_nothing() -> None:
    log = camera(
        "log",
        60 * MS,
        period_ns=100 * MS,
        deadline_ns=1000 * MS,
        criticality=Criticality.BACKGROUND,
    )
    front = camera(
        "front", 5 * MS, deadline_ns=33 * MS, criticality=Criticality.CRITICAL
    )
    pair = load(5 * SECOND, [front, log])
    assert share(play(pair, "edf"), "front") < 0.7
    assert share(play(pair, "slack"), "front") == 1


def test_starving_background_work_spends_what_contracts_allow_and_no_more() -> None:
    names = ("c0", "c1", "c2")
    spent = play(
        load(6 * SECOND, [*CRITICAL, background(45 * MS, min_service_ns=SECOND)]),
        "slack",
    )
    kept = play(load(6 * SECOND, [*CRITICAL, background(45 * MS)]), "slack")
    done = sorted(
        r.done_ns for r in spent.records if r.stream == "map" and not r.reason
    )
    assert len(done) >= 5
    assert max(b - a for a, b in pairwise(done)) < 2 * SECOND
    assert share(spent, "map") > share(kept, "map")
    assert share(kept, *names) >= share(spent, *names) > 0.95
    for name in names:
        assert contract_violations(spent, name, Contract(9, 10)) == 0


# --- arrivals ---------------------------------------------------------------------


def test_a_burst_of_equal_deadlines_is_batched() -> None:
    curve = (1000, 1600, 2200, 2800)
    six = load(
        2 * SECOND,
        [
            camera(f"c{n}", 6_300_000, deadline_ns=66 * MS, batch_curve=curve)
            for n in range(6)
        ],
    )
    assert share(play(six, "edf-drop")) < 0.8
    assert share(play(six, "slack-unbatched")) > 0.87
    assert share(play(six, "slack")) == 1


@pytest.mark.parametrize("policy", OURS)
def test_the_old_frames_of_a_stalled_camera_cost_nobody_anything(policy: str) -> None:
    held = quad(6_500_000)
    held[1] = camera(
        "c1",
        6_500_000,
        phase_ns=8 * MS,
        camera={"stalls": (Stall(SECOND, 2 * SECOND),)},
    )
    scenario = load(3 * SECOND, held)
    assert share(play(scenario, "edf"), "c0") < 0.8
    ours = play(scenario, policy)
    assert share(ours, "c0", "c2", "c3") == 1
    assert ours.redated == 0, "they are as old as they say"
    # In a second 30 frames are captured; the last of them are still fresh at its end.
    assert reasons(ours)["stale"] >= 28
    assert share(ours, "c1") >= 1 - 30 / 91


@pytest.mark.parametrize("seconds", [-5, 5])
def test_a_clock_that_jumps_costs_no_frame(seconds: int) -> None:
    step = {"stamp_errors": (StampError(SECOND, 3 * SECOND, seconds * SECOND),)}
    cameras = quad(7_500_000)
    cameras[0] = camera("c0", 7_500_000, camera=step)
    scenario = load(4 * SECOND, cameras)
    ours = play(scenario, "slack")
    assert share(ours) == 1
    assert ours.redated == 60
    if seconds < 0:
        assert share(play(scenario, "edf-drop"), "c0") < 0.6


@pytest.mark.parametrize(
    ("apart", "longest"), [(0, 40), (2 * MS, 20), (4 * MS, 20), (8 * MS, 20)]
)
def test_no_camera_is_locked_out_by_its_phase(apart: int, longest: int) -> None:
    # A job takes a period: the slot falls free at the same phase for ever.
    locked = load(6 * SECOND, quad(33 * MS, apart))
    naive = play(locked, "edf-profile")
    assert max(longest_miss_run(naive, name) for name in FOUR) > 100
    ours = play(locked, "slack")
    assert max(longest_miss_run(ours, name) for name in FOUR) <= longest
    assert share(ours) >= share(naive)


@pytest.mark.parametrize("policy", OURS)
def test_equal_deadlines_are_not_decided_for_the_same_stream_every_time(
    policy: str,
) -> None:
    tied = load(3 * SECOND, [camera(f"c{n}", 10 * MS) for n in range(6)])  # U = 1.8
    naive, ours = play(tied, "edf-profile"), play(tied, policy)
    assert share(naive, "c0") == 1
    assert share(naive, "c5") == 0
    shares = [share(ours, f"c{n}") for n in range(6)]
    assert min(shares) > 0.4
    assert max(longest_miss_run(ours, f"c{n}") for n in range(6)) <= 3
    assert share(ours) >= share(naive)


# --- times that are not what they seem ----------------------------------------------


@pytest.mark.parametrize("policy", OURS)
def test_now_and_then_a_slow_frame_is_not_followed_by_a_landslide(policy: str) -> None:
    cost = ServiceModel(6 * MS, sigma_permille=50, slow=Slow(80, 4000))
    bimodal = load(5 * SECOND, quad(cost, deadline_ns=40 * MS))
    ours = share(play(bimodal, policy))
    assert ours > 0.97
    assert ours >= share(play(bimodal, "edf-drop"))
    assert ours >= share(play(bimodal, "leaky-newest-1")) - 0.01


@pytest.mark.parametrize("policy", OURS)
def test_slow_phases_that_hit_all_at_once_pass(policy: str) -> None:
    cost = ServiceModel(5_500_000, phases=Phases(500 * MS, 250, 2500))
    slow = load(6 * SECOND, quad(cost))
    ours = play(slow, policy)
    assert (
        share(ours) > share(play(slow, "edf-profile")) > share(play(slow, "edf-drop"))
    )
    assert share(ours) > share(play(slow, "leaky-newest-1")) - 0.06
    assert max(longest_miss_run(ours, name) for name in FOUR) <= 10


def halved(reported_after_ns: int | None, **more: Any) -> Scenario:
    """The accelerator loses half of its clock for two of five seconds: U = 1.45."""
    steps = (
        ClockStep(SECOND, "gpu", 500, reported_after_ns),
        ClockStep(3 * SECOND, "gpu", 1000, reported_after_ns),
    )
    return load(5 * SECOND, quad(6 * MS, **more), clock_steps=steps)


@pytest.mark.parametrize("reported_after_ns", [0, 100 * MS, SECOND, None])
@pytest.mark.parametrize("policy", OURS)
def test_a_halved_clock_is_survived_whenever_it_is_told(
    policy: str, reported_after_ns: int | None
) -> None:
    scenario = halved(reported_after_ns)
    ours = play(scenario, policy)
    assert share(play(scenario, "edf-drop")) < 0.65
    assert share(ours) > share(play(scenario, "leaky-newest-1")) - 0.03
    assert max(longest_miss_run(ours, name) for name in FOUR) <= 10
    late = [r for r in ours.records if r.fate != "completed"]
    assert max(r.capture_ns for r in late) < 3 * SECOND + 200 * MS, "it recovers"


def test_a_lighter_model_hides_a_clock_that_was_told_of_at_once() -> None:
    ladder = (Rung("full"), Rung("small", 850, (450,)))
    assert share(play(halved(0, ladder=ladder), "slack+ladder")) == 1
    untold = play(halved(None, ladder=ladder), "slack+ladder")
    assert share(untold) > 0.95
    late = [r.capture_ns for r in untold.records if r.fate != "completed"]
    assert max(late, default=0) < 2 * SECOND, "within a second of the change"


@pytest.mark.parametrize("expected_ns", [4 * MS, 16 * MS])
@pytest.mark.parametrize("policy", OURS)
def test_a_profile_that_is_off_by_two_is_soon_forgotten(
    policy: str, expected_ns: int
) -> None:
    assert share(play(load(SECOND, quad(8 * MS, expected_ns=expected_ns)), policy)) == 1


@pytest.mark.parametrize("expected_ns", [5_500_000, 22 * MS])
@pytest.mark.parametrize("policy", OURS)
def test_in_overload_a_wrong_profile_costs_the_beginning_only(
    policy: str, expected_ns: int
) -> None:
    right = play(load(3 * SECOND, quad(11 * MS)), policy)
    wrong = play(load(3 * SECOND, quad(11 * MS, expected_ns=expected_ns)), policy)
    assert share(wrong) > share(right) - 0.05
    spoilt = [
        r.capture_ns
        for r in wrong.records
        if r.fate == "failed" or r.reason == "expired"
    ]
    assert max(spoilt, default=0) < SECOND


# --- odd streams ------------------------------------------------------------------

GPU = Resource("gpu")
INFER = Step("infer", "gpu", stateful=False, cost_ns=5 * MS)


def starts(actions: list[Action]) -> list[Start]:
    return [action for action in actions if isinstance(action, Start)]


@pytest.mark.parametrize("policy", BY_NAME)
def test_a_deadline_without_end_waits_for_all_others_and_is_served(policy: str) -> None:
    core = Scheduler([StreamSpec(n, (INFER,)) for n in "ab"], [GPU], BY_NAME[policy])
    first = starts(core.handle(0, FrameArrived("a", 0, 0, 2**80)))[0]
    core.handle(1, FrameArrived("a", 1, 1, 2**80))
    core.handle(2, FrameArrived("b", 0, 2, 100 * MS))
    second = starts(core.handle(5 * MS, JobDone(first.jobs, 5 * MS)))[0]
    third = starts(core.handle(10 * MS, JobDone(second.jobs, 5 * MS)))[0]
    served = {(job.stream, job.sequence) for job in (*second.jobs, *third.jobs)}
    assert served == {("a", 1), ("b", 0)}


@pytest.mark.parametrize("policy", BY_NAME)
def test_a_stream_of_one_frame_without_a_period_is_served(policy: str) -> None:
    specs = [
        StreamSpec("once", (INFER,), Criticality.BACKGROUND),
        StreamSpec("front", (INFER,), Criticality.CRITICAL, period_ns=33 * MS),
    ]
    core = Scheduler(specs, [GPU], BY_NAME[policy])
    assert starts(core.handle(0, FrameArrived("once", 0, 0, 50 * MS)))


@pytest.mark.parametrize("policy", BY_NAME)
def test_a_stream_that_goes_while_it_runs_leaves_its_slot_when_it_ends(
    policy: str,
) -> None:
    core = Scheduler([StreamSpec(n, (INFER,)) for n in "ab"], [GPU], BY_NAME[policy])
    running = starts(core.handle(0, FrameArrived("a", 0, 0, 100 * MS)))[0]
    core.handle(1, FrameArrived("b", 0, 1, 100 * MS))
    assert not starts(core.handle(2, StreamRemoved("a")))
    after = core.handle(5 * MS, JobDone(running.jobs, 5 * MS))
    assert [job.stream for job in starts(after)[0].jobs] == ["b"]
    assert [a.sequence for a in after if isinstance(a, Leave)] == [0]


@pytest.mark.parametrize("policy", BY_NAME)
def test_a_worker_that_never_answers_stops_nobody_else(policy: str) -> None:
    stuck = Step("infer", "dla", stateful=False, cost_ns=5 * MS)
    specs = [StreamSpec("stuck", (stuck,)), StreamSpec("other", (INFER,))]
    core = Scheduler(specs, [GPU, Resource("dla")], BY_NAME[policy])
    hung = starts(core.handle(0, FrameArrived("stuck", 0, 0, 50 * MS)))[0]
    for n in range(100):
        now = n * 10 * MS
        core.handle(now, FrameArrived("stuck", n + 1, now, now + 50 * MS))
        begun = starts(core.handle(now, FrameArrived("other", n, now, now + 50 * MS)))
        assert [job.stream for job in begun[0].jobs] == ["other"]
        core.handle(now + 5 * MS, JobDone(begun[0].jobs, 5 * MS))
    assert core.in_flight("stuck") <= 8
    # A watchdog gives the job up: the slot is free again.
    after = core.handle(SECOND, JobFailed(hung.jobs, Fate.FAILED, Reason.HUNG))
    assert next(a.reason for a in after if isinstance(a, Leave)) is Reason.HUNG
    now = SECOND + MS
    later = core.handle(now, FrameArrived("stuck", 101, now, now + 50 * MS))
    assert starts(after) or starts(later)


@pytest.mark.parametrize("policy", BY_NAME)
def test_a_storm_of_events_at_one_moment_is_weathered(policy: str) -> None:
    names = [f"s{n}" for n in range(16)]
    specs = [StreamSpec(n, (INFER,), deadline_ns=50 * MS) for n in names]
    core = Scheduler(specs, [Resource("gpu", 2)], BY_NAME[policy])
    running: list[Start] = []
    left = 0
    for n in range(20):
        for name in names:
            actions = core.handle(7, FrameArrived(name, n, 7, 7 + 50 * MS))
            running += starts(actions)
            left += sum(isinstance(a, Leave) for a in actions)
        assert len(running) <= 2
    while running:
        actions = core.handle(7, JobDone(running.pop().jobs, 0))
        running += starts(actions)
        left += sum(isinstance(a, Leave) for a in actions)
    assert left == 20 * len(names)
    assert not any(core.in_flight(name) for name in names)
