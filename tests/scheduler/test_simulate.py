from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import pytest

from edgepipe.scheduler.core import Scheduler
from edgepipe.scheduler.events import (
    Action,
    Admitted,
    Alarm,
    Cause,
    ClockChanged,
    Event,
    Evidence,
    FrameArrived,
    Grant,
    JobDone,
    JobFailed,
    Kind,
    Leave,
    Redated,
    Refused,
    RungChanged,
    SetTimer,
    Start,
    StreamAdded,
    StreamRemoved,
    TimerFired,
)
from edgepipe.scheduler.fates import Fate, Reason
from edgepipe.scheduler.job import (
    Job,
    OnMiss,
    Overflow,
    Resource,
    Rung,
    Step,
    StreamSpec,
)
from edgepipe.scheduler.outcome import (
    TRACK_ONLY,
    Outcome,
    SimulatedFrame,
    SimulatedSpan,
)
from edgepipe.scheduler.policy import BY_NAME, Policy
from edgepipe.scheduler.scenario import (
    Camera,
    ClockStep,
    Failure,
    Pause,
    Scenario,
    ServiceModel,
    Stall,
    StampError,
)
from edgepipe.scheduler.simulate import Core, batch_ns, simulate, spec_for
from edgepipe.scheduler.world import BrokenRuleError
from edgepipe.telemetry.records import FrameRecord, Span

MS = 1_000_000
SECOND = 1000 * MS
DECODE = Step("decode", "cpu", stateful=False, cost_ns=3 * MS)
DETECT = Step("detect", "gpu", False, 6 * MS, "net", 4, (1000, 1600, 2200, 2800))
POST = Step("post", "cpu", stateful=False, cost_ns=2 * MS)
STEPS = (DECODE, DETECT, POST)
FIFO, SLACK = BY_NAME["fifo"], BY_NAME["slack"]


def camera(
    name: str = "cam",
    *,
    steps: tuple[Step, ...] = STEPS,
    spec: dict[str, Any] | None = None,
    **changes: Any,
) -> Camera:
    """Ten frames a second with a deadline of 50 ms; each step takes its budget."""
    told = StreamSpec(name, steps, deadline_ns=50 * MS, period_ns=100 * MS)
    told = replace(told, **(spec or {}))
    service = tuple(ServiceModel(step.cost_ns) for step in steps)
    return replace(Camera(told, service, 10_000), **changes)


def scenario(*cameras: Camera, **changes: Any) -> Scenario:
    """A second of them on a gpu and two cpus."""
    resources = (Resource("cpu", 2), Resource("gpu"))
    plain = Scenario("test", SECOND, resources, cameras)
    return replace(plain, **changes)


class Seen(NamedTuple):
    """One call of the scheduler."""

    now_ns: int
    event: Event
    actions: list[Action]


class Listening:
    """The real scheduler, and what it was told."""

    def __init__(
        self, streams: list[StreamSpec], resources: tuple[Resource, ...], policy: Policy
    ) -> None:
        self.core = Scheduler(streams, resources, policy)
        self.streams = [spec.id for spec in streams]
        self.seen: list[Seen] = []

    def initial_grants(self) -> list[Grant]:
        return self.core.initial_grants()

    def handle(self, now_ns: int, event: Event) -> list[Action]:
        actions = self.core.handle(now_ns, event)
        self.seen.append(Seen(now_ns, event, actions))
        return actions


def listen(of: Scenario, policy: Policy = FIFO) -> tuple[Outcome, Listening]:
    made: list[Listening] = []

    def make(
        streams: list[StreamSpec], resources: tuple[Resource, ...], policy: Policy
    ) -> Listening:
        made.append(Listening(streams, resources, policy))
        return made[0]

    return simulate(of, policy, make_core=make), made[0]


def fates(records: Iterable[SimulatedFrame]) -> Counter[str]:
    return Counter(f"{r.fate}:{r.reason}".removesuffix(":") for r in records)


