"""Whether what the scheduler core decided was also right, judged from outside.

Each function stands for rules that hold at every single decision. The estimates are
the books' own. What a rule cannot know from outside (which frame is run as a probe, on
which rung a frame of a ladder waits) it leaves open, and says so.
"""

from edgepipe.scheduler.core import MOST_ABANDONED
from edgepipe.scheduler.deadlines import NEVER_NS
from edgepipe.scheduler.dispatch import RESERVE_AFTER
from edgepipe.scheduler.events import (
    Action,
    Cause,
    Event,
    Evidence,
    Leave,
    Redated,
    RungChanged,
    SetTimer,
    Start,
    TimerFired,
)
from edgepipe.scheduler.fates import Reason
from edgepipe.scheduler.guard import RECHECK_NS
from edgepipe.scheduler.job import Criticality, Mode, OnMiss, Overflow
from edgepipe.scheduler.policy import Shed, by_freshness
from tests.scheduler.reference_books import Books, RefFrame, RefStream

GIVEN_UP = {Reason.DOOMED, Reason.EXPIRED}


def judge_figures(action: Action) -> None:
    """Times are whole numbers; a float or a NaN never gets into a decision."""
    for name, value in zip(action._fields, action, strict=True):
        if name.endswith("_ns"):
            assert value is None or type(value) is int, f"{name} of {action}"
    if isinstance(action, Start):
        for job in action.jobs:
            assert type(job.release_ns) is int
            assert type(job.deadline_ns) is int
    if isinstance(action, Leave) and action.evidence is not None:
        assert action.evidence.needed_ns >= 0, "nothing takes less than no time"
        assert action.evidence.waiting >= 0
        assert action.short_ns >= 0


def judge_timer(books: Books, timer: SetTimer, event: Event) -> None:
    """It is not set to the present again and again."""
    if isinstance(event, TimerFired):
        assert timer.at_ns > books.now_ns


def judge_redating(books: Books, frame: RefFrame, action: Redated) -> None:
    """Only who may doubt stamps does, and the new deadline is the stream's."""
    spec = frame.stream.spec
    assert books.policy.dates
    assert spec.deadline_ns, "frames that bring their deadline are believed"
    assert (action.stream, action.sequence) == (spec.id, frame.sequence)
    assert action.deadline_ns == action.capture_ns + spec.deadline_ns


def judge_move(books: Books, stream: RefStream, move: RungChanged) -> None:
    """One rung at a time, within the ladder; up only on trial."""
    assert books.policy.ladder
    assert 0 <= move.rung < len(stream.spec.ladder)
    assert abs(move.rung - stream.rung) == 1
    assert (move.rung < stream.rung) == (move.cause is Cause.PROBE)


# --- starts ---------------------------------------------------------------------


def judge_batch(start: Start, frames: list[RefFrame]) -> None:
    """A batch is of one kind: key, variant, criticality, resource; and not too big."""
    first, job = frames[0], start.jobs[0]
    step = first.stream.spec.steps[job.step]
    limit = step.batch_max
    rung_limit = first.stream.spec.ladder[job.rung].batch_max
    assert len(frames) <= min(limit, rung_limit or limit)
    for other, its_job in zip(frames[1:], start.jobs[1:], strict=True):
        its_step = other.stream.spec.steps[its_job.step]
        assert its_step.batch_key == step.batch_key != ""
        assert its_job.resource == job.resource
        assert other.band == first.band, "a batch is of one criticality"
        ours = first.stream.costs[job.rung][job.step]
        assert other.stream.costs[its_job.rung][its_job.step] is ours, "of one variant"


def judge_start(books: Books, start: Start, frames: list[RefFrame]) -> None:
    """What begins can be in time, goes before the others and does them no harm."""
    _judge_latest_start(books, start, frames)
    resource = start.jobs[0].resource
    if not books.is_planned(resource):
        _judge_order(books, frames, resource)
    elif not books.policy.ladder and books.resources[resource].slots == 1:
        _judge_plan(books, frames, resource)


