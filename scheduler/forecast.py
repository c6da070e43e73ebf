"""What will wait for a resource soon, and how long it takes to get through.

A stream's next frame is expected one period after its last one, as old as that one was.
"""

from collections.abc import Sequence
from typing import NamedTuple

from edgepipe.scheduler.plan import Coming, Entry
from edgepipe.scheduler.state import FrameState, ResourceState, State, StreamState


class _Way(NamedTuple):
    """A frame's way through a resource, in nanoseconds that are planned for it."""

    before_ns: int
    own_ns: int
    """All its steps on the resource."""
    after_ns: int


def _way(stream: StreamState, step: int, resource: ResourceState) -> _Way:
    """The way of the stream's next frame, whose first step here is ``step``."""
    before_ns = own_ns = after_ns = 0
    for index, cost in enumerate(stream.costs[stream.rung]):
        if index < step:
            before_ns += cost.alone.plan_ns
        elif stream.places[index] is resource:
            own_ns += cost.alone.plan_ns
        else:
            after_ns += cost.alone.plan_ns
    return _Way(before_ns, own_ns, after_ns)


def _release_ns(frame: FrameState, step: int) -> int:
    """When a frame that is still before ``step`` may get there."""
    release_ns = frame.release_ns
    for cost in frame.costs[frame.step : step]:
        release_ns += cost.alone.plan_ns
    return release_ns


def slot_ends(resource: ResourceState, now_ns: int) -> list[int]:
    """When each slot becomes free, those that are free now first."""
    if resource.slots == 1:
        return [now_ns]
    running = [max(now_ns, end_ns) for end_ns in resource.running.values()]
    return [now_ns] * resource.free + running


def wait_ns(resource: ResourceState, frame: FrameState, there_ns: int) -> int:
    """How long a frame that gets there at ``there_ns`` has to wait for a slot.

    Only what would run before it counts: all that runs, and what waits and matters at
    least as much.
    """
    work_ns = 0
    for end_ns in resource.running.values():
        if end_ns > there_ns:
            work_ns += end_ns - there_ns
    for other in resource.ready:
        if other.band <= frame.band and other.deadline_ns <= frame.deadline_ns:
            work_ns += other.costs[other.step].alone.plan_ns
    return work_ns // resource.slots


def next_chance(
    stream: StreamState, step: int, resource: ResourceState, now_ns: int
) -> tuple[int, int] | None:
    """When the stream's next frame gets to its step here, and when it must start.

    None: one is here that can be in time, or none is expected.
    """
    way = _way(stream, step, resource)
    for frame in stream.frames.values():
        latest_ns = frame.deadline_ns - way.after_ns - way.own_ns
        if frame.step == step and frame.state is State.READY:
            if now_ns <= latest_ns:
                return None
        elif frame.step < step:
            return max(now_ns + 1, _release_ns(frame, step)), latest_ns
    # Who waits for credits comes when there is room, not when it is due.
    next_ns = None if stream.spec.credits else stream.arrivals.next_ns(now_ns)
    if next_ns is None:
        return None
    return (
        next_ns + way.before_ns,
        next_ns + stream.allowed_ns - way.after_ns - way.own_ns,
    )


def coming(
    resource: ResourceState,
    entries: Sequence[Entry],
    band: int,
    now_ns: int,
    until_ns: int,
) -> list[Coming]:
    """What matters more than ``band`` and waits or will come before ``until_ns``.

    Sorted by release.
    """
    found = [
        Coming(now_ns, entry.local_ns, index, entry.cost_ns, entry.frame.stream)
        for index, entry in enumerate(entries)
        if entry.frame.band < band
    ]
    order = len(entries)
    for stream, step in resource.users:
        if stream.band >= band:
            break
        way = _way(stream, step, resource)
        if step:
            for frame in stream.frames.values():
                if frame.step < step:
                    release_ns = max(now_ns, _release_ns(frame, step))
                    local_ns = frame.deadline_ns - way.after_ns
                    found.append(
                        Coming(release_ns, local_ns, order, way.own_ns, stream)
                    )
                    order += 1
        next_ns = stream.arrivals.next_ns(now_ns)
        if next_ns is None:
            continue
        allowed_ns = stream.allowed_ns - way.after_ns
        while next_ns + way.before_ns < until_ns:
            release_ns = next_ns + way.before_ns
            local_ns = next_ns + allowed_ns
            found.append(Coming(release_ns, local_ns, order, way.own_ns, stream))
            order += 1
            next_ns += stream.arrivals.period_ns
    found.sort()
    return found
