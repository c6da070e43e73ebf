"""What a stream asks of each resource on one rung of its ladder. Pure arithmetic.

Costs come from whoever knows them: a profile, or measured service times. A cost or a
period of 0 is not known; such a stream asks for nothing, since nothing is known.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from edgepipe.scheduler.job import PERMILLE, Rung, Step, StreamSpec

FULL_QUALITY = 0
"""The first rung of a ladder."""
CHEAPEST = -1
"""The last rung: what a stream can fall back to, and what it can be promised."""

Costs: TypeAlias = Callable[[StreamSpec, int], int]
"""Service time of a stream's step, given by its index, alone and on the rung that is
looked at, in nanoseconds; 0: not known."""


class Task(NamedTuple):
    """The frames of one stream as one resource sees them. Times are nanoseconds."""

    name: str
    cost_ns: int
    """All steps of a frame on this resource."""
    period_ns: int
    """Least time between frames."""
    deadline_ns: int
    """Local: what the steps on other resources leave of the time allowed."""
    piece_ns: int = 0
    """The longest of the steps: none is interrupted; 0: there is one step."""

    @property
    def longest_ns(self) -> int:
        """How long it can keep others waiting once it has begun."""
        return self.piece_ns or self.cost_ns


def profiled(rung: int = FULL_QUALITY) -> Costs:
    """The costs that the streams' own budgets and ladders state."""

    def cost_ns(stream: StreamSpec, step: int) -> int:
        scale = stream.ladder[rung].cost_permille
        return (
            stream.steps[step].cost_ns
            * (scale[step] if scale else PERMILLE)
            // (PERMILLE)
        )

    return cost_ns


def local_deadline_ns(stream: StreamSpec, resource: str, costs: Costs) -> int | None:
    """What is left of the time allowed for the steps on a resource.

    The costs of all steps elsewhere are taken off and no more: time that is not needed
    at one resource is there for the others, hence no resource has a share of its own
    (the delay composition of Jayachandran and Abdelzaher, 2007). Waiting elsewhere is
    not in it. None: the stream states no deadline. May be negative.
    """
    if not stream.deadline_ns:
        return None
    elsewhere_ns = sum(
        costs(stream, index)
        for index, step in enumerate(stream.steps)
        if step.resource != resource
    )
    return stream.deadline_ns - elsewhere_ns


def interval_ns(stream: StreamSpec, step: Step, rung: int) -> int:
    """Least time between frames that take the step; 0: not known."""
    taken = stream.ladder[rung]
    every = taken.stride * (1 if step.runs_on_track_only else taken.infer_every)
    return stream.period_ns * every


def task_on(
    resource: str, stream: StreamSpec, costs: Costs, rung: int = FULL_QUALITY
) -> Task | None:
    """The stream as the resource sees it; None if it asks for nothing there.

    A stream without a deadline gets one as long as its period: it must keep up. The
    rate cap is left out: it only takes frames away.
    """
    here = [
        (costs(stream, index), interval_ns(stream, step, rung))
        for index, step in enumerate(stream.steps)
        if step.resource == resource
    ]
    cost_ns = sum(cost for cost, _ in here)
    period_ns = min((interval for _, interval in here), default=0)
    if not cost_ns or not period_ns:
        return None
    deadline_ns = local_deadline_ns(stream, resource, costs)
    return Task(
        stream.id,
        cost_ns,
        period_ns,
        period_ns if deadline_ns is None else deadline_ns,
        max(cost for cost, _ in here),
    )


def tasks_on(
    resource: str,
    streams: Sequence[StreamSpec],
    costs: Costs,
    rung: int = FULL_QUALITY,
) -> list[Task]:
    """The streams that ask for something on the resource."""
    found = (task_on(resource, stream, costs, rung) for stream in streams)
    return [task for task in found if task is not None]


def utilisation(tasks: Sequence[Task]) -> Fraction:
    """Share of one slot that the tasks need, without batches."""
    return sum((Fraction(t.cost_ns, t.period_ns) for t in tasks), Fraction(0))


def permille(share: Fraction) -> int:
    """Thousandths, rounded up: what is shown as 1000 is no more than all."""
    return -(-share.numerator * PERMILLE // share.denominator)


# --- batches --------------------------------------------------------------------------


class Capacity(NamedTuple):
    """The most that a resource can do of one step."""

    batch: int
    """Jobs in the batches that do it; 0: not even one job can be in time."""
    batch_ns: int
    rate: Fraction
    """Frames a second."""


def batch_permille(curve: Sequence[int], size: int) -> int:
    """Cost of a batch in thousandths of one job; ``curve`` as in ``Step``."""
    if size == 1:
        return PERMILLE
    known = curve[:size]
    return (known[-1] if known else 0) + (size - len(known)) * PERMILLE


def capacity(
    cost_ns: int,
    curve: Sequence[int],
    batch_max: int,
    deadline_ns: int | None,
    slots: int = 1,
) -> Capacity:
    """The greatest rate that a resource sustains with frames still in time.

    A frame waits for at most one batch that runs and then takes part in one itself, so
    a batch may last half the local deadline: while one runs, no more frames come than
    the next one takes. A job alone is let be if it takes no longer than the deadline.
    Without a deadline (None) the largest batch that pays is used.

    Raises:
        ValueError: ``cost_ns`` or ``batch_max`` is below 1.
    """
    if cost_ns < 1 or batch_max < 1:
        raise ValueError(
            f"cost_ns and batch_max must be positive: {cost_ns}, {batch_max}"
        )
    if deadline_ns is not None and cost_ns > deadline_ns:
        return Capacity(0, 0, Fraction(0))
    best = Capacity(1, cost_ns, Fraction(slots * 1_000_000_000, cost_ns))
    for size in range(2, batch_max + 1):
        batch_ns = -(-cost_ns * batch_permille(curve, size) // PERMILLE)
        if deadline_ns is not None and 2 * batch_ns > deadline_ns:
            continue
        rate = Fraction(slots * size * 1_000_000_000, batch_ns)
        if rate > best.rate:
            best = Capacity(size, batch_ns, rate)
    return best


def demand(
    resource: str,
    stream: StreamSpec,
    costs: Costs,
    rung: int = FULL_QUALITY,
    *,
    batched: bool = True,
) -> Fraction:
    """Share of one slot that the stream needs if it is batched as well as can be.

    Batches are as large as its own deadline allows, whoever fills them. The rate cap
    counts: frames beyond it are refused.
    """
    spare_ns = stream.deadline_ns - sum(
        costs(stream, index) for index in range(len(stream.steps))
    )
    share = Fraction(0)
    for index, step in enumerate(stream.steps):
        cost_ns, every_ns = costs(stream, index), interval_ns(stream, step, rung)
        if step.resource != resource or not cost_ns or not every_ns:
            continue
        deadline_ns = spare_ns + cost_ns if stream.deadline_ns else None
        batch_max = _batch_max(step, stream.ladder[rung]) if batched else 1
        found = capacity(cost_ns, step.batch_curve, batch_max, deadline_ns)
        # A frame that cannot be in time costs what it costs all the same.
        frame_ns = Fraction(found.batch_ns, found.batch) if found.batch else cost_ns
        share += Fraction(frame_ns) / max(every_ns, stream.min_interval_ns)
    return share


def _batch_max(step: Step, rung: Rung) -> int:
    limit = rung.batch_max
    return step.batch_max if limit is None else min(step.batch_max, limit)