def _judge_latest_start(books: Books, start: Start, frames: list[RefFrame]) -> None:
    """A job that must not be late can still be in time when it begins.

    By the optimistic estimate, or else it is a probe, whose deadline has not passed.
    Where late results are taken, and under policies that shed nothing, nothing is said.
    """
    limits = [
        frame.deadline_ns
        for frame in frames
        if frame.stream.spec.on_miss is OnMiss.DROP
        and books.policy.shed is not Shed.NEVER
    ]
    if not limits:
        assert start.latest_start_ns is None
        return
    assert start.latest_start_ns is not None
    assert books.now_ns <= start.latest_start_ns <= min(limits)
    known = all(frame.is_measured for frame in frames) or not books.policy.ladder
    if books.policy.shed is Shed.DOOMED and known:
        earliest_ns = min(
            frame.deadline_ns - max(frame.needs_ns())
            for frame in frames
            if frame.stream.spec.on_miss is OnMiss.DROP
        )
        assert start.latest_start_ns >= earliest_ns


def _judge_order(books: Books, frames: list[RefFrame], resource: str) -> None:
    """Where nothing is planned the policy's order decides, ties by arrival."""
    assert len(frames) == 1
    order = books.policy.order
    waiting = books.ready(resource)
    assert order(frames[0]) == min(order(frame) for frame in waiting)


def _judge_plan(books: Books, frames: list[RefFrame], resource: str) -> None:
    """With one slot where it is planned: deadlines decide, and blocking is bounded."""
    waiting = books.ready(resource)
    windows = {id(frame): _window(books, frame, resource) for frame in waiting}
    head = frames[0]
    if any(window is None for window in windows.values()):
        return  # what comes after this resource has to wait: not known from outside
    plan = sorted(
        (window[1], frame.arrival, window[0], frame)
        for frame in waiting
        if (window := windows[id(frame)]) is not None
    )
    more = [entry for entry in plan if entry[3].band < head.band]
    if not more:
        same = [entry for entry in plan if entry[3].band == head.band]
        if len(same) == len(plan) and _fits(books.now_ns, plan):
            first = plan[0][3]
            if head.band == books.top_band(resource) and first is not head:
                is_sure = _is_sure(books, first, windows[id(first)])
                assert not is_sure, "the earliest deadline of equals goes first"
            _judge_company(books, frames, plan)
    elif _promised_everything(more[0][3]):
        local_ns, _, own_ns, _ = more[0]
        cost = head.stream.costs[0][head.step]
        end_ns = books.now_ns + cost.guard_ns(1)
        if books.policy.guard and books.now_ns + own_ns <= local_ns:
            assert end_ns + own_ns <= local_ns, "it does not delay what matters more"


def _promised_everything(frame: RefFrame) -> bool:
    """Whether no contract allows that the frame is lost."""
    spec = frame.stream.spec
    return spec.criticality is Criticality.CRITICAL and spec.contract is None


def _judge_company(
    books: Books, frames: list[RefFrame], plan: list[tuple[int, int, int, RefFrame]]
) -> None:
    """Who goes first, or joins a batch, makes neither a member late nor others."""
    size = len(frames)
    head = frames[0]
    cost = head.stream.costs[0][head.step]
    for local_ns, _, _, frame in plan:
        if frame in frames and size > 1:
            assert books.now_ns + cost.guard_ns(size) <= local_ns
    rest = [entry for entry in plan if entry[3] not in frames]
    assert _fits(books.now_ns + cost.plan_ns(size), rest)


def _window(books: Books, frame: RefFrame, resource: str) -> tuple[int, int] | None:
    """What a frame needs on the resource, and when it must have left it.

    None if that depends on how long it must wait for what comes after, or if the
    newest frame of its stream goes first. With a ladder, on the rung that takes most.
    """
    spec = frame.stream.spec
    if spec.mode is Mode.FRESHEST_FIRST or books.policy.order is by_freshness:
        return None
    own_ns = after_ns = 0
    rungs = len(spec.ladder) if books.policy.ladder else 1
    for index, step in enumerate(spec.steps):
        if index < frame.step or (frame.track_only and not step.runs_on_track_only):
            continue
        rows = frame.stream.costs[:rungs]
        plan_ns = max(row[index].alone.plan_ns for row in rows)
        if step.resource == resource:
            own_ns += plan_ns
        elif books.free_slots(step.resource):
            after_ns += plan_ns
        else:
            return None
    return own_ns, frame.deadline_ns - after_ns


