"""Which of the jobs that wait for a resource starts next, if any may."""

from collections.abc import Sequence
from typing import NamedTuple

from edgepipe.scheduler import forecast, plan
from edgepipe.scheduler.guard import RECHECK_NS, Guard, pressed_first
from edgepipe.scheduler.job import PERMILLE, Mode, OnMiss
from edgepipe.scheduler.lighter import follow, lighter
from edgepipe.scheduler.plan import Entry
from edgepipe.scheduler.policy import Policy, Shed, by_freshness
from edgepipe.scheduler.state import FOREVER_NS, FrameState, ResourceState

PROBE_EVERY = 8
"""After so many frames were given up on the strength of an estimate that was not fed
in between, one is run all the same: without it a step whose estimate was spoilt by one
long stall would never be measured again."""

RESERVE_AFTER = 10
"""A stream that missed so many frames in a row, though each could have been served,
has the next slot kept for it."""


class Decision(NamedTuple):
    """What to do on one resource now."""

    doomed: Sequence[FrameState]
    """Give these up."""
    batch: Sequence[FrameState]
    """Start these together; none: nothing may start."""
    wake_ns: int | None
    """When to look again although nothing has happened; None: no need."""


class Dispatcher:
    """Decides on planned resources; notes what it has held back, and changes rungs."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.starving = 0
        """How many streams have missed :data:`RESERVE_AFTER` frames in a row."""
        self._guard = Guard(may_lighten=policy.ladder) if policy.guard else None

    def is_doomed(self, frame: FrameState, now_ns: int) -> bool:
        """Whether the frame should be given up now."""
        if frame.stream.spec.on_miss is OnMiss.DELIVER_LATE:
            return False
        left_ns = frame.deadline_ns - now_ns
        if self._policy.shed is not Shed.DOOMED:
            return self._policy.shed is Shed.EXPIRED and left_ns < 0
        needed_ns = 0
        for cost in frame.costs[frame.step :]:
            needed_ns += cost.alone.shed_ns
        frame.needed_ns = needed_ns
        if left_ns >= needed_ns:
            return False
        if frame.is_probe:
            return left_ns < 0
        if self._policy.ladder and self._lighten(frame, left_ns):
            return False
        if (
            frame.deadline_ns - frame.release_ns >= needed_ns
            and not frame.stream.places[frame.step].free
        ):
            return True  # it waited too long; nothing is wrong with the estimate
        for cost in frame.costs[frame.step :]:
            if not cost.alone.shed_ns:
                continue  # what is expected to take no time dooms nobody
            cost.alone.doomed += 1
            if cost.alone.doomed >= PROBE_EVERY and left_ns >= 0:
                cost.alone.doomed = 0
                frame.is_probe = True
        return not frame.is_probe

    def _lighten(self, frame: FrameState, left_ns: int) -> bool:
        """Put a frame that would be late on the first rung on which it is not."""
        stream = frame.stream
        if frame.step > stream.varies_at or frame.track_only:
            return False
        for rung in range(frame.rung + 1, len(stream.costs)):
            costs = stream.costs[rung]
            needed_ns = sum(cost.alone.shed_ns for cost in costs[frame.step :])
            if left_ns >= needed_ns:
                frame.rung, frame.costs, frame.needed_ns = rung, costs, needed_ns
                return True
        return False

    def decide(self, resource: ResourceState, now_ns: int) -> Decision:
        """Choose what starts on a free slot of a resource where the policy plans."""
        ready = resource.ready
        if len(ready) == 1 and self._is_plain(ready[0], resource):
            # By far the most frequent case: one job, and nobody to think of.
            if self.is_doomed(ready[0], now_ns):
                return Decision(ready, (), None)
            return Decision((), ready, None)
        entries, doomed = self._entries(resource, now_ns)
        if not entries:
            return Decision(doomed, (), None)
        first = entries[0]
        kept: list[Entry] = entries
        out: list[Entry] = []
        if len(entries) > 1 and not first.frame.is_probe:
            ends = forecast.slot_ends(resource, now_ns)
            if not plan.fits(entries, ends):
                kept, out = self._relax(entries, ends, resource)
                for entry in out:
                    entry.frame.passed_over += 1
        candidates: Sequence[Entry] = kept or [plan.best(out)]
        wait_ns = resource.wait_until_ns
        if wait_ns is None or now_ns < wait_ns:
            wake_ns = self._keep_slot(candidates, resource, now_ns)
            if wake_ns is not None:
                resource.wait_until_ns = wake_ns if wait_ns is None else wait_ns
                return Decision(doomed, (), resource.wait_until_ns)
        if len(kept) > 1 and not first.frame.is_probe:
            candidates = _surest_first(kept, resource, now_ns)
        chosen, wake_ns = self._first_allowed(candidates, entries, resource, now_ns)
        if chosen is None:
            return Decision(doomed, (), wake_ns)
        if resource.slots > 1 and chosen.frame.stream.spec.credits:
            chosen = _next_ahead(chosen, entries, resource, now_ns)
        step = chosen.frame.stream.spec.steps[chosen.frame.step]
        if self._policy.batch and step.batch_max > 1 and len(entries) > 1:
            batch = self._batch(chosen, kept, out, resource, now_ns)
            return Decision(doomed, batch, None)
        return Decision(doomed, (chosen.frame,), None)

    def _keep_slot(
        self, candidates: Sequence[Entry], resource: ResourceState, now_ns: int
    ) -> int | None:
        """Until when to keep a slot that could be used, for a better use of it."""
        if not self._policy.plan:
            return None
        wake_ns: int | None = None
        if self.starving:
            wake_ns = self._reserve(candidates[0], resource, now_ns)
        if (
            wake_ns is None
            and len(candidates) == 1
            and candidates[0].frame.stream.miss_run
        ):
            wake_ns = _better_wait(candidates[0], resource, now_ns)
        return wake_ns

    def _is_plain(self, frame: FrameState, resource: ResourceState) -> bool:
        """Whether nothing speaks for keeping the slot from it, if it is alone."""
        stream = frame.stream
        return (
            frame.band == resource.top_band
            and frame.rung == stream.rung
            and not stream.miss_run
            and not self.starving
        )

    def _first_allowed(
        self,
        candidates: Sequence[Entry],
        entries: Sequence[Entry],
        resource: ResourceState,
        now_ns: int,
    ) -> tuple[Entry | None, int | None]:
        """The first job that the guard lets start; if none, when to look again."""
        guard = self._guard
        if guard is None or resource.top_band == resource.last_band:
            return candidates[0], None
        wake_ns: int | None = None
        candidates, pressed = pressed_first(candidates, resource, now_ns)
        for entry in candidates:
            if pressed is not None and entry is not pressed:
                hold_ns = guard.hold_until(entry, pressed, entries, resource, now_ns)
                wait_ns = resource.wait_until_ns
                if hold_ns is not None and (wait_ns is None or now_ns < wait_ns):
                    resource.wait_until_ns = hold_ns if wait_ns is None else wait_ns
                    urgent = [
                        e for e in candidates if e.frame.band == resource.top_band
                    ]
                    return (urgent[0], None) if urgent else (None, hold_ns)
            if entry.frame.band == resource.top_band:
                return entry, None
            if guard.may_start(entry, entries, resource, now_ns):
                return entry, None
            wake_ns = now_ns + RECHECK_NS
        return None, wake_ns

    def _entries(
        self, resource: ResourceState, now_ns: int
    ) -> tuple[list[Entry], list[FrameState]]:
        """The jobs that wait, by local deadline, and those to be given up."""
        entries: list[Entry] = []
        doomed: list[FrameState] = []
        freshest = self._policy.order is by_freshness
        sheds = self._policy.shed is Shed.DOOMED
        for frame in resource.ready:
            stream = frame.stream
            if frame.rung != stream.rung and frame.step <= stream.varies_at:
                follow(frame)
            held_by = frame.held_by
            needed_ns, own_ns, after_ns = _times_left(frame, resource, now_ns)
            # Whoever has the time that it needs is not given up, by any rule.
            if frame.deadline_ns - now_ns < needed_ns or not sheds:
                if self.is_doomed(frame, now_ns):
                    frame.held_by = held_by
                    doomed.append(frame)
                    continue
                # It may be on another rung now.
                _, own_ns, after_ns = _times_left(frame, resource, now_ns)
            else:
                frame.needed_ns = needed_ns
            local_ns, order = frame.deadline_ns - after_ns, frame.arrival
            if frame.is_probe:
                local_ns = -FOREVER_NS
            elif freshest or stream.spec.mode is Mode.FRESHEST_FIRST:
                local_ns, order = stream.newest_deadline_ns - after_ns, -order
            entries.append(Entry(local_ns, order, own_ns, frame))
        if len(entries) > 1:
            entries.sort()
        return entries, doomed

    def _relax(
        self, entries: list[Entry], ends: Sequence[int], resource: ResourceState
    ) -> tuple[list[Entry], list[Entry]]:
        """What is done when not all can be in time: lighter work, then fewer frames."""
        if self._policy.ladder:
            for position, entry in sorted(
                enumerate(entries),
                key=lambda item: (-item[1].frame.band, item[1].order),
            ):
                cheaper = lighter(entry, resource)
                if cheaper is None:
                    continue
                entries[position] = cheaper
                if plan.fits(entries, ends):
                    return entries, []
        return plan.leave_out(entries, ends)

    def _reserve(self, head: Entry, resource: ResourceState, now_ns: int) -> int | None:
        """Until when to keep the slot for a stream that is never there at the moment.

        When a job takes about a period, the slot falls free at the same phase again
        and again, and the frames of one stream always come just too late for it.
        """
        chosen: tuple[int, int] | None = None
        least = max(RESERVE_AFTER, head.frame.stream.miss_run + 1)
        for stream, step in resource.users:
            if stream.miss_run < least or stream.band > head.frame.band:
                continue
            found = forecast.next_chance(stream, step, resource, now_ns)
            if found is None:
                continue
            release_ns, latest_ns = found
            patience_ns = head.cost_ns * stream.miss_run // (2 * RESERVE_AFTER)
            if (
                now_ns <= release_ns <= now_ns + min(patience_ns, head.cost_ns)
                and release_ns <= latest_ns < now_ns + head.cost_ns
            ):
                least = stream.miss_run + 1
                chosen = (stream.miss_run, release_ns)
        return None if chosen is None else chosen[1] + RECHECK_NS

    def _batch(
        self,
        head: Entry,
        kept: Sequence[Entry],
        out: Sequence[Entry],
        resource: ResourceState,
        now_ns: int,
    ) -> list[FrameState]:
        """The head and those that can run with it, no member and no other made late."""
        frame = head.frame
        cost = frame.costs[frame.step]
        limit = _batch_limit(frame)
        members = [frame]
        nearest_ns = head.local_ns
        alike = [
            entry
            for entry in (*kept, *out)
            if entry is not head
            and entry.frame.costs[entry.frame.step] is cost
            and entry.frame.band == frame.band
        ]
        if not alike:
            return members
        if out:
            alike.sort()
        others = [entry for entry in kept if entry is not head]
        slots = forecast.slot_ends(resource, now_ns)[1:]
        for entry in alike:
            size = len(members) + 1
            if size > limit:
                break
            # Later steps on this resource are not part of the batch.
            local_ns = min(nearest_ns, entry.local_ns)
            if now_ns + cost.guard_ns(size) > local_ns:
                continue
            rest = [other for other in others if other is not entry]
            if rest and not plan.fits(rest, [now_ns + cost.plan_ns(size), *slots]):
                continue
            members.append(entry.frame)
            nearest_ns, others = local_ns, rest
        return members


def _times_left(
    frame: FrameState, resource: ResourceState, now_ns: int
) -> tuple[int, int, int]:
    """Least time that the frame needs to its end, and what is planned for it.

    The plan: all its steps on the resource, and everything after them, waiting at
    resources that are busy included. Says by ``held_by`` where it would wait.
    """
    needed_ns = own_ns = after_ns = 0
    frame.held_by = None
    step, places = frame.step, frame.stream.places
    for cost in frame.costs[step:]:
        times = cost.alone
        needed_ns += times.shed_ns
        place = places[step]
        if place is resource:
            own_ns += times.plan_ns
        else:
            after_ns += times.plan_ns
            if not place.free:
                wait_ns = forecast.wait_ns(place, frame, now_ns + own_ns)
                if wait_ns:
                    after_ns += wait_ns
                    frame.held_by = place
        step += 1
    return needed_ns, own_ns, after_ns


def _surest_first(
    kept: Sequence[Entry], resource: ResourceState, now_ns: int
) -> Sequence[Entry]:
    """The order of deadlines, or one job before it that is surer than the first.

    If a long run of the first would end late, it is better to stake the slot on one
    that can stand a long run, as long as all others still fit behind it.
    """
    head = kept[0]
    if now_ns + head.frame.costs[head.frame.step].alone.guard_ns <= head.local_ns:
        return kept
    slots = forecast.slot_ends(resource, now_ns)[1:]
    for position in range(1, len(kept)):
        entry = kept[position]
        cost = entry.frame.costs[entry.frame.step].alone
        if (
            entry.frame.band == head.frame.band
            and now_ns + cost.guard_ns <= entry.local_ns
        ):
            rest = [*kept[:position], *kept[position + 1 :]]
            if plan.fits(rest, [now_ns + cost.plan_ns, *slots]):
                return [entry, *rest]
    return kept


def _next_ahead(
    chosen: Entry, entries: Sequence[Entry], resource: ResourceState, now_ns: int
) -> Entry:
    """The first step of the stream's next frame instead, if that keeps a slot busy.

    Where a source waits for credits and its frames take the first step in order, one
    slot after the other would find that step taken and nothing else to do. So one frame
    is always kept that has passed it. Whoever has no time for that is not held up.
    """
    stream = chosen.frame.stream
    if not chosen.frame.step or not stream.spec.steps[0].stateful:
        return chosen
    ahead: Entry | None = None
    for entry in entries:
        if entry is not chosen:
            if entry.frame.stream is not stream or entry.frame.step:
                return chosen  # the other slots will have something to do
            ahead = entry
    if ahead is None or stream.places[0] is not resource:
        return chosen
    first = ahead.frame.costs[0].alone
    rest = [entry for entry in entries if entry is not ahead]
    ends = [now_ns + first.guard_ns, *forecast.slot_ends(resource, now_ns)[1:]]
    return ahead if first.measured and plan.fits(rest, ends) else chosen


def _better_wait(entry: Entry, resource: ResourceState, now_ns: int) -> int | None:
    """Until when to wait for a surer job than the only one there is; None: start it.

    In overload the slot's time is what is scarce. A narrow chance costs its share of a
    whole job, waiting costs the time until the next frame is there.
    """
    frame = entry.frame
    times = frame.costs[frame.step].alone
    left_ns = entry.local_ns - now_ns
    if (
        left_ns >= times.guard_ns
        or not times.measured
        or frame.is_probe
        or frame.stream.spec.on_miss is OnMiss.DELIVER_LATE
    ):
        return None
    stake_ns = entry.cost_ns * times.exceeding(left_ns) // PERMILLE
    for stream, step in resource.users:
        if stream.band > frame.band:
            break
        found = forecast.next_chance(stream, step, resource, now_ns)
        if found is not None and now_ns < found[0] < now_ns + stake_ns:
            return found[0] + RECHECK_NS
    return None


def _batch_limit(frame: FrameState) -> int:
    """Most jobs in a batch with this frame's."""
    limit = frame.stream.spec.steps[frame.step].batch_max
    of_rung = frame.stream.spec.ladder[frame.rung].batch_max
    return limit if of_rung is None else min(limit, of_rung)
