"""How long a frame can take from arrival to delivery, over all its resources.

A bound that holds for the scheduler's bands and any order within a band, as long as no
slot stays idle while a job of the band or a higher one waits. Each resource is taken by
itself: a job waits there no longer than others can keep all slots busy. What waiting at
one resource does to the arrivals at the next one, that frames come closer together, is
the jitter of the holistic analysis (Tindell and Clark, 1994). It is safe, and
pessimistic where streams meet again and again.

Assumed: frames of a stream arrive at least a period apart, service times lie between
the least and the given cost, nothing is batched. Frames that are given up only take
work away.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from edgepipe.scheduler.job import Criticality, Resource, StreamSpec
from edgepipe.scheduler.load import Costs

MOST_ROUNDS = 1000
"""Rounds after which a bound that still grows is given up: no bound is known then."""
MOST_PERIODS = 64
"""A frame that may be under way with so many later ones of its stream has no bound."""


@dataclass(slots=True)
class _Flow:
    """One step of one stream: work that comes to a resource again and again."""

    resource: Resource
    cost_ns: int
    period_ns: int
    band: int
    stateful: bool
    response_ns: int
    """Most time at the resource, as far as it is known."""
    jitter_ns: int = 0
    """How much earlier than a period after its predecessor a job can come."""

    def jobs(self, length_ns: int) -> int:
        """The most jobs that come within a time of that length."""
        return -(-(length_ns + self.jitter_ns) // self.period_ns)


@dataclass(slots=True)
class _Chain:
    """The steps of one stream, in order."""

    flows: list[_Flow]
    least_ns: list[int]
    """Of each step."""
    ends_ns: list[int] = field(default_factory=list[int])
    """From arrival to the end of each step, as far as it is known."""


def response_bounds(
    streams: Sequence[StreamSpec],
    resources: Sequence[Resource],
    costs: Costs,
    least: Costs | None = None,
) -> dict[str, tuple[int, ...] | None]:
    """By stream, the most time from arrival to the end of each step, in nanoseconds.

    The last figure is the end-to-end bound. None: no bound is known, because more is
    asked for than there is, or because frames of a stream may pile up in front of a
    step that takes them one at a time.

    Args:
        streams: All that use the resources.
        resources: By whose slots the steps run.
        costs: The most that a step takes.
        least: The least; by default it always takes ``costs``.

    Raises:
        ValueError: A cost or a period is not known.
    """
    named = {resource.name: resource for resource in resources}
    chains = {
        stream.id: _chain(stream, named, costs, least or costs) for stream in streams
    }
    flows = [flow for chain in chains.values() for flow in chain.flows]
    bounds: dict[str, tuple[int, ...] | None] = dict.fromkeys(chains)
    for band in (criticality.band for criticality in Criticality):
        members = {s.id: chains[s.id] for s in streams if s.criticality.band == band}
        if not _settle(list(members.values()), flows):
            break  # bands below would wait for this one
        for name, chain in members.items():
            bounds[name] = tuple(chain.ends_ns)
    return bounds


def _chain(
    stream: StreamSpec, resources: dict[str, Resource], costs: Costs, least: Costs
) -> _Chain:
    steps = range(len(stream.steps))
    if not stream.period_ns or not all(costs(stream, step) for step in steps):
        raise ValueError(
            f"stream {stream.id!r}: a bound needs its period and the cost of each step"
        )
    return _Chain(
        [
            _Flow(
                resources[step.resource],
                costs(stream, index),
                stream.period_ns,
                stream.criticality.band,
                step.stateful,
                costs(stream, index),
            )
            for index, step in enumerate(stream.steps)
        ],
        [least(stream, step) for step in steps],
    )


def _settle(chains: Sequence[_Chain], flows: Sequence[_Flow]) -> bool:
    """Let the jitters of one band's flows grow until they stay; whether they do."""
    if any(_is_overloaded(flow, flows) for chain in chains for flow in chain.flows):
        return False
    for _ in range(MOST_ROUNDS):
        changed = False
        for chain in chains:
            found = _follow(chain, flows)
            if found is None:
                return False
            changed |= found != chain.ends_ns
            chain.ends_ns = found
        if not changed:
            return True
    return False