def spans_ms(record: SimulatedFrame) -> list[tuple[str, float, float]]:
    begun = record.capture_ns
    return [
        (s.stage, (s.start_ns - begun) / MS, (s.end_ns - begun) / MS)
        for s in record.spans
    ]


def test_the_records_have_the_fields_of_those_that_telemetry_knows() -> None:
    assert SimulatedFrame._fields == FrameRecord._fields
    assert SimulatedSpan._fields == Span._fields


def test_a_frame_takes_its_steps_one_after_the_other() -> None:
    outcome = simulate(scenario(camera()), FIFO)
    first = outcome.records[0]
    assert spans_ms(first) == [("decode", 0, 3), ("detect", 3, 9), ("post", 9, 11)]
    assert (first.fate, first.variant, first.batch) == ("completed", "full", 1)
    assert (first.deadline_ns, first.done_ns) == (50 * MS, 11 * MS)
    assert (outcome.captured, outcome.ended_ns) == (10, 911 * MS)
    assert outcome.events == 10 * 4
    assert outcome.busy_ns == {"cpu": 50 * MS, "gpu": 60 * MS}


def test_records_can_go_to_somebody_instead_of_into_the_outcome() -> None:
    taken: list[SimulatedFrame] = []
    outcome = simulate(scenario(camera()), FIFO, 1, taken.append)
    assert (len(taken), outcome.records) == (10, [])


@pytest.mark.parametrize("policy", BY_NAME.values(), ids=lambda policy: policy.name)
def test_every_frame_has_one_fate_and_no_slot_runs_two_jobs(policy: Policy) -> None:
    cameras = [
        camera(
            f"cam-{n}",
            spec={"deadline_ns": 60 * MS},
            frame_rate=30_000 + n,
            jitter_ns=MS,
            stalls=(Stall(200 * MS, 400 * MS),) if n == 1 else (),
            failures=(Failure(1, chance_permille=50),),
        )
        for n in range(6)
    ]
    outcome = simulate(scenario(*cameras, duration_ns=4 * SECOND), policy)
    names = [(record.stream, record.sequence) for record in outcome.records]
    assert len(names) == len({*names}) == outcome.captured
    assert fates(outcome.records)["failed:stage_error"] > 0
    for resource, worker in (("cpu", 0), ("cpu", 1), ("gpu", 0)):
        runs = {
            (span.start_ns, span.end_ns)
            for record in outcome.records
            for span in record.spans
            if (span.resource, span.worker) == (resource, worker)
        }
        ordered = sorted(runs)
        assert all(a[1] <= b[0] for a, b in pairwise(ordered))


def test_all_policies_see_the_same_frames_with_the_same_costs() -> None:
    noisy = tuple(ServiceModel(s.cost_ns, sigma_permille=100) for s in STEPS)
    one = scenario(camera(service=noisy, jitter_ns=MS, phase_spread_ns=MS))
    runs = [simulate(one, BY_NAME[name], 3).records for name in ("fifo", "slack")]
    for a, b in zip(*runs, strict=True):
        assert (a.capture_ns, a.spans[0].ready_ns) == (
            b.capture_ns,
            b.spans[0].ready_ns,
        )
        assert spans_ms(a) == spans_ms(b)
    assert spans_ms(runs[0][0]) != spans_ms(runs[0][1])


def test_the_same_simulation_has_the_same_digest_and_another_one_has_not() -> None:
    one = scenario(camera(jitter_ns=MS), camera("b"))
    digests = [simulate(one, SLACK, seed, digest=True).digest for seed in (1, 1, 2)]
    assert digests[0] == digests[1] != digests[2]
    assert len(digests[0]) == 64
    assert simulate(one, SLACK).digest == ""


