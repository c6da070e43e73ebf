"""Inserted idle time: who may start although something more important will come.

A job that has begun cannot be stopped. Before one starts that matters less than other
streams of its resource, the near future is played with it and without it: what waits,
what is on its way, and what is expected. A stream of a lower class may cost a higher
one a frame in two cases only, both within what the other's contract still allows: if it
is worth more than the loss that is to be expected of it, or if it starves.
"""

from collections.abc import Sequence
from typing import NamedTuple

from edgepipe.scheduler import forecast, plan
from edgepipe.scheduler.job import PERMILLE
from edgepipe.scheduler.lighter import follow, lighter
from edgepipe.scheduler.plan import Coming, Entry
from edgepipe.scheduler.state import FrameState, ResourceState, StreamState

RECHECK_NS = 5_000_000
"""How long a job that is held back waits at most for the next look."""

PATIENCE_NS = 50_000_000
"""A starved stream that has waited so long for a chance as good as the best it has seen
takes one that is twice as dear, after twice as long three times, and so on."""


PRICED = 8
"""A chance is priced for so many of the measured times, evenly spread."""

UNKNOWN_NS = 100_000_000
"""What a job may take that nobody has measured and no profile knows, if something more
important is waiting."""


class _Future(NamedTuple):
    """What may be broken by a job that starts now."""

    ends: Sequence[int]
    """When each slot becomes free without it, the one it would take first."""
    coming: Sequence[Coming]
    lost_anyway: frozenset[int]
    """Those that could not be in time without it, by their order."""

    def broken_by(self, cost_ns: int) -> list[Coming]:
        """What is lost if the job takes so long, and would not be lost without it."""
        late = plan.broken([self.ends[0] + cost_ns, *self.ends[1:]], self.coming)
        return [job for job in late if job.order not in self.lost_anyway]


class Guard:
    """Keeps long jobs of a lower class away from the frames of higher ones."""

    def __init__(self, *, may_lighten: bool) -> None:
        self._may_lighten = may_lighten

    def may_start(
        self,
        entry: Entry,
        entries: Sequence[Entry],
        resource: ResourceState,
        now_ns: int,
    ) -> bool:
        """Whether the job may start; it may have been put on a cheaper rung for it."""
        if self._breaks_nothing(entry, entries, resource, now_ns):
            return True
        stream = entry.frame.stream
        if stream.refused_since_ns is None:
            stream.refused_since_ns = now_ns
        return self._may_lighten and self._may_start_lighter(
            entry, entries, resource, now_ns
        )

    def _breaks_nothing(
        self,
        entry: Entry,
        entries: Sequence[Entry],
        resource: ResourceState,
        now_ns: int,
    ) -> bool:
        """Whether starting this job breaks nothing that it must not."""
        frame = entry.frame
        cost = frame.costs[frame.step].alone
        cost_ns = cost.guard_ns
        if not cost_ns:
            if _starves(frame.stream, now_ns) or not any(
                entry.frame.band < frame.band for entry in entries
            ):
                return True
            cost_ns = UNKNOWN_NS
        elif any(_lately_missed(stream, frame.band) for stream, _ in resource.users):
            cost_ns = cost.worst_ns
        coming = forecast.coming(
            resource, entries, frame.band, now_ns, now_ns + cost_ns
        )
        if not coming:
            return True
        ends = forecast.slot_ends(resource, now_ns)
        future = _Future(ends, coming, frozenset())
        # Mostly even a short run costs something: then there is little to think about.
        short = future.broken_by(cost.shed_ns)
        if not short and not future.broken_by(cost_ns):
            return True
        lost = frozenset(job.order for job in plan.broken(ends, coming))
        if not _wants(frame.stream, now_ns) and any(
            job.order not in lost for job in short
        ):
            return False
        future = future._replace(lost_anyway=lost)
        late = future.broken_by(cost_ns)
        return (
            not late
            or self._is_worth_the_risk(frame, late, future)
            or self._may_spend(frame, late, future)
        )

    def _may_start_lighter(
        self,
        entry: Entry,
        entries: Sequence[Entry],
        resource: ResourceState,
        now_ns: int,
    ) -> bool:
        """Whether a job that found no chance so far may start on a cheaper rung.

        It waits half of its time for a chance at full quality.
        """
        frame = entry.frame
        cheaper = lighter(entry, resource)
        if cheaper is None:
            return False
        latest_ns = cheaper.local_ns - cheaper.cost_ns
        if (
            now_ns - frame.release_ns >= (latest_ns - frame.release_ns) // 2
        ) and self._breaks_nothing(cheaper, entries, resource, now_ns):
            return True
        follow(frame)
        return False

    def _is_worth_the_risk(
        self, frame: FrameState, late: Sequence[Coming], future: _Future
    ) -> bool:
        """Whether the frame is worth more than what a long run of it may cost.

        Each stream earns an allowance for that with its frames, a part of what its
        contract allows to lose.
        """
        times = frame.costs[frame.step].alone
        if not times.measured or not _is_allowed(late, future.ends[0]):
            return False
        harmless, n = 0, len(times.ordered)
        last = n
        while harmless < last:
            middle = (harmless + last) // 2
            if future.broken_by(times.scaled(times.ordered[middle])):
                last = middle
            else:
                harmless = middle + 1
        risk = PERMILLE * (n - harmless) // n
        at_risk = {job.stream.index: job.stream for job in late}
        weight = sum(stream.spec.weight for stream in at_risk.values())
        if risk * weight > PERMILLE * frame.stream.spec.weight:
            return False
        if any(risk > stream.allowance for stream in at_risk.values()):
            return False
        for stream in at_risk.values():
            stream.allowance -= risk
        _mark_at_risk(late)
        return True

    def _may_spend(
        self, frame: FrameState, late: Sequence[Coming], future: _Future
    ) -> bool:
        """Whether a stream that starves may cost others these frames now.

        Shortly before its time is up the chances are watched; then the first that is
        no worse than the best one seen is taken. What a chance costs depends on how
        long the job will really take, so it is priced for the times that were measured.
        """
        stream, now_ns = frame.stream, future.ends[0]
        limit_ns, since_ns = stream.spec.min_service_ns, stream.served_ns
        if not limit_ns or since_ns is None:
            return False
        if not _wants(stream, now_ns) or not _is_allowed(late, now_ns):
            return False
        starved_ns = now_ns - since_ns
        cost = frame.costs[frame.step].alone
        price = sum(
            _weight(future.broken_by(cost_ns)) for cost_ns in cost.spread(PRICED)
        )
        seen = stream.best_price
        if 32 * starved_ns < 31 * limit_ns:
            stream.best_price = price if seen is None else min(seen, price)
            return False
        impatience = (32 * starved_ns - 31 * limit_ns) // (32 * PATIENCE_NS)
        if seen is not None and price > seen + seen * impatience:
            return False
        _mark_at_risk(late)
        return True

    def hold_until(
        self,
        head: Entry,
        pressed: Entry,
        entries: Sequence[Entry],
        resource: ResourceState,
        now_ns: int,
    ) -> int | None:
        """Until when to keep the slot so that a pressed job finds its chance.

        The chance of a long job comes right after the most important stream was served
        on arrival. If the head would be in the way of that, and everything can still be
        in time, it waits. None: it need not.
        """
        if not resource.top_band < head.frame.band < pressed.frame.band:
            return None
        cost = pressed.frame.costs[pressed.frame.step].alone
        until_ns = now_ns + 2 * (head.cost_ns + cost.guard_ns)
        coming = forecast.coming(
            resource, entries, pressed.frame.band, now_ns, until_ns
        )
        for first in coming:
            if first.release_ns >= now_ns + head.cost_ns:
                return None
            if first.release_ns > now_ns and first.stream.band == resource.top_band:
                break
        else:
            return None
        begin_ns = first.release_ns + first.cost_ns
        rest = [job for job in coming if job is not first]
        ends = [begin_ns, *forecast.slot_ends(resource, now_ns)[1:]]
        lost = frozenset(job.order for job in plan.broken(ends, rest))
        if _Future(ends, rest, lost).broken_by(cost.plan_ns):
            return None
        return first.release_ns + RECHECK_NS