def _is_sure(books: Books, frame: RefFrame, window: tuple[int, int] | None) -> bool:
    """Whether it will be in time if it begins now, also if it should take long."""
    if window is None:
        return False
    own_ns, local_ns = window
    longest_ns = max(row[frame.step].guard_ns(1) for row in frame.stream.costs)
    return books.now_ns + max(own_ns, longest_ns) <= local_ns


def _fits(now_ns: int, plan: list[tuple[int, int, int, RefFrame]]) -> bool:
    for local_ns, _, own_ns, _ in plan:
        now_ns += own_ns
        if now_ns > local_ns:
            return False
    return True


# --- drops ----------------------------------------------------------------------


def judge_drop(books: Books, leave: Leave, frame: RefFrame, *, is_new: bool) -> None:
    """Every drop has a reason that holds, and its evidence says so."""
    spec, reason = frame.stream.spec, leave.reason
    if reason is Reason.SHUTDOWN:
        assert books.stopped or frame.stream in books.leaving
        return
    assert not books.stopped or not is_new
    assert leave.evidence is not None, "a decision comes with its evidence"
    assert leave.evidence.left_ns == frame.deadline_ns - books.now_ns
    if reason is Reason.STALE:
        assert is_new
        assert leave.evidence.left_ns < 0
        assert spec.on_miss is OnMiss.DROP
        assert books.policy.shed is not Shed.NEVER
    elif reason is Reason.RATE_CAP:
        assert is_new
        assert spec.min_interval_ns
    elif reason is Reason.STRIDE:
        assert is_new
        assert any(rung.stride > 1 for rung in spec.ladder)
    elif reason is Reason.OVERFLOW:
        _judge_overflow(frame, is_new=is_new)
    elif reason is Reason.SUPERSEDED:
        _judge_superseded(books, leave, frame)
    else:
        assert reason in GIVEN_UP
        _judge_given_up(books, leave, frame)


def _judge_overflow(frame: RefFrame, *, is_new: bool) -> None:
    """There was no room, and the queue's policy chose the victim."""
    stream = frame.stream
    newest = max(stream.frames.values(), key=lambda other: other.sequence)
    room = stream.room + 1  # the newcomer is in the books already
    assert room < 1, "a queue with room drops nothing"
    waiting = [
        other
        for other in stream.frames.values()
        if other.queued and other.job is None and other is not newest
    ]
    if stream.spec.overflow is Overflow.DROP_OLDEST and waiting:
        assert frame is min(waiting, key=lambda other: other.sequence)
    else:
        assert is_new


def _judge_superseded(books: Books, leave: Leave, frame: RefFrame) -> None:
    """A newer frame of the stream is here, and the stream wants it that way."""
    assert leave.evidence is not None
    newer = leave.evidence.newer
    assert newer is not None
    assert newer > frame.sequence
    assert newer in frame.stream.frames
    assert (
        books.policy.keep is not None
        or frame.stream.spec.mode is not Mode.ALL
        or books.policy.order is by_freshness
    )


def _judge_given_up(books: Books, leave: Leave, frame: RefFrame) -> None:
    """It cannot be in time: by its deadline, or even by the optimistic estimate."""
    found = leave.evidence
    assert found is not None
    assert frame.stream.spec.on_miss is OnMiss.DROP
    if books.policy.shed is Shed.DOOMED:
        assert leave.reason is Reason.DOOMED
        assert found.left_ns < found.needed_ns, "what fits is not given up"
        assert leave.short_ns == found.needed_ns - found.left_ns
        if frame.is_measured or not books.policy.ladder:
            assert any(
                _is_hopeless(books, frame, found, needed_ns)
                for needed_ns in (frame.needed_before, frame.needs_ns())
            )
    else:
        assert leave.reason is Reason.EXPIRED
        assert books.policy.shed is Shed.EXPIRED
        assert found.left_ns < 0


