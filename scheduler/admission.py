"""May one more stream join? Judged on what it can be promised at the least.

Only what is certain to fail is refused, and only streams of the same or a higher
criticality can be a reason: a lower one gives way. What is promised is the cheapest
rung of each ladder (RT-MOT, RTSS 2022), batched as well as the deadlines allow. Frames
are not judged here at all: worst-case guarantees for single frames cost more frames
than they save (Buttazzo, Spuri and Sensini, 1995).

1. **Its own time.** A stream whose steps alone take longer than its deadline would
   never deliver anything, unless late results are asked for.
2. **Utilisation.** On each resource that it uses, it and the streams that matter as
   much or more must need no more than all slots. A background stream is promised no
   rate, so it is taken as long as those above it leave anything at all.
3. **Blocking.** A job is never interrupted. The scheduler keeps a long job away from
   the next frame of a more critical stream (inserted idle time), so length alone
   breaks nothing: it only needs a gap to fit in. The longest gap that a stream leaves
   begins when a frame of it ends as early as it can and lasts until the next one must
   begin: ``(period - cost) + (local deadline - cost)``. A longer job would break that
   stream each time it ran, or never run. A job that may cost frames on purpose
   (``min_service_ns``) may be longer by the frames that the other stream's contract
   allows to lose. With two slots or more the other slots serve the critical stream.

A cost or period of 0 is not known, and nothing is held against it.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from edgepipe.scheduler.events import Admitted, Refused
from edgepipe.scheduler.job import (
    PERMILLE,
    Criticality,
    OnMiss,
    Resource,
    StreamSpec,
)
from edgepipe.scheduler.load import (
    CHEAPEST,
    Costs,
    Task,
    demand,
    permille,
    task_on,
)


def admit(
    candidate: StreamSpec,
    admitted: Sequence[StreamSpec],
    resources: Sequence[Resource],
    costs: Costs,
    clock_permille: Mapping[str, int],
    *,
    batched: bool = True,
) -> Admitted | Refused:
    """Decide on a stream that asks to join.

    Args:
        candidate: The stream.
        admitted: The streams that are there, without it.
        resources: All that the streams use.
        costs: What a step of a stream takes alone on the stream's cheapest rung, at
            full clock.
        clock_permille: By resource, where it is not at full clock.
        batched: Whether the policy makes batches.

    Returns:
        The first rule that the stream breaks names the resource and, if somebody's
        deadline cannot be kept, whose: for a stream too slow for its own deadline,
        itself.
    """

    def at_present_clock(stream: StreamSpec, step: int) -> int:
        clock = clock_permille.get(stream.steps[step].resource, PERMILLE)
        return -(-costs(stream, step) * PERMILLE // max(1, clock))

    used = {step.resource for step in candidate.steps}
    shares = {
        resource.name: _shares(resource, candidate, admitted, at_present_clock, batched)
        for resource in resources
        if resource.name in used
    }

    def refused(resource: str, whose: str) -> Refused:
        own, others = shares[resource]
        return Refused(candidate.id, resource, permille(own + others), whose)

    slowest = _too_slow(candidate, at_present_clock)
    if slowest is not None:
        return refused(slowest, candidate.id)
    for name, (own, others) in shares.items():
        is_background = candidate.criticality is Criticality.BACKGROUND
        if own and (others >= 1 if is_background else own + others > 1):
            return refused(name, "")
    for resource in resources:
        if resource.name in used and resource.slots == 1:
            broken = _broken(resource.name, candidate, admitted, at_present_clock)
            if broken is not None:
                return refused(resource.name, broken.id)
    return Admitted(candidate.id)


def _shares(
    resource: Resource,
    candidate: StreamSpec,
    admitted: Sequence[StreamSpec],
    costs: Costs,
    batched: bool,
) -> tuple[Fraction, Fraction]:
    """Shares of the resource: the candidate's, and that of those it cannot displace.

    For a background stream those are the ones above it.
    """
    band = candidate.criticality.band
    if candidate.criticality is Criticality.BACKGROUND:
        band -= 1

    def share(stream: StreamSpec) -> Fraction:
        needed = demand(resource.name, stream, costs, CHEAPEST, batched=batched)
        return needed / resource.slots

    others = [share(each) for each in admitted if each.criticality.band <= band]
    return share(candidate), sum(others, Fraction(0))


def _too_slow(stream: StreamSpec, costs: Costs) -> str | None:
    """Where a stream spends most time that can never meet its deadline; else None."""
    if not stream.deadline_ns or stream.on_miss is OnMiss.DELIVER_LATE:
        return None
    # A frame that leaves the network out may still be in time.
    skips = stream.ladder[CHEAPEST].infer_every > 1
    by_step = [
        0 if skips and not step.runs_on_track_only else costs(stream, index)
        for index, step in enumerate(stream.steps)
    ]
    if sum(by_step) <= stream.deadline_ns:
        return None
    return stream.steps[by_step.index(max(by_step))].resource


def _broken(
    resource: str, candidate: StreamSpec, admitted: Sequence[StreamSpec], costs: Costs
) -> StreamSpec | None:
    """The first more critical stream that leaves no gap for the candidate's job."""
    job_ns = max(
        costs(candidate, index)
        for index, step in enumerate(candidate.steps)
        if step.resource == resource
    )
    for stream in admitted:
        if stream.criticality.band >= candidate.criticality.band:
            continue
        task = task_on(resource, stream, costs, CHEAPEST)
        if task is None or not stream.deadline_ns or task.cost_ns > task.deadline_ns:
            continue  # nothing is known, or nothing is left to break
        spendable = _spendable(stream) if candidate.min_service_ns else 0
        if job_ns > _gap_ns(task) + spendable * task.period_ns:
            return stream
    return None


def _gap_ns(task: Task) -> int:
    """From the earliest end of a frame to the latest start of the next."""
    return task.period_ns + task.deadline_ns - 2 * task.cost_ns


def _spendable(stream: StreamSpec) -> int:
    """Frames in a row that a starved background stream may cost this one."""
    contract = stream.contract
    if contract is None:
        return 0 if stream.criticality is Criticality.CRITICAL else 1
    return contract.k - contract.m