def pressed_first(
    candidates: Sequence[Entry], resource: ResourceState, now_ns: int
) -> tuple[Sequence[Entry], Entry | None]:
    """The first that was held back before goes first, since its chances are few.

    Not if others of its own criticality would not fit behind it; the guard sees to the
    more important ones. Returns it as well, None if there is none.
    """
    pressed = next(
        (e for e in candidates if e.frame.stream.refused_since_ns is not None), None
    )
    if pressed is None or pressed is candidates[0]:
        return candidates, pressed
    rest = [entry for entry in candidates if entry is not pressed]
    alike = [entry for entry in rest if entry.frame.band == pressed.frame.band]
    cost_ns = pressed.frame.costs[pressed.frame.step].alone.plan_ns
    ends = [now_ns + cost_ns, *forecast.slot_ends(resource, now_ns)[1:]]
    if not plan.fits(alike, ends):
        return candidates, None
    return [pressed, *rest], pressed


def _starves(stream: StreamState, now_ns: int) -> bool:
    """Whether the stream has not been served for longer than it should be."""
    limit_ns, since_ns = stream.spec.min_service_ns, stream.served_ns
    return bool(limit_ns) and since_ns is not None and now_ns - since_ns >= limit_ns


def _wants(stream: StreamState, now_ns: int) -> bool:
    """Whether three quarters of the time have passed after which it starves."""
    limit_ns, since_ns = stream.spec.min_service_ns, stream.served_ns
    if not limit_ns or since_ns is None:
        return False
    return 4 * (now_ns - since_ns) >= 3 * limit_ns


def _lately_missed(stream: StreamState, band: int) -> bool:
    """Whether one more miss of a more important stream could break its contract."""
    contract = stream.spec.contract
    return stream.band < band and contract is not None and stream.miss_age < contract.k


def _weight(late: Sequence[Coming]) -> int:
    return sum(job.stream.spec.weight for job in late)


def _is_allowed(late: Sequence[Coming], now_ns: int) -> bool:
    """Whether the contracts allow that these are lost."""
    lost: dict[int, int] = {}
    for job in late:
        stream = job.stream
        lost[stream.index] = lost.get(stream.index, 0) + 1
        if now_ns < stream.at_risk_ns or lost[stream.index] > stream.margin():
            return False
    return True


def _mark_at_risk(late: Sequence[Coming]) -> None:
    """Until these are over nobody knows what the contracts still allow."""
    for job in late:
        job.stream.at_risk_ns = max(
            job.stream.at_risk_ns, job.local_ns + job.stream.spec.deadline_ns
        )