def test_what_is_not_in_time_is_dropped_or_late_as_the_stream_wants() -> None:
    drop: dict[str, Any] = {"deadline_ns": 10 * MS}
    late = drop | {"on_miss": OnMiss.DELIVER_LATE}
    assert fates(simulate(scenario(camera(spec=late)), FIFO).records) == {"late": 10}
    records = simulate(scenario(camera(spec=drop)), FIFO).records
    assert fates(records) == {"dropped:expired": 10}
    assert (records[0].stage, records[0].short_ns) == ("post", MS)


def test_a_batch_takes_the_curve_s_share_of_the_mean() -> None:
    assert batch_ns([6, 8], (1000, 1600)) == 11
    assert batch_ns([6, 6, 6], (1000, 1600)) == 15
    assert batch_ns([6, 8], ()) == 14


def test_frames_in_a_batch_run_together() -> None:
    # The first of four goes alone; the others meet while it runs.
    both = scenario(*(camera(f"cam-{n}") for n in range(4)))
    outcome = simulate(both, SLACK)
    batches = Counter(record.batch for record in outcome.records)
    assert batches == {1: 10, 3: 30}
    together = [r.spans[1] for r in outcome.records if r.batch == 3][:3]
    assert len({(span.start_ns, span.end_ns, span.worker) for span in together}) == 1
    assert together[0].end_ns - together[0].start_ns == 13_200_000