def _follow(chain: _Chain, flows: Sequence[_Flow]) -> list[int] | None:
    """The bounds of one chain with the jitters as they are, which it updates."""
    end_ns = least_ns = 0
    ends_ns: list[int] = []
    for flow, step_ns in zip(chain.flows, chain.least_ns, strict=True):
        flow.jitter_ns = end_ns - least_ns
        response_ns = _response_ns(flow, flows)
        if response_ns is None:
            return None
        # A frame waits for its predecessor at a stateful step. While that one is gone
        # within a period, the frame is not held up longer than the jitter says.
        if flow.stateful and response_ns > flow.period_ns:
            return None
        flow.response_ns = response_ns
        end_ns += response_ns
        least_ns += step_ns
        ends_ns.append(end_ns)
        if end_ns > MOST_PERIODS * flow.period_ns:
            return None
    return ends_ns


def _is_overloaded(flow: _Flow, flows: Sequence[_Flow]) -> bool:
    """Whether the flow's band and higher ones leave no slot of its resource idle."""
    load = sum(
        Fraction(other.cost_ns, other.period_ns)
        for other in flows
        if other.resource is flow.resource and other.band <= flow.band
    )
    return load >= flow.resource.slots


def _response_ns(flow: _Flow, flows: Sequence[_Flow]) -> int | None:
    """The most time at one resource, waiting and work."""
    here = [other for other in flows if other.resource is flow.resource]
    rivals = [other for other in here if other.band <= flow.band]
    below_ns = max((o.cost_ns - 1 for o in here if o.band > flow.band), default=0)
    slots = flow.resource.slots
    if slots == 1:
        return _busy_ns(rivals, below_ns)
    # One stream from below may have a job on every slot.
    waiting_ns = _waiting_ns(flow, rivals, [below_ns] * slots)
    return None if waiting_ns is None else waiting_ns + flow.cost_ns


def _busy_ns(rivals: Sequence[_Flow], begun_ns: int) -> int | None:
    """The longest time in which one slot is busy with the rivals without a pause.

    It follows a job from below that had just begun. A job that comes within that time
    leaves within it, in whatever order.
    """
    busy_ns = 1
    for _ in range(MOST_ROUNDS):
        needed_ns = begun_ns + sum(r.jobs(busy_ns) * r.cost_ns for r in rivals)
        if needed_ns <= busy_ns:
            return busy_ns
        busy_ns = needed_ns
    return None


def _waiting_ns(
    flow: _Flow, rivals: Sequence[_Flow], begun_ns: Sequence[int]
) -> int | None:
    """The longest time for which others can keep all of several slots busy.

    A rival's job takes part if it came during the wait or no longer before it than it
    stays. One flow cannot occupy more slots than it has jobs at one time.
    """
    span_ns = 1
    for _ in range(MOST_ROUNDS):
        parts = [(1, each_ns) for each_ns in begun_ns]
        for rival in rivals:
            own = rival is flow  # the frame itself is waiting, not running
            jobs = rival.jobs(span_ns + rival.response_ns) - own
            at_a_time = rival.jobs(rival.response_ns) - own
            parts.append((at_a_time, jobs * rival.cost_ns))
        found_ns = _least_span_ns(parts, flow.resource.slots)
        if found_ns <= span_ns:
            return span_ns - 1
        span_ns = found_ns
    return None


def _least_span_ns(parts: Sequence[tuple[int, int]], slots: int) -> int:
    """The shortest time in which some slot is idle at least once.

    ``parts`` are the most slots that each may occupy, and its work. The work that falls
    into a time grows no faster than the time, so halving finds the place.
    """
    low, high = 1, sum(work for _, work in parts) // slots + 1
    while low < high:
        middle = (low + high) // 2
        if sum(min(width * middle, work) for width, work in parts) < slots * middle:
            high = middle
        else:
            low = middle + 1
    return low
