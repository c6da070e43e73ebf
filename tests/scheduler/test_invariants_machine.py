"""Whatever happens, in whatever order: the core's decisions keep the rules.

Hypothesis makes up streams, resources and a policy, then events. What must hold after
each of them is in :mod:`tests.scheduler.reference_world` (nothing is lost, taken twice
or done out of order) and :mod:`tests.scheduler.reference_rules` (decisions are right).
At the end the scheduler is drained, and what it was told is told to fresh ones: under
the same conditions, at another time and under other names it decides the same.
"""

import copy
import pickle
from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from edgepipe.scheduler.core import Scheduler
from edgepipe.scheduler.deadlines import NEVER_NS
from edgepipe.scheduler.events import (
    ClockChanged,
    Failed,
    FrameArrived,
    JobDone,
    JobFailed,
    Stop,
    StreamAdded,
    StreamRemoved,
    TimerFired,
)
from edgepipe.scheduler.fates import Fate, Reason
from edgepipe.scheduler.job import (
    FULL,
    Contract,
    Criticality,
    Job,
    Mode,
    OnMiss,
    Overflow,
    Resource,
    Rung,
    Step,
    StreamSpec,
)
from edgepipe.scheduler.policy import BY_NAME
from tests.scheduler import replays
from tests.scheduler.reference_books import RefBatch
from tests.scheduler.reference_world import World

UNIT_NS = 100_000
"""All times are whole numbers of it, so that they can be scaled without rounding."""
Copy = Callable[[Scheduler], Scheduler]
STREAMS: tuple[str, ...] = ("a", "b", "c", "d")
POLICIES = (*["slack", "slack+ladder"] * 4, "slack-unbatched", *sorted(BY_NAME))
"""The one that decides most is tried most."""


def units(least: int, most: int) -> st.SearchStrategy[int]:
    """Times from so many to so many tenths of a millisecond."""
    return st.integers(least, most).map(lambda count: count * UNIT_NS)


def rarely(least: int, most: int) -> st.SearchStrategy[int]:
    """Mostly 0, else such a time."""
    return st.one_of(st.just(0), st.just(0), units(least, most))


@st.composite
def steps(draw: st.DrawFn, resources: list[Resource]) -> tuple[Step, ...]:
    made: list[Step] = []
    for number in range(draw(st.sampled_from([1, 2, 2, 3]))):
        place = draw(st.sampled_from(resources)).name
        batch_max = draw(st.sampled_from([4, 1, 1, 3]))
        made.append(
            Step(
                f"step {number}",
                place,
                stateful=batch_max == 1 and draw(st.booleans()),
                cost_ns=draw(st.one_of(units(30, 200), units(30, 200), st.just(0))),
                batch_key=f"model on {place}" if batch_max > 1 else "",
                batch_max=batch_max,
                batch_curve=(1000, 1300, 1600) if batch_max > 1 else (),
                runs_on_track_only=batch_max == 1,
            )
        )
    return tuple(made)


@st.composite
def ladders(draw: st.DrawFn, taken: tuple[Step, ...]) -> tuple[Rung, ...]:
    odd = [Rung("half", stride=2)]
    if any(step.runs_on_track_only for step in taken):
        odd.append(Rung("sparse", infer_every=2))
    full = draw(st.sampled_from([FULL] * 4 + odd))
    if draw(st.booleans()):
        return (full,)
    cheaper = (450,) * len(taken)
    return (full, Rung("small", 850, cheaper), Rung("one", 500, cheaper, batch_max=1))


@st.composite
def specs(draw: st.DrawFn, name: str, resources: list[Resource]) -> StreamSpec:
    taken = draw(steps(resources))
    critical, normal, background = Criticality
    return StreamSpec(
        name,
        taken,
        draw(st.sampled_from([normal, normal, normal, critical, background])),
        draw(st.sampled_from([OnMiss.DROP, OnMiss.DROP, OnMiss.DELIVER_LATE])),
        queue_capacity=draw(st.sampled_from([3, 2, 1])),
        overflow=draw(st.sampled_from([Overflow.DROP_OLDEST, *Overflow])),
        queued_steps=draw(st.integers(1, len(taken))),
        max_in_flight=draw(st.sampled_from([8, 4, 1])),
        credits=draw(st.sampled_from([False, False, True])),
        deadline_ns=draw(st.one_of(units(200, 1000), units(50, 500), st.just(0))),
        period_ns=draw(units(100, 400)),
        weight=draw(st.integers(1, 4)),
        contract=draw(st.sampled_from([None, Contract(3, 4), Contract(9, 10)])),
        mode=draw(st.sampled_from([Mode.ALL, Mode.ALL, *Mode])),
        min_interval_ns=draw(rarely(50, 300)),
        min_service_ns=draw(rarely(500, 2000)),
        ladder=draw(ladders(taken)),
    )