def test_the_clock_at_the_start_of_a_job_decides_and_the_scheduler_is_told() -> None:
    steps = (ClockStep(150 * MS, "gpu", 500, 20 * MS), ClockStep(450 * MS, "gpu", 1000))
    outcome, heard = listen(scenario(camera(), clock_steps=steps))
    times = [r.spans[1].end_ns - r.spans[1].start_ns for r in outcome.records]
    assert [each // MS for each in times] == [6, 6, 12, 12, 12, 6, 6, 6, 6, 6]
    told = [
        (s.now_ns, s.event) for s in heard.seen if isinstance(s.event, ClockChanged)
    ]
    assert told == [
        (170 * MS, ClockChanged("gpu", 500)),
        (450 * MS, ClockChanged("gpu", 1000)),
    ]


def test_a_clock_that_nobody_reports_still_slows_the_work() -> None:
    step = ClockStep(0, "gpu", 500, None)
    outcome, heard = listen(scenario(camera(), clock_steps=(step,)))
    assert outcome.records[0].spans[1].end_ns == 15 * MS
    assert not any(isinstance(seen.event, ClockChanged) for seen in heard.seen)


def test_a_resource_that_stands_still_ends_its_work_later() -> None:
    pause = Pause("gpu", 5 * MS, 250 * MS)
    outcome = simulate(scenario(camera(), pauses=(pause,)), FIFO)
    by_frame = {record.sequence: record for record in outcome.records}
    first, second, third, fourth = (by_frame[n].spans[1] for n in range(4))
    assert (first.start_ns, first.end_ns) == (3 * MS, 254 * MS)
    assert (second.start_ns, third.start_ns) == (254 * MS, 260 * MS)
    assert fourth.start_ns == 303 * MS


def test_a_wrong_stamp_is_what_the_scheduler_sees_and_the_truth_is_recorded() -> None:
    error = StampError(200 * MS, 400 * MS, -5 * SECOND)
    outcome, heard = listen(scenario(camera(stamp_errors=(error,))))
    stamps = [s.event for s in heard.seen if isinstance(s.event, FrameArrived)]
    assert [stamp.capture_ns // MS for stamp in stamps[:5]] == [
        0, 100, -4800, -4700, 400,
    ]  # fmt: skip
    assert all(s.deadline_ns - s.capture_ns == 50 * MS for s in stamps)
    assert [r.capture_ns // MS for r in outcome.records[:4]] == [0, 100, 200, 300]
    assert fates(outcome.records) == {"completed": 10}


def test_stamps_that_are_put_right_are_counted() -> None:
    error = StampError(2 * SECOND, 4 * SECOND, -5 * SECOND)
    one = scenario(camera(stamp_errors=(error,)), duration_ns=5 * SECOND)
    outcome = simulate(one, SLACK)
    assert outcome.redated >= 19
    assert [alarm.subject for _, alarm in outcome.alarms][:1] == ["cam"]
    assert fates(outcome.records)["completed"] >= 49


@pytest.mark.parametrize(
    ("reason", "fate"),
    [(Reason.STAGE_ERROR, "failed:stage_error"), (Reason.DAMAGED, "dropped:damaged")],
)
def test_a_step_breaks_on_the_frames_that_are_named(reason: Reason, fate: str) -> None:
    broken = Failure(0, reason, sequences=frozenset([2, 5]))
    outcome = simulate(scenario(camera(failures=(broken,))), FIFO)
    assert fates(outcome.records) == {"completed": 8, fate: 2}
    assert [r.sequence for r in outcome.records if r.reason] == [2, 5]
    assert [s.stage for s in outcome.records[2].spans] == ["decode"]


def test_a_stream_is_added_and_removed_once_its_last_frames_had_their_time() -> None:
    guest = camera("guest", starts_ns=210 * MS, ends_ns=500 * MS)
    outcome, heard = listen(scenario(camera(), guest))
    asked = [
        (s.now_ns // MS, type(s.event))
        for s in heard.seen
        if isinstance(s.event, StreamAdded | StreamRemoved)
    ]
    assert heard.streams == ["cam"]
    assert asked == [(210, StreamAdded), (550, StreamRemoved)]
    assert outcome.answers == [(210 * MS, Admitted("guest"))]
    assert Counter(record.stream for record in outcome.records) == {
        "cam": 10,
        "guest": 3,
    }
    assert fates(outcome.records) == {"completed": 13}


def test_frames_of_a_refused_stream_count_as_refused() -> None:
    class Strict(Listening):
        def handle(self, now_ns: int, event: Event) -> list[Action]:
            if isinstance(event, StreamAdded):
                return [Refused(event.spec.id, "gpu", 1200, "")]
            return super().handle(now_ns, event)

    guest = camera("guest", starts_ns=250 * MS, ends_ns=600 * MS)
    outcome = simulate(scenario(camera(), guest), FIFO, make_core=Strict)
    assert fates(outcome.records) == {"completed": 10, "dropped:refused": 4}


def test_a_source_with_credits_waits_and_goes_on_later() -> None:
    waits = {
        "credits": True,
        "overflow": Overflow.BLOCK,
        "max_in_flight": 1,
        "on_miss": OnMiss.DELIVER_LATE,
    }
    slow = (ServiceModel(3 * MS), ServiceModel(150 * MS), ServiceModel(2 * MS))
    outcome = simulate(scenario(camera(spec=waits, service=slow)), BY_NAME["slack"])
    captures = [record.capture_ns // MS for record in outcome.records]
    assert captures == [155 * n for n in range(10)]
    assert {record.done_ns - record.capture_ns for record in outcome.records} == {
        155 * MS
    }


def test_baselines_with_endless_queues_get_endless_queues() -> None:
    one = camera()
    assert spec_for(one, SLACK) is one.spec
    assert spec_for(one, FIFO).queue_capacity > 10**9
    burst = camera(frame_rate=1_000_000, steps=(DETECT,))
    records = simulate(scenario(burst, duration_ns=100 * MS), FIFO).records
    assert fates(records) == {"completed": 9, "dropped:expired": 91}


def test_the_variant_names_the_rung_and_its_cost_is_the_rung_s() -> None:
    alone = (DECODE, replace(DETECT, batch_key="", batch_max=1), POST)
    ladder = (Rung("full"), Rung("small", 850, (1000, 450, 1000)))
    one = scenario(
        *(
            camera(f"cam-{n}", steps=alone, spec={"ladder": ladder}, frame_rate=60_000)
            for n in range(4)
        ),
        duration_ns=3 * SECOND,
    )  # fmt: skip
    outcome = simulate(one, BY_NAME["slack+ladder"])
    small = [record for record in outcome.records if record.variant == "small"]
    assert small
    assert {r.spans[1].end_ns - r.spans[1].start_ns for r in small} == {2_700_000}


class Scripted:
    """Starts every step at once; what else it does is up to the test."""

    def __init__(self, change: Callable[[list[Action]], list[Action]]) -> None:
        self.change = change

    def initial_grants(self) -> list[Grant]:
        return []

    def handle(self, now_ns: int, event: Event) -> list[Action]:
        if isinstance(event, FrameArrived):
            return self.change([start(event.sequence, 0, now_ns)])
        if isinstance(event, JobDone):
            (job,) = event.jobs
            if job.step == 2:
                return self.change([Leave("cam", job.sequence, None, None)])
            return self.change([start(job.sequence, job.step + 1, now_ns)])
        if isinstance(event, JobFailed):
            leaves = [Leave(j.stream, j.sequence, event.fate, event.reason)
                      for j in event.jobs]  # fmt: skip
            return [*leaves]
        return self.change([])


def start(sequence: int, step: int, now_ns: int, **changes: Any) -> Start:
    job = Job("cam", sequence, step, STEPS[step].resource, 0, False, now_ns, 50 * MS)
    return Start((job._replace(**changes),), None)


def play(change: Callable[[list[Action]], list[Action]]) -> Outcome:
    def make(*_: object) -> Core:
        return Scripted(change)

    return simulate(scenario(camera()), FIFO, make_core=make)


def swap(old: type, new: Callable[[Action], Action]) -> Callable[..., list[Action]]:
    def change(actions: list[Action]) -> list[Action]:
        return [new(a) if isinstance(a, old) else a for a in actions]

    return change


def changed(action: Action, **changes: Any) -> Action:
    assert isinstance(action, Start)
    job = action.jobs[0]._replace(**changes)
    return action._replace(jobs=(job,))


def twice(actions: list[Action]) -> list[Action]:
    return [*actions, *actions]


def and_dropped(actions: list[Action]) -> list[Action]:
    return [*actions, Leave("cam", 0, Fate.DROPPED, Reason.DOOMED)]


def nothing(_: list[Action]) -> list[Action]:
    return []


def only_a_timer(_: list[Action]) -> list[Action]:
    return [SetTimer(0)]


def test_a_scheduler_that_obeys_the_rules_is_no_problem() -> None:
    assert fates(play(lambda actions: actions).records) == {"completed": 10}


def test_what_the_scheduler_remarks_is_kept_with_its_time() -> None:
    move = RungChanged("cam", 1, Cause.DEMAND, 1200)
    alarm = Alarm(Kind.TIMESTAMP_STEP, "cam")
    remarks: list[Action] = [move, alarm, Redated("cam", 0, 0, 0)]
    outcome = play(lambda actions: [*actions, *remarks])
    assert outcome.moves[3:5] == [(11 * MS, move), (100 * MS, move)]
    assert outcome.alarms[3:5] == [(11 * MS, alarm), (100 * MS, alarm)]
    assert outcome.redated == 40


def test_the_evidence_of_a_departure_is_kept_and_recorded() -> None:
    evidence = Evidence(needed_ns=9, left_ns=2, passed_over=3, newer=5)

    def give_up(action: Action) -> Action:
        assert isinstance(action, Start)
        sequence = action.jobs[0].sequence
        return Leave("cam", sequence, Fate.DROPPED, Reason.DOOMED, evidence)

    outcome = play(swap(Start, give_up))
    assert [leave.evidence for _, leave in outcome.departures] == [evidence] * 10
    record = outcome.records[0]
    assert (record.short_ns, record.passed_over, record.superseded_by) == (7, 3, 5)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (swap(Start, lambda a: changed(a, step=2, resource="cpu")), "leaves steps out"),
        (swap(Start, lambda a: changed(a, resource="gpu")), "wrong resource"),
        (swap(Start, lambda a: changed(a, sequence=77)), "cannot start"),
        (twice, "cannot start"),
        (and_dropped, "still running"),
        (swap(Start, lambda a: Leave("cam", 0, None, None)), "before its last step"),
        (nothing, "frames wait for nothing"),
        (only_a_timer, "again and again"),
    ],
)
def test_a_scheduler_that_breaks_a_rule_is_found_out(
    change: Callable[[list[Action]], list[Action]], problem: str
) -> None:
    with pytest.raises(BrokenRuleError, match=problem):
        play(change)


def test_a_start_after_its_latest_moment_is_found_out() -> None:
    late = swap(Start, lambda a: Start(a.jobs, -1) if isinstance(a, Start) else a)
    with pytest.raises(BrokenRuleError, match="comes too late"):
        play(late)


def test_more_jobs_than_slots_are_found_out() -> None:
    def make(*_: object) -> Core:
        return Scripted(lambda actions: actions)

    quick = camera(frame_rate=1_000_000)
    with pytest.raises(BrokenRuleError, match="no slot"):
        simulate(scenario(quick), FIFO, make_core=make)


def test_a_batch_of_what_does_not_belong_together_is_found_out() -> None:
    class Mixing(Scripted):
        def handle(self, now_ns: int, event: Event) -> list[Action]:
            if isinstance(event, FrameArrived) and event.sequence == 1:
                jobs = [start(n, 0, now_ns).jobs[0] for n in (0, 1)]
                return [Start(tuple(jobs), None)]
            return []

    def make(*_: object) -> Core:
        return Mixing(lambda actions: actions)

    with pytest.raises(BrokenRuleError, match="2 jobs in a batch of decode"):
        simulate(scenario(camera()), FIFO, make_core=make)


def test_a_scheduler_that_only_sets_timers_is_found_out() -> None:
    class Putting(Scripted):
        def handle(self, now_ns: int, event: Event) -> list[Action]:
            return [SetTimer(now_ns + 60 * SECOND)]

    def make(*_: object) -> Core:
        return Putting(lambda actions: actions)

    with pytest.raises(BrokenRuleError, match="frames wait while timers come"):
        simulate(scenario(camera()), FIFO, make_core=make)


def test_a_timer_replaces_the_one_before_and_comes_after_all_else() -> None:
    told: list[tuple[int, type]] = []

    class Timing(Scripted):
        def handle(self, now_ns: int, event: Event) -> list[Action]:
            told.append((now_ns // MS, type(event)))
            actions = super().handle(now_ns, event)
            if now_ns == 0:
                return [*actions, SetTimer(50 * MS), SetTimer(100 * MS)]
            return actions

    def make(*_: object) -> Core:
        return Timing(lambda actions: actions)

    simulate(scenario(camera(), duration_ns=200 * MS), FIFO, make_core=make)
    assert [each for each in told if 11 < each[0] < 104] == [
        (100, FrameArrived),
        (100, TimerFired),
        (103, JobDone),
    ]


def test_a_track_only_frame_leaves_the_network_out() -> None:
    class Tracking(Scripted):
        def handle(self, now_ns: int, event: Event) -> list[Action]:
            actions: list[Action] = []
            if isinstance(event, FrameArrived):
                actions = [start(event.sequence, 0, now_ns, track_only=True)]
            elif isinstance(event, JobDone) and event.jobs[0].step == 0:
                done = event.jobs[0].sequence
                actions = [start(done, 2, now_ns, track_only=True)]
            elif isinstance(event, JobDone):
                actions = [Leave("cam", event.jobs[0].sequence, None, None)]
            return actions

    def make(*_: object) -> Core:
        return Tracking(lambda actions: actions)

    network = replace(DETECT, runs_on_track_only=False)
    one = scenario(camera(steps=(DECODE, network, POST)))
    records = simulate(one, FIFO, make_core=make).records
    assert {record.variant for record in records} == {TRACK_ONLY}
    assert [span.stage for span in records[0].spans] == ["decode", "post"]
