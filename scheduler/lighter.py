"""Cheaper rungs for single frames: the last resort below the ladder."""

from edgepipe.scheduler.plan import Entry
from edgepipe.scheduler.state import FrameState, ResourceState


def follow(frame: FrameState) -> None:
    """Take the rung on which the stream is now."""
    stream = frame.stream
    if not frame.track_only:
        frame.rung = stream.rung
        frame.costs = stream.costs[stream.rung]


def lighter(entry: Entry, resource: ResourceState) -> Entry | None:
    """The same job on the next rung that costs less here; None if there is none."""
    frame = entry.frame
    stream = frame.stream
    if frame.track_only or frame.step > stream.varies_at:
        return None
    for rung in range(frame.rung + 1, len(stream.costs)):
        costs = stream.costs[rung]
        own_ns = sum(
            cost.alone.plan_ns
            for cost, place in zip(
                costs[frame.step :], stream.places[frame.step :], strict=True
            )
            if place is resource
        )
        if own_ns < entry.cost_ns:
            frame.rung, frame.costs = rung, costs
            return entry._replace(cost_ns=own_ns)
    return None