def restored(core: Scheduler) -> Scheduler:
    """From a snapshot on disk, say."""
    copied = pickle.loads(pickle.dumps(core))
    assert isinstance(copied, Scheduler)
    return copied


class CoreMachine(RuleBasedStateMachine):
    """Streams, resources, a policy; then whatever may happen to them."""

    world: World

    @initialize(
        policy=st.sampled_from(POLICIES),
        count=st.sampled_from([3, 4, 2, 1]),
        events=st.sampled_from([80, 0]),
        data=st.data(),
    )
    def set_up(self, policy: str, count: int, events: int, data: st.DataObject) -> None:
        self.resources = [
            Resource(
                name,
                data.draw(st.sampled_from([1, 1, 1, 2, 3])),
                data.draw(st.sampled_from([True, True, False])),
            )
            for name in ("gpu", "cpu", "dla")[: data.draw(st.sampled_from([2, 1, 3]))]
        ]
        self.known = {
            name: data.draw(specs(name, self.resources)) for name in STREAMS[:count]
        }
        self.specs = list(self.known.values())
        self.next_sequence = dict.fromkeys(STREAMS, 0)
        self.due_ns = dict.fromkeys(STREAMS, 0)
        self.world = World(self.specs, self.resources, BY_NAME[policy])
        self.play(events, 0)

    def later(self, gap_ns: int) -> int:
        return self.world.now_ns + gap_ns

    def pick(self, which: int) -> RefBatch:
        batches = self.world.books.batches
        return batches[which % len(batches)]

    def deliver(self, name: str, at_ns: int, age_ns: int, offset_ns: int = 0) -> None:
        """The next frame of a stream, which may skip a sequence number."""
        sequence = self.next_sequence[name]
        self.next_sequence[name] = sequence + 1 + (age_ns // UNIT_NS % 5 == 4)
        self.world.arrive(name, sequence, at_ns, at_ns - age_ns + offset_ns)

    @rule(count=st.integers(1, 40), slow_ones=st.integers(0, 4))
    def a_while_passes(self, count: int, slow_ones: int) -> None:
        """Cameras deliver, jobs end and timers fire when they are due."""
        self.play(count, slow_ones)

    def play(self, count: int, slow_ones: int) -> None:
        """The same, for so many events."""
        for _ in range(count):
            books = self.world.books
            ends = [
                (self.end_ns(one, slow_ones), n) for n, one in enumerate(books.batches)
            ]
            frames = [(self.due_ns[name], name) for name in books.streams]
            end_ns, which = min(ends, default=(NEVER_NS, 0))
            due_ns, name = min(frames, default=(NEVER_NS, ""))
            timer_ns = NEVER_NS if books.timer_ns is None else books.timer_ns
            at_ns = max(min(end_ns, due_ns, timer_ns), books.now_ns)
            if at_ns >= NEVER_NS:
                return
            if end_ns <= at_ns:
                self.world.finish(books.batches[which], at_ns)
            elif due_ns <= at_ns:
                self.due_ns[name] = at_ns + self.known[name].period_ns
                if self.may_send(name):
                    self.deliver(name, at_ns, 0)
            else:
                self.world.tell(at_ns, TimerFired())

    def cost_ns(self, batch: RefBatch) -> int:
        """What a batch takes if nothing is unusual."""
        job = batch.jobs[0]
        spec = batch.frames[0].stream.spec
        scale = spec.ladder[job.rung].cost_permille
        cost_ns = spec.steps[job.step].cost_ns or UNIT_NS
        cost_ns = cost_ns * (1 + len(batch.jobs)) // 2
        return cost_ns * scale[job.step] // 1000 if scale else cost_ns

    def end_ns(self, batch: RefBatch, slow_ones: int) -> int:
        """When a batch ends: one job in some takes three times as long as it should."""
        job = batch.jobs[0]
        is_slow = slow_ones and (job.sequence + job.step) % 5 < slow_ones
        return batch.start_ns + self.cost_ns(batch) * (3 if is_slow else 1)

    def may_send(self, name: str) -> bool:
        """Whether the source has a credit, or needs none."""
        stream = self.world.books.streams.get(name)
        return stream is None or not stream.spec.credits or stream.credits > 0

    # --- frames -----------------------------------------------------------------

    @rule(name=st.sampled_from(STREAMS), gap=units(0, 300), age=units(0, 30))
    def a_frame_arrives(self, name: str, gap: int, age: int) -> None:
        if self.may_send(name):
            self.deliver(name, self.later(gap), age)

    @rule(name=st.sampled_from(STREAMS), count=st.integers(2, 6), age=units(0, 2000))
    def a_burst_arrives_after_a_stall(self, name: str, count: int, age: int) -> None:
        for number in range(count):
            self.deliver(name, self.world.now_ns, age * (count - number) // count)

    @rule(gap=units(0, 100))
    def every_camera_delivers_at_the_same_moment(self, gap: int) -> None:
        at_ns = self.later(gap)
        for name in self.world.books.streams:
            self.deliver(name, at_ns, 0)

    @rule(
        name=st.sampled_from(STREAMS),
        offset=st.sampled_from([-(10**10), -(10**8), 10**8, 10**10]),
    )
    def a_stamp_is_wrong(self, name: str, offset: int) -> None:
        spec = self.known.get(name)
        gap = spec.period_ns if spec else 0
        self.deliver(name, self.later(gap), 0, offset)

    @rule(name=st.sampled_from(STREAMS), deadline=st.sampled_from([0, 2**62, 2**80]))
    def a_deadline_is_extreme(self, name: str, deadline: int) -> None:
        sequence = self.next_sequence[name]
        self.next_sequence[name] += 1
        now_ns = self.world.now_ns
        self.world.tell(now_ns, FrameArrived(name, sequence, now_ns, deadline))

    @rule(name=st.sampled_from(STREAMS))
    def a_sequence_number_comes_again(self, name: str) -> None:
        stream = self.world.books.streams.get(name)
        if stream is not None and stream.last_sequence >= 0:
            now_ns = self.world.now_ns
            self.world.arrive(name, stream.last_sequence, now_ns, now_ns)

    # --- work -------------------------------------------------------------------

    @precondition(lambda self: self.world.books.batches)
    @rule(
        which=st.integers(0, 8),
        pace=st.sampled_from([1000, 1000, 1000, 1000, 700, 1500, 8000]),
    )
    def a_job_finishes(self, which: int, pace: int) -> None:
        batch = self.pick(which)
        end_ns = batch.start_ns + self.cost_ns(batch) * pace // 1000
        self.world.finish(batch, max(self.world.now_ns, end_ns))

    @precondition(lambda self: self.world.books.batches)
    @rule(which=st.integers(0, 8), gap=units(0, 100))
    def a_job_fails(self, which: int, gap: int) -> None:
        jobs = self.pick(which).jobs
        self.world.tell(
            self.later(gap), JobFailed(jobs, Fate.FAILED, Reason.STAGE_ERROR)
        )

    @precondition(lambda self: self.world.books.batches)
    @rule(which=st.integers(0, 8), bad=st.integers(0, 3), waits=units(0, 50))
    def one_of_a_batch_fails(self, which: int, bad: int, waits: int) -> None:
        """The others go on; and the sinks took a while after the result was there."""
        batch = self.pick(which)
        failed = Failed(
            batch.jobs[bad % len(batch.jobs)], Fate.FAILED, Reason.BAD_OUTPUT
        )
        delivered_ns = max(self.world.now_ns, self.end_ns(batch, 0))
        end_ns = delivered_ns + waits
        event = JobDone(batch.jobs, end_ns - batch.start_ns, (failed,), delivered_ns)
        self.world.tell(end_ns, event)

    @precondition(lambda self: self.world.books.batches)
    @rule(which=st.integers(0, 8))
    def a_worker_finds_that_it_is_too_late(self, which: int) -> None:
        jobs = self.pick(which).jobs
        self.world.tell(self.world.now_ns, JobFailed(jobs, Fate.DROPPED, Reason.DOOMED))

    @precondition(lambda self: self.world.ended)
    @rule(which=st.integers(0, 8), failed=st.booleans())
    def the_end_of_a_job_is_told_twice(self, which: int, failed: bool) -> None:
        jobs = self.world.ended[which % len(self.world.ended)]
        self.unknown(jobs, failed)

    @precondition(lambda self: self.world.books.batches)
    @rule(which=st.integers(0, 8), failed=st.booleans())
    def a_job_ends_that_never_began(self, which: int, failed: bool) -> None:
        job = self.pick(which).jobs[0]
        self.unknown((job._replace(sequence=job.sequence + 1000),), failed)
        self.unknown((job._replace(stream="nobody"),), failed)
        self.unknown((job._replace(release_ns=job.release_ns - 1),), failed)

    @precondition(lambda self: self.world.books.batches)
    @rule(which=st.integers(0, 8), failed=st.booleans())
    def an_end_is_told_of_jobs_that_did_not_run_together(
        self, which: int, failed: bool
    ) -> None:
        """Half of a batch, or two batches as one: not what was started."""
        jobs = self.pick(which).jobs
        others = self.pick(which + 1).jobs
        if len(jobs) > 1:
            self.unknown(jobs[:1], failed)
        if others != jobs:
            self.unknown(jobs + others, failed)

    def unknown(self, jobs: tuple[Job, ...], failed: bool) -> None:
        event = JobFailed(jobs, Fate.FAILED, Reason.HUNG) if failed else None
        self.world.tell(self.world.now_ns, event or JobDone(jobs, UNIT_NS))

    # --- time -------------------------------------------------------------------

    @precondition(lambda self: self.world.books.timer_ns is not None)
    @rule(times=st.integers(1, 3))
    def the_timer_fires(self, times: int) -> None:
        due_ns = max(self.world.now_ns, self.world.books.timer_ns or 0)
        for _ in range(times):
            self.world.tell(due_ns, TimerFired())

    @rule()
    def a_timer_fires_that_nobody_set(self) -> None:
        self.world.tell(self.world.now_ns, TimerFired())

    @precondition(lambda self: self.world.log)
    @rule(back=units(1, 10_000), name=st.sampled_from(STREAMS))
    def time_goes_back(self, back: int, name: str) -> None:
        before_ns = self.world.now_ns
        self.deliver(name, before_ns - back, 0)
        assert self.world.now_ns == before_ns

    # --- the surroundings -------------------------------------------------------

    @rule(which=st.integers(0, 2), permille=st.sampled_from([250, 500, 1000, 1000]))
    def a_clock_changes(self, which: int, permille: int) -> None:
        name = self.resources[which % len(self.resources)].name
        self.world.tell(self.world.now_ns, ClockChanged(name, permille))

    @rule(name=st.sampled_from(STREAMS), unlikely=st.integers(0, 3))
    def a_stream_goes(self, name: str, unlikely: int) -> None:
        if unlikely == 3:
            self.world.tell(self.world.now_ns, StreamRemoved(name))

    @rule(name=st.sampled_from(STREAMS), data=st.data())
    def a_stream_comes(self, name: str, data: st.DataObject) -> None:
        """Also one that is there, or goes, and is refused."""
        books = self.world.books
        spec = self.known.get(name)
        if spec is None or data.draw(st.booleans()):
            spec = data.draw(specs(name, self.resources))
        before = books.streams.get(name)
        self.world.tell(self.world.now_ns, StreamAdded(spec))
        if books.streams.get(name) is not before:
            self.known[name] = spec
            self.next_sequence[name] = 0

    @rule(permille=st.sampled_from([0, 500]))
    def something_is_told_of_what_does_not_exist(self, permille: int) -> None:
        now_ns = self.world.now_ns
        self.world.tell(now_ns, ClockChanged("nothing", permille))
        lost = StreamSpec("lost", (Step("step", "nothing", stateful=False),))
        self.world.tell(now_ns, StreamAdded(lost))
        assert "lost" not in self.world.books.streams

    @rule(by=st.sampled_from([copy.deepcopy, restored]))
    def it_goes_on_with_a_copy_of_itself(self, by: Copy) -> None:
        self.world.core = by(self.world.core)

    @precondition(lambda self: len(self.world.log) > 20)
    @rule(unlikely=st.integers(0, 9))
    def everything_stops(self, unlikely: int) -> None:
        if unlikely == 9:
            self.world.tell(self.world.now_ns, Stop())

    # --- the end ----------------------------------------------------------------

    @invariant()
    def estimates_stand_in_order(self) -> None:
        """Optimistic, likely, hardly ever exceeded; never negative."""
        for stream in self.world.books.all_streams():
            for row in stream.costs:
                for cost in row:
                    times = cost.alone
                    assert 0 <= times.shed_ns <= times.plan_ns <= times.guard_ns

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        world = self.world
        world.drain()
        policy = world.books.policy
        replays.check_same(world.log, self.specs, self.resources, policy)
        replays.check_shifted(world.log, self.specs, self.resources, policy)
        replays.check_renamed(world.log, self.specs, self.resources, policy)
        replays.check_scaled(world.log, self.specs, self.resources, policy)


CoreMachine.TestCase.settings = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    print_blob=True,
)
TestCoreMachine = CoreMachine.TestCase