def _is_hopeless(
    books: Books, frame: RefFrame, found: Evidence, needed_ns: list[int]
) -> bool:
    """Whether the core needed what the books say, and no lighter variant fits.

    The core gives up what is due before it takes an event in, and again after it.
    """
    if found.needed_ns not in needed_ns:
        return False
    if not books.policy.ladder or frame.track_only:
        return True
    return found.left_ns < min(needed_ns[frame.stream.rung :])


# --- at any moment ----------------------------------------------------------------


def judge_state(books: Books) -> None:
    """What holds whenever the core has answered."""
    _note_starvation(books)
    for name in books.resources:
        assert books.free_slots(name) >= 0, "never more jobs than slots"
        _judge_idleness(books, name)
    for stream in books.streams.values():
        assert stream.queued <= stream.spec.queue_capacity, "a queue is bounded"
        assert len(stream.frames) <= stream.spec.max_in_flight
        if stream.spec.credits and not books.stopped:
            assert stream.credits == stream.room, "room is granted, all of it, once"
        _judge_rate(stream.admitted_ns, stream.spec.min_interval_ns)
        for step in range(len(stream.spec.steps)):
            _judge_freshness(books, list(stream.frames.values()), step)
    _judge_watch(books)
    for stream in books.leaving:
        assert all(frame.job for frame in stream.frames.values()), "only what runs"


def _judge_idleness(books: Books, resource: str) -> None:
    """A slot stays free while something is ready only for a reason, and with a timer.

    It is kept no longer than the job would take that could have it, and a bit.
    Either all that waits and will be in time could harm what matters more, or the slot
    is kept for a stream that has missed too many frames in a row.
    """
    waiting = books.ready(resource)
    if not waiting or not books.free_slots(resource):
        return
    assert not books.stopped
    assert books.is_planned(resource), "nothing is guarded where nothing is planned"
    assert books.policy.guard
    assert books.timer_ns is not None, "idle time ends by itself"
    longest_ns = max(frame.longest_ns for frame in waiting)
    assert books.timer_ns <= books.now_ns + longest_ns + RECHECK_NS, "and soon"
    starved_ns = books.starved_ns.get(resource)
    if starved_ns is None or books.now_ns > starved_ns + longest_ns + RECHECK_NS:
        assert not any(
            frame.band == books.top_band(resource)
            and _is_sure(books, frame, _window(books, frame, resource))
            for frame in waiting
        ), "who will surely be in time does not wait for a free slot"


def _note_starvation(books: Books) -> None:
    """Remember when a slot may last have been kept for a stream that starves."""
    for stream in books.streams.values():
        if stream.miss_run >= RESERVE_AFTER:
            for step in stream.spec.steps:
                books.starved_ns[step.resource] = books.now_ns


def _judge_watch(books: Books) -> None:
    """A frame that waits is looked at again when its deadline has passed."""
    if books.policy.shed is Shed.NEVER:
        return
    for frame in books.all_frames():
        if (
            frame.job is None
            and frame.stream.spec.on_miss is OnMiss.DROP
            and frame.deadline_ns < NEVER_NS
        ):
            assert books.timer_ns is not None
            assert books.timer_ns <= frame.deadline_ns + 1


def _judge_rate(admitted_ns: list[int], interval_ns: int) -> None:
    """A rate cap holds over any number of frames, but for half an interval."""
    del admitted_ns[:-8]
    if not interval_ns:
        return
    newest_ns = admitted_ns[-1] if admitted_ns else 0
    for count, earlier_ns in enumerate(reversed(admitted_ns)):
        assert newest_ns - earlier_ns >= count * interval_ns - interval_ns // 2


def _judge_freshness(books: Books, frames: list[RefFrame], step: int) -> None:
    """No more frames wait for a step than the policy or the stream keeps."""
    keep = books.policy.keep
    if keep is None and frames and frames[0].stream.spec.mode is Mode.LATEST_ONLY:
        keep = 1
    if keep is not None:
        waiting = [f for f in frames if f.job is None and f.step == step]
        assert len(waiting) <= keep


def judge_memory(books: Books, jobs_waiting: int) -> None:
    """What the core keeps is bounded by what is in flight and a constant."""
    waiting = sum(frame.job is None for frame in books.all_frames())
    assert jobs_waiting <= waiting + MOST_ABANDONED
